/**
 * The oldest open dialog; the others wait for their turn.
 *
 * Contract: a dialog takes no answer in its first `ARM_DELAY_MS`, nor before keys pause for that long, because keys and
 * clicks that are under way then were not meant for it. It takes the focus only where its view allows that, which is
 * where no key was pressed for a while, and never onto a button; an answer has the next dialog take the focus at once.
 * Nothing but a no is taken before a text was seen to its end. What a panel leaves to the cell that asks (`sights.js`)
 * takes no key, and counts as new when the panel shows it again.
 */

import { noteWaiting } from "./asking.js";
import { controlsOf } from "./dialog_answers.js";
import { ARM_DELAY_MS, DialogKeyboard, TAKEN_DELAY_MS } from "./dialog_keyboard.js";
import { cautionsOf, detailsOf, headingOf, outcomeOf, secondsUntil } from "./dialog_parts.js";
import { h, markQuestion, setText, uniqueId } from "./dom.js";
import { focusedElement, focusQuietly, forgetKey, isTypingField, wasEarly } from "./focus.js";
import { Reading } from "./reading.js";
import { Sight } from "./sights.js";

/** @import { DialogLayout, PageDialog } from "../protocol.d.ts" */
/** @import { Answer, Offered } from "./dialog_answers.js" */
/** @import { Store } from "./store.js" */
/** @import { View } from "./view.js" */

const UNREAD = "Scroll to the end of what is asked first";

/** The dialog that is shown.
 * @typedef {object} Shown
 * @property {string} id
 * @property {string | undefined} offers its choices, as they came
 * @property {HTMLElement} box
 * @property {HTMLElement} left
 * @property {HTMLElement} more
 * @property {HTMLElement} early
 * @property {DialogLayout | null} layout
 * @property {HTMLElement | undefined} first the control that comes first
 * @property {Offered[]} choices
 * @property {Reading | null} reading
 * @property {HTMLButtonElement[]} buttons those that take no answer yet are disabled
 * @property {boolean} armed
 * @property {boolean} awaits whether a cell is about to show it
 * @property {number} keysFrom when keys begin to count that reach it because it took the focus, in ms since 1970
 * @property {Element | null} before the element that had the focus when it was opened; `null` once it took the focus
 * @property {ReturnType<typeof setTimeout> | undefined} timer
 * @property {ReturnType<typeof setTimeout> | undefined} press of an answer that a key gives
 * @property {ReturnType<typeof setTimeout> | undefined} again of the line that says to press a key again
 * @property {() => void} arm
 */

export class Dialogs {
  /**
   * @param {Store} store
   * @param {View} view
   */
  constructor(store, view) {
    this.store = store;
    this.view = view;
    this.keyboard = new DialogKeyboard(this);
    this.node = h("div", { class: "ia-dialogs" });
    /** @type {Shown | null} */
    this.shown = null;
    /** The ids of the dialogs of which the kernel knows that this view shows them.
     * @type {Set<string>} */
    this.noted = new Set();
    this.sight = new Sight(view, () => this.settle());
    const go = () => this.sight.cell?.view.bringUp();
    this.where = h("button", { class: "ia-where", type: "button", hidden: true, onclick: go });
  }

  show() {
    const { dialogs } = this.store;
    const [first] = dialogs.values();
    if (first?.frame.id !== this.shown?.id || JSON.stringify(first?.layout?.choices) !== this.shown?.offers) {
      const hadFocus = this.node.contains(focusedElement());
      if (this.shown && !dialogs.has(this.shown.id)) this.view.closeTyped(this.shown.id);
      this.node.replaceChildren();
      this.forget();
      if (first) this.open(first, hadFocus);
      else if (hadFocus) this.view.focusRest();
    }
    this.noteShown([...dialogs.keys()]);
    if (this.shown) setText(this.shown.more, dialogs.size > 1 ? `${dialogs.size - 1} more after this` : "");
    this.tick();
  }

