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

/** What the notebook's conversation does; all of it, whenever any of it changes. */
export interface State {
  kind: "state";
  phase: "idle" | "working" | "asking";
  /** The question that waits for an answer, on one line. */
  question: string | null;
  /** US dollars that the conversation has cost today; ``null`` before there is one. */
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

/** What the extension sends. */
export type FromDoor =
  | Shows
  | OpenPanel
  | Prompt
  | Stop;

/** What the extension is sent. */
export type ToDoor =
  | State;
