/**
 * The live end of a run, in the output of the cell that asked.
 *
 * Contract: what scrolls, and what stands for the view while the next one is made, is the business of `following.js`.
 */

import { focusQuietly } from "./focus.js";
import { View } from "./view.js";

/** @import { Changes } from "./changes.js" */
/** @import { Store } from "./store.js" */

export class CellView extends View {
  /** @param {Store} store */
  constructor(store) {
    super(store);
    const { announcer, blocks, dialogs, ended, footer, lines } = this;
    this.root.append(
      lines.title,
      lines.beside,
      lines.warning,
      lines.above,
      blocks.node,
      dialogs.node,
      lines.toasts,
      lines.below,
      lines.status,
      ended,
      footer.node,
      announcer.node,
    );
  }

  /**
   * A cell that waits for the answer has the whole notebook wait, which in command mode takes a number for a heading.
   *
   * @override
   */
  get reach() {
    return this.store.state.background ? ".jp-Cell" : ".jp-Notebook";
  }

  /**
   * What cannot be seen must not take keys.
   *
   * @override
   */
  mayTakeFocus() {
    return super.mayTakeFocus() && (this.store.follow || this.store.follower.nearEnd());
  }

  /** @override */
  reveal() {
    if (this.store.follow) requestAnimationFrame(() => this.dialogs.node.scrollIntoView({ block: "nearest" }));
  }

  /**
   * @override
   * @param {Changes} changes
   */
  show(changes) {
    super.show(changes);
    if (changes.has("dialogs")) this.dialogs.show();
    this.footer.show();
    this.store.follower.attach(this.root);
  }

  /**
   * A page that was slow to draw the view was asked by `input()` too: its box stays open, for no message of a kernel
   * closes one. The box of the next question may be open by now.
   *
   * @override
   * @param {string} id
   */
  closeTyped(id) {
    const { context, state } = this.store;
    const kernel = context?.sessionContext?.session?.kernel;
    const prompt = state.typed?.[id];
    if (prompt === undefined || !kernel) return;
    const lines = [...(this.root.closest(".jp-Cell")?.querySelectorAll(".jp-Stdin") ?? [])]
      .map((box) => box.closest(".jp-OutputArea-child") ?? box)
      .filter((line) => line instanceof HTMLElement && line.style.display !== "none");
    const own = lines.find((line) => line.querySelector(".jp-Stdin-prompt")?.textContent === prompt);
    if (!(own instanceof HTMLElement)) return;
    own.style.display = "none"; // the front end removes it itself later
    if (lines.length === 1) kernel.hasPendingInput = false; // else it runs no other cell
  }

  /** @override */
  focusRest() {
    const { focus, state } = this.store;
    if (state.busy && !state.background) focus.hold(this.root);
    else if (focus.before?.isConnected) focus.leave();
    else focusQuietly(this.root);
  }

  /** @override */
  remove() {
    this.store.follower.detach(this.root, this.footer.node);
    super.remove();
  }
}