  /**
   * Tell the kernel that this view shows dialogs, one after the other: those that no view shows it asks elsewhere.
   *
   * @param {string[]} ids
   */
  noteShown(ids) {
    for (const id of ids) if (!this.noted.has(id)) this.store.send({ kind: "dialog_shown", id });
    this.noted = new Set(ids);
  }

  /** Stop what waits for the dialog that is shown. */
  forget() {
    clearTimeout(this.shown?.timer);
    clearTimeout(this.shown?.press);
    clearTimeout(this.shown?.again);
    this.shown?.reading?.stop();
    this.shown = null;
    this.sight.end();
    noteWaiting(this, null);
  }

  /** Hold nothing any more: the view is gone. */
  close() {
    this.forget();
    this.sight.close();
  }

  tick() {
    const { shown } = this;
    if (!shown) return;
    noteWaiting(this, this.waiting(shown)); // again and again: the front end may have set another title
    const until = this.store.dialogs.get(shown.id)?.until;
    if (typeof until === "number") setText(shown.left, `${secondsUntil(until)} s left`);
    shown.reading?.look();
    this.settle();
    if (this.isInvited(shown)) this.takeFocus();
  }

  /**
   * Whether the dialog may take the focus by itself.
   *
   * @param {Shown} shown
   */
  isInvited({ before, box }) {
    return !box.hidden && before !== null && before === focusedElement() && this.view.mayTakeFocus();
  }

  /**
   * Leave the details to the cell that asks, and say where that is, or show them.
   *
   * @param {boolean} [waits] whether to wait for a moment where the cell's view is gone, for the next one to come
   */
  settle(waits = true) {
    const { shown, where } = this;
    if (!shown) return;
    const { cell } = this.sight;
    if (waits && shown.box.hidden && !shown.awaits && (cell?.isEnough ?? null) === null) {
      shown.awaits = true;
      this.disarm(shown);
    }
    const wasThere = focusedElement() === where;
    const isLeft = (cell?.isEnough ?? shown.awaits) && !shown.box.contains(focusedElement());
    setText(where, cell && isLeft ? `A question waits at ${cell.nameFrom(this.sight)}: show` : "");
    if (isLeft === shown.box.hidden) return;
    shown.box.hidden = isLeft;
    if (isLeft) return;
    this.disarm(shown);
    shown.reading?.look();
    if (wasThere && where.hidden) this.takeFocus();
    else this.invite(shown);
    this.view.reveal();
  }

  /**
   * Take the focus, or have the question announced, for nothing else tells who cannot see it.
   *
   * @param {Shown} shown
   */
  invite(shown) {
    if (this.isInvited(shown)) this.takeFocus();
    else if (!this.store.answers.isElsewhere)
      this.sight.announce(() => this.view.announcer.say(`The agent asks: ${textOf(shown)}`));
  }

  /**
   * Take no answer for a moment.
   *
   * @param {Shown} shown
   */
  disarm(shown) {
    shown.armed = false;
    for (const button of shown.buttons) button.disabled = true;
    clearTimeout(shown.timer);
    shown.timer = setTimeout(shown.arm, ARM_DELAY_MS);
  }

  /**
   * What waits for an answer in this view.
   *
   * @param {Shown} shown
   */
  waiting(shown) {
    const isSeen = this.sight.isTouched && document.visibilityState === "visible";
    return { id: shown.id, text: textOf(shown), place: this.store.place, isSeen, show: () => this.view.bringUp() };
  }

