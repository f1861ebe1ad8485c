/**
 * What the kernel is told of the cells of a notebook.
 *
 * Contract: it reads the notebook's model and changes nothing. Of outputs it tells no more than a message has room for.
 */

/** @import { AgentMark, ListCells } from "../protocol.d.ts" */
/** @import { Cell, Output } from "./notebook.js" */

const MAX_OUTPUT_CHARACTERS = 20_000;
const BAR = "<progress"; // by this the kernel knows a display of how far something was
export const MAX_SENT_CHARACTERS = 4_000_000; // servers refuse messages above 10 MB
export const OURS = "indus_nb";

/**
 * What says that the agent has written a cell, and for which prompt.
 *
 * @param {Cell | undefined} cell
 */
export function markOf(cell) {
  const mark = /** @type {AgentMark | undefined} */ (cell?.getMetadata?.(OURS));
  return typeof mark?.run === "string" ? mark : undefined;
}

/**
 * A cell as it is listed.
 *
 * @param {Cell} cell
 * @param {ListCells} asked
 */
export function describeCell(cell, { outputs, whole }) {
  const tags = cell.getMetadata?.("tags");
  const agent = markOf(cell);
  const described = {
    id: cell.id,
    type: cell.type,
    source: cell.sharedModel.getSource(),
    executionCount: cell.executionCount ?? null,
    ...(Array.isArray(tags) ? { tags } : {}),
    ...(agent ? { agent } : {}),
  };
  if (!outputs || !cell.outputs) return described;
  const shown = cell.outputs.toJSON();
  return { ...described, outputs: cell.id === whole ? asFarAsTheyFit(shown) : shown.map(inShort) };
}

/**
 * Outputs as they are, but in short those for which a message has no room.
 *
 * @param {Output[]} outputs
 */
function asFarAsTheyFit(outputs) {
  let left = MAX_SENT_CHARACTERS;
  return outputs.map((output) => {
    const size = JSON.stringify(output).length;
    if (size > left) return inShort(output);
    left -= size;
    return output;
  });
}

/**
 * An output without what is not text, and of long texts their beginning. Of HTML it tells whether a bar begins it.
 *
 * @param {Output} output
 */
function inShort({ output_type, name, text, data, ename, evalue }) {
  if (data) {
    const kinds = Object.entries(data).map(([kind, value]) => [kind, kind === "text/plain" ? beginning(value) : ""]);
    const bar = beginning(data["text/html"]).startsWith(BAR) ? { "text/html": BAR } : {};
    return { output_type, data: { ...Object.fromEntries(kinds), ...bar } };
  }
  return text === undefined ? { output_type, ename, evalue } : { output_type, name, text: beginning(text) };
}

/** @param {unknown} text */
function beginning(text) {
  return (Array.isArray(text) ? text.join("") : String(text ?? "")).slice(0, MAX_OUTPUT_CHARACTERS);
}
