/** Which cells showed no output when they were run: the kernel cannot see that, for JupyterLab clears outputs first. */

import type { ICellModel, ICodeCellModel } from "@jupyterlab/cells";
import { NotebookActions } from "@jupyterlab/notebook";

const known = new WeakMap<ICellModel, boolean>();

/** Note of each cell that is run from now on whether it shows an output. */
export function noteEmptyCells(): void {
  NotebookActions.executionScheduled.connect((_, { cell: { model } }) => {
    if (model.type === "code") known.set(model, (model as ICodeCellModel).outputs.length === 0);
  });
}

/** Whether a cell showed no output when it was run last; `null` if it was not run here. */
export function ranEmpty(model: ICellModel | undefined): boolean | null {
  return (model && known.get(model)) ?? null;
}
