/**
 * What the kernel may ask of the notebook that a widget is in: its cells, a new cell, a cell's new source.
 *
 * Contract: the kernel gets an answer to each request, an error among them. Nothing is changed unless the request names
 * a cell that is there and, to replace its source, says what that source is now.
 */

/** @import { InsertCell, PageRequest, ReplaceCell, Reply } from "../protocol.d.ts" */

const NO_SUCH_CELL = "There is no such cell.";

/**
 * The part of JupyterLab's notebook model that is used here; it is not documented for widgets, and may be missing.
 *
 * @typedef {object} Cell
 * @property {string} id
 * @property {string} type
 * @property {number | null | undefined} [executionCount]
 * @property {{ getSource(): string, setSource(source: string): void }} sharedModel
 */
/**
 * @typedef {object} Notebook
 * @property {Iterable<Cell> & { get(index: number): Cell }} cells
 * @property {{ insertCell(index: number, cell: object): unknown }} sharedModel
 */

/**
 * Carry out a request.
 *
 * @param {Notebook | undefined} notebook
 * @param {PageRequest} request
 * @param {number} ownIndex the index of the cell that the widget is in, -1 if it is not known
 * @returns {Reply["value"]}
 */
export function answerRequest(notebook, request, ownIndex) {
  if (!notebook?.cells) return { error: "unavailable" };
  switch (request.what) {
    case "cells":
      return { cells: [...notebook.cells].map(describeCell) };
    case "insert_cell":
      return insertCell(notebook, request, ownIndex);
    case "replace_cell":
      return replaceCell(notebook, request);
    default:
      return { error: `The page cannot do that: ${/** @type {{ what: string }} */ (request).what}` };
  }
}

/**
 * Insert a cell behind the one that is named, else behind the widget's, else at the end.
 *
 * @param {Notebook} notebook
 * @param {InsertCell} request
 * @param {number} ownIndex
 * @returns {Reply["value"]}
 */
function insertCell(notebook, { after, type: wanted, source }, ownIndex) {
  const cells = [...notebook.cells];
  const found = after ? cells.findIndex((cell) => cell.id === after) : ownIndex;
  if (found < 0 && after) return { error: NO_SUCH_CELL };
  const index = (found < 0 ? cells.length - 1 : found) + 1;
  const type = wanted === "markdown" ? "markdown" : "code";
  const metadata = type === "code" ? { trusted: true } : {};
  notebook.sharedModel.insertCell(index, { cell_type: type, source: String(source), metadata });
  return { id: notebook.cells.get(index).id };
}

/**
 * Replace the source of a cell, if it is still the one that the user was shown.
 *
 * @param {Notebook} notebook
 * @param {ReplaceCell} request
 * @returns {Reply["value"]}
 */
function replaceCell(notebook, { cell: id, old, source }) {
  const cell = [...notebook.cells].find((each) => each.id === id);
  if (!cell) return { error: NO_SUCH_CELL };
  if (cell.sharedModel.getSource() !== old) return { error: "The cell was changed meanwhile." };
  cell.sharedModel.setSource(String(source));
  return { id: cell.id };
}

/** @param {Cell} cell */
function describeCell(cell) {
  return {
    id: cell.id,
    type: cell.type,
    source: cell.sharedModel.getSource(),
    executionCount: cell.executionCount ?? null,
  };
}
