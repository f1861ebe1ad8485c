/** What the kernel asks the page about its notebook, or to change in it, where no widget of the agent's is shown. */

import type { NotebookPanel } from "@jupyterlab/notebook";
import { answerRequest, placed } from "../../front/notebook/page/static/src/notebook.js";
import { noteWidget, shownWidgets, shows } from "../../front/notebook/page/static/src/saved_widgets.js";
import type { Link } from "./link.ts";
import { ranEmpty } from "./ran_empty.ts";

/** How many widgets the kernel is asked about. */
const MAX_WIDGETS = 1_000;

type Request = Parameters<typeof answerRequest>[1];
type ShowRun = Extract<Request, { what: "show_run" }>;
type Notebook = Parameters<typeof answerRequest>[0];
type Kernel = Parameters<typeof answerRequest>[3];

/** Answer what the kernel asks over a link. */
export function answerPageRequests(link: Link): void {
  link.on("ask_page", ({ request }) => {
    const asked = request as unknown as Request;
    link.send({ kind: "reply", id: asked.id, value: answer(link, asked) });
  });
}

/** Ask for the ends of runs whose live views were saved with the notebook, whenever it is connected to its kernel. */
export function askForMissed(link: Link): void {
  let wasReady = false;
  link.changed.connect(async () => {
    const isReady = link.state.phase === "ready";
    const begins = isReady && !wasReady;
    wasReady = isReady;
    if (!begins) return;
    try {
      await link.notebook.context.ready;
    } catch {
      return; // the file cannot be read, which JupyterLab says
    }
    const widgets = shownWidgets(link.notebook.model as unknown as Notebook).slice(-MAX_WIDGETS);
    if (widgets.length > 0) link.send({ kind: "missed", widgets });
  });
}

/** Bring the first of some cells into sight, if nothing of it is; the focus stays where it is. */
function showFirst({ content }: NotebookPanel, ids: readonly string[]): void {
  const index = content.widgets.findIndex(({ model }) => model.id === ids[0]);
  const cell = content.widgets[index];
  if (!cell) return;
  const shown = content.node.getBoundingClientRect();
  const { top, bottom } = cell.node.getBoundingClientRect();
  const isInSight = cell.isAttached && bottom > shown.top && top < shown.bottom;
  if (!isInSight) content.scrollToItem(index, "center");
}

/** Whether the cell of a run still shows its widget, and so nothing that came later. */
function holds(notebook: Notebook, { cell, widget }: ShowRun): boolean {
  const outputs = [...(notebook?.cells ?? [])].find(({ id }) => id === cell)?.outputs;
  return outputs?.toJSON().some((output) => shows(output, widget)) ?? false;
}

function answer({ notebook }: Link, request: Request): Record<string, unknown> {
  const { model, sessionContext, context } = notebook;
  const kernel = sessionContext.session?.kernel;
  const cells = [...(model?.cells ?? [])];
  const { origin } = request;
  const isHere = !origin || origin.client === kernel?.clientId || cells.some(({ id }) => id === origin.cell);
  if (!isHere) return { error: "elsewhere" };
  try {
    const held = model as unknown as Notebook;
    if (request.what === "show_run" && !holds(held, request)) return { gets: "displays" };
    if (request.what === "ran_empty") return { empty: ranEmpty(cells.find(({ id }) => id === request.cell)) };
    const value = answerRequest(held, request, -1, kernel as unknown as Kernel);
    if (request.what === "show_run" && "gets" in value && value.gets === "writes")
      noteWidget(held, request.widget, null);
    if ("ids" in value) showFirst(notebook, value.ids as string[]);
    return { ...placed(value, context) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}
