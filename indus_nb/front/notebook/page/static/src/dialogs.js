/**
 * The oldest open dialog; the others wait for their turn.
 *
 * Contract: a dialog takes no answer in its first `ARM_DELAY_MS`, nor before keys pause for that long, because keys and
 * clicks that are under way then were not meant for it. It takes the focus only where its view allows that, which is
 * where no key was pressed for a while, and never onto a button. As long as it has the focus because it took it, no key
 * counts in the first `TAKEN_DELAY_MS`, and a key gives an answer only if no other one follows within `ARM_DELAY_MS`:
 * whoever goes on to type was not meant. Once a key would count again, a line says that one did not; and an answer has the next dialog take the
 * focus at once. Nothing but a no is taken before a text was seen to its end.
 */

import { noteWaiting } from "./asking.js";
import { controlsOf } from "./dialog_answers.js";
import { cautionsOf, detailsOf, headingOf, nextOption, outcomeOf, secondsUntil } from "./dialog_parts.js";
import { h, setText, uniqueId } from "./dom.js";
import { focusedElement, focusQuietly, forgetKey, isTypingField, wasEarly } from "./focus.js";
import { dialogAction } from "./keys.js";
import { Reading } from "./reading.js";

/** @import { DialogLayout, PageDialog } from "../protocol.d.ts" */
/** @import { Answer, Offered } from "./dialog_answers.js" */
/** @import { Store } from "./store.js" */
/** @import { View } from "./view.js" */

