/**
 * The user's messages that wait to be delivered: those for the next moment, and those for the end of the run. Where no
 * run goes on, a line says when they are sent, and a button sends them now.
 *
 * Contract: a message is taken back by its place and its text, so the kernel can refuse when another one is there by now.
 */

import { h } from "./dom.js";
import { focusedElement, focusQuietly } from "./focus.js";
import { oneLine, shortLabel } from "./text.js";

/** @import { PanelState } from "../protocol.d.ts" */
/** @import { Store } from "./store.js" */

/**
 * Whether a message joins a run that goes on.
 *
 * @param {Partial<PanelState>} state
 */
export function joinsRun({ busy, code_only: isCode }) {
  return Boolean(busy) && !isCode;
}

/**
 * Say when messages are sent that wait while no run goes on.
 *
 * @param {number} steering how many wait for the next moment
 * @param {number} followUp how many wait for the end of the run
 */
export function whenSent(steering, followUp) {
  if (followUp === 0) return "Will be sent with your next prompt.";
  if (steering === 0) return "Will be sent after the answer to your next prompt.";
  return "Will be sent with your next prompt and after its answer.";
}

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
    const clear = this.button(rows.length > 1 ? "Clear all" : "Clear", "ia-clear", "clear_queue");
    if (joinsRun(this.store.state) || this.store.ended) this.node.replaceChildren(...rows, clear);
    else this.node.replaceChildren(this.unsent(whenSent(steering.length, followUp.length), clear), ...rows);
    if (hadFocus) focusQuietly(this.node.closest(".ia-root")?.querySelector(".ia-text"));
  }

  /**
   * The line above messages that no run will take by itself.
   *
   * @param {string} when they are sent
   * @param {HTMLElement} clear the button that removes them
   */
  unsent(when, clear) {
    const send = this.button("Send now", "ia-send-now", "send_queued");
    return h("div", { class: "ia-unsent" }, h("span", { class: "ia-when", text: when }), send, clear);
  }

  /**
   * @param {string} text
   * @param {string} name of a class
   * @param {"clear_queue" | "send_queued"} kind
   */
  button(text, name, kind) {
    return h("button", { class: `ia-quiet ${name}`, type: "button", text, onclick: () => this.store.send({ kind }) });
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
