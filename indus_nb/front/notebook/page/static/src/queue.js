/**
 * The user's messages that wait to be delivered: those for the next moment, and those for the end of the run.
 *
 * Contract: a message is taken back by its place and its text, so the kernel can refuse when another one is there by now.
 */

import { h } from "./dom.js";
import { focusedElement, focusQuietly } from "./focus.js";
import { oneLine, shortLabel } from "./text.js";

/** @import { Store } from "./store.js" */

export class Queue {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.node = h("div", { class: "ia-queue", hidden: true });
  }

  show() {
    const { steering = [], followUp = [] } = this.store.state.queue ?? {};
    const rows = [
      ...steering.map((text, index) => this.row("steering", "next", text, index)),
      ...followUp.map((text, index) => this.row("followUp", "afterwards", text, index)),
    ];
    const hadFocus = this.node.contains(focusedElement());
    this.node.hidden = rows.length === 0;
    this.node.replaceChildren(...rows);
    if (rows.length > 0) this.node.append(this.clearButton(rows.length > 1 ? "Clear all" : "Clear"));
    if (hadFocus) focusQuietly(this.node.closest(".ia-root")?.querySelector(".ia-text"));
  }

  /** @param {string} text */
  clearButton(text) {
    const onclick = () => this.store.send({ kind: "clear_queue" });
    return h("button", { class: "ia-quiet ia-clear", type: "button", text, onclick });
  }

  /**
   * @param {"steering" | "followUp"} queue
   * @param {string} label
   * @param {string} text
   * @param {number} index
   */
  row(queue, label, text, index) {
    const edit = h("button", {
      class: "ia-quiet",
      type: "button",
      text: "Edit",
      "aria-label": `Take back and edit: ${shortLabel(text)}`,
      onclick: () => {
        this.store.draft.expectsTakenBack = true;
        this.store.send({ kind: "unqueue", queue, index, text });
      },
    });
    return h(
      "div",
      { class: "ia-queued" },
      h("span", { class: "ia-tag", text: label }),
      h("span", { class: "ia-line", title: text, text: oneLine(text) }),
      edit,
    );
  }
}
