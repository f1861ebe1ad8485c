/**
 * The keys that answer a dialog.
 *
 * Contract: as long as a dialog has the focus because it took it, no key counts in the first `TAKEN_DELAY_MS`, and a key
 * gives an answer only if no other one follows within `ARM_DELAY_MS`: whoever goes on to type was not meant. Once a key
 * would count again, a line says for a while that one did not.
 */

import { nextOption } from "./dialog_parts.js";
import { setText } from "./dom.js";
import { focusedElement, focusQuietly, isTypingField } from "./focus.js";
import { dialogAction, kindOfChord } from "./keys.js";

/** @import { PageDialog } from "../protocol.d.ts" */
/** @import { Answer } from "./dialog_answers.js" */
/** @import { Dialogs, Shown } from "./dialogs.js" */

/** How long a dialog takes no answer at first, and how long keys must pause. */
export const ARM_DELAY_MS = 250;
/** How long no key counts once a dialog took the focus. */
export const TAKEN_DELAY_MS = 500;
/** How long the line stays that says that a key came too early. */
const EARLY_SHOWN_MS = 8000;
const EARLY = "That key came too early to count: press it again.";
const ABSENT = "No answer here has that key.";

export class DialogKeyboard {
  /** @param {Dialogs} dialogs */
  constructor(dialogs) {
    this.dialogs = dialogs;
  }

  /** The dialog that is shown. */
  get shown() {
    return this.dialogs.shown;
  }

  /**
   * Have the line say, once a key counts, that one came too early.
   *
   * @param {Shown} shown
   */
  noteEarly(shown) {
    clearTimeout(shown.again);
    const counts = Math.max(shown.keysFrom - Date.now(), ARM_DELAY_MS);
    shown.again = setTimeout(() => {
      setText(shown.early, EARLY);
      shown.again = setTimeout(() => setText(shown.early, ""), EARLY_SHOWN_MS);
    }, counts);
  }

  /**
   * Give the answer that a chord means anywhere in the view. Where the details are elsewhere it only says where.
   *
   * @param {KeyboardEvent} event
   * @returns {boolean} whether it means one
   */
  handleChord(event) {
    const { dialogs, shown } = this;
    const meant = kindOfChord(event, isTypingField(event.target));
    if (!meant || !shown?.layout || event.repeat) return false;
    const choice = shown.choices.find(({ kind }) => kind === meant);
    const hasFocus = shown.box.contains(focusedElement());
    if (shown.box.hidden) dialogs.view.announcer.say(dialogs.where.textContent ?? "");
    else if (!shown.armed || (hasFocus && Date.now() < shown.keysFrom)) this.noteEarly(shown);
    else if (choice) this.choose(choice.value, false);
    else setText(shown.early, ABSENT);
    return true;
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
    if (isLost) this.noteEarly(shown);
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
    if (!shown.armed) this.dialogs.disarm(shown);
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
  const at = { typing: isTypingField(target), scrolling, atBox: target === box || scrolling };
  const byEnter = layout?.default ?? null;
  return dialogAction(event, { method, choices, byEnter, isOfParts: layout !== null }, at);
}
