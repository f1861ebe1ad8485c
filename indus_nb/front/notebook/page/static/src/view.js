/**
 * What both kinds of view have in common: the parts of which they are made, keys and focus.
 *
 * Contract: a view holds nothing that must outlive it (see `store.js`). Keys that are pressed inside it are kept from
 * the front end, whose shortcuts would otherwise delete cells, except those that `keys.js` leaves to it.
 */

import { watchAgentCells } from "./agent_cells.js";
import { Announcer } from "./announcer.js";
import { bringToFront } from "./asking.js";
import { BlockList } from "./blocks.js";
import { Dialogs } from "./dialogs.js";
import { h, setText } from "./dom.js";
import { focusedElement, isEmptyField, isQuiet, isTypingField, watchKeys } from "./focus.js";
import { belongsToFrontEnd } from "./keys.js";
import { Footer, StatusLines } from "./status.js";

/** @import { Changes } from "./changes.js" */
/** @import { Store } from "./store.js" */

const TICK_MS = 500;

/** How long after a view is removed the next one of its widget may come. */
export const NEXT_VIEW_MS = 200;
/** How near to its end, in px, a scrolled element counts as being at its end. */
export const NEAR_END_PX = 48;

export class View {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.announcer = new Announcer(store);
    this.blocks = new BlockList(store, (key, node) => this.announcer.announce(key, node, true));
    this.dialogs = new Dialogs(store, this);
    this.lines = new StatusLines(store);
    this.footer = new Footer(store);
    watchKeys();
    this.ended = h("div", { class: "ia-ended", role: "status", hidden: true });
    // Amounts of money are no formulas. Answers, which may have some, are typeset by themselves.
    const plain = "mathjax_ignore tex2jax_ignore";
    this.root = h("div", { class: `ia-root ia-${store.kind} ${plain}`, tabindex: "-1" });
    this.root.addEventListener("keydown", (event) => this.keepKey(event));
    this.root.addEventListener("focusin", (event) => store.focus.enter(event.target, this.root));
    this.root.addEventListener("focusout", () =>
      setTimeout(() => {
        // A view that is removed loses the focus too: its next view gets it back.
        if (this.root.isConnected && !this.root.contains(focusedElement())) store.focus.forget();
      }),
    );
    this.clock = setInterval(() => this.tick(), TICK_MS);
  }

  /** The selector of the element around the view in which a new dialog may take the focus. */
  get reach() {
    return ".jp-Cell";
  }

  /**
   * Draw what has changed.
   *
   * @param {Changes} changes
   */
  show(changes) {
    this.blocks.show(changes);
    this.lines.show(changes);
    setText(this.ended, this.store.ended);
  }

  /** @param {KeyboardEvent} event */
  keepKey(event) {
    if (this.dialogs.keyboard.handleChord(event)) event.preventDefault();
    const atRoot = event.target instanceof Element && event.target.matches(".ia-dialog, .ia-root");
    if (!belongsToFrontEnd(event, atRoot)) event.stopPropagation();
  }

  tick() {
    this.footer.tick();
    watchAgentCells(this.root, this.store);
    this.dialogs.tick();
    this.announcer.update(this.blocks);
  }

  /** Whether a new dialog may take the focus: not from a user who types, or answers elsewhere, nor from outside the notebook. */
  mayTakeFocus() {
    const active = focusedElement();
    if (globalThis.top !== globalThis.self && !document.hasFocus()) return false; // the page around may have it
    const isFree = (!active || active === document.body) && !this.store.answers.isElsewhere;
    const isOurs = isFree || this.root.contains(active);
    if (isTypingField(active) && !isEmptyField(active)) return false;
    if (!isQuiet() && (isTypingField(active) || !this.root.contains(active))) return false;
    if (isOurs) return true;
    return Boolean(this.root.closest(this.reach)?.contains(active));
  }

  /** Take the focus, because the user has just opened this view. */
  welcome() {}

  /** Bring a dialog into sight, wherever the user is. */
  bringUp() {
    bringToFront(this.root);
    this.dialogs.node.scrollIntoView({ block: "nearest" });
    this.dialogs.takeFocus();
  }

  /** Scroll to a dialog that has just been opened. */
  reveal() {}

  /** Go on where the last view of the widget was. */
  resume() {}

  /**
   * Close what asked a question that is over outside of the view.
   *
   * @param {string} _id
   */
  closeTyped(_id) {}

  /** Give the focus to what the user was at before a dialog, or to what comes next. */
  focusRest() {}

  remove() {
    const { store } = this;
    clearInterval(this.clock);
    this.blocks.stop();
    this.dialogs.close();
    store.views.delete(this);
    setTimeout(() => {
      if (store.views.size === 0 && store.focus.focused && focusedElement() === document.body) store.focus.leave();
    }, NEXT_VIEW_MS);
  }
}
