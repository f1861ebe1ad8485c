/**
 * What the kernel may ask of the notebook that a widget is in: its cells, a new cell, a cell's new source, to run cells.
 *
 * Contract: the kernel gets an answer to each request, an error among them. Nothing is changed unless the request names
 * a cell that is there and, to replace its source, says what that source is now.
 */

import { describeCell, MAX_SENT_CHARACTERS, markOf, OURS } from "./described.js";
import { runCell } from "./running.js";
import { shows } from "./saved_widgets.js";

/** @import { AgentMark, CellEdit, ChangeCells, PageRequest, Reply, RunCells, ShowRun } from "../protocol.d.ts" */
/** @import { KernelConnection, RunnableCell } from "./running.js" */

const NO_SUCH_CELL = "There is no such cell.";
const CHANGED_MEANWHILE = "The cell was changed meanwhile.";

/**
 * The part of JupyterLab's notebook model that is used here; it is not documented for widgets, and may be missing.
 *
 * @typedef {object} Cell
 * @property {string} id
 * @property {string} type
 * @property {number | null | undefined} [executionCount]
 * @property {{ getSource(): string, setSource(source: string): void }} sharedModel
 * @property {Outputs} [outputs] of a code cell
 * @property {(key: string) => unknown} [getMetadata]
 * @property {(key: string, value: unknown) => void} [setMetadata]
 */
/**
 * @typedef {object} Output an output of a cell, in the form of the notebook format
 * @property {string} output_type
 * @property {string} [name]
 * @property {string | string[]} [text]
 * @property {Record<string, unknown>} [data]
 * @property {Record<string, unknown>} [metadata]
 * @property {string} [ename]
 * @property {string} [evalue]
 */
/** @typedef {{ toJSON(): Output[], fromJSON(outputs: Output[]): void, set(index: number, output: Output): void }} Outputs */
/**
 * @typedef {object} SharedNotebook
 * @property {(index: number, cells: object[]) => unknown} insertCells
 * @property {(index: number) => unknown} [deleteCell]
 */
/**
 * @typedef {object} Notebook
 * @property {Iterable<Cell> & { get(index: number): Cell }} cells
 * @property {SharedNotebook} sharedModel
 * @property {boolean} [collaborative]
 * @property {(key: string) => unknown} [getMetadata]
 * @property {(key: string, value: unknown) => void} [setMetadata]
 * @property {(key: string) => void} [deleteMetadata]
 */

/**
 * Carry out a request.
 *
 * @param {Notebook | undefined} notebook
 * @param {PageRequest} request
 * @param {number} ownIndex the index of the cell that the widget is in, -1 if it is not known
 * @param {KernelConnection | null} [kernel] the notebook's kernel
 * @param {boolean} [isMoved] whether the widget's cell was moved since it was run here
 * @returns {Reply["value"]}
 */
export function answerRequest(notebook, request, ownIndex, kernel, isMoved = false) {
  if (!notebook?.cells) return { error: "unavailable" };
  switch (request.what) {
    case "cells":
      return {
        cells: [...notebook.cells].map((cell) => describeCell(cell, request)),
        ...(notebook.collaborative ? { shared: true } : {}),
      };
    case "change_cells":
      return changeCells(notebook, request, ownIndex);
    case "run_cells":
      return runCells(notebook, request, kernel);
    case "show_run":
      return showRun(notebook, request, kernel?.clientId, isMoved);
    default:
      return { error: `The page cannot do that: ${/** @type {{ what: string }} */ (request).what}` };
  }
}

/**
 * Add to an answer with cells which file they are of, and the time of that file when the page last read or wrote it.
 *
 * @param {Reply["value"]} value
 * @param {{ path?: string, contentsModel?: { last_modified?: string } | null } | undefined} context
 * @returns {Reply["value"]}
 */
export function placed(value, context) {
  if (!("cells" in value || "ids" in value) || !context?.path) return value;
  const saved = context.contentsModel?.last_modified ?? "";
  return { ...value, path: context.path, ...("cells" in value ? { saved } : {}) };
}

/**
 * The metadata of a new cell: code is trusted, as cells are that the user adds.
 *
 * @param {"code" | "markdown"} type
 * @param {AgentMark | undefined} agent
 */
function metadataOf(type, agent) {
  return { ...(type === "code" ? { trusted: true } : {}), ...(agent ? { [OURS]: agent } : {}) };
}

/**
 * Change cells in order: all of them, or none if one of them is not as the kernel knows it, or cannot be changed.
 *
 * @param {Notebook} notebook
 * @param {ChangeCells} request
 * @param {number} ownIndex
 * @returns {Reply["value"]}
 */
