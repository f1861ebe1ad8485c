/**
 * Loads the package in a kernel before a cell that talks to the agent: `%load_ext indus_nb` may be left out.
 *
 * Contract: the kernel is asked before it is sent the cell, and handles requests in their order.
 */

import { NotebookActions } from "@jupyterlab/notebook";
import { type Front, isForPython } from "./front.ts";

/** How a cell begins that needs the magics. */
const ASKS = /^\s*%{1,2}agent\b/;
/** A cell that loads the extension by itself. */
const LOADS = /^[ \t]*%(?:re)?load_ext[ \t]+indus_nb\b/m;

/** Load the package before cells that ask the agent, and connect to it once a cell has loaded it. */
export function loadBeforeCells({ links, options, tracker }: Front): void {
  NotebookActions.executionScheduled.connect((_, { notebook, cell }) => {
    const panel = tracker.find(({ content }) => content === notebook);
    if (!panel || !options.loadBeforeCells || !isForPython(panel)) return;
    const source = cell.model.sharedModel.getSource();
    if (ASKS.test(source)) links.of(panel).loadFirst();
  });
  NotebookActions.executed.connect((_, { notebook, cell }) => {
    const panel = tracker.find(({ content }) => content === notebook);
    if (panel && LOADS.test(cell.model.sharedModel.getSource())) links.of(panel).ensure();
  });
}
