/**
 * What a cell is called for the user: by the number in brackets that stands at it, or else by its place, as by
 * `cell_name` in the kernel.
 */

const ORDINALS = new Intl.PluralRules("en", { type: "ordinal" });
/** @type {Partial<Record<Intl.LDMLPluralRule, string>>} */
const ENDINGS = { one: "st", two: "nd", few: "rd" };

/**
 * Name one of the cells of a notebook, to be read within a sentence.
 *
 * @param {readonly (number | null)[]} numbers those in brackets, of all cells
 * @param {number} index
 */
export function nameOfCell(numbers, index) {
  const number = numbers[index] ?? null;
  if (number !== null && numbers.filter((each) => each === number).length === 1) return `cell [${number}]`;
  return `the ${index + 1}${ENDINGS[ORDINALS.select(index + 1)] ?? "th"} cell`;
}
