/** What a cell of the notebook is called for the user. */

import type { Cell, CodeCell } from "@jupyterlab/cells";
import { nameOfCell } from "../../front/notebook/page/static/src/cell_name.js";

/** The number that stands at a cell. */
export function numberOf({ model }: Cell): number | null {
  return model.type === "code" ? (model as CodeCell["model"]).executionCount : null;
}

/** Name one of the cells of a notebook, to be read within a sentence. */
export function nameOf(cells: readonly Cell[], index: number): string {
  return nameOfCell(cells.map(numberOf), index);
}
