// Generated from page/protocol.py and page/states.py by tests/notebook/test_page_protocol.py.

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

/** The widget's cell stands elsewhere in the notebook: what is there is a copy, which the page gives no displays. */
export interface Moved extends PageMessage {
  kind: "moved";
}

/** The answer to a `PageRequest`. */
export interface Reply extends PageMessage {
  kind: "reply";
  id: string;
  value: CellList | CellsChanged | CellsRun | RunShown | CellRan | CannotDo;
}

/** A view shows an open dialog, or will once those before it are over. */
export interface DialogShown extends PageMessage {
  kind: "dialog_shown";
  id: string;
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
  /** Why, where the question takes a reason. */
  reason?: string | null;
}

/** Put code into a new cell of the notebook. */
export interface ToCell extends PageMessage {
  kind: "to_cell";
  code: string;
}

/** An image of the next `Prompt` of this page, which is rejected with it; servers refuse more in one message. */
export interface AttachImage extends PageMessage {
  kind: "image";
  /** In base64; at most 5 MB when decoded. */
  data: string;
  /** ``image/png``, ``image/jpeg``, ``image/gif`` or ``image/webp``. */
  mimeType: string;
}

/** Send a user message: at once, after the tool call that runs, or when the model has finished. */
export interface Prompt extends PageMessage {
  kind: "prompt";
  text: string;
  how?: "send" | "steer" | "followUp";
  /** Whether several lines of it were pasted, which may be of others: then nothing in it stands for a value. */
  literal?: boolean;
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

/** Send the queued messages, in their order. Does nothing while a run goes on, which delivers them by itself. */
export interface SendQueued extends PageMessage {
  kind: "send_queued";
}

/** Take back what the agent's last call changed in variables, files and cells. */
export interface Undo extends PageMessage {
  kind: "undo";
}

/** Ask for the session as an HTML page; it comes in the state ``download``. */
export interface Export extends PageMessage {
  kind: "export";
}

/** Ask for the entries of the session; they come in the state ``tree``, from then on whenever they change. */
export interface ShowTree extends PageMessage {
  kind: "show_tree";
}

/** Switch a way of working: code that changes something becomes cells, or the next prompt is planned first. */
export interface Switch extends PageMessage {
  kind: "switch";
  mode: "cells" | "plan";
  on: boolean;
}

/** Ask how the beginning of a prompt may go on; that comes in the state ``completions``. */
export interface Complete extends PageMessage {
  kind: "complete";
  text: string;
}

/** Save a file that was dropped on the panel, after a question; its path comes in the state ``inserted``. */
export interface SaveFile extends PageMessage {
  kind: "file";
  name: string;
  /** In base64; at most 5 MB when decoded. */
  data: string;
}

/** Ask for an answer of the model as it was written, in Markdown; it comes in the state ``copied``. */
export interface CopyAnswer extends PageMessage {
  kind: "copy";
  /** The key of a block of it. */
  block: string;
}

/** Compute the values in answers again that may be others now. */
export interface CheckValues extends PageMessage {
  kind: "check_values";
}

/** Test a key, and use it; what is wrong with it comes in the state ``keys``. */
export interface GiveKey extends PageMessage {
  kind: "key";
  provider: string;
  key: string;
  /** Whether to keep it in the place that the form names; else it ends with the kernel. */
  keep: boolean;
}

/** Remove the queued messages; returns both queues. */
export interface ClearQueue extends PageMessage {
  kind: "clear_queue";
}

/** Abort the run; answered when the session is idle. */
export interface Abort extends PageMessage {
  kind: "abort";
}

/** Stop a job, by its id. Answered when it has ended, with the job; one that is over already stays as it is. */
export interface StopJob extends PageMessage {
  kind: "stop_job";
  jobId: string;
}

/** Replace the session by a new, empty one in a file of its own. */
export interface NewSession extends PageMessage {
  kind: "new_session";
  parentSession?: string | null;
}

/** Summarise the older part of the conversation; a run that is going on is aborted first. */
export interface Compact extends PageMessage {
  kind: "compact";
  customInstructions?: string | null;
}

/** Continue with the session in another file. */
export interface SwitchSession extends PageMessage {
  kind: "switch_session";
  sessionPath: string;
}

/** Give the session a name. */
export interface SetSessionName extends PageMessage {
  kind: "set_session_name";
  name: string;
}

/** The saved sessions next to this one, newest first. */
export interface ListSessions extends PageMessage {
  kind: "list_sessions";
}

/** Use another model. */
export interface SetModel extends PageMessage {
  kind: "set_model";
  provider: string;
  modelId: string;
}

/** Set the thinking level; the nearest level that the model has is used. */
export interface SetThinkingLevel extends PageMessage {
  kind: "set_thinking_level";
  level: "off" | "minimal" | "low" | "medium" | "high" | "xhigh";
}

/** Continue in a new session that ends before a message of the user; returns that message's text. */
export interface Fork extends PageMessage {
  kind: "fork";
  entryId: string;
}

/** Continue from another entry of this session, with a summary of what is left behind if wanted. */
export interface NavigateTree extends PageMessage {
  kind: "navigate_tree";
  targetId: string;
  summarize?: boolean;
  customInstructions?: string | null;
  replaceInstructions?: boolean;
  label?: string | null;
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
  /** The cell that asks: a page of another notebook replies that it is ``elsewhere``, and does nothing. */
  origin?: RequestOrigin;
  what: "cells";
  /** Whether to answer with their outputs too, in short: texts, and which other types there are. */
  outputs?: boolean;
  /** The id of a cell whose outputs come as they are, each as far as a message has room for it. */
  whole?: string;
}

/** Insert, change and remove cells in order, all of them or none: a `CellsChanged`. */
export interface ChangeCells {
  kind: "request";
  id: string;
  /** The only page that shall reply. */
  page: string | null;
  /** The cell that asks: a page of another notebook replies that it is ``elsewhere``, and does nothing. */
  origin?: RequestOrigin;
  what: "change_cells";
  edits: CellEdit[];
}

/** Run cells, once the kernel is free: a `CellsRun`. */
export interface RunCells {
  kind: "request";
  id: string;
  /** The only page that shall reply. */
  page: string | null;
  /** The cell that asks: a page of another notebook replies that it is ``elsewhere``, and does nothing. */
  origin?: RequestOrigin;
  what: "run_cells";
  /** The ids of code cells, in the order in which to run them; without any it only says whether it could. */
  cells: string[];
}

/** Have the outputs of a run in the notebook: a `RunShown`. A page that gets them as displays does nothing. */
export interface ShowRun {
  kind: "request";
  id: string;
  /** The only page that shall reply. */
  page: string | null;
  /** The cell that asks: a page of another notebook replies that it is ``elsewhere``, and does nothing. */
  origin?: RequestOrigin;
  what: "show_run";
  /** The id of the cell that it belongs to. */
  cell: string;
  /** The id that the page that ran the cell has for the kernel. */
  client: string | null;
  /** The widget's id. */
  widget: string;
  /** What the cell held when it ran. */
  source: string;
  /** What stands above the outputs in a cell that holds something else. */
  asked: RunOutput;
  outputs: RunOutput[];
  /** Whether the run is over, so that its widget will not be there any more. */
  over: boolean;
  /** Whether no page was there when it ended. */
  missed: boolean;
}

/** Ask whether a cell showed no output when the page last ran it, which only the extension knows: a `CellRan`. */
export interface RanEmpty {
  kind: "request";
  id: string;
  /** The only page that shall reply. */
  page: string | null;
  /** The cell that asks: a page of another notebook replies that it is ``elsewhere``, and does nothing. */
  origin?: RequestOrigin;
  what: "ran_empty";
  /** The cell's id. */
  cell: string;
}

/** The cells of the notebook, from top to bottom. */
export interface CellList {
  cells: NotebookCell[];
  /** Where the notebook lies, below the directory of Jupyter's server. */
  path?: string;
  /** The time of that file when the page last read or wrote it, as ISO 8601; empty if it does not know. */
  saved?: string;
  /** Whether all pages that show the notebook have the same cells, as with jupyter-collaboration. */
  shared?: boolean;
}

/** All was done. */
export interface CellsChanged {
  /** The places of the cells now, in the order of the edits and counted from 1; 0 for removed ones. */
  numbers: number[];
  removed: RemovedCell[];
}

/** The cells that the kernel was asked to run. */
export interface CellsRun {
  ids: string[];
  /** As in a `CellList`. */
  path?: string;
}

/** How the outputs of a run come into the page's notebook. */
export interface RunShown {
  /** As displays, for it ran the cell; not by it, which shares the notebook or has the widget; or it wrote them. */
  gets: "displays" | "nothing" | "writes";
}

/** What a cell showed when the page last ran it. */
export interface CellRan {
  /** Whether that was no output; ``null`` where the page did not run it. */
  empty: boolean | null;
}

/** Why the page did not do it. */
export interface CannotDo {
  error: string;
}

/** Show a block of sanitised HTML; a new key goes behind the others. */
export type Put = [op: "put", key: string, html: string];

/** Replace the end of a block's HTML. */
export type Tail = [op: "tail", key: string, keep: number, html: string];

/** Remove a block. */
export type Drop = [op: "drop", key: string];

/** Have numbers in the text of a block lead to the cards of calls that have put them out, and no others. */
export type LeadToCards = [op: "found", key: string, numbers: string[][]];

/** Change some values of the state; the others stay. */
export type SetState = [op: "set", state: PanelState];

/** Show a dialog until it is answered or closed; one with the id of an open one takes its place. */
export type OpenDialog = [op: "ask", dialog: PageDialog, left: number | null, layout: DialogLayout | null];

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
  /** What stands before the box of ``input()`` that asks a dialog as well, which no view showed in time; by ids. */
  typed?: Record<string, string>;
  /** Whether the conversation is kept in a file. */
  saved?: boolean;
  session?: SessionName;
  /** The id that a page notes in its notebook's metadata, unless that has one: conversations are found by it. */
  notebook?: string | null;
  /** What is said of a run in a line below it, and later beside its last one: what no file keeps. */
  beside?: string;
  /** The widget's id, by which an output names it. */
  widget?: string;
  /** HTML that stands in the place of the widget where its kernel is not there; ``null`` when nothing shall. */
  fallback?: string | null;
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
  models?: ModelChoice[];
  current_model?: ModelId | null;
  /** The thinking levels of the model; one that cannot think has only ``off``. */
  levels?: string[];
  level?: string;
  commands?: Command[];
  completions?: Completions;
  queue?: Queued;
  jobs?: RunningJob[];
  /** Whether all that goes on is code of the agent's that became a job: a message begins a run, and joins none. */
  code_only?: boolean;
  /** Whether it lives in a kernel that it knows, with variables, cells that ran and steps that can be undone. */
  kernel?: boolean;
  /** Whether it shows calls of other programs, to whom the user says nothing here. */
  log?: boolean;
  /** Whether the panel was closed: no message follows. Not all front ends remove what showed it. */
  closed?: boolean;
  sessions?: SessionRow[];
  tree?: TreeRow[];
  download?: Download;
  context?: ContextFill | null;
  /** When the user is asked: ``never``, ``effects``, ``writes`` or ``always``; with ``looks`` nothing is changed. */
  approve?: string;
  /** Whether code of the agent's that changes something becomes cells of the notebook. */
  cells?: boolean;
  /** Whether the next prompt is planned first. */
  plan?: boolean;
  /** Prompts to begin with. */
  examples?: string[];
  /** What of the answers does not hold. */
  outdated?: OutdatedValues | null;
  /** Text that goes behind what is written in the composer. A page of a later moment is not sent it again. */
  inserted?: Composer;
  copied?: CopiedAnswer;
  /** Where no prompt can be sent for want of a key; also the state of a form in a cell. */
  keys?: KeyForm | null;
  /** Which model a conversation begins with that the user has not chosen, and at what price; else empty. */
  first_prompt?: string;
  /** The panel was just opened: its newest view may take the focus. It is sent once and not kept. */
  focus?: boolean;
}

