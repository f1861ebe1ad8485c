/**
 * Marks where the agent asks, on the notebook's tab and in the title of the page, and the way to the question.
 *
 * Contract: a question takes the focus only if the user goes to it.
 */

import type { NotebookPanel } from "@jupyterlab/notebook";
import { type Front, forEachNotebook } from "./front.ts";
import type { Link } from "./link.ts";

const CLASS = "indus-mod-asks";
const CAPTION = "The agent asks a question here";
/** What stands before the title of a page in which the agent asks. */
const SIGN = "(?) ";

/** Mark the notebooks in which the agent asks, and the page. */
export function markQuestions(front: Front): void {
  const { links, options } = front;
  const marked = new Set<NotebookPanel>();
  const markPage = () => {
    const title = document.title.startsWith(SIGN) ? document.title.slice(SIGN.length) : document.title;
    const wanted = marked.size > 0 ? SIGN + title : title;
    if (document.title !== wanted) document.title = wanted;
  };
  forEachNotebook(front, (notebook) => {
    const link = links.of(notebook);
    const show = () => {
      const asks = options.questionMark && !notebook.isDisposed && isAsking(link);
      mark(notebook, asks);
      if (asks) marked.add(notebook);
      else marked.delete(notebook);
      markPage();
    };
    link.changed.connect(show);
    options.changed.connect(show);
    notebook.disposed.connect(() => {
      options.changed.disconnect(show);
      show();
    });
    show();
  });
  // The application writes the title anew for each document that comes to the front.
  new MutationObserver(markPage).observe(document.head, { childList: true, subtree: true, characterData: true });
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

/** Go to the question that waits in a notebook: in its cell, else in the panel. */
export async function goToQuestion(front: Front, link: Link): Promise<void> {
  front.app.shell.activateById(link.notebook.id);
  const cell = askingCell(link.notebook);
  if (cell < 0) {
    await front.openPanel(link);
    return;
  }
  const { content } = link.notebook;
  await content.scrollToItem(cell);
  const question = dialogIn(content.widgets[cell]?.node);
  question?.scrollIntoView({ block: "nearest" });
  question?.querySelector("button")?.focus({ preventScroll: true });
}

function askingCell({ content }: NotebookPanel): number {
  return content.widgets.findIndex((cell) => dialogIn(cell.node));
}

function dialogIn(node: HTMLElement | undefined): HTMLElement | null | undefined {
  return node?.querySelector<HTMLElement>(".ia-root [role=dialog]");
}
