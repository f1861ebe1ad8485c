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
import { focusedElement, focusQuietly } from "./focus.js";
import { composerAction } from "./keys.js";
import { joinsRun } from "./queue.js";
import { stopButton } from "./status.js";
import { completeCommand, isCompletable } from "./text.js";

/** @import { ComposerAction } from "./keys.js" */
/** @import { PanelView } from "./panel_view.js" */
/** @import { Store } from "./store.js" */

const MAX_HEIGHT_PX = 200;
/** How long no other key may follow one that answers a question. */
const ALONE_MS = 250;

export class Composer {
  /**
   * @param {Store} store
   * @param {PanelView} view
   */
  constructor(store, view) {
    this.store = store;
    this.view = view;
    this.fitted = "";
    /** A key that may answer a question, and whether that was given it.
     * @type {{ key: string, timer: ReturnType<typeof setTimeout>, isPassed: boolean } | null} */
    this.held = null;
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
      onclick: () => this.submit(joinsRun(this.store.state) ? "steer" : "send"),
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
      onpaste: (/** @type {ClipboardEvent} */ event) => this.handlePaste(event),
      onblur: () => {
        this.completions.waiting?.act();
        this.completions.close();
      },
    });
  }

  show() {
    const { draft, state } = this.store;
    if (this.field.value !== draft.text) {
      this.field.value = draft.text;
      this.completions.close();
    }
    const asks = this.store.dialogs.size > 0;
    this.field.placeholder = asks
      ? "Answer above first"
      : state.commands?.length
        ? "Ask, or type / for commands"
        : "Ask";
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
    const joins = joinsRun(this.store.state);
    const label = joins ? "Steer" : "Send";
    if (this.send.textContent !== label) this.send.textContent = label;
    this.send.title = joins ? "Enter: say it as soon as possible" : "Enter";
    this.send.disabled = isEmpty || this.store.ended !== "";
    this.later.hidden = !joins;
    this.later.disabled = isEmpty;
    if (!busy && focusedElement() === this.stop) focusQuietly(this.field);
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
    if (this.field.value === "") draft.isPasted = false;
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
    if (!this.performCommand()) this.store.prompt(how);
    focusQuietly(this.field);
  }

  /**
   * Carry out a command that only a page can.
   *
   * @returns {boolean} whether one is written
   */
  performCommand() {
    const { draft, state } = this.store;
    const name = draft.text.trim().slice(1);
    if (!state.commands?.some((each) => `/${each.name}` === draft.text.trim() && each.source === "panel")) return false;
    if (name === "sessions" || name === "tree") this.store.open(name, this.view);
    else if (name === "export") this.store.export();
    else return false;
    draft.clear();
    this.store.show(new Changes("composer"));
    return true;
  }

  /**
   * Note what was pasted: lines may be of others, so nothing in them stands for a value.
   *
   * @param {ClipboardEvent} event
   */
  handlePaste(event) {
    if (event.clipboardData?.getData("text/plain").trim().includes("\n")) this.store.draft.isPasted = true;
    this.attachments.acceptPaste(event);
  }

  /**
   * Pass a key of the empty field on to the question above, if no other key follows it at once.
   *
   * @param {KeyboardEvent} event
   * @returns {boolean} whether it may mean something
   */
  passOn(event) {
    const { held } = this;
    const { dialogs } = this.view;
    this.held = null;
    clearTimeout(held?.timer);
    if (held && (!held.isPassed || dialogs.keyboard.takeBack())) {
      this.write(held.key); // another key follows: this one was the beginning of a message
      return false;
    }
    const { key, code, ctrlKey, metaKey, altKey, shiftKey, repeat } = event;
    const box = dialogs.node.querySelector("[role=dialog]:not([hidden])");
    if (!box || this.field.value !== "" || !/^[1-9yn]$/i.test(key)) return false;
    if (ctrlKey || metaKey || altKey || repeat) return false;
    const pass = () => {
      passed.isPassed = !box.dispatchEvent(new KeyboardEvent("keydown", { key, code, shiftKey, cancelable: true }));
      if (passed.isPassed) return;
      this.held = null; // it means nothing there
      this.write(key);
    };
    const passed = { key, timer: setTimeout(pass, ALONE_MS), isPassed: false };
    this.held = passed;
    return true;
  }

  /**
   * Put a key that was held back before what is written.
   *
   * @param {string} key
   */
  write(key) {
    this.field.setRangeText(key, 0, 0, "end");
    this.takeOver();
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    if (event.isComposing) return;
    if (this.passOn(event)) {
      event.preventDefault();
      return;
    }
    if (event.key === "Escape" && this.completions.waiting) {
      event.preventDefault();
      this.completions.close();
      return;
    }
    const action = this.actionOf(event);
    if (!action) return;
    event.preventDefault();
    const chooses = event.key === "Enter" && !event.altKey && this.completions.isAwaited;
    if (chooses) this.completions.wait(() => this.perform(this.actionOf(event) ?? action));
    else this.perform(action);
  }

  /** @param {KeyboardEvent} event */
  actionOf(event) {
    const { completions, field, store } = this;
    return composerAction(event, {
      open: completions.isOpen,
      busy: joinsRun(store.state),
      recalling: store.draft.recalled !== null,
      empty: field.value === "",
      complete: completions.isComplete || completions.isWhole,
    });
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
        if (completions.isWhole) completions.accept(completions.chosen);
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
