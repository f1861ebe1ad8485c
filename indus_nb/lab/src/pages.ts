/** What the kernel asks the page about its notebook, or to change in it, where no widget of the agent's is shown. */

import type { NotebookPanel } from "@jupyterlab/notebook";
import { answerRequest } from "../../front/notebook/page/static/src/notebook.js";
import type { Link } from "./link.ts";

type Request = Parameters<typeof answerRequest>[1];
type Notebook = Parameters<typeof answerRequest>[0];
type Kernel = Parameters<typeof answerRequest>[3];

/** Answer what the kernel asks over a link. */
export function answerPageRequests(link: Link): void {
  link.on("ask_page", ({ request }) => {
    const asked = request as unknown as Request;
    link.send({ kind: "reply", id: asked.id, value: answer(link, asked) });
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

function answer({ notebook }: Link, request: Request): Record<string, unknown> {
  const { model, sessionContext, context } = notebook;
  const kernel = sessionContext.session?.kernel;
  const cells = [...(model?.cells ?? [])];
  const { origin } = request;
  const isHere = !origin || origin.client === kernel?.clientId || cells.some(({ id }) => id === origin.cell);
  if (!isHere) return { error: "elsewhere" };
  try {
    const value = answerRequest(model as unknown as Notebook, request, -1, kernel as unknown as Kernel);
    if ("ids" in value) showFirst(notebook, value.ids as string[]);
    return { ...value, ...("cells" in value || "ids" in value ? { path: context.path } : {}) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}