const ARM_DELAY_MS = 250;
const TAKEN_DELAY_MS = 500;
const EARLY = "That key came too early to count: press it again.";
const ABSENT = "No answer here has that key.";

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
 * @property {boolean} armed
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
    this.node = h("div", { class: "ia-dialogs" });
    /** @type {Shown | null} */
    this.shown = null;
    /** The ids of the dialogs of which the kernel knows that this view shows them.
     * @type {Set<string>} */
    this.noted = new Set();
    this.inSight = false;
    this.sight = new IntersectionObserver((entries) => {
      this.inSight = entries.at(-1)?.isIntersecting ?? false;
    });
  }

  show() {
    const { dialogs } = this.store;
    const [first] = dialogs.values();
    if (first?.frame.id !== this.shown?.id || JSON.stringify(first?.layout?.choices) !== this.shown?.offers) {
      const hadFocus = this.node.contains(focusedElement());
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
    this.sight.disconnect();
    noteWaiting(this, null);
  }

  tick() {
    const { shown } = this;
    if (!shown) return;
    noteWaiting(this, this.waiting(shown)); // again and again: the front end may have set another title
    const until = this.store.dialogs.get(shown.id)?.until;
    if (typeof until === "number") setText(shown.left, `${secondsUntil(until)} s left`);
    shown.reading?.look();
    if (shown.before !== null && shown.before === focusedElement() && this.view.mayTakeFocus()) this.takeFocus();
  }

  /**
   * What waits for an answer in this view.
   *
   * @param {Shown} shown
   */
  waiting({ id, box }) {
    const text = box.querySelector(".ia-heading")?.textContent ?? "";
    const isSeen = this.inSight && document.visibilityState === "visible";
    return { id, text, place: this.store.place, isSeen, show: () => this.view.bringUp() };
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
      { class: "ia-dialog", role: "dialog", "aria-modal": "false", "aria-labelledby": name, tabindex: "-1" },
      heading,
      ...cautionsOf(layout),
      details?.node ?? null,
      outcomeOf(layout),
      ...rows,
      h("div", { class: "ia-actions" }, early, h("span", { class: "ia-space" }), more, left),
    );
    if (until !== null) {
      const text = `It answers itself in ${secondsUntil(until)} seconds.`;
      box.append(h("span", { class: "ia-announced", text }));
    }
    const buttons = box.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    box.addEventListener("keydown", (event) => this.handleKey(event, frame, answer));
    const isRead = choices.length === 0 || !details;
    const reading = isRead ? null : new Reading(details, this.store, id, () => this.enable(buttons));
    this.node.append(box);
    this.sight.observe(box);
    const arm = () => {
      shown.armed = true;
      this.enable(buttons);
      if (shown.before === null && focusedElement() === box && isTypingField(first)) focusQuietly(first);
      this.store.focus.restore(this.view.root);
    };
    const timer = setTimeout(arm, ARM_DELAY_MS);
    /** @type {Shown} */
    const shown = {
      ...{ id, offers: JSON.stringify(layout?.choices), box, left, more, early, layout, first, choices },
      ...{ reading, arm, timer },
      ...{ armed: false, keysFrom: 0, before: focusedElement(), press: undefined, again: undefined },
    };
    this.shown = shown;
    if (hadFocus || this.view.mayTakeFocus()) this.takeFocus();
    else this.view.announcer.say(`The agent asks: ${heading.textContent}`); // for nothing else tells who cannot see it
    if (wasEarly()) shown.again = setTimeout(() => setText(early, EARLY), countsIn(shown));
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

  /**
   * Enable what may be pressed now.
   *
   * @param {Iterable<HTMLButtonElement>} buttons
   */
  enable(buttons) {
    const { shown } = this;
    if (!shown?.armed) return;
    const waiting = new Set(shown.choices.filter(({ value }) => !this.takes(value)).map(({ button }) => button));
    for (const button of buttons) {
      button.disabled = waiting.has(button);
      button.classList.toggle("ia-waits", button.disabled);
    }
  }

  /**
   * @param {KeyboardEvent} event
   * @param {PageDialog} frame
   * @param {Answer} answer
   */
  handleKey(event, frame, answer) {
    const { shown } = this;
    if (!shown) return;
    const { target } = event;
    const took = target === shown.box;
    const isEarly = this.holdBack(shown, took) || !shown.armed;
    if (event.repeat || event.isComposing) return;
    const action = actionOf(event, frame, shown);
    const isLost = isEarly && action?.type === "choose" && shown.box.contains(focusedElement());
    clearTimeout(shown.again);
    setText(shown.early, "");
    if (isLost) shown.again = setTimeout(() => setText(shown.early, EARLY), countsIn(shown));
    if (!action || !shown.armed) return;
    event.preventDefault();
    if (action.type === "close") this.close(target, answer);
    else if (action.type === "absent") setText(shown.early, ABSENT);
    else if (action.type === "submit") this.submit(/** @type {HTMLInputElement} */ (target));
    else if (isEarly) return;
    else if (action.type === "choose") this.choose(action.value, took);
    else if (action.type === "move") this.move(action.step);
  }

  /**
   * Take back what the key before would do, and wait until keys pause: whoever types on was not meant.
   *
   * @param {Shown} shown
   * @param {boolean} took whether the dialog has the focus because it took it
   * @returns {boolean} whether the key that was pressed does not count
   */
  holdBack(shown, took) {
    const isEarly = took && Date.now() < shown.keysFrom;
    if (isEarly || (took && shown.press !== undefined)) shown.keysFrom = Date.now() + TAKEN_DELAY_MS;
    this.takeBack();
    if (!shown.armed) {
      clearTimeout(shown.timer);
      shown.timer = setTimeout(shown.arm, ARM_DELAY_MS);
    }
    return isEarly || (took && Date.now() < shown.keysFrom);
  }

  /**
   * Take back the answer that waits for keys to pause.
   *
   * @returns {boolean} whether there was one
   */
  takeBack() {
    const { shown } = this;
    const waits = shown?.press !== undefined;
    clearTimeout(shown?.press);
    if (shown) shown.press = undefined;
    return waits;
  }

  /**
   * Close the field for a reason, if that has the focus, else dismiss the dialog.
   *
   * @param {EventTarget | null} target
   * @param {Answer} answer
   */
  close(target, answer) {
    const why = target instanceof Element ? target.closest(".ia-why") : null;
    if (!(why instanceof HTMLElement)) {
      answer(null);
      return;
    }
    why.hidden = true;
    focusQuietly(this.shown?.box);
  }

  /**
   * Press the button that belongs to a field.
   *
   * @param {HTMLElement} field
   */
  submit(field) {
    const why = field.closest(".ia-why");
    const button = why ? why.querySelector("button") : this.shown?.box.querySelector("button.ia-primary");
    if (button instanceof HTMLButtonElement) button.click();
  }

  /**
   * Give an answer; where the dialog has the focus because it took it, only if no other key follows.
   *
   * @param {string | boolean} value
   * @param {boolean} tookFocus
   */
  choose(value, tookFocus) {
    const { shown } = this;
    const button = shown?.choices.find((choice) => choice.value === value)?.button;
    const fold = button?.closest(".ia-again");
    const hasFocus = shown?.box.contains(focusedElement()); // else keys that follow are meant for another field
    if (!shown || !button || button.disabled) {
      if (hasFocus) shown?.reading?.focus();
    } else if (fold instanceof HTMLElement && fold.hidden) {
      fold.hidden = false; // a rule is not chosen before it could be read
      if (hasFocus) button.focus();
    } else if (tookFocus) shown.press = setTimeout(() => button.click(), ARM_DELAY_MS);
    else button.click();
  }

  /** @param {1 | -1} step */
  move(step) {
    const { reading, box } = this.shown ?? { reading: null, box: null };
    if (reading && !reading.done && focusedElement() === box) {
      reading.focus();
      return;
    }
    nextOption(box, step)?.focus();
  }
}

/**
 * What a key does in the dialog that is shown.
 *
 * @param {KeyboardEvent} event
 * @param {PageDialog} frame
 * @param {Shown} shown
 */
function actionOf(event, { method }, { box, choices, layout }) {
  const { target } = event;
  const scrolling = target instanceof Element && target.matches(".ia-body, .ia-message");
  const hasDefault = box.querySelector(".ia-default") !== null;
  const at = { typing: isTypingField(target), scrolling, atBox: target === box || scrolling };
  return dialogAction(event, { method, choices, hasDefault, isOfParts: layout !== null }, at);
}

/**
 * In how many ms a key counts, if none is pressed before.
 *
 * @param {Shown} shown
 */
function countsIn({ keysFrom }) {
  return Math.max(keysFrom - Date.now(), ARM_DELAY_MS);
}
