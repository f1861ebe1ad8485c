// Generated from front/notebook/door/messages.py by tests/notebook/test_door_protocol.py.

/** Say which notebook the door is for: when the comm opens, and whenever that changes. A `State` follows. */
export interface Shows {
  kind: "shows";
  /** Where the notebook lies, below the directory of Jupyter's server. */
  path: string;
  /** The id that the notebook has for its connection to the kernel. */
  client: string;
}

/** Open the conversation of the notebook with its chat panel, whose id comes in the `State`. */
export interface OpenPanel {
  kind: "open_panel";
}

/** Send a user message in the conversation of the notebook. */
export interface Prompt {
  kind: "prompt";
  text: string;
}

/** End what goes on in the conversation of the notebook; what is queued stays queued. */
export interface Stop {
  kind: "stop";
}

/** Begin a new conversation in the notebook's panel; the one before is kept. */
export interface NewConversation {
  kind: "new_conversation";
}

/** Ask about a cell that failed, in the words of `%agent fix` or `%agent explain`. */
export interface AskAboutError {
  kind: "fix" | "explain";
  /** The cell's id. */
  cell: string;
  /** The cell's code, as the page has it now. */
  source: string;
  /** The traceback, with what a terminal would obey; the end of a long one. */
  error: string;
}

/** Put a text behind what is written in the panel's composer. */
export interface Insert {
  kind: "insert";
  text: string;
}

/** Ask for the user's variables: `Variables`. */
export interface ListVariables {
  kind: "list_variables";
}

/** What the notebook's conversation does; all of it, whenever any of it changes. */
export interface State {
  kind: "state";
  phase: "idle" | "working" | "asking";
  /** The question that waits for an answer, on one line. */
  question: string | null;
  /** US dollars that all conversations of this kernel have cost today, by the local date; ``null`` before one. */
  cost_today: number | null;
  model: string | null;
  /** Whether the model that is set cannot be asked for want of a key. */
  needs_key: boolean;
  /** The id of the chat panel's widget. */
  panel: string | null;
  /** The id of the conversation. */
  session: string | null;
  /** Why the last message could not be carried out. */
  error: string | null;
}

/** The user's variables, the newest first. */
export interface Variables {
  kind: "variables";
  variables: Variable[];
}

/** A variable of the user's. */
export interface Variable {
  name: string;
  /** The name of its class. */
  type: string;
}

/** What the extension sends. */
export type FromDoor =
  | Shows
  | OpenPanel
  | Prompt
  | Stop
  | NewConversation
  | AskAboutError
  | Insert
  | ListVariables;

/** What the extension is sent. */
export type ToDoor =
  | State
  | Variables;
