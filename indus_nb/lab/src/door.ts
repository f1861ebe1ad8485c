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
export interface Fix {
  kind: "fix";
  cell: string;
  source: string;
  error: string;
}
export interface Explain {
  kind: "explain";
  cell: string;
  source: string;
  error: string;
}
export interface Insert {
  kind: "insert";
  text: string;
}
export interface ListVariables {
  kind: "list_variables";
}
export interface NewConversation {
  kind: "new_conversation";
}
export interface Variable {
  name: string;
  type: string;
}
export interface Variables {
  kind: "variables";
  variables: Variable[];
}
export type FromDoor = Shows | OpenPanel | Prompt | Stop | Fix | Explain | Insert | ListVariables | NewConversation;
export type ToDoor = State | Variables;
