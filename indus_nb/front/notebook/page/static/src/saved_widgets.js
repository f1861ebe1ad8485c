/**
 * What stands in a notebook for a widget of ours when its kernel is not there: in its output, or in the metadata.
 *
 * Contract: what is written there was sanitised, and nothing of other widgets is changed.
 */

/** @import { Notebook, Output, Outputs } from "./notebook.js" */

const VIEW = "application/vnd.jupyter.widget-view+json";
const STATE = "application/vnd.jupyter.widget-state+json";
/** The widget manager draws that icon before what has no kernel; no property of a saved widget prevents it. */
const NO_BROKEN_LINK =
  "<style>.jupyter-widgets-disconnected:has(> * > .indus-notice)::before { display: none }</style>";

/**
 * The widgets that a notebook shows in the outputs of its cells, whoever made them.
 *
 * @param {Notebook | undefined} notebook
 * @returns {string[]} their ids
 */
export function shownWidgets(notebook) {
  const outputs = [...(notebook?.cells ?? [])].flatMap((cell) => cell.outputs?.toJSON() ?? []);
  const ids = outputs.map(({ data }) => /** @type {{ model_id?: unknown } | undefined} */ (data?.[VIEW])?.model_id);
  return [...new Set(ids)].filter((id) => typeof id === "string");
}

/**
 * Where a widget stands in the outputs of a cell; `null` if it does not, or this front end does not say.
 *
 * @param {Notebook | undefined} notebook
 * @param {string} widget its id
 * @returns {{ outputs: Outputs, index: number } | null}
 */
function findWidget(notebook, widget) {
  for (const { outputs } of notebook?.cells ?? []) {
    const index = outputs?.toJSON().findIndex((output) => shows(output, widget)) ?? -1;
    if (outputs && index >= 0) return { outputs, index };
  }
  return null;
}

/**
 * Whether an output shows a widget.
 *
 * @param {Output} output
 * @param {string} widget its id
 */
export function shows(output, widget) {
  return /** @type {{ model_id?: string } | undefined} */ (output.data?.[VIEW])?.model_id === widget;
}

/**
 * Put what can be read without a kernel in the place of a widget, for good.
 *
 * @param {Notebook | undefined} notebook
 * @param {string} widget its id
 * @param {string} html sanitised
 * @param {string} text
 */
export function replaceWidget(notebook, widget, html, text) {
  const found = findWidget(notebook, widget);
  const data = { "text/html": html, "text/plain": text };
  found?.outputs.set(found.index, { output_type: "display_data", data, metadata: {} });
}

/**
 * Note in the notebook's metadata what stands in the place of a widget while its kernel is not there, or drop that note.
 * It is the state of a text that is saved in the format of saved widgets, under the widget's id. Notes for widgets that
 * no output shows any more go with it: their kernels have ended, and drop none.
 *
 * @param {Notebook | undefined} notebook
 * @param {string} widget its id
 * @param {string | null} html
 */
export function noteWidget(notebook, widget, html) {
  if (!notebook?.getMetadata || !notebook.setMetadata) return;
  const saved =
    /** @type {Record<string, { version_major?: number, version_minor?: number, state?: Record<string, unknown> }>} */ (
      notebook.getMetadata("widgets") ?? {}
    );
  const layout = `${widget}-layout`;
  const state = { ...saved[STATE]?.state };
  const before = JSON.stringify(state);
  const shown = shownWidgets(notebook);
  const gone = Object.keys(state).filter((id) => isNote(state[id]) && !shown.includes(id));
  for (const id of [widget, ...gone]) {
    delete state[id];
    delete state[`${id}-layout`];
  }
  if (html !== null) {
    state[widget] = {
      model_module: "@jupyter-widgets/controls",
      model_module_version: "2.0.0",
      model_name: "HTMLModel",
      state: { layout: `IPY_MODEL_${layout}`, value: `${html}${NO_BROKEN_LINK}` },
    };
    state[layout] = {
      model_module: "@jupyter-widgets/base",
      model_module_version: "2.0.0",
      model_name: "LayoutModel",
      state: {},
    };
  }
  if (JSON.stringify(state) === before) return;
  const rest = { ...saved };
  delete rest[STATE];
  if (Object.keys(state).length > 0) rest[STATE] = { version_major: 2, version_minor: 0, ...saved[STATE], state };
  if (Object.keys(rest).length > 0) notebook.setMetadata("widgets", rest);
  else notebook.deleteMetadata?.("widgets");
}

/**
 * Whether a saved widget is a note of ours.
 *
 * @param {unknown} saved
 */
function isNote(saved) {
  const value = /** @type {{ state?: { value?: unknown } } | undefined} */ (saved)?.state?.value;
  return typeof value === "string" && value.endsWith(NO_BROKEN_LINK);
}
