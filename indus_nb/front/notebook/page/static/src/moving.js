/**
 * Whether the cell of a run was moved since it was run from this page.
 *
 * Contract: JupyterLab makes a new cell of one that is moved, and of one whose removal is undone. That shows what the old
 * one did, and gets no displays. The kernel is told so each time; it then has the page write what displays bring else.
 */

/** @import { Store } from "./store.js" */

export class CellOfRun {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    /** The outputs of the cell as it was seen last: each cell has its own.
     * @type {object | undefined} */
    this.outputs = undefined;
    this.isMoved = false;
  }

  /** Look for the cell. */
  watch() {
    const { context, kind, model, notebook } = this.store;
    const client = context?.sessionContext?.session?.kernel?.clientId;
    if (kind !== "cell" || !client || client !== model.get("client")) return;
    const outputs = [...(notebook?.cells ?? [])].find(({ id }) => id === model.get("cell"))?.outputs;
    if (!outputs || outputs === this.outputs) return;
    const isMoved = this.outputs !== undefined;
    this.outputs = outputs;
    if (!isMoved) return;
    this.isMoved = true;
    this.store.send({ kind: "moved" });
  }
}
