/**
 * The oldest open dialog; the others wait for their turn.
 *
 * Contract: a dialog takes no answer in its first `ARM_DELAY_MS`, because keys and clicks that are under way then were
 * not meant for it. It takes the focus only where its view allows that, and never onto a button, which a key that was
 * meant for the notebook would press. All its text is set as text.
 */

import { h, setText, uniqueId } from "./dom.js";
import { focusQuietly, isTypingField } from "./focus.js";
import { dialogAction } from "./keys.js";
import { diffLines, splitTitle } from "./text.js";

/** @import { Editor, Input, PageDialog } from "../protocol.d.ts" */
/** @import { Store } from "./store.js" */
/** @import { View } from "./view.js" */

const ARM_DELAY_MS = 250;

/** @typedef {(value: string | boolean | null) => void} Answer */

/** What a kind of dialog has between its text and its last row.
 * @typedef {object} Controls
 * @property {HTMLElement | null} body
 * @property {HTMLElement | undefined} first the control that comes first
 * @property {HTMLButtonElement[]} buttons of the last row
 */

export class Dialogs {
  /**
   * @param {Store} store
   * @param {View} view
   */
  constructor(store, view) {
    this.store = store;
    this.view = view;
    this.node = h("div", { class: "ia-dialogs" });
    /** @type {{ id: string, left: HTMLElement, more: HTMLElement, armed: boolean } | null} */
    this.shown = null;
  }

  show() {
    const { dialogs } = this.store;
    const [first] = dialogs.values();
    if (first?.frame.id !== this.shown?.id) {
      const hadFocus = this.node.contains(document.activeElement);
      this.node.replaceChildren();
      this.shown = null;
      if (first) this.open(first, hadFocus);
      else if (hadFocus) this.view.focusRest();
    }
    if (this.shown) setText(this.shown.more, dialogs.size > 1 ? `${dialogs.size - 1} more after this` : "");
    this.tick();
  }

  tick() {
    const until = this.shown && this.store.dialogs.get(this.shown.id)?.until;
    if (this.shown && typeof until === "number") setText(this.shown.left, `${secondsUntil(until)} s left`);
  }

  /**
   * @param {{ frame: PageDialog, until: number | null }} dialog
   * @param {boolean} hadFocus whether the dialog before had it
   */
  open({ frame, until }, hadFocus) {
    const { id } = frame;
    /** @type {Answer} */
    const answer = (value) => this.store.answer(id, value);
    const left = h("span", { class: "ia-left", "aria-hidden": "true" });
    const more = h("span", { class: "ia-more" });
    const { box, first } = this.build(frame, answer, left, more);
    if (until !== null) {
      const text = `It answers itself in ${secondsUntil(until)} seconds.`;
      box.append(h("span", { class: "ia-announced", text }));
    }
    const shown = { id, left, more, armed: false };
    this.shown = shown;
    const buttons = box.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    box.addEventListener("keydown", (event) => this.handleKey(event, frame, answer));
    this.node.append(box);
    const takesFocus = hadFocus || this.view.mayTakeFocus();
    if (takesFocus) {
      if (!this.view.root.contains(document.activeElement)) this.store.focus.before = document.activeElement;
      focusQuietly(box);
    }
    setTimeout(() => {
      if (this.shown !== shown) return;
      shown.armed = true;
      for (const button of buttons) button.disabled = false;
      if (takesFocus && document.activeElement === box && isTypingField(first)) focusQuietly(first);
      this.store.focus.restore(this.view.root);
    }, ARM_DELAY_MS);
    this.view.reveal();
  }

  /**
   * @param {PageDialog} frame
   * @param {Answer} answer
   * @param {HTMLElement} left
   * @param {HTMLElement} more
   */
  build(frame, answer, left, more) {
    const name = uniqueId();
    const { heading, body: detail } = splitTitle(String(frame.title ?? ""));
    const { body, first, buttons } = this.controls(frame, answer, name);
    const details = { class: "ia-body", tabindex: "0", role: "group", "aria-label": "Details" };
    const dismiss = h("button", {
      class: "ia-quiet",
      type: "button",
      "data-k": `${frame.id} dismiss`,
      title: "Esc",
      text: "Dismiss",
      onclick: () => answer(null),
    });
    const box = h(
      "div",
      { class: "ia-dialog", role: "dialog", "aria-modal": "false", "aria-labelledby": name, tabindex: "-1" },
      h("div", { class: "ia-heading", id: name, text: heading }),
      detail ? h("pre", details, ...detailNodes(detail)) : null,
      frame.method === "confirm" && frame.message ? h("div", { class: "ia-message", text: frame.message }) : null,
      body,
      h("div", { class: "ia-actions" }, ...buttons, h("span", { class: "ia-space" }), more, left, dismiss),
    );
    return { box, first };
  }

