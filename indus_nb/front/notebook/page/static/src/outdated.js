/**
 * Marks of values in answers that do not hold any more, and the line with the way to compute them again.
 *
 * Contract: nothing of this is in the notebook, whose answers stay as they were given. A mark is a word beside the value
 * besides its colour. What is computed is computed after a click, and by the kernel.
 */

import { h, markOwn } from "./dom.js";
import { focusedElement } from "./focus.js";

/** @import { OutdatedValue, OutdatedValues } from "../protocol.d.ts" */

const OUTDATED_MARK = "indus-outdated";
const COMPUTE = "Compute again";
const AMBER = "color-mix(in srgb, var(--jp-warn-color1, #b0821f) 30%, transparent)";

/**
 * Mark those values below a root that do not hold, and no others.
 *
 * @param {Element} root
 * @param {readonly OutdatedValue[]} values
 * @returns {number} how many are marked
 */
export function markOutdated(root, values) {
  const known = new Map(values.map((each) => [JSON.stringify([each.expression, each.value]), each]));
  let count = 0;
  for (const shown of root.querySelectorAll(".indus-answer span[title]")) {
    if (!(shown instanceof HTMLElement) || shown.classList.contains(OUTDATED_MARK)) continue;
    const found = known.get(JSON.stringify([shown.title, shown.textContent]));
    if (found) count++;
    markValue(shown, found);
  }
  return count;
}

/**
 * @param {HTMLElement} shown a value
 * @param {OutdatedValue | undefined} found what does not hold; nothing where it does
 */
function markValue(shown, found) {
  const next = shown.nextSibling;
  const mark = next instanceof HTMLElement && next.classList.contains(OUTDATED_MARK) ? next : null;
  if (!found) {
    if (!mark) return;
    mark.remove();
    shown.style.removeProperty("background");
    return;
  }
  if (!shown.style.background) shown.style.background = AMBER;
  const text = found.now === null ? " (old)" : ` → ${found.now} now`;
  if (mark?.textContent === text && mark.title === found.why) return;
  mark?.remove();
  const made = h("span", { class: OUTDATED_MARK, title: found.why, text });
  markOwn(made);
  shown.after(made);
}

export class OutdatedLine {
  /**
   * @param {() => void} compute
   * @param {() => void} leave takes the focus once nothing is left that could have it
   */
  constructor(compute, leave) {
    this.leave = leave;
    this.words = h("span");
    this.button = h("button", {
      type: "button",
      text: COMPUTE,
      onclick: () => {
        this.button.textContent = "Computing …";
        compute();
      },
    });
    this.node = h("div", { class: "indus-outdated-line", role: "status", hidden: true }, this.words, this.button);
    // The notebook's shortcuts would take Enter and Space away from the button.
    this.node.dataset.lmSuppressShortcuts = "true";
  }

  /** Offer the button again, because the kernel has answered. */
  offerAgain() {
    this.button.textContent = COMPUTE;
  }

  /**
   * @param {OutdatedValues | null | undefined} outdated
   * @param {string} [problem] why they were not computed again
   */
  show(outdated, problem = "") {
    const hadFocus = this.node.contains(focusedElement());
    const words = outdated ? `${outdated.words}. ${problem}`.trimEnd() : "";
    if (this.words.textContent !== words) this.words.textContent = words;
    this.button.hidden = !outdated?.stale;
    this.node.hidden = !outdated;
    if (hadFocus && this.button.hidden) this.leave();
  }
}
