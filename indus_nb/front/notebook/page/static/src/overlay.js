/**
 * The list of sessions, or the tree of this session, over the conversation.
 *
 * Contract: while it is open, what it covers takes neither keys nor clicks. A list that comes anew keeps its filter and
 * the row that has the focus.
 */

import { Changes } from "./changes.js";
import { h, uniqueId } from "./dom.js";
import { focusedElement, focusQuietly } from "./focus.js";
import { listTarget } from "./keys.js";
import { closeButton } from "./status.js";
import { formatMoment, oneLine, shortLabel } from "./text.js";

/** @import { FromPage, SessionRow, TreeRow } from "../protocol.d.ts" */
/** @import { PanelView } from "./panel_view.js" */
/** @import { Store } from "./store.js" */

const MAX_DEPTH = 16;

export class Overlay {
  /**
   * @param {Store} store
   * @param {PanelView} view
   */
  constructor(store, view) {
    this.store = store;
    this.view = view;
    /** Whether the current row was scrolled to. */
    this.placed = false;
    this.title = h("span", { class: "ia-overlay-title", id: uniqueId() });
    this.filter = h("input", {
      class: "ia-filter",
      type: "search",
      "aria-label": "Filter",
      placeholder: "Filter",
      oninput: () => this.applyFilter(),
    });
    this.list = h("ul", { class: "ia-list" });
    this.node = h(
      "div",
      { class: "ia-overlay", role: "dialog", "aria-modal": "false", "aria-labelledby": this.title.id, hidden: true },
      h(
        "div",
        { class: "ia-overlay-head" },
        this.title,
        this.filter,
        closeButton(() => this.close()),
      ),
      this.list,
    );
    this.node.addEventListener("keydown", (event) => this.handleKey(event));
  }

  show() {
    const { store } = this;
    store.overlayView ??= this.view; // the one that showed it was replaced
    const overlay = store.overlayView === this.view ? store.overlay : null;
    const opens = overlay !== null && this.node.hidden;
    this.node.hidden = overlay === null;
    this.view.scroller.inert = overlay !== null;
    if (overlay === null) {
      this.list.replaceChildren();
      return;
    }
    this.title.textContent = overlay === "sessions" ? "Sessions" : "Tree";
    if (opens) this.filter.value = "";
    const focused = this.entries().findIndex((entry) => entry === focusedElement());
    const rows = this.rows(overlay);
    const empty = h("li", { class: "ia-empty", text: rows ? "There is nothing yet." : "Loading …" });
    this.list.replaceChildren(...(rows?.length ? rows : [empty]));
    this.applyFilter();
    if (opens || !this.placed) {
      this.list.querySelector("[aria-current=true]")?.scrollIntoView({ block: "nearest" });
      this.placed = Boolean(rows?.length);
      if (opens) focusQuietly(this.filter);
    }
    if (focused >= 0) focusQuietly(this.entries()[focused]);
  }

  /** @returns {HTMLElement[]} */
  entries() {
    return [...this.list.querySelectorAll(".ia-entry")].filter((each) => each instanceof HTMLElement);
  }

  /**
   * @param {"sessions" | "tree"} overlay
   * @returns {HTMLElement[] | undefined} `undefined` until the kernel has sent them
   */
  rows(overlay) {
    const { sessions, tree } = this.store.state;
    return overlay === "sessions"
      ? sessions?.map((session) => this.sessionRow(session))
      : tree?.map((entry) => this.treeRow(entry));
  }

  /** @param {SessionRow} session */
  sessionRow({ path, name, modified, messages, current }) {
    const shown = name || "Unnamed session";
    const detail = [`${messages} message${messages === 1 ? "" : "s"}`, formatMoment(modified)]
      .filter(Boolean)
      .join(" · ");
    const button = h(
      "button",
      {
        class: "ia-entry",
        type: "button",
        "aria-current": current ? "true" : null,
        onclick: () => this.choose({ kind: "switch_session", sessionPath: path }),
      },
      h("span", { class: "ia-line", title: shown, text: oneLine(shown) }),
      h("span", { class: "ia-detail", text: current ? `here · ${detail}` : detail }),
    );
    return h("li", {}, button);
  }

  /** @param {TreeRow} entry */
  treeRow({ id, depth, role, text: full, here, label }) {
    const text = oneLine(String(full ?? ""));
    if (id === null) return h("li", { class: "ia-empty", text });
    const button = h(
      "button",
      {
        class: "ia-entry",
        type: "button",
        title: "Go on from here",
        "aria-current": here ? "true" : null,
        onclick: () => this.choose({ kind: "navigate_tree", targetId: id }),
      },
      h("span", { class: "ia-role", text: role }),
      h("span", { class: "ia-line", text }),
      label ? h("span", { class: "ia-tag", text: label }) : null,
      here ? h("span", { class: "ia-detail", text: "here" }) : null,
    );
    const fork = h("button", {
      class: "ia-quiet ia-fork",
      type: "button",
      title: "Begin a session of its own from here",
      "aria-label": `Fork: ${shortLabel(text)}`,
      text: "Fork",
      onclick: () => this.choose({ kind: "fork", entryId: id }),
    });
    const row = h("li", { class: "ia-node" }, button, fork);
    row.style.setProperty("--ia-depth", String(Math.min(Number(depth) || 0, MAX_DEPTH)));
    row.dataset.role = role;
    return row;
  }

  applyFilter() {
    const wanted = this.filter.value.trim().toLowerCase();
    for (const row of this.list.children)
      row.toggleAttribute("hidden", wanted !== "" && !row.textContent?.toLowerCase().includes(wanted));
  }

  /** @param {FromPage} message */
  choose(message) {
    this.store.send(message);
    this.close();
  }

  close() {
    this.store.overlay = null;
    this.placed = false;
    this.store.show(new Changes("overlay"));
    this.view.focusRest();
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    const visible = this.entries().filter((entry) => !entry.closest("li")?.hidden);
    const row = focusedElement()?.closest("li") ?? null;
    const at = visible.findIndex((entry) => entry.parentElement === row);
    const target = listTarget(event.key, { at, length: visible.length, inRow: row !== null });
    if (target === null) return;
    event.preventDefault();
    (target < 0 ? this.filter : visible[target])?.focus();
  }
}
