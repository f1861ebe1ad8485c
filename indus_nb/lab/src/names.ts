/**
 * What a cell is called for the user: by the number in brackets that stands at it, or else by its place, as by
 * `cell_name` in the kernel.
 */

import type { Cell, CodeCell } from "@jupyterlab/cells";

const ORDINALS = new Intl.PluralRules("en", { type: "ordinal" });
const ENDINGS: Partial<Record<Intl.LDMLPluralRule, string>> = { one: "st", two: "nd", few: "rd" };

/** The number that stands at a cell. */
export function numberOf({ model }: Cell): number | null {
  return model.type === "code" ? (model as CodeCell["model"]).executionCount : null;
}

/** Name one of the cells of a notebook, to be read within a sentence. */
export function nameOf(cells: readonly Cell[], index: number): string {
  const numbers = cells.map(numberOf);
  const number = numbers[index] ?? null;
  if (number !== null && numbers.filter((each) => each === number).length === 1) return `cell [${number}]`;
  return `the ${index + 1}${ENDINGS[ORDINALS.select(index + 1)] ?? "th"} cell`;
}
