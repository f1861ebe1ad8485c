/**
 * What of a widget has changed: the parts that its views have to draw again.
 *
 * Contract: `everything` stands for each part and each block, so no caller asks for it by name.
 */

/** @import { Toast } from "../protocol.d.ts" */

export class Changes {
  /** @param {...string} parts names of state, or "dialogs", "toasts", "overlay" */
  constructor(...parts) {
    this.everything = false;
    this.parts = new Set(parts);
    /** Keys of blocks that are new, different or dropped.
     * @type {Set<string>} */
    this.blocks = new Set();
    /** Keys of blocks that were dropped, even if they came back at once.
     * @type {Set<string>} */
    this.dropped = new Set();
    /** @type {Toast[]} */
    this.newToasts = [];
  }

  static all() {
    const changes = new Changes();
    changes.everything = true;
    return changes;
  }

  /**
   * Whether one of these parts has changed.
   *
   * @param {...string} parts
   */
  has(...parts) {
    return this.everything || parts.some((part) => this.parts.has(part));
  }
}