function changeCells(notebook, { edits: asked }, ownIndex) {
  const { sharedModel } = notebook;
  if (!sharedModel.deleteCell) return { error: "unavailable" };
  const cells = [...notebook.cells];
  const own = (cells[ownIndex] ?? cells.at(-1))?.id ?? "";
  const edits = asked.map((edit) => ({ ...edit, after: edit.after ?? own }));
  // A kernel that had no answer in time asks once more, over another connection of this page.
  const left = edits.filter(({ cell, old, source }) => old !== null || sourceOf(cells, cell) !== source);
  const error = whyNot(notebook, left);
  if (error) return { error };
  const done = carriedOut(notebook, left);
  const places = new Map([...notebook.cells].map(({ id }, index) => [id, index + 1]));
  const numbers = edits.map(({ cell }) => places.get(cell) ?? 0);
  const removed = done
    .filter(({ source }) => source === null)
    .map(({ cell: id, outputs, agent }) => ({ id, outputs, ...(agent ? { agent } : {}) }));
  const isLarge = JSON.stringify(removed).length > MAX_SENT_CHARACTERS;
  return { numbers, removed: isLarge ? removed.map((each) => ({ ...each, outputs: [] })) : removed };
}

/**
 * @param {Cell[]} cells
 * @param {string} id
 */
function sourceOf(cells, id) {
  return cells.find((cell) => cell.id === id)?.sharedModel.getSource();
}

/**
 * Why changes are not possible, one after the other; empty if they are.
 *
 * @param {Notebook} notebook
 * @param {CellEdit[]} edits
 */
function whyNot(notebook, edits) {
  const sources = new Map([...notebook.cells].map((cell) => [cell.id, cell.sharedModel.getSource()]));
  for (const { cell, old, source, after } of edits) {
    if ((sources.get(cell) ?? null) !== old) return sources.has(cell) ? CHANGED_MEANWHILE : NO_SUCH_CELL;
    if (old === null && after && !sources.has(after)) return NO_SUCH_CELL;
    if (source === null) sources.delete(cell);
    else sources.set(cell, source);
  }
  return "";
}

/**
 * Carry out edits that are known to be possible; those that were, back again, if one fails all the same.
 *
 * @param {Notebook} notebook
 * @param {CellEdit[]} edits
 * @returns {CellEdit[]} the edits, last one first, each with what it takes to turn it around
 */
function carriedOut(notebook, edits) {
  /** @type {CellEdit[]} */
  const done = [];
  try {
    for (const step of stepsOf(edits)) {
      const isNew = step[0]?.old === null;
      if (isNew) insertCells(notebook, step);
      for (const edit of step) done.unshift(isNew ? edit : { ...edit, ...editCell(notebook, edit) });
    }
  } catch (error) {
    for (const edit of done) editCell(notebook, { ...edit, old: edit.source, source: edit.old });
    throw error;
  }
  return done;
}

/**
 * Edits by what is done at once: new cells that follow each other are one step of the front end's undo.
 *
 * @param {CellEdit[]} edits
 * @returns {CellEdit[][]}
 */
function stepsOf(edits) {
  /** @type {CellEdit[][]} */
  const steps = [];
  for (const edit of edits) {
    const before = steps.at(-1)?.at(-1);
    if (before?.old === null && edit.old === null && edit.after === before.cell) steps.at(-1)?.push(edit);
    else steps.push([edit]);
  }
  return steps;
}

/**
 * Insert cells, each below the one before it, and the first where it belongs.
 *
 * @param {Notebook} notebook
 * @param {CellEdit[]} edits
 */
function insertCells({ cells, sharedModel }, edits) {
  const after = edits[0]?.after;
  const at = after ? [...cells].findIndex(({ id }) => id === after) + 1 : 0;
  const made = edits.map(({ cell: id, type, source, outputs, agent }) => {
    const done = type === "code" && outputs.length > 0 ? { outputs, execution_count: null } : {};
    return { id, cell_type: type, source: String(source), metadata: metadataOf(type, agent), ...done };
  });
  sharedModel.insertCells(at, made);
}

/**
 * Carry out one change that is known to be possible.
 *
 * @param {Notebook} notebook
 * @param {CellEdit} edit
 * @returns {Pick<CellEdit, "outputs" | "after" | "agent">} what it takes to bring a removed cell back
 */
function editCell(notebook, edit) {
  const { cell: id, source, after, outputs } = edit;
  const cells = [...notebook.cells];
  const index = cells.findIndex((cell) => cell.id === id);
  const cell = cells[index];
  if (cell && source !== null) cell.sharedModel.setSource(source);
  else if (cell) {
    const shown = /** @type {CellEdit["outputs"]} */ (cell.outputs?.toJSON() ?? []);
    const mark = markOf(cell);
    notebook.sharedModel.deleteCell?.(index);
    return { outputs: shown, after: cells[index - 1]?.id ?? "", ...(mark ? { agent: mark } : {}) };
  } else insertCells(notebook, [edit]);
  return { outputs, after };
}

