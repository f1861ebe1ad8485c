/**
 * Whether a widget is in the notebook of its store: of several notebooks on one kernel each gets all widgets, and only
 * one shows this.
 *
 * Contract: the page that ran a cell gets what the cell displays. There a cell's widget is shown once a view of it is
 * drawn, which may fail; questions are asked outside of the page until then.
 */

/** @import { Store } from "./store.js" */

/**
 * Whether a store's notebook shows its widget, or the front end does not say which one does.
 *
 * @param {Store} store
 */
export function isShownHere(store) {
  const { kind, model, notebook, views } = store;
  const [cell, client] = [model.get("cell"), model.get("client")];
  if (!notebook?.cells || !(cell || client) || views.size > 0) return true;
  return kind === "panel" ? isHere(store, cell, client) : !isFromHere(store, client) && holdsCell(store, cell);
}

/**
 * Whether a cell is in a store's notebook: it was run from here, or stands here.
 *
 * @param {Store} store
 * @param {string} cell its id
 * @param {string | null} client what the page that ran it is to the kernel
 */
export function isHere(store, cell, client) {
  return isFromHere(store, client) || holdsCell(store, cell);
}

/**
 * @param {Store} store
 * @param {string | null} client
 */
function isFromHere({ context }, client) {
  const own = context?.sessionContext?.session?.kernel?.clientId;
  return Boolean(own && own === client);
}

/**
 * @param {Store} store
 * @param {string} cell
 */
function holdsCell({ notebook }, cell) {
  return [...(notebook?.cells ?? [])].some(({ id }) => id === cell);
}