  /**
   * @param {PageDialog} frame
   * @param {Answer} answer
   * @param {string} name the id of the heading
   * @returns {Controls}
   */
  controls(frame, answer, name) {
    switch (frame.method) {
      case "select": {
        const options = frame.options.map((option, index) => optionButton(frame.id, option, index, answer));
        const body = h("div", { class: "ia-options", role: "group", "aria-labelledby": name }, ...options);
        return { body, first: options[0], buttons: [] };
      }
      case "confirm": {
        const yes = answerButton(frame.id, "Yes", "ia-primary", () => answer(true));
        const no = answerButton(frame.id, "No", "ia-secondary", () => answer(false));
        return { body: null, first: yes, buttons: [yes, no] };
      }
      default: {
        const field = this.field(frame, name);
        const send = answerButton(frame.id, "Send", "ia-primary", () => answer(field.value));
        send.title = frame.method === "input" ? "Enter" : "Ctrl+Enter";
        return { body: field, first: field, buttons: [send] };
      }
    }
  }

  /**
   * @param {Input | Editor} frame
   * @param {string} name
   */
  field(frame, name) {
    const { answers } = this.store;
    const isLine = frame.method === "input";
    const prefill = frame.method === "editor" ? frame.prefill : null;
    const field = h(isLine ? "input" : "textarea", {
      class: "ia-field",
      "data-k": `${frame.id} field`,
      "aria-labelledby": name,
      placeholder: frame.method === "input" ? frame.placeholder : null,
      rows: isLine ? null : 6,
      value: answers.get(frame.id) ?? prefill ?? "",
      oninput: () => answers.set(frame.id, field.value),
    });
    return field;
  }

  /**
   * @param {KeyboardEvent} event
   * @param {PageDialog} frame
   * @param {Answer} answer
   */
  handleKey(event, frame, answer) {
    if (!this.shown?.armed || event.repeat || event.isComposing) return;
    const { target } = event;
    const scrolling = target instanceof Element && target.matches("pre");
    const action = dialogAction(event, frame, { typing: isTypingField(target), scrolling });
    if (!action) return;
    event.preventDefault();
    if (action.type === "answer") answer(action.value);
    else if (action.type === "submit") answer(/** @type {HTMLInputElement} */ (target).value);
    else if (action.type === "move") this.move(action.step);
  }

  /** @param {1 | -1} step */
  move(step) {
    /** @type {HTMLElement[]} */
    const options = [...this.node.querySelectorAll(".ia-option")].filter((each) => each instanceof HTMLElement);
    const at = options.findIndex((option) => option === document.activeElement);
    options[at < 0 ? 0 : (at + step + options.length) % options.length]?.focus();
  }
}

/** @param {number} until */
function secondsUntil(until) {
  return Math.max(0, Math.ceil((until - Date.now()) / 1000));
}

/**
 * @param {string} id
 * @param {string} text
 * @param {string} style
 * @param {() => void} onclick
 */
function answerButton(id, text, style, onclick) {
  return h("button", { class: style, type: "button", "data-k": `${id} ${text}`, text, onclick });
}

/**
 * @param {string} id
 * @param {string} option
 * @param {number} index
 * @param {Answer} answer
 */
function optionButton(id, option, index, answer) {
  return h(
    "button",
    { class: "ia-option", type: "button", "data-k": `${id} ${index}`, onclick: () => answer(option) },
    h("span", { class: "ia-number", "aria-hidden": "true", text: index < 9 ? String(index + 1) : "" }),
    h("span", { class: "ia-option-text", text: option }),
  );
}

/**
 * Show a text in a `<pre>`; the lines of a diff get a coloured ground.
 *
 * @param {string} text
 * @returns {(string | HTMLElement)[]}
 */
function detailNodes(text) {
  const rows = diffLines(text);
  if (!rows) return [text];
  return rows.map(({ kind, line }) => h("span", { class: kind ? `ia-row ia-${kind}` : "ia-row", text: `${line}\n` }));
}
