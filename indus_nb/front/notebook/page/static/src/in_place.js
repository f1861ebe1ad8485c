/**
 * The way to what a dialog asks about, where the front-end extension shows it in the notebook itself.
 *
 * Contract: as long as it is shown there the dialog does not show it once more, and it counts as seen once the box with
 * its answers was in sight.
 */

import { h, setText } from "./dom.js";

/** @typedef {{ cell: string, box: HTMLElement, show(): void }} ShownInPlace what the extension says of it */

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
    this.sights = new IntersectionObserver((entries) => {
      if (entries.at(-1)?.isIntersecting) onSeen();
    });
  }

  /** Look again whether, and where, the notebook shows it. */
  look() {
    const find = /** @type {Record<symbol, ((id: string) => ShownInPlace | null) | undefined>} */ (
      /** @type {unknown} */ (globalThis)
    )[IN_PLACE];
    const before = this.shown;
    this.shown = find?.(this.id) ?? null;
    this.node.hidden = this.shown === null;
    setText(this.node, this.shown ? `It is shown in the notebook, at ${this.shown.cell}: go there` : "");
    if (before?.box === this.shown?.box) return;
    this.sights.disconnect();
    if (this.shown) this.sights.observe(this.shown.box);
  }

  stop() {
    this.sights.disconnect();
  }
}
