export interface Shows {
  kind: "shows";
  path: string;
  client: string;
}
export interface OpenPanel {
  kind: "open_panel";
}
export interface Prompt {
  kind: "prompt";
  text: string;
}
export interface Stop {
  kind: "stop";
}
export interface State {
  kind: "state";
  phase: "idle" | "working" | "asking";
  question: string | null;
  cost_today: number | null;
  model: string | null;
  needs_key: boolean;
  panel: string | null;
  session: string | null;
  error: string | null;
}
export type FromDoor = Shows | OpenPanel | Prompt | Stop;
export type ToDoor = State;
