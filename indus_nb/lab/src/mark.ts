/**
 * A mark on the tab of each notebook in which the agent asks, a notification where that tab is closed, and the way to
 * the question.
 *
 * Contract: a question takes the focus only if the user goes to it.
 */

import { Notification } from "@jupyterlab/apputils";
import { PathExt } from "@jupyterlab/coreutils";
import type { NotebookPanel } from "@jupyterlab/notebook";
import type { Session } from "@jupyterlab/services";
import { questionOf } from "../../front/notebook/page/static/src/dom.js";
import { type Front, forEachNotebook } from "./front.ts";
import type { Link } from "./link.ts";

const CLASS = "indus-mod-asks";
const FRAMES = 5;
/** How long a panel may take to show the question. */
const PANEL_MS = 20_000;
const CAPTION = "The agent asks a question here; a click on ? leads to it";
const CHAT = ".indus_nb-Chat:not(.lm-mod-hidden)";

/** Mark the notebooks in which the agent asks. */
export function markQuestions(front: Front): void {
  const { links, options } = front;
  /** The notifications of notebooks that were closed, by their paths. */
  const notices = new Map<string, string>();
  forEachNotebook(front, (notebook) => {
    const link = links.of(notebook);
    const { context, sessionContext } = notebook;
    let asks = false;
    let kernel: string | undefined;
    const show = () => {
      if (notebook.isDisposed) return; // its connection ends before that is said
      asks = isAsking(link);
      kernel = sessionContext.session?.kernel?.id;
      mark(notebook, options.questionMark && asks);
    };
    link.changed.connect(show);
    options.changed.connect(show);
    Notification.dismiss(notices.get(context.path) ?? "");
    let { path } = context;
    context.pathChanged.connect((_, changed) => {
      path = changed;
    });
    notebook.disposed.connect(() => {
      options.changed.disconnect(show);
      const isOpen = front.tracker.find((other) => other !== notebook && other.context.path === path);
      if (asks && !isOpen && !sessionContext.kernelPreference.shutdownOnDispose)
        notices.set(path, notify(front, path, kernel));
    });
    show();
  });
  document.addEventListener("click", (event) => {
    const tab = event.target instanceof Element ? event.target.closest<HTMLElement>(`.lm-TabBar-tab.${CLASS}`) : null;
    const notebook = tab && front.tracker.find(({ id }) => id === tab.dataset.id);
    if (notebook && isOnMark(tab, event)) goToQuestion(front, links.of(notebook));
  });
}

/** Say that the agent asks in a notebook that was closed, as long as its kernel runs; returns the notification's id. */
function notify({ app }: Front, path: string, kernel: string | undefined): string {
  const open = { label: "Open", callback: () => app.commands.execute("docmanager:open", { path }) };
  const message = `The agent in ${PathExt.basename(path)} waits for your answer`;
  const id = Notification.warning(message, { autoClose: false, actions: [open] });
  const { sessions } = app.serviceManager;
  const follow = (_: unknown, running: readonly Session.IModel[]) => {
    if (running.some((each) => each.kernel?.id === kernel)) return;
    sessions.runningChanged.disconnect(follow);
    Notification.dismiss(id);
  };
  sessions.runningChanged.connect(follow);
  return id;
}

/** Whether a click on a tab was on its mark, which is drawn before the label. */
function isOnMark(tab: Element, { clientX }: MouseEvent): boolean {
  const label = tab.querySelector(".lm-TabBar-tabLabel");
  if (!label) return false;
  const { marginRight, width } = getComputedStyle(label, "::before");
  const from = label.getBoundingClientRect().left;
  return clientX >= from && clientX < from + Number.parseFloat(width) + Number.parseFloat(marginRight);
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
    await goToPanel(front, link);
    return;
  }
  const { content } = link.notebook;
  content.mode = "command";
  content.activeCellIndex = cell;
  await content.scrollToItem(cell);
  // The notebook takes the focus for itself some frames after it came to the front.
  for (let frame = 0; frame < FRAMES; frame++) {
    await new Promise(requestAnimationFrame);
    focusAnswer(dialogIn(content.widgets[cell]?.node));
  }
}

/** Open the panel, and go to the question there once it takes answers, unless the user goes elsewhere meanwhile. */
async function goToPanel(front: Front, link: Link): Promise<void> {
  const went = new AbortController();
  const leave = (event: Event) => {
    if (!(event instanceof KeyboardEvent && event.repeat)) went.abort();
  };
  for (const kind of ["keydown", "pointerdown"])
    document.addEventListener(kind, leave, { capture: true, signal: went.signal });
  await front.openPanel(link);
  const until = Date.now() + PANEL_MS;
  // The panel gives the focus to its composer some frames after it was opened.
  for (let left = FRAMES; left > 0 && isAsking(link) && Date.now() < until; ) {
    await new Promise(requestAnimationFrame);
    if (went.signal.aborted) return;
    if (focusAnswer(dialogIn(document.querySelector<HTMLElement>(CHAT) ?? undefined))) left -= 1;
  }
  went.abort();
}

/** Focus the answer of a question that Enter gives, or the first one; returns whether it takes answers yet. */
function focusAnswer(question: HTMLElement | undefined): boolean {
  question?.scrollIntoView({ block: "nearest" });
  const answers = [...(question?.querySelectorAll<HTMLElement>("button, input, textarea") ?? [])];
  const shown = answers.filter((each) => each.offsetParent !== null && !each.matches(":disabled"));
  const answer = shown.find((each) => each.matches(".ia-default")) ?? shown[0];
  answer?.focus({ preventScroll: true });
  return answer !== undefined;
}

function askingCell({ content }: NotebookPanel): number {
  return content.widgets.findIndex((cell) => dialogIn(cell.node));
}

/** The question that a widget of the agent's shows in a cell. */
export function dialogIn(node: HTMLElement | undefined): HTMLElement | undefined {
  const shown = node?.querySelectorAll<HTMLElement>(".ia-dialog:not([hidden])") ?? [];
  return [...shown].find((each) => questionOf(each) !== undefined);
}
