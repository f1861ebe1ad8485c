// Generated from page/protocol.py by tests/notebook/test_page_protocol.py.

/** What every message of a page holds. */
export interface PageMessage {
  /** A random name of the page, until it is loaded again. */
  page?: string;
}

/** The handshake: the page shows the widget and can answer. A `Full` message follows. */
export interface Ready extends PageMessage {
  kind: "ready";
}

/** The page missed a patch. A `Full` message follows. */
export interface Resync extends PageMessage {
  kind: "resync";
}

/** The answer to a `PageRequest`. */
export interface Reply extends PageMessage {
  kind: "reply";
  id: string;
  value: CellList | CellChanged | CannotDo;
}

/** An image of the next `Prompt` of this page, which is rejected with it; servers refuse more in one message. */
export interface AttachImage extends PageMessage {
  kind: "image";
  /** In base64; at most 5 MB when decoded. */
  data: string;
  /** ``image/png``, ``image/jpeg``, ``image/gif`` or ``image/webp``. */
  mimeType: string;
}

/** End what goes on; what is queued stays queued. */
export interface Stop extends PageMessage {
  kind: "stop";
}

/** Answer an open dialog. ``null``, and every value that no dialog asks for, dismisses it. */
export interface AnswerDialog extends PageMessage {
  kind: "answer";
  id: string;
  value?: string | boolean | null;
}

/** Put code into a new cell of the notebook. */
export interface ToCell extends PageMessage {
  kind: "to_cell";
  code: string;
}

/** Send a user message: at once, after the tool call that runs, or when the model has finished. */
export interface Prompt extends PageMessage {
  kind: "prompt";
  text: string;
  how?: "send" | "steer" | "followUp";
}

/** Abort the run, and move what is queued back into the composer. */
export interface Abort extends PageMessage {
  kind: "abort";
}

/** Move a queued message back into the composer. */
export interface Unqueue extends PageMessage {
  kind: "unqueue";
  queue: "steering" | "followUp";
  /** Where the page shows it; deliveries since then have moved it towards the front. */
  index: number;
  /** As the page shows it. */
  text: string;
}

/** Discard all queued messages. */
export interface ClearQueue extends PageMessage {
  kind: "clear_queue";
}

/** Choose the model, one of those in the state ``models``. */
export interface SetModel extends PageMessage {
  kind: "set_model";
  provider: string;
  id: string;
}

/** Choose the thinking level, one of those in the state ``levels``. */
export interface SetThinking extends PageMessage {
  kind: "set_thinking";
  level: "off" | "minimal" | "low" | "medium" | "high" | "xhigh";
}

/** Name the session. */
export interface Rename extends PageMessage {
  kind: "rename";
  name: string;
}

/** Begin a new session. */
export interface NewSession extends PageMessage {
  kind: "new";
}

/** Continue with another session, one of those in the state ``sessions``. */
export interface SwitchSession extends PageMessage {
  kind: "switch";
  path: string;
}

/** Continue from another entry of the session. */
export interface Navigate extends PageMessage {
  kind: "navigate";
  entry: string;
}

/** Begin a session of its own that continues from an entry. */
export interface Fork extends PageMessage {
  kind: "fork";
  entry: string;
}

/** Summarise the older part of the conversation. */
export interface Compact extends PageMessage {
  kind: "compact";
}

/** Ask for the session as an HTML page; it comes in the state ``download``. */
export interface Export extends PageMessage {
  kind: "export";
}

/** Ask for the sessions of this directory; they come in the state ``sessions``. */
export interface ListSessions extends PageMessage {
  kind: "list_sessions";
}

/** Ask for the entries of the session; they come in the state ``tree``, from then on whenever they change. */
export interface ShowTree extends PageMessage {
  kind: "show_tree";
}

/** Ask how the beginning of a prompt may go on; that comes in the state ``completions``. */
export interface Complete extends PageMessage {
  kind: "complete";
  text: string;
}

/** What changed since the message before. */
export interface Patch {
  kind: "patch";
  /** One more than that of the message before. */
  n: number;
  ops: Operation[];
}

/** All that there is; what the page had before goes away, its toasts excepted. */
export interface Full {
  kind: "full";
  /** That of the last patch, whose effects are included. */
  n: number;
  ops: Operation[];
}

/** Ask for the cells of the notebook: a `CellList`. */
export interface ListCells {
  kind: "request";
  id: string;
  /** The only page that shall reply. */
  page: string | null;
  what: "cells";
}

/** Insert a cell: a `CellChanged`. */
export interface InsertCell {
  kind: "request";
  id: string;
  /** The only page that shall reply. */
  page: string | null;
  what: "insert_cell";
  source: string;
  type: "code" | "markdown";
  /** The id of the cell above; by default the cell that shows the widget. */
  after?: string | null;
}

/** Change the source of a cell: a `CellChanged`. */
export interface ReplaceCell {
  kind: "request";
  id: string;
  /** The only page that shall reply. */
  page: string | null;
  what: "replace_cell";
  /** The cell's id. */
  cell: string;
  /** The source that it must have for that. */
  old: string;
  source: string;
}

/** The cells of the notebook, from top to bottom. */
export interface CellList {
  cells: NotebookCell[];
}

/** The cell that was inserted or changed. */
export interface CellChanged {
  id: string;
}

/** Why the page did not do it; ``unavailable`` where the front end gives no access to its notebook. */
export interface CannotDo {
  error: string;
}

/** Show a block of sanitised HTML; a new key goes behind the others. */
export type Put = [op: "put", key: string, html: string];

/** Replace the end of a block's HTML. */
export type Tail = [op: "tail", key: string, keep: number, html: string];

/** Remove a block. */
export type Drop = [op: "drop", key: string];

