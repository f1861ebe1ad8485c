/**
 * Lines beside the blocks: title, warning, extensions' lines and toasts, and the footer with what goes on.
 *
 * Contract: all of it is text of models, extensions and files, and set as text. The footer keeps its height, so nothing
 * below it moves when a run begins or ends.
 */

import { h, setText } from "./dom.js";
import { focusedElement, focusQuietly } from "./focus.js";
import { formatDuration } from "./text.js";

/** @import { Changes } from "./changes.js" */
/** @import { PanelState, Toast } from "../protocol.d.ts" */
/** @import { Store } from "./store.js" */

const TOAST_TYPES = ["info", "warning", "error"];

export class StatusLines {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.title = h("div", { class: "ia-title" });
    this.beside = h("div", { class: "ia-aside" });
    this.warning = h("div", { class: "ia-warning", role: "note" });
    this.above = h("div", { class: "ia-widgets" });
    this.below = h("div", { class: "ia-widgets" });
    this.status = h("div", { class: "ia-status" });
    this.toasts = h("div", { class: "ia-toasts", role: "status", "aria-live": "polite" });
    /** @type {Map<number, HTMLElement>} */
    this.shownToasts = new Map();
  }

  /** @param {Changes} changes */
  show(changes) {
    const { state } = this.store;
    if (changes.has("title")) setText(this.title, state.title);
    if (changes.has("beside")) setText(this.beside, state.beside);
    if (changes.has("warning")) setText(this.warning, state.warning);
    if (changes.has("widgets")) this.showWidgets(state.widgets ?? {});
    if (changes.has("status")) this.showStatus(state.status ?? {});
    if (changes.has("toasts")) this.showToasts(this.store.mirror.toasts);
  }

  /** @param {NonNullable<PanelState["widgets"]>} widgets */
  showWidgets(widgets) {
    const all = Object.values(widgets);
    for (const node of [this.above, this.below]) {
      const shown = all.filter((widget) => (widget.placement === "belowEditor") === (node === this.below));
      node.replaceChildren(...shown.map(({ lines }) => h("pre", { class: "ia-widget", text: lines.join("\n") })));
      node.hidden = shown.length === 0;
    }
  }

  /** @param {NonNullable<PanelState["status"]>} status */
  showStatus(status) {
    const shown = Object.entries(status);
    this.status.replaceChildren(...shown.map(([key, text]) => h("span", { class: "ia-chip", title: key, text })));
    this.status.hidden = shown.length === 0;
  }

  /** @param {Map<number, Toast>} toasts */
  showToasts(toasts) {
    for (const [n, node] of this.shownToasts) {
      if (toasts.has(n)) continue;
      node.remove();
      this.shownToasts.delete(n);
    }
    for (const [n, { text, type }] of toasts) {
      if (this.shownToasts.has(n)) continue;
      const node = h(
        "div",
        { class: `ia-toast ia-${TOAST_TYPES.includes(type) ? type : "info"}` },
        h("span", { class: "ia-toast-text", text }),
        closeButton(() => this.store.dismissToast(n)),
      );
      this.shownToasts.set(n, node);
      this.toasts.append(node);
    }
  }
}

/** @param {() => void} onclick */
export function closeButton(onclick) {
  return h("button", { class: "ia-icon", type: "button", "aria-label": "Close", text: "✕", onclick });
}

/**
 * The button that stops a run, with its square.
 *
 * @param {Store} store
 * @param {HTMLElement} label
 * @param {string} [title]
 */
export function stopButton(store, label, title) {
  return h(
    "button",
    { class: "ia-stop", type: "button", "data-k": "stop", title, onclick: () => store.stop() },
    h("span", { class: "ia-square", "aria-hidden": "true" }),
    label,
  );
}

/** One line of fixed height: what goes on, for how long and at what cost, and Stop. */
export class Footer {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.note = h("span", { class: "ia-note" });
    this.time = h("span", { class: "ia-time" });
    this.tokens = h("span", { class: "ia-tokens" });
    this.cost = h("span", { class: "ia-cost" });
    this.stopLabel = h("span");
    this.stop = stopButton(store, this.stopLabel);
    const dot = h("span", { class: "ia-dot", "aria-hidden": "true" });
    this.node = h("div", { class: "ia-foot" }, dot, this.note, this.time, this.tokens, this.cost, this.stop);
  }

  show() {
    const { busy, state } = this.store;
    this.showMode();
    if (!busy && focusedElement() === this.stop) focusQuietly(this.node.closest(".ia-root"));
    this.stop.hidden = !busy;
    this.stop.setAttribute("aria-disabled", String(Boolean(state.stopping)));
    replaceText(this.stopLabel, state.stopping ? "Stopping …" : "Stop");
    for (const [node, text] of /** @type {const} */ ([
      [this.tokens, state.tokens],
      [this.cost, state.cost],
    ])) {
      setText(node, text);
      node.title = text ?? ""; // where it is cut off
    }
    this.tick();
  }

  showMode() {
    const { busy, dialogs, state } = this.store;
    const mode = !busy ? "idle" : state.stopping ? "stopping" : dialogs.size > 0 ? "asks" : "busy";
    this.node.dataset.mode = mode;
    const notes = { stopping: "stopping …", asks: "waiting for your answer", idle: null, busy: null };
    const note = notes[mode] ?? (state.note || state.model || "");
    replaceText(this.note, note);
    this.note.title = [...new Set([note, state.model ?? ""])].filter(Boolean).join(" · ");
  }

  tick() {
    const { startedAt } = this.store.mirror;
    if (startedAt && this.store.busy) setText(this.time, formatDuration(Date.now() - startedAt));
    else if (!startedAt) setText(this.time, "");
  }
}

/**
 * Set the text of an element that stays visible without any.
 *
 * @param {HTMLElement} node
 * @param {string} text
 */
function replaceText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
