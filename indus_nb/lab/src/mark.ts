/**
 * A mark on the tab of each notebook in which the agent asks, and the way to the question.
 *
 * Contract: a question takes the focus only if the user goes to it.
 */

import type { NotebookPanel } from "@jupyterlab/notebook";
import { questionOf } from "../../front/notebook/page/static/src/dom.js";
import { type Front, forEachNotebook } from "./front.ts";
import type { Link } from "./link.ts";

const CLASS = "indus-mod-asks";
const FRAMES = 5;
const CAPTION = "The agent asks a question here";

/** Mark the notebooks in which the agent asks. */
export function markQuestions(front: Front): void {
  const { links, options } = front;
  forEachNotebook(front, (notebook) => {
    const link = links.of(notebook);
    const show = () => mark(notebook, options.questionMark && isAsking(link));
    link.changed.connect(show);
    options.changed.connect(show);
    notebook.disposed.connect(() => {
      options.changed.disconnect(show);
    });
    show();
  });
}

/** Whether a question of the agent waits in a notebook. */
export function isAsking({ state }: Link): boolean {
  return state.kernel?.phase === "asking";
}

function mark({ title }: NotebookPanel, asks: boolean): void {
  const others = title.className.split(" ").filter((each) => each && each !== CLASS);
  title.className = [...others, ...(asks ? [CLASS] : [])].join(" ");
  const lines = title.caption.split("\n").filter((line) => line !== CAPTION);
  title.caption = [...(asks ? [CAPTION] : []), ...lines].join("\n");
}

/** The link of a notebook that asks: of this one if it does, else of the first that does. */
export function askingLink({ links, tracker }: Front, link: Link): Link | null {
  if (isAsking(link)) return link;
  const notebook = tracker.find((each) => isAsking(links.of(each)));
  return notebook ? links.of(notebook) : null;
}

/** Go to the question that waits in a notebook: in its cell, else in the panel. */
export async function goToQuestion(front: Front, link: Link): Promise<void> {
  front.app.shell.activateById(link.notebook.id);
  const cell = askingCell(link.notebook);
  if (cell < 0) {
    await front.openPanel(link);
    return;
  }
  const { content } = link.notebook;
  content.mode = "command";
  content.activeCellIndex = cell;
  await content.scrollToItem(cell);
  // The notebook takes the focus for itself some frames after it came to the front.
  for (let frame = 0; frame < FRAMES; frame++) {
    await new Promise(requestAnimationFrame);
    const question = dialogIn(content.widgets[cell]?.node);
    question?.scrollIntoView({ block: "nearest" });
    const answers = [...(question?.querySelectorAll<HTMLElement>("button, input, textarea") ?? [])];
    answers.find(({ offsetParent }) => offsetParent !== null)?.focus({ preventScroll: true });
  }
}

function askingCell({ content }: NotebookPanel): number {
  return content.widgets.findIndex((cell) => dialogIn(cell.node));
}

/** The question that a widget of the agent's shows in a cell. */
export function dialogIn(node: HTMLElement | undefined): HTMLElement | undefined {
  const shown = node?.querySelectorAll<HTMLElement>(".ia-dialog:not([hidden])") ?? [];
  return [...shown].find((each) => questionOf(each) !== undefined);
}