/**
 * Have the outputs of a run in a cell, unless this page gets them as displays, or another that shares the notebook does.
 * Those of a cell that was moved do not: the page writes them into the cell that still shows the run's widget.
 * While the run goes on it is enough that its widget is there, which shows all that comes. Where a notebook is shared,
 * two pages that write the same outputs could lose some: only the one that ran the cell does, unless that went away.
 * What else was printed in that cell stays, unless it is of an earlier run of it. Where the cell holds another text than
 * the one that ran, the prompt stands above the outputs, and what the cell showed above that.
 *
 * @param {Notebook} notebook
 * @param {ShowRun} request
 * @param {string | undefined} client
 * @param {boolean} isMoved
 * @returns {Reply["value"]}
 */
function showRun(notebook, { cell: id, client: ran, widget, source, asked, outputs, over, missed }, client, isMoved) {
  if (client && client === ran && !isMoved) return { gets: "displays" };
  const cell = [...notebook.cells].find((each) => each.id === id);
  const own = cell?.outputs;
  if (!own) return { error: NO_SUCH_CELL };
  const shown = own.toJSON();
  const at = shown.findIndex((output) => shows(output, widget));
  if (isMoved && at < 0) return { gets: "displays" }; // it was run again
  if (at < 0 && outputs.length > 0 && outputs.every((output) => shown.some((each) => isAlike(each, output))))
    return { gets: "writes" }; // it was asked twice: what was printed beside them is of this run
  const isElsewhere = !isMoved && (notebook.collaborative ? !missed : !over && at >= 0);
  if (isElsewhere) return { gets: "nothing" };
  const isOther = cell.sharedModel.getSource() !== source;
  const prompt = displayOf(asked);
  const from = isOther ? shown.findIndex(({ data }) => data?.["text/html"] === prompt.data["text/html"]) : -1;
  const stays = shown.map((output, index) => {
    const isKept = from >= 0 ? index < from : at >= 0 ? output.output_type !== "display_data" : isOther;
    return { output, isKept, isBefore: at < 0 || index < at };
  });
  const kept = stays.filter(({ isKept }) => isKept);
  own.fromJSON([
    ...kept.filter(({ isBefore }) => isBefore).map(({ output }) => output),
    ...(isOther ? [prompt] : []),
    ...outputs.map(displayOf),
    ...kept.filter(({ isBefore }) => !isBefore).map(({ output }) => output),
  ]);
  return { gets: "writes" };
}

/**
 * @param {Output} output
 * @param {ShowRun["outputs"][number]} wanted
 */
function isAlike({ data }, wanted) {
  return ["text/html", "text/plain"].every((kind) => data?.[kind] === wanted.data[kind]);
}

/** @param {ShowRun["outputs"][number]} output */
function displayOf({ data, metadata }) {
  return { output_type: "display_data", data, metadata };
}

/**
 * Run cells, in this order.
 *
 * @param {Notebook} notebook
 * @param {RunCells} request
 * @param {KernelConnection | null | undefined} kernel
 * @returns {Reply["value"]}
 */
function runCells(notebook, { cells: ids }, kernel) {
  const known = new Map([...notebook.cells].map((cell) => [cell.id, cell]));
  // VS Code's widgets have a notebook of their own, without cells, and not the one that shows them.
  if (known.size === 0 || typeof kernel?.requestExecute !== "function") return { error: "unavailable" };
  const cells = ids.map((id) => known.get(id));
  if (cells.some((cell) => cell?.type !== "code" || !cell.outputs)) return { error: NO_SUCH_CELL };
  for (const cell of cells) runCell(/** @type {RunnableCell} */ (/** @type {unknown} */ (cell)), kernel);
  return { ids };
}

/**
 * Note in the metadata of a cell that its outputs are shown at their height, unless it says already how they are.
 *
 * @param {Notebook | undefined} notebook
 * @param {number} index
 * @returns {boolean} whether that is noted now, and was not before
 */
export function showWhole(notebook, index) {
  const cell = Number.isInteger(index) ? notebook?.cells?.get(index) : undefined;
  if (!cell?.getMetadata || !cell.setMetadata || cell.getMetadata("scrolled") !== undefined) return false;
  cell.setMetadata("scrolled", false);
  return true;
}

/**
 * Whether the agent has written a cell.
 *
 * @param {Cell | undefined} cell
 */
export function isOfAgent(cell) {
  return markOf(cell) !== undefined;
}

/**
 * Give the notebook an id in its metadata, unless it has one, so that it has its conversations under another name too.
 *
 * @param {Notebook | undefined} notebook
 * @param {string} id
 */
export function nameNotebook(notebook, id) {
  if (!notebook?.getMetadata || !notebook.setMetadata) return;
  const held = notebook.getMetadata(OURS);
  const ours = typeof held === "object" && held !== null && !Array.isArray(held) ? held : {};
  if (!(/** @type {{ id?: unknown }} */ (ours).id)) notebook.setMetadata(OURS, { ...ours, id });
}
