/**
 * Where the user writes: the field, its buttons, and what hangs on it (completions, images).
 *
 * Contract: the text belongs to the store's draft; the field shows it. Nothing that is written is lost when a view is
 * replaced, a message is sent or the kernel puts another text there.
 */

import { Attachments } from "./attachments.js";
import { Changes } from "./changes.js";
import { Completions } from "./completions.js";
import { h, setText, uniqueId } from "./dom.js";
import { focusQuietly } from "./focus.js";
import { composerAction } from "./keys.js";
import { stopButton } from "./status.js";
import { completeCommand, isCompletable } from "./text.js";

/** @import { ComposerAction } from "./keys.js" */
/** @import { Store } from "./store.js" */

const MAX_HEIGHT_PX = 200;

export class Composer {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.fitted = "";
    const listId = uniqueId();
    this.field = this.makeField(listId);
    this.completions = new Completions(this.field, listId, () => this.takeOver());
    this.attachments = new Attachments(store, () => focusQuietly(this.field));
    this.problem = h("div", { class: "ia-problem", role: "alert", hidden: true });
    this.stop = stopButton(store, h("span", { text: "Stop" }), "Stop (Esc also clears what waits)");
    this.later = h("button", {
      class: "ia-secondary",
      type: "button",
      title: "Alt+Enter: say it when this is done",
      text: "Follow up",
      onclick: () => this.submit("followUp"),
    });
    this.send = h("button", {
      class: "ia-primary",
      type: "button",
      "data-k": "send",
      onclick: () => this.submit(store.state.busy ? "steer" : "send"),
    });
    this.node = h(
      "div",
      { class: "ia-composer" },
      this.completions.node,
      this.attachments.node,
      this.field,
      this.problem,
      h(
        "div",
        { class: "ia-actions" },
        this.attachments.button,
        this.attachments.input,
        h("span", { class: "ia-space" }),
        this.stop,
        this.later,
        this.send,
      ),
    );
    this.attachments.acceptDrops(this.node);
  }

  /** @param {string} listId the id of the completions */
  makeField(listId) {
    return h("textarea", {
      class: "ia-text",
      "data-k": "composer",
      rows: 1,
      "aria-label": "Message",
      role: "combobox",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": listId,
      placeholder: "Ask",
      oninput: () => this.handleInput(),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.handleKey(event),
      onpaste: (/** @type {ClipboardEvent} */ event) => this.attachments.acceptPaste(event),
      onblur: () => this.completions.close(),
    });
  }

  show() {
    const { draft, state } = this.store;
    if (this.field.value !== draft.text) {
      this.field.value = draft.text;
      this.completions.close();
    }
    this.field.placeholder = state.commands?.length ? "Ask, or type / for commands" : "Ask";
    this.fit();
    setText(this.problem, draft.problem);
    this.attachments.show();
    this.showButtons(Boolean(state.busy), Boolean(state.stopping));
    const { asked } = this.completions;
    if (asked !== null && state.completions?.text === asked) this.completions.offer(state.completions.items);
  }

  /**
   * @param {boolean} busy
   * @param {boolean} stopping
   */
  showButtons(busy, stopping) {
    const { isEmpty } = this.store.draft;
    const label = busy ? "Steer" : "Send";
    if (this.send.textContent !== label) this.send.textContent = label;
    this.send.title = busy ? "Enter: say it as soon as possible" : "Enter";
    this.send.disabled = isEmpty;
    this.later.hidden = !busy;
    this.later.disabled = isEmpty;
    if (!busy && document.activeElement === this.stop) focusQuietly(this.field);
    this.stop.hidden = !busy;
    this.stop.setAttribute("aria-disabled", String(stopping));
  }

  /** Make the field as high as its text, up to a limit. */
  fit() {
    if (this.fitted === this.field.value) return;
    this.fitted = this.field.value;
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight + 2, MAX_HEIGHT_PX)}px`;
  }

  /** Make the field's text the draft. */
  takeOver() {
    this.store.draft.text = this.field.value;
    this.store.show(new Changes("composer"));
  }

  handleInput() {
    const { draft } = this.store;
    draft.problem = "";
    draft.recalled = null;
    const before = this.field.value.slice(0, this.field.selectionStart);
    this.completions.close();
    if (isCompletable(before)) this.complete(before);
    this.takeOver();
  }

  /**
   * Ask for completions; those of commands are known here, and shown at once.
   *
   * @param {string} before the text before the caret
   */
  complete(before) {
    this.completions.asked = before;
    const commands = completeCommand(before, this.store.state.commands ?? []);
    if (commands) this.completions.offer(commands);
    this.store.send({ kind: "complete", text: before });
  }

  /** @param {"send" | "steer" | "followUp"} how */
  submit(how) {
    this.completions.close();
    this.store.draft.recalled = null;
    this.store.prompt(how);
    focusQuietly(this.field);
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    if (event.isComposing) return;
    const { completions, field, store } = this;
    const action = composerAction(event, {
      open: completions.isOpen,
      busy: Boolean(store.state.busy),
      recalling: store.draft.recalled !== null,
      empty: field.value === "",
      complete: completions.isComplete,
    });
    if (!action) return;
    event.preventDefault();
    this.perform(action);
  }

  /** @param {ComposerAction} action */
  perform(action) {
    const { completions } = this;
    switch (action) {
      case "close":
        completions.close();
        break;
      case "next":
        completions.choose(completions.chosen + 1);
        break;
      case "previous":
        completions.choose(completions.chosen - 1);
        break;
      case "accept":
        completions.accept(completions.chosen);
        break;
      case "older":
        this.recall(-1);
        break;
      case "newer":
        this.recall(1);
        break;
      default:
        this.submit(action);
    }
  }

  /** @param {1 | -1} step */
  recall(step) {
    this.store.draft.recall(step);
    this.field.value = this.store.draft.text;
    this.store.show(new Changes("composer"));
  }
}
