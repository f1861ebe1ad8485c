/**
 * Whether a text was seen to its end, and the line below it that says how much there is to come.
 *
 * Contract: a text that fits is read at once; a longer one when its last line was in sight: scrolled to, or, once all
 * of it is shown, in the window. What is not laid out yet, as in an output that is folded, counts as not read. It is
 * remembered by the id of the dialog: a front end makes new views, and what was read in one counts in all of them. What
 * the notebook itself shows is seen there.
 */

import { h } from "./dom.js";
import { focusQuietly } from "./focus.js";
import { InPlace } from "./in_place.js";

/** @import { Store } from "./store.js" */

const TOLERANCE_PX = 2;
/** So few lines out of sight get the room that they need: the line that would tell of them takes some itself. */
const FEW_LINES = 3;

export class Reading {
  /**
   * @param {HTMLElement} node of the text
   * @param {Pick<Store, "answers" | "follow">} store
   * @param {string} id
   */
  constructor(node, store, id) {
    this.text = node;
    this.store = store;
    this.id = id;
    this.endInSight = false;
    this.bar = h("button", { class: "ia-unread", type: "button", onclick: () => this.scrollOn() });
    this.whole = h("button", {
      class: "ia-whole",
      type: "button",
      text: "Show all of it",
      onclick: () => this.showAll(),
    });
    this.rest = h("div", { class: "ia-rest", hidden: true }, this.bar, this.whole);
    this.end = h("div", { class: "ia-text-end" });
    this.inPlace = new InPlace(id, () => this.note());
    node.before(this.inPlace.node);
    node.after(this.end, this.rest);
    this.look();
    this.sizes = new ResizeObserver(() => this.look());
    this.sizes.observe(node);
    this.sights = new IntersectionObserver((entries) => {
      this.endInSight = entries.at(-1)?.isIntersecting ?? false;
      this.look();
    });
    this.sights.observe(this.end);
    node.addEventListener("scroll", () => this.look());
  }

  get done() {
    return this.store.answers.isRead(this.id);
  }

  /** Look again how much of the text was seen. */
  look() {
    this.inPlace.look();
    const isInPlace = this.inPlace.shown !== null;
    this.text.hidden = this.end.hidden = isInPlace;
    if (isInPlace) this.rest.hidden = true;
    else this.measure();
  }

  measure() {
    const hidden = this.hidden;
    if (hidden > TOLERANCE_PX && hidden <= FEW_LINES * this.lineHeight) this.text.classList.add("ia-unfolded");
    const below = this.hidden - this.text.scrollTop;
    this.rest.hidden = this.text.clientHeight > 0 && below <= TOLERANCE_PX;
    if (!this.rest.hidden) {
      const lines = Math.max(1, Math.ceil((below - TOLERANCE_PX) / this.lineHeight));
      const text = `▼ ${lines.toLocaleString("en")} more line${lines === 1 ? "" : "s"} below`;
      this.bar.textContent = this.done ? text : `${text}: scroll to the end before you allow it`;
    } else if (this.endInSight || !this.text.classList.contains("ia-unfolded")) this.note();
  }

  /** Note that the end was seen. */
  note() {
    if (!this.done) this.store.answers.noteRead(this.id);
  }

  /** The height of what the text has no room for, in pixels. */
  get hidden() {
    return this.text.scrollHeight - this.text.clientHeight - this.ofStyle("paddingBottom", 0);
  }

  get lineHeight() {
    return this.ofStyle("lineHeight", 16);
  }

  /**
   * A length of the text's style, in pixels.
   *
   * @param {"lineHeight" | "paddingBottom"} name
   * @param {number} otherwise
   */
  ofStyle(name, otherwise) {
    return Number.parseFloat(getComputedStyle(this.text)[name]) || otherwise;
  }

  scrollOn() {
    this.text.scrollBy(0, Math.max(this.text.clientHeight - 2 * this.lineHeight, this.lineHeight));
  }

  /** Give the text all the height that it needs; what was not read by then is when its end comes into sight. */
  showAll() {
    this.store.follow = false; // else the end would come into sight by itself
    this.text.classList.add("ia-unfolded");
    this.endInSight = false;
    this.sights.unobserve(this.end);
    this.sights.observe(this.end); // which tells where it is now
    this.look();
    this.focus();
  }

  /** Give the text the focus, so that arrows and PageDown scroll it, or what leads to it. */
  focus() {
    focusQuietly(this.inPlace.shown ? this.inPlace.node : this.text);
  }

  stop() {
    this.inPlace.stop();
    this.sizes.disconnect();
    this.sights.disconnect();
  }
}
