/**
 * The live end of a run, in the output of the cell that asked.
 *
 * Contract: while the user looks at the end of the cell, the notebook scrolls along with what grows; once the user
 * scrolls up it does not. Cells below do not jump when one view is replaced by the next.
 */

import { isTypingField } from "./focus.js";
import { NEAR_END_PX, NEXT_VIEW_MS, View } from "./view.js";

/** @import { Changes } from "./changes.js" */
/** @import { Store } from "./store.js" */

export class CellView extends View {
  /** @param {Store} store */
  constructor(store) {
    super(store);
    /** The element that scrolls, as it was found last.
     * @type {HTMLElement | null} */
    this.found = null;
    this.top = 0;
    this.noteScroll = this.noteScroll.bind(this);
    const { announcer, blocks, dialogs, footer, lines } = this;
    this.root.append(
      lines.title,
      lines.warning,
      lines.above,
      blocks.node,
      dialogs.node,
      lines.toasts,
      lines.below,
      lines.status,
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
    if (!super.mayTakeFocus()) return false;
    return this.store.follow || this.distanceBelow(this.scroller() ?? document.documentElement) < NEAR_END_PX;
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
    this.followEnd();
  }

  /** Find the nearest element around that scrolls, and listen to it. */
  scroller() {
    if (this.found?.isConnected && overflows(this.found)) return this.found;
    let node = this.root.parentElement;
    while (node && !(overflows(node) && /auto|scroll/.test(getComputedStyle(node).overflowY)))
      node = node.parentElement;
    if (node !== this.found) {
      this.found?.removeEventListener("scroll", this.noteScroll);
      this.found = node;
      this.top = node?.scrollTop ?? 0;
      node?.addEventListener("scroll", this.noteScroll, { passive: true });
    }
    return node;
  }

  /**
   * How much further down than the scrolled element the view ends, in px.
   *
   * @param {HTMLElement} scroller
   */
  distanceBelow(scroller) {
    return this.root.getBoundingClientRect().bottom - scroller.getBoundingClientRect().bottom;
  }

  /**
   * How much further down than the view an editor ends in which the user types, the next cell's for instance, in px.
   *
   * @param {HTMLElement} scroller
   */
  editorBelow(scroller) {
    const active = document.activeElement;
    if (!isTypingField(active) || !scroller.contains(active) || this.root.contains(active)) return 0;
    const distance = active.getBoundingClientRect().bottom - this.root.getBoundingClientRect().bottom;
    return distance < scroller.clientHeight / 2 ? distance : 0;
  }

  noteScroll() {
    const scroller = this.found;
    if (!scroller) return;
    const { scrollTop } = scroller;
    if (this.distanceBelow(scroller) < NEAR_END_PX) this.store.follow = true;
    else if (scrollTop < this.top - 2) this.store.follow = false;
    this.top = scrollTop;
  }

  followEnd() {
    const scroller = this.scroller();
    if (!scroller || !this.store.follow) return;
    const below = this.distanceBelow(scroller);
    const hidden = Math.max(below, below + this.editorBelow(scroller));
    if (hidden > 0) scroller.scrollTop += hidden + 8;
  }

  /** @override */
  focusRest() {
    if (this.store.focus.before?.isConnected) this.store.focus.leave();
    else this.root.focus({ preventScroll: true });
  }

  /** @override */
  remove() {
    this.found?.removeEventListener("scroll", this.noteScroll);
    if (this.store.state.busy) keepHeight(this.root.closest(".jp-OutputArea"));
    super.remove();
  }
}

/** @param {HTMLElement} node */
function overflows(node) {
  return node.scrollHeight > node.clientHeight + NEAR_END_PX;
}

/**
 * Keep the cells below in place while the view moves: this one is gone a moment before the next one is there.
 *
 * @param {Element | null} node
 */
function keepHeight(node) {
  if (!(node instanceof HTMLElement)) return;
  node.style.minHeight = `${node.getBoundingClientRect().height}px`;
  setTimeout(() => {
    node.style.minHeight = "";
  }, NEXT_VIEW_MS);
}
