/** Commands to ask at a cell, and to answer what is proposed in place. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { type ICommandPalette, Notification } from "@jupyterlab/apputils";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import { agentIcon } from "./icon.ts";
import { InPlace, type Kind } from "./in_place.ts";
import type { Link } from "./link.ts";
import type { Links } from "./links.ts";

const CATEGORY = "Agent";
const NOTICE_MS = 8000;
/** What dialogs in our widgets call with their ids, to point to what is shown in the notebook itself. */
const IN_PLACE = Symbol.for("indus_nb in place");
const ANSWERS: readonly { id: string; label: string; kind: Kind }[] = [
  { id: "indus_nb:accept", label: "Accept What Is Proposed in the Notebook", kind: "yes" },
  { id: "indus_nb:accept-and-run", label: "Accept and Run What Is Proposed in the Notebook", kind: "more" },
  { id: "indus_nb:reject", label: "Reject What Is Proposed in the Notebook", kind: "no" },
];

/** Let users ask at cells. */
export function editing(
  app: JupyterFrontEnd,
  links: Links,
  tracker: INotebookTracker,
  palette: ICommandPalette | null,
): void {
  const known = new WeakMap<Link, InPlace>();
  const of = (link: Link): InPlace => {
    const made = known.get(link) ?? new InPlace(link, app.commands);
    known.set(link, made);
    return made;
  };
  const follow = (notebook: NotebookPanel) => {
    const link = links.of(notebook);
    of(link);
    link.rejoin();
  };
  tracker.forEach(follow);
  tracker.widgetAdded.connect((_, notebook) => follow(notebook));
  (globalThis as Record<symbol, unknown>)[IN_PLACE] = (id: string) => {
    const notebook = tracker.find((each) => of(links.of(each)).shown(id) !== null);
    return notebook ? of(links.of(notebook)).shown(id) : null;
  };
  const current = (): InPlace | null => (links.current ? of(links.current) : null);
  const add = (id: string, label: string, isEnabled: () => boolean, execute: () => void, more: object = {}) => {
    app.commands.addCommand(id, { label, isEnabled, execute, ...more });
    palette?.addItem({ command: id, category: CATEGORY });
  };

  const hasCell = () => Boolean(tracker.activeCell);
  const ask = (where: "above" | "below") => () => {
    const { activeCell } = tracker;
    // A button of a toolbar takes the focus when the command has returned.
    if (activeCell) queueMicrotask(() => current()?.ask(activeCell, where));
  };
  add("indus_nb:ask-at-cell", "Ask the Agent at This Cell", hasCell, ask("above"), {
    icon: agentIcon,
    caption: "Ask the agent at this cell",
  });
  add("indus_nb:ask-below-cell", "Ask the Agent for New Cells Below", hasCell, ask("below"));
  const answer = (kind: Kind) => () => {
    const problem = current()?.answer(kind);
    if (problem) Notification.info(problem, { autoClose: NOTICE_MS });
  };
  for (const { id, label, kind } of ANSWERS) add(id, label, () => current()?.reviews ?? false, answer(kind));
}
