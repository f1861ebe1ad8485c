/**
 * A whole conversation with everything to steer it.
 *
 * Contract: it follows its end until the reader scrolls up or opens something, and again from the end on. Escape closes
 * the topmost thing that is open, and stops the run if nothing is.
 */

import { Composer } from "./composer.js";
import { h } from "./dom.js";
import { EmptyState } from "./empty_state.js";
import { focusedElement, focusQuietly, isTypingField } from "./focus.js";
import { Header } from "./header.js";
import { Jobs } from "./jobs.js";
import { KeyForm } from "./key_form.js";
import { OutdatedLine } from "./outdated.js";
import { Overlay } from "./overlay.js";
import { Queue } from "./queue.js";
import { closeButton } from "./status.js";
import { NEAR_END_PX, View } from "./view.js";

/** @import { Changes } from "./changes.js" */
/** @import { Store } from "./store.js" */

export class PanelView extends View {
  /** @param {Store} store */
  constructor(store) {
    super(store);
    /** Where it was scrolled to when that was looked at last, in px. */
    this.top = 0;
    this.header = new Header(store, this);
    this.jobs = new Jobs(store);
    this.queue = new Queue(store);
    this.outdated = new OutdatedLine(
      () => store.send({ kind: "check_values" }),
      () => this.focusRest(),
    );
    this.overlay = new Overlay(store, this);
    this.composer = new Composer(store, this);
    this.start = new EmptyState(store, () => focusQuietly(this.composer.field));
    this.keys = new KeyForm(store, () => this.focusRest());
    this.file = h("div", { class: "ia-file", hidden: true });
    this.end = h("button", {
      class: "ia-end",
      type: "button",
      "aria-label": "To the end",
      text: "↓",
      hidden: true,
      onclick: () => this.goToEnd(),
    });
    const region = { class: "ia-scroll", tabindex: "0", role: "region", "aria-label": "Conversation" };
    this.scroller = h("div", region, this.blocks.node, this.keys.node, this.start.node, this.dialogs.node);
    this.scroller.addEventListener("scroll", () => this.noteScroll(), { passive: true });
    const { announcer, footer, lines } = this;
    this.root.append(
      this.header.node,
      lines.title,
      lines.warning,
      h("div", { class: "ia-middle" }, this.scroller, this.end, lines.toasts, this.overlay.node),
      h(
        "div",
        { class: "ia-lower" },
        this.file,
        lines.above,
        this.outdated.node,
        this.jobs.node,
        this.queue.node,
        this.ended,
      ),
      h("div", { class: "ia-bottom" }, this.composer.node, lines.below, lines.status),
      footer.node,
      announcer.node,
    );
    footer.stop.remove(); // the composer has its own
    this.root.addEventListener("keydown", (event) => this.handleKey(event));
    const sizes = new ResizeObserver(() => this.followEnd());
    for (const node of [this.scroller, this.blocks.node, this.dialogs.node]) sizes.observe(node);
  }

  /**
   * @override
   * @param {Changes} changes
   */
  show(changes) {
    super.show(changes);
    this.root.classList.toggle("ia-log", this.store.state.log === true);
    if (changes.has("session", "models", "current_model", "levels", "level", "busy", "approve", "context"))
      this.header.show();
    else if (changes.has("kernel", "cells", "plan", "log")) this.header.show();
    if (changes.has("jobs")) this.jobs.show();
    if (changes.has("queue", "busy", "code_only")) this.queue.show();
    if (changes.has("outdated") || changes.newToasts.length > 0) this.outdated.offerAgain();
    if (changes.has("outdated")) this.showOutdated();
    if (changes.has("sessions", "tree", "overlay")) this.overlay.show();
    if (changes.has("composer", "completions", "commands", "busy", "code_only", "stopping", "dialogs"))
      this.composer.show();
    if (changes.has("keys")) this.keys.show();
    this.start.show();
    if (changes.has("dialogs")) this.dialogs.show();
    if (changes.has("download")) this.showFile();
    this.footer.show();
    this.followEnd();
  }

  showOutdated() {
    this.outdated.show(this.store.ended ? null : this.store.state.outdated);
    this.blocks.markOutdated();
  }

  showFile() {
    const { offered } = this.store.download;
    this.file.hidden = !offered;
    if (!offered) return;
    this.file.replaceChildren(
      h("a", { href: offered.href, download: offered.name, text: `Download ${offered.name}` }),
      closeButton(() => this.store.forgetDownload()),
    );
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
    if (event.target instanceof Element && event.target.closest(".ia-dialog")) return; // one that takes no answer yet
    if (this.header.isOpen) this.header.fold(true);
    else if (this.store.overlay) this.overlay.close();
    else if (this.store.state.busy && !this.store.state.stopping) this.store.stopAll();
    else return;
    event.preventDefault();
  }

  /**
   * A question that the reader has left behind must not take keys.
   *
   * @override
   */
  mayTakeFocus() {
    return this.store.follow && super.mayTakeFocus();
  }

  /** @override */
  reveal() {
    this.followEnd();
  }

  /**
   * Take the focus from the cell that opened the panel, and from the next one, but from nobody who writes: of what is
   * typed into another field, as a key, the rest would be sent as a prompt.
   *
   * @override
   */
  welcome() {
    const active = focusedElement();
    const isNear = !active || active === document.body || active.closest(".jp-Notebook")?.contains(this.root);
    const isEmptyCell = active?.matches(".cm-content") && active.textContent === "";
    if (isNear && (!isTypingField(active) || isEmptyCell)) focusQuietly(this.composer.field);
  }

  noteScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    if (scrollHeight - scrollTop - clientHeight < NEAR_END_PX) this.store.follow = true;
    else if (scrollTop < this.top - 2) this.store.follow = false;
    this.top = this.store.scrollTop = scrollTop;
    this.showEnd();
  }

  showEnd() {
    const { dialogs, follow } = this.store;
    this.end.hidden = follow;
    const text = dialogs.size > 0 ? "↓ question" : "↓";
    if (this.end.textContent !== text) this.end.textContent = text;
  }

  /** Go to the end, unless the reader left it. */
  followEnd() {
    this.showEnd();
    if (this.store.follow) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  goToEnd() {
    this.store.follow = true;
    this.followEnd();
    this.focusRest();
  }

  /** @override */
  resume() {
    if (!this.store.follow) this.scroller.scrollTop = this.store.scrollTop;
    this.showEnd();
  }

  /** @override */
  remove() {
    if (this.store.overlayView === this) this.store.overlayView = null;
    super.remove();
  }

  /** @override */
  focusRest() {
    focusQuietly(this.store.state.log ? this.scroller : this.composer.field);
  }
}
