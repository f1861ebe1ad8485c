/** Commands to ask at a cell, and to answer what is proposed in place. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { type ICommandPalette, Notification } from "@jupyterlab/apputils";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import { agentIcon } from "./icon.ts";
import { InPlace } from "./in_place.ts";
import type { Link } from "./link.ts";
import type { Links } from "./links.ts";

const CATEGORY = "Agent";
const NOTICE_MS = 8000;
/** What dialogs in our widgets call with their ids, to point to what is shown in the notebook itself. */
const IN_PLACE = Symbol.for("indus_nb in place");
/** What the digit of each answer means is the same in every question of the kernel's. */
const ANSWERS = [
  { id: "indus_nb:accept", label: "Accept What Is Proposed in the Notebook", key: "1" },
  { id: "indus_nb:accept-and-run", label: "Accept and Run What Is Proposed in the Notebook", key: "7" },
  { id: "indus_nb:reject", label: "Reject What Is Proposed in the Notebook", key: "3" },
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
  const answer = (key: string) => () => {
    const problem = current()?.answer(key);
    if (problem) Notification.info(problem, { autoClose: NOTICE_MS });
  };
  for (const { id, label, key } of ANSWERS) add(id, label, () => current()?.reviews ?? false, answer(key));
}
