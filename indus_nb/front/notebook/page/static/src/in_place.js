/**
 * The way to what a dialog asks about, where the front-end extension shows it in the notebook itself.
 *
 * Contract: as long as it is shown there the dialog does not show it once more, and it counts as seen once the end of
 * each cell that is proposed was in sight.
 */

import { h, setText } from "./dom.js";

/** @typedef {{ cell: string, ends: readonly HTMLElement[], show(): void }} ShownInPlace what the extension says of it */

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
      if (this.unseen.size === 0) onSeen();
    });
  }

  /** Look again whether, and where, the notebook shows it. */
  look() {
    const find = /** @type {Record<symbol, ((id: string) => ShownInPlace | null) | undefined>} */ (
      /** @type {unknown} */ (globalThis)
    )[IN_PLACE];
    const before = this.shown?.ends ?? [];
    this.shown = find?.(this.id) ?? null;
    this.node.hidden = this.shown === null;
    setText(this.node, this.shown ? `It is shown in the notebook, at ${this.shown.cell}: go there` : "");
    const ends = this.shown?.ends ?? [];
    if (ends.length === before.length && ends.every((end, index) => end === before[index])) return;
    this.sights.disconnect();
    this.unseen = new Set(ends);
    for (const end of ends) this.sights.observe(end);
  }

  stop() {
    this.sights.disconnect();
  }
}
