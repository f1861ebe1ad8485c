/**
 * The way to what a dialog asks about, where the front-end extension shows it in the notebook itself.
 *
 * Contract: as long as it is shown there the dialog does not show it once more, and it counts as seen once the end of
 * each cell that is proposed was in sight. Until then the line leads there, and says that this comes first.
 */

import { h, setText } from "./dom.js";

/**
 * What the extension says of it.
 * @typedef {{ cell: string, box: HTMLElement, ends: readonly HTMLElement[], show(): void }} ShownInPlace
 */

const IN_PLACE = Symbol.for("indus_nb in place");

export class InPlace {
  /**
   * @param {string} id of the dialog
   * @param {() => void} onSeen
   */
  constructor(id, onSeen) {
    this.id = id;
    this.node = h("button", { class: "ia-in-place", type: "button", hidden: true, onclick: () => this.shown?.show() });
    /** @type {ShownInPlace | null} */
    this.shown = null;
    /** The ends that were not in sight yet.
     * @type {Set<Element>} */
    this.unseen = new Set();
    this.sights = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) if (isIntersecting) this.unseen.delete(target);
      this.say();
      if (this.unseen.size === 0) onSeen();
    });
    this.box = new IntersectionObserver((entries) => {
      this.inSight = entries.at(-1)?.isIntersecting === true;
      this.say();
    });
    this.inSight = false;
  }

  /** Look again whether, and where, the notebook shows it. */
  look() {
    const find = /** @type {Record<symbol, ((id: string) => ShownInPlace | null) | undefined>} */ (
      /** @type {unknown} */ (globalThis)
    )[IN_PLACE];
    const before = this.shown?.ends ?? [];
    const boxBefore = this.shown?.box;
    this.shown = find?.(this.id) ?? null;
    this.node.hidden = this.shown === null;
    if (this.shown?.box !== boxBefore) {
      this.box.disconnect();
      this.inSight = false;
      if (this.shown) this.box.observe(this.shown.box);
    }
    const ends = this.shown?.ends ?? [];
    if (ends.length !== before.length || ends.some((end, index) => end !== before[index])) {
      this.sights.disconnect();
      this.unseen = new Set(ends);
      for (const end of ends) this.sights.observe(end);
    }
    this.say();
  }

  /** Say where it is, which the user sees where it is in sight; a line is there all the same, so that nothing moves. */
  say() {
    const isSeen = this.unseen.size === 0;
    const what = isSeen ? "go there" : "scroll to its end there before you accept it";
    const where = isSeen && this.inSight ? "where you see it" : `at ${this.shown?.cell}: ${what}`;
    setText(this.node, this.shown ? `It is shown in the notebook, ${where}` : "");
  }

  stop() {
    this.sights.disconnect();
    this.box.disconnect();
  }
}