/** Which session is shown. */
export interface SessionName {
  name: string | null;
  id: string;
  /** The first words of the user in it; empty before these. */
  begins?: string;
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

/** A model that can be chosen. */
export interface ModelChoice {
  provider: string;
  id: string;
  name: string;
  /** Whether it has thinking levels. */
  reasoning: boolean;
  /** US dollars for a million tokens in and out, such as ``$3 / $15``; empty if it is not known. */
  price: string;
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
  /** ``panel``, ``extension``, ``prompt`` or ``skill``. */
  source: string;
  /** Whether it can be sent as it is. Of commands of extensions that is not known, and they count as if not. */
  whole: boolean;
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
  /** Whether it makes a whole prompt, which Enter sends at once. */
  whole?: boolean;
}

/** The queued messages, next one first; long ones are shortened. */
export interface Queued {
  /** Delivered after the tool call that runs. */
  steering: string[];
  /** Delivered when the model has finished. */
  followUp: string[];
}

/** A call that goes on after its result. */
export interface RunningJob {
  id: string;
  tool: string;
  title: string;
  /** How long it has run, in words: seconds, later minutes. */
  ran: string;
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

/** How full the model's context is. */
export interface ContextFill {
  tokens: number;
  /** In tokens. */
  window: number;
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

/** An answer as the model wrote it. It is sent to the pages of the moment and not kept. */
export interface CopiedAnswer {
  /** What was asked about. */
  block: string;
  text: string;
}

/** A form for a key; what is written in it is sent once, and is no state of any page. */
export interface KeyForm {
  /** None where the user gives no keys here. */
  providers: KeyChoice[];
  /** The one to begin with; empty for the first. */
  provider: string;
  /** The name of what can keep it, the keyring or a file; empty without one. */
  place: string;
  /** What is to be known besides: who manages keys, what the place is like, what works without a key. */
  notes: string[];
  /** Whether a key is being tested. */
  testing: boolean;
  /** Why the last one was not taken. */
  problem: string;
}

/** A provider of models that takes a key. */
export interface KeyChoice {
  provider: string;
  /** The name of its recommended model. */
  model: string;
}

/** The parts of a `select`, in the order in which they are shown; together they say what its title says. */
export interface DialogLayout {
  heading: string;
  warnings: string[];
  /** Words of the warnings that are code. */
  names: string[];
  /** What is asked about, as sanitised HTML. */
  html: string;
  /** What would happen, if that was found out. */
  outcome: string;
  choices: ShownChoice[];
  /** The value of the answer that Enter gives: a no where what a yes does cannot be taken back. */
  default: string | null;
  /** Whether a no may come with a reason. */
  reason: boolean;
}

/** An answer of a `select`: one of its options, and what its button says. */
export interface ShownChoice {
  value: string;
  label: string;
  kind: "yes" | "more" | "again" | "no";
  /** Its number as the buttons stand, which gives it. */
  key: string;
}

/** A line for the user to read. */
export interface Toast {
  text: string;
  type: "info" | "warning" | "error";
  /** Counts up; a page shows each once. */
  n: number;
}

/** The cell that a request comes from. */
export interface RequestOrigin {
  /** Its id. */
  cell: string;
  /** The id that the page that ran the cell has for the kernel. */
  client: string | null;
}

/** A change of one cell. */
export interface CellEdit {
  /** The cell's id, a new one's too. */
  cell: string;
  type: "code" | "markdown";
  /** The source that it must have for that; ``null`` if it must not be there. */
  old: string | null;
  /** The source that it gets; ``null`` if it is removed. */
  source: string | null;
  /** The id of the cell above a new one; empty for the top, ``null`` for the cell that shows the widget. */
  after: string | null;
  /** Of a new code cell, in the form of the notebook format. */
  outputs: Record<string, unknown>[];
  /** That the agent wrote a new cell. */
  agent?: AgentMark;
}

/** Where a cell of the agent's comes from. */
export interface AgentMark {
  /** The same for all cells of a prompt. */
  run: string;
  /** The id of the tool call. */
  call: string;
  /** The id of the cell whose prompt it was of. */
  asked?: string;
}

/** A display of a cell. */
export interface RunOutput {
  /** Its MIME bundle. */
  data: Record<string, unknown>;
  metadata: Record<string, unknown>;
}

/** A cell as the page has it. */
export interface NotebookCell {
  id: string;
  type: string;
  source: string;
  executionCount: number | null;
  tags?: string[];
  /** That the agent wrote it, and has run what it wrote then. */
  agent?: AgentMark;
  outputs?: Record<string, unknown>[];
}

/** A cell that was removed. */
export interface RemovedCell {
  id: string;
  /** In the form of the notebook format; none if those of all cells are large. */
  outputs: Record<string, unknown>[];
  /** That the agent wrote it. */
  agent?: AgentMark;
}

/** What a page sends. */
export type FromPage =
  | Ready
  | Resync
  | Moved
  | Reply
  | DialogShown
  | Stop
  | AnswerDialog
  | ToCell
  | AttachImage
  | Prompt
  | Unqueue
  | SendQueued
  | Undo
  | Export
  | ShowTree
  | Switch
  | Complete
  | SaveFile
  | CopyAnswer
  | CheckValues
  | GiveKey
  | ClearQueue
  | Abort
  | StopJob
  | NewSession
  | Compact
  | SwitchSession
  | SetSessionName
  | ListSessions
  | SetModel
  | SetThinkingLevel
  | Fork
  | NavigateTree;

/** What a page is sent. */
export type ToPage =
  | Patch
  | Full
  | ListCells
  | ChangeCells
  | RunCells
  | ShowRun
  | RanEmpty;

/** What a page is asked to do. */
export type PageRequest =
  | ListCells
  | ChangeCells
  | RunCells
  | ShowRun
  | RanEmpty;

/** What a page does with what it shows. */
export type Operation =
  | Put
  | Tail
  | Drop
  | LeadToCards
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
  | "panel"
  | "keys";
