/**
 * The list of completions at the composer.
 *
 * Contract: completions are shown only for the text before the caret that they were asked for; those that come later
 * than the next key are ignored.
 */

import { h } from "./dom.js";
import { beginsMention, completed } from "./text.js";

/** @import { Completion } from "../protocol.d.ts" */

const MAX_SHOWN = 50;
/** How long a key waits for completions that have not come. */
const WAIT_MS = 2000;

export class Completions {
  /**
   * @param {HTMLTextAreaElement} field
   * @param {string} id of the list
   * @param {() => void} onAccept is called after the field was changed
   */
  constructor(field, id, onAccept) {
    this.field = field;
    this.onAccept = onAccept;
    this.node = h("ul", { class: "ia-choices", id, role: "listbox", "aria-label": "Completions", hidden: true });
    /** The text before the caret that they were asked for.
     * @type {string | null} */
    this.asked = null;
    /** The text that those were offered for which are shown.
     * @type {string | null} */
    this.offered = null;
    /** @type {Completion[]} */
    this.items = [];
    this.chosen = 0;
    /** A key that waits for them.
     * @type {{ timer: ReturnType<typeof setTimeout>, act: () => void } | null} */
    this.waiting = null;
  }

  get isOpen() {
    return !this.node.hidden;
  }

  /** Whether those of a mention or a variable at the caret have not come. */
  get isAwaited() {
    const isOutstanding =
      this.asked !== this.offered && this.asked === this.field.value.slice(0, this.field.selectionStart);
    return isOutstanding && beginsMention(this.asked ?? "");
  }

  /** Whether the field already holds the chosen one. */
  get isComplete() {
    const item = this.items[this.chosen];
    if (!item || this.asked === null) return false;
    return completed(this.asked, item.text).trim() === this.field.value.trim();
  }

  /** Whether the chosen one makes a whole prompt of the field; the first of all commands was chosen by nothing yet. */
  get isWhole() {
    const isChosen = this.asked !== "/" || this.chosen > 0;
    return isChosen && this.field.value === this.asked && Boolean(this.items[this.chosen]?.whole);
  }

  /**
   * Show these, if they are still wanted.
   *
   * @param {Completion[]} items
   */
  offer(items) {
    if (!this.field.matches(":focus") || this.field.value.slice(0, this.field.selectionStart) !== this.asked) return;
    if (items.length === 0 && this.items.length > 0) return; // commands that only the page knows of
    const chosen = this.items[this.chosen]?.text;
    this.items = items.slice(0, MAX_SHOWN);
    this.node.hidden = this.items.length === 0;
    this.node.replaceChildren(...this.items.map((item, index) => this.row(item, index)));
    // The kernel's list follows the page's own: what was chosen in that stays chosen.
    const again = this.asked === this.offered ? this.items.findIndex(({ text }) => text === chosen) : 0;
    this.offered = this.asked;
    this.choose(Math.max(0, again));
    this.waiting?.act();
  }

  /**
   * Act as soon as they have come, took too long, or the field loses the focus; never if the field changes before.
   *
   * @param {() => void} act
   */
  wait(act) {
    if (this.waiting) return;
    const once = () => {
      this.stopWaiting();
      act();
    };
    this.waiting = { timer: setTimeout(once, WAIT_MS), act: once };
  }

  stopWaiting() {
    clearTimeout(this.waiting?.timer);
    this.waiting = null;
  }

  /**
   * @param {Completion} item
   * @param {number} index
   */
  row(item, index) {
    const accept = (/** @type {PointerEvent} */ event) => {
      event.preventDefault();
      this.accept(index);
    };
    return h(
      "li",
      { role: "option", id: `${this.node.id}-${index}`, class: "ia-choice", onpointerdown: accept },
      h("span", { class: "ia-choice-label", text: item.label || item.text }),
      h("span", { class: "ia-detail", text: item.detail ?? "" }),
    );
  }

  /**
   * Mark the one to be accepted; behind the last one comes the first.
   *
   * @param {number} index
   */
  choose(index) {
    const rows = [...this.node.children];
    this.field.setAttribute("aria-expanded", String(rows.length > 0));
    this.field.removeAttribute("aria-activedescendant");
    this.chosen = rows.length > 0 ? (index + rows.length) % rows.length : 0;
    for (const [each, row] of rows.entries()) row.setAttribute("aria-selected", String(each === this.chosen));
    const row = rows[this.chosen];
    if (!row) return;
    row.scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", row.id);
  }

  /** @param {number} index */
  accept(index) {
    const item = this.items[index];
    if (!item || this.asked === null) return;
    this.field.setRangeText(completed(this.asked, item.text), 0, this.asked.length, "end");
    this.close();
    this.onAccept();
  }

  close() {
    this.stopWaiting();
    this.asked = this.offered = null;
    this.items = [];
    this.node.hidden = true;
    this.node.replaceChildren();
    this.choose(0);
  }
}