  /**
   * @param {{ frame: PageDialog, until: number | null, layout: DialogLayout | null }} dialog
   * @param {boolean} hadFocus whether the dialog before had it
   */
  open({ frame, until, layout }, hadFocus) {
    const { id } = frame;
    /** @type {Answer} */
    const answer = (value, reason) => {
      if (!this.takes(value)) return;
      if (!this.node.contains(focusedElement())) this.takeFocus(); // some browsers give a clicked button none
      forgetKey();
      this.store.answers.note();
      this.store.answer(id, value, reason);
    };
    const name = uniqueId();
    const left = h("span", { class: "ia-left", "aria-hidden": "true" });
    const more = h("span", { class: "ia-more" });
    const early = h("span", { class: "ia-early", role: "status" });
    const { rows, first, choices } = controlsOf(frame, layout, this.store.answers, answer);
    const details = detailsOf(frame, layout);
    const heading = headingOf(frame, layout, name);
    const box = h(
      "div",
      {
        ...{ class: "ia-dialog", role: "dialog", "aria-modal": "false", "aria-labelledby": name, tabindex: "-1" },
      },
      heading,
      ...cautionsOf(layout),
      details,
      outcomeOf(layout),
      ...rows,
      h("div", { class: "ia-actions" }, early, h("span", { class: "ia-space" }), more, left),
    );
    markQuestion(box, id);
    if (until !== null) {
      const text = `It answers itself in ${secondsUntil(until)} seconds.`;
      box.append(h("span", { class: "ia-announced", text }));
    }
    const buttons = [...box.querySelectorAll("button")];
    box.addEventListener("keydown", (event) => this.keyboard.handleKey(event, frame, answer));
    const isRead = choices.length === 0 || !details;
    const reading = isRead ? null : new Reading(details, this.store, id);
    const goesOn = hadFocus || (this.store.answers.isHere && this.view.root.contains(focusedElement()));
    const awaits = !goesOn && this.sight.isAwaited;
    box.hidden = awaits;
    this.node.append(this.where, box);
    this.sight.begin(id, box);
    const arm = () => {
      Object.assign(shown, { armed: true, awaits: false });
      this.settle(false);
      this.enable();
      if (shown.before === null && focusedElement() === box && isTypingField(first)) focusQuietly(first);
      this.store.focus.restore(this.view.root);
    };
    /** @type {Shown} */
    const shown = {
      ...{ id, offers: JSON.stringify(layout?.choices), box, left, more, early, layout, first, choices },
      ...{ reading, arm, buttons, awaits, armed: false, keysFrom: 0, before: focusedElement() },
      ...{ timer: undefined, press: undefined, again: undefined },
    };
    this.shown = shown;
    this.disarm(shown);
    if (hadFocus) this.takeFocus();
    else if (!awaits) this.invite(shown);
    if (wasEarly()) this.keyboard.noteEarly(shown);
    this.view.reveal();
  }

  /**
   * Show what was written in another view of the dialog.
   *
   * @param {string} id
   * @param {string} text
   */
  write(id, text) {
    const field = this.shown?.id === id ? this.shown.box.querySelector(".ia-field") : null;
    if (field && "value" in field && field.value !== text) field.value = text;
  }

  takeFocus() {
    const { shown } = this;
    if (!shown) return;
    if (shown.box.hidden) {
      this.sight.cell?.view.bringUp();
      return;
    }
    this.sight.announce(() => {}); // by the focus
    shown.before = null;
    shown.keysFrom = Date.now() + TAKEN_DELAY_MS;
    if (!this.view.root.contains(focusedElement())) this.store.focus.before = focusedElement();
    focusQuietly(shown.armed && isTypingField(shown.first) ? shown.first : shown.box);
  }

  /**
   * Whether an answer may be given now.
   *
   * @param {string | boolean | null} value
   */
  takes(value) {
    const { shown } = this;
    if (!shown?.armed) return false;
    const isNo = value === null || shown.choices.find((choice) => choice.value === value)?.kind === "no";
    return isNo || shown.reading === null || shown.reading.done;
  }

  /** Enable what may be pressed now. */
  enable() {
    const { shown } = this;
    if (!shown?.armed) return;
    const waiting = new Set(shown.choices.filter(({ value }) => !this.takes(value)).map(({ button }) => button));
    for (const button of shown.buttons) {
      button.disabled = waiting.has(button);
      button.classList.toggle("ia-waits", button.disabled);
      if (button.disabled) button.title = UNREAD;
      else if (button.title === UNREAD) button.removeAttribute("title");
    }
  }
}

/**
 * The question, in one line.
 *
 * @param {Shown} shown
 */
function textOf({ box }) {
  return box.querySelector(".ia-heading")?.textContent ?? "";
}