/** Change some values of the state; the others stay. */
export type SetState = [op: "set", state: PanelState];

/** Show a dialog until it is answered or closed. */
export type OpenDialog = [op: "ask", dialog: PageDialog, left: number | null];

/** Remove a dialog, which is over. */
export type CloseDialog = [op: "unask", id: string];

/** Show a line for a while. */
export type ShowToast = [op: "toast", toast: Toast];

/** Choose one of ``options``. */
export interface Select {
  type: "extension_ui_request";
  id: string;
  method: "select";
  title: string;
  options: string[];
  /** ms until the dialog answers itself; likewise in the other dialogs. */
  timeout?: number | null;
}

/** A question that is answered with yes or no. */
export interface Confirm {
  type: "extension_ui_request";
  id: string;
  method: "confirm";
  title: string;
  message: string;
  timeout?: number | null;
}

/** Write a line. */
export interface Input {
  type: "extension_ui_request";
  id: string;
  method: "input";
  title: string;
  placeholder?: string | null;
  timeout?: number | null;
}

/** Write or change a text. */
export interface Editor {
  type: "extension_ui_request";
  id: string;
  method: "editor";
  title: string;
  prefill?: string | null;
}

/** The state of both kinds of widget. */
export interface CellState {
  /** What is being done or waited for. */
  note?: string;
  /** The model's name for people. */
  model?: string;
  tokens?: string;
  cost?: string;
  /** Whether something goes on that can be stopped. */
  busy?: boolean;
  /** Whether it was asked to stop. */
  stopping?: boolean;
  /** How long it has gone on, in milliseconds. */
  started_ms_ago?: number | null;
  /** Whether the cell has ended already and its run goes on. */
  background?: boolean;
  title?: string;
  warning?: string | null;
  /** Short texts of extensions, by their keys. */
  status?: Record<string, string>;
  /** Lines of extensions, by their keys. */
  widgets?: Record<string, StandingLines>;
  composer?: Composer;
}

/** The state of a panel. */
export interface PanelState extends CellState {
  session?: SessionName;
  models?: ModelChoice[];
  current_model?: ModelId | null;
  /** The thinking levels of the model; one that cannot think has only ``off``. */
  levels?: string[];
  level?: string;
  commands?: Command[];
  completions?: Completions;
  queue?: Queued;
  sessions?: SessionRow[];
  tree?: TreeRow[];
  download?: Download;
}

/** Lines of an extension that stand above or below. */
export interface StandingLines {
  lines: string[];
  placement: "aboveEditor" | "belowEditor" | null;
}

/** Text that the kernel puts into the composer. */
export interface Composer {
  text: string;
  /** Counts up; a page applies each text once. */
  n: number;
}

/** Which session is shown. */
export interface SessionName {
  name: string | null;
  id: string;
}

/** A model that can be chosen. */
export interface ModelChoice {
  provider: string;
  id: string;
  name: string;
  /** Whether it has thinking levels. */
  reasoning: boolean;
}

/** Which model. */
export interface ModelId {
  provider: string;
  id: string;
}

/** What may be prompted as ``/name``. */
export interface Command {
  name: string;
  description: string;
  /** ``extension``, ``prompt`` or ``skill``. */
  source: string;
}

/** The answer to `Complete`. */
export interface Completions {
  /** What was asked about. */
  text: string;
  items: Completion[];
}

/** A way in which a prompt may go on. */
export interface Completion {
  text: string;
  label: string;
  detail: string;
}

/** The queued messages, next one first; long ones are shortened. */
export interface Queued {
  /** Delivered after the tool call that runs. */
  steering: string[];
  /** Delivered when the model has finished. */
  followUp: string[];
}

/** A session that can be continued. */
export interface SessionRow {
  path: string;
  name: string;
  /** Milliseconds since 1970. */
  modified: number;
  messages: number;
  current: boolean;
}

/** An entry of the session. */
export interface TreeRow {
  /** ``null`` in a row that only counts the entries that are not listed. */
  id: string | null;
  depth: number;
  role: string;
  text: string;
  /** Whether a branch ends there. */
  leaf: boolean;
  /** Whether the conversation is at that entry. */
  here: boolean;
  label: string | null;
}

/** A file for the user. It is sent to the pages of the moment and not kept. */
export interface Download {
  name: string;
  html: string;
  n: number;
}

/** A line for the user to read. */
export interface Toast {
  text: string;
  type: "info" | "warning" | "error";
  /** Counts up; a page shows each once. */
  n: number;
}

/** A cell as the page has it. */
export interface NotebookCell {
  id: string;
  type: string;
  source: string;
  executionCount: number | null;
}

/** What a page sends. */
export type FromPage =
  | Ready
  | Resync
  | Reply
  | AttachImage
  | Stop
  | AnswerDialog
  | ToCell
  | Prompt
  | Abort
  | Unqueue
  | ClearQueue
  | SetModel
  | SetThinking
  | Rename
  | NewSession
  | SwitchSession
  | Navigate
  | Fork
  | Compact
  | Export
  | ListSessions
  | ShowTree
  | Complete;

/** What a page is sent. */
export type ToPage =
  | Patch
  | Full
  | ListCells
  | InsertCell
  | ReplaceCell;

/** What a page is asked to do. */
export type PageRequest =
  | ListCells
  | InsertCell
  | ReplaceCell;

/** What a page does with what it shows. */
export type Operation =
  | Put
  | Tail
  | Drop
  | SetState
  | OpenDialog
  | CloseDialog
  | ShowToast;

/** What the user is asked. */
export type PageDialog =
  | Select
  | Confirm
  | Input
  | Editor;

/** The kinds of widget. */
export type WidgetKind =
  | "cell"
  | "panel";
