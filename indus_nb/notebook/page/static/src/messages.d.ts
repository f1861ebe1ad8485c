// What the kernel and a page send each other: see `indus_nb.notebook.page.widget` and `requests`.

export interface Completion {
  text: string;
  label?: string;
  detail?: string;
}
export interface ModelName {
  provider: string;
  id: string;
}
export interface ModelChoice extends ModelName {
  name: string;
  reasoning?: boolean;
}
export interface SessionRow {
  path: string;
  name: string;
  modified: string | number;
  messages: number;
  current: boolean;
}
export interface TreeRow {
  id: string | null;
  depth: number;
  role: string;
  text: string;
  leaf: boolean;
  here: boolean;
  label: string | null;
}
export interface Toast {
  text: string;
  type: string;
  n: number;
}
export type Dialog = { id: string; title: string; timeout?: number | null } & (
  | { method: "select"; options: string[] }
  | { method: "confirm"; message: string }
  | { method: "input"; placeholder?: string | null }
  | { method: "editor"; prefill?: string | null }
);
export interface State {
  background?: boolean;
  busy?: boolean;
  commands?: { name: string; description: string; source: string }[];
  completions?: { text: string; items: Completion[] };
  composer?: { text: string; n: number };
  cost?: string;
  current_model?: ModelName | null;
  download?: { name: string; html: string; n: number };
  level?: string;
  levels?: string[];
  model?: string;
  models?: ModelChoice[];
  note?: string;
  queue?: { steering: string[]; followUp: string[] };
  session?: { name: string | null; id: string };
  sessions?: SessionRow[];
  started_ms_ago?: number | null;
  status?: Record<string, string>;
  stopping?: boolean;
  title?: string;
  tokens?: string;
  tree?: TreeRow[];
  warning?: string | null;
  widgets?: Record<string, { lines: string[]; placement?: string | null }>;
}
export type Operation =
  | ["put", string, string]
  | ["tail", string, number, string]
  | ["drop", string]
  | ["set", State]
  | ["ask", Dialog, number | null]
  | ["unask", string]
  | ["toast", Toast];
export type NotebookRequest =
  | { what: "cells" }
  | { what: "insert_cell"; after?: string; type: string; source: string }
  | { what: "replace_cell"; cell: string; old: string; source: string };
export interface CellDescription {
  id: string;
  type: string;
  source: string;
  executionCount: number | null;
}
export type NotebookReply = { error: string } | { cells: CellDescription[] } | { id: string };
export type Request = { kind: "request"; id: string; page: string | null } & NotebookRequest;
export type KernelMessage =
  | { kind: "full"; n: number; ops: Operation[] }
  | { kind: "patch"; n: number; ops: Operation[] }
  | Request;
export type PageMessage =
  | { kind: "ready" | "resync" | "stop" | "abort" | "clear_queue" | "new" | "compact" | "export" }
  | { kind: "list_sessions" | "show_tree" }
  | { kind: "reply"; id: string; value: NotebookReply }
  | { kind: "answer"; id: string; value: string | boolean | null }
  | { kind: "image"; data: string; mimeType: string }
  | { kind: "prompt"; text: string; how: "send" | "steer" | "followUp" }
  | { kind: "unqueue"; queue: "steering" | "followUp"; index: number; text: string }
  | { kind: "set_model"; provider: string; id: string }
  | { kind: "set_thinking"; level: string }
  | { kind: "switch"; path: string }
  | { kind: "rename"; name: string }
  | { kind: "navigate" | "fork"; entry: string }
  | { kind: "complete" | "to_cell"; text?: string; code?: string };
