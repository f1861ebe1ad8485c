// Generated from front/notebook/door/messages.py by tests/notebook/test_door_protocol.py.

/** Say which notebook the door is for: when the comm opens, and whenever that changes. A `State` follows. */
export interface Shows {
  kind: "shows";
  /** Where the notebook lies, below the directory of Jupyter's server. */
  path: string;
  /** The id that the notebook has for its connection to the kernel. */
  client: string;
}

/** Say that the page goes away; any other message says that it is back. */
export interface Leaves {
  kind: "leaves";
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
  /** Whether it was changed since it ran. */
  changed?: boolean;
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

/** Ask for runs that are over and whose live views stand in the notebook: an `AskPage` for each, with `show_run`. */
export interface Missed {
  kind: "missed";
  /** The ids of the widgets in the notebook's outputs, of whichever kind. */
  widgets: string[];
}

/** Ask for another source of a cell. `Draft` messages may follow, a `Review`, and at the end an `EditOver`. */
export interface Edit {
  kind: "edit";
  /** An id that the extension gives it. */
  id: string;
  /** The cell's id. */
  cell: string;
  instruction: string;
}

/** Ask for new cells below one; what follows is as for `Edit`. */
export interface NewCells {
  kind: "new_cells";
  id: string;
  /** The id of the cell above. */
  cell: string;
  instruction: string;
}

/** Answer a `Review`. */
export interface Settle {
  kind: "settle";
  /** That of the review. */
  id: string;
  /** The ``value`` of a choice; ``null`` dismisses it. */
  answer?: string | null;
  /** Why not, or what is wanted instead: the model proposes again. */
  reason?: string | null;
}

/** End an `Edit` or `NewCells` before it is over. */
export interface Drop {
  kind: "drop";
  id: string;
}

/** Compute the values in answers again that may be others now: an `Outdated` follows. */
export interface CheckValues {
  kind: "check_values";
}

/** The reply to an `AskPage`. */
export interface PageReply {
  kind: "reply";
  id: string;
  /** A result of `docs/page_protocol.md`. */
  value: Record<string, unknown>;
}

/** What the notebook's conversation does, and rows that its cells ask; all of it, whenever any of it changes. */
export interface State {
  kind: "state";
  phase: "idle" | "working" | "asking";
  /** The question that waits for an answer, on one line. */
  question: string | null;
  /** How many calls of the agent go on after their result. */
  jobs: number;
  /** US dollars that the user's kernels have spent today, by the local date; ``null`` for no notebook. */
  cost_today: number | null;
  model: string | null;
  /** Whether no model can be asked for want of a key, or for its server refused it. */
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

/** What the model has written so far for a request; it replaces the draft before. */
export interface Draft {
  kind: "draft";
  /** That of the request. */
  id: string;
  cells: ShownCell[];
  /** Whether it is whole; a `Review` follows once it was found to be possible. */
  done: boolean;
}

/** Show proposed cells in their places, or another question; it takes the place of one with the same id. */
export interface Review {
  kind: "review";
  id: string;
  /** The id of the `Edit` or `NewCells` that it belongs to. */
  request: string | null;
  heading: string;
  /** What is asked about, where that is no cell. */
  text: string;
  cells: ShownCell[];
  choices: ReviewChoice[];
  /** The value of the answer that gets the focus: a no where what a yes does cannot be taken back. */
  default: string | null;
  /** Whether a no may say what is wanted instead. */
  reason: boolean;
}

/** A review was answered elsewhere, or is over without an answer. */
export interface ReviewOver {
  kind: "review_over";
  id: string;
}

/** A request is over. */
export interface EditOver {
  kind: "edit_over";
  id: string;
  /** What the model said besides what it proposed, or why it failed. */
  text: string;
  failed: boolean;
}

/** Ask the page about its notebook, or to change it: a `PageReply`. */
export interface AskPage {
  kind: "ask_page";
  /** A request of `docs/page_protocol.md`. */
  request: Record<string, unknown>;
}

/** What of the answers of cells does not hold; all of it, whenever any of it changes. */
export interface Outdated {
  kind: "outdated";
  cells: OutdatedCell[];
  /** Why the last `CheckValues` could not be carried out; else empty. */
  problem: string;
}

/** A variable of the user's. */
export interface Variable {
  name: string;
  /** The name of its class. */
  type: string;
}

/** A proposed source, and where it is to stand. */
export interface ShownCell {
  source: string;
  type: "code" | "markdown";
  /** The id of the cell that gets it; ``null`` for a new cell. */
  cell: string | null;
  /** The source that this cell must have for that; ``null`` where it is not known yet. */
  old: string | null;
  /** The id of the cell above a new one; ``null`` where that is the new one before it in the list. */
  after: string | null;
}

/** An answer of a `Review`. */
export interface ReviewChoice {
  value: string;
  label: string;
  kind: "yes" | "more" | "again" | "no";
  /** Its number as the buttons stand. */
  key: string;
}

/** Values in the answers of a cell that do not hold. */
export interface OutdatedCell {
  /** The cell's id. */
  cell: string;
  outdated: OutdatedValues;
}

/** Values in answers that do not hold. */
export interface OutdatedValues {
  /** How many, and since when. */
  words: string;
  /** Whether some can be computed again: `CheckValues`. */
  stale: boolean;
  values: OutdatedValue[];
}

/** A value in an answer that may be another one now, or is. */
export interface OutdatedValue {
  /** The title of the value. */
  expression: string;
  /** What the answer shows. */
  value: string;
  /** What it is now; ``null`` while it was not computed again. */
  now: string | null;
  why: string;
}

/** What the extension sends. */
export type FromDoor =
  | Shows
  | Leaves
  | OpenPanel
  | Prompt
  | Stop
  | NewConversation
  | AskAboutError
  | Insert
  | ListVariables
  | Missed
  | Edit
  | NewCells
  | Settle
  | Drop
  | CheckValues
  | PageReply;

/** What the extension is sent. */
export type ToDoor =
  | State
  | Variables
  | Draft
  | Review
  | ReviewOver
  | EditOver
  | AskPage
  | Outdated;
