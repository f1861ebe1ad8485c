/**
 * A form for a key in the output of a cell.
 */

import { KeyForm } from "./key_form.js";
import { View } from "./view.js";

/** @import { Changes } from "./changes.js" */
/** @import { Store } from "./store.js" */

export class KeyView extends View {
  /** @param {Store} store */
  constructor(store) {
    super(store);
    this.form = new KeyForm(store);
    this.root.append(this.form.node, this.lines.toasts, this.ended, this.announcer.node);
  }

  /**
   * @override
   * @param {Changes} changes
   */
  show(changes) {
    super.show(changes);
    if (changes.has("keys")) this.form.show();
  }
}
