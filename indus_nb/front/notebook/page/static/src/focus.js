/**
 * Who has the focus, who had it, and who may get it.
 *
 * Contract: the focus is never taken from somebody who types: from a field or an editor that holds something, or within
 * a while after a key, but for one that has answered a dialog of ours, or that nothing took. It is given back to the element that a dialog took it from,
 * or to the cell, because a front end's keys do nothing while the document's body has it.
 */

import { isChord } from "./keys.js";

const TYPING_FIELDS = "input, textarea, select, [contenteditable]:not([contenteditable=false]), .cm-content";

/**
 * The element that has the focus, also where a front end shows widgets in a shadow tree, which hides it from the document.
 *
 * @returns {Element | null}
 */
export function focusedElement() {
  let node = document.activeElement;
  while (node?.shadowRoot?.activeElement) node = node.shadowRoot.activeElement;
  return node;
}

/**
 * Whether somebody who types there would be disturbed if the focus moved away.
 *
 * @param {EventTarget | null | undefined} node
 * @returns {node is HTMLElement}
 */
export function isTypingField(node) {
  return node instanceof Element && node.matches(TYPING_FIELDS);
}

/**
 * Give an element the focus without scrolling to it.
 *
 * @param {Element | null | undefined} node
 */
export function focusQuietly(node) {
  if (node instanceof HTMLElement) node.focus({ preventScroll: true });
}

/** The keys that answer a question. */
const ANSWERS = /^([1-9yn]|Enter)$/i;
/** How long after a key the next one is under way. */
const TYPING_PAUSE_MS = 1500;

/** When a key was pressed last that something took, in ms since 1970. */
let keyAt = 0;
/** When one was pressed last that is an answer, where there was no question yet, in ms since 1970. */
let lostAt = 0;
let watchesKeys = false;
/** Who holds the focus after an answer.
 * @type {FocusMemory | null} */
let holder = null;

/** Begin to note when keys are pressed. */
export function watchKeys() {
  if (watchesKeys) return;
  watchesKeys = true;
  /** @param {KeyboardEvent} event */
  const note = (event) => {
    const [target] = event.composedPath();
    const isLost = target === document.body || (target instanceof Element && target.matches(".ia-root"));
    if (!isLost) keyAt = Date.now();
    else if (ANSWERS.test(event.key) && !isChord(event)) lostAt = Date.now();
    else holder?.typeOn(event);
  };
  document.addEventListener("keydown", note, { capture: true, passive: true });
}

/** Forget the last key: it has answered a dialog, and the next one may be answered as quickly. */
export function forgetKey() {
  keyAt = 0;
}

/** Whether nobody is typing. */
export function isQuiet() {
  return Date.now() - keyAt >= TYPING_PAUSE_MS;
}

/** Whether an answer was given just now to a question that is not there yet. */
export function wasEarly() {
  return Date.now() - lostAt < TYPING_PAUSE_MS;
}

/**
 * Whether nothing stands in a text field or an editor.
 *
 * @param {HTMLElement} field
 */
export function isEmptyField(field) {
  return "value" in field ? field.value === "" : field.textContent === "";
}

/** The focus of one widget, which survives its views: a front end makes a new view when the output above changes. */
export class FocusMemory {
  constructor() {
    /** The element of ours that has the focus, or had it in a view that is gone.
     * @type {HTMLElement | null} */
    this.focused = null;
    /** The element that a dialog took the focus from.
     * @type {Element | null} */
    this.before = null;
    /** The cell around the view that had the focus last.
     * @type {HTMLElement | null} */
    this.cell = null;
    /** Ends a hold.
     * @type {ReturnType<typeof setTimeout> | undefined} */
    this.holding = undefined;
  }

  /**
   * Note that an element of ours got the focus.
   *
   * @param {EventTarget | null} node
   * @param {HTMLElement} root of its view
   */
  enter(node, root) {
    this.focused = node instanceof HTMLElement ? node : null;
    this.cell = root.closest(".jp-Cell");
  }

  /** Forget everything, because the user went elsewhere. */
  forget() {
    this.focused = this.before = null;
  }

  /**
   * Keep the focus in a view for a while, because the next dialog may come at once: until then an answer that is given
   * too early must reach neither a cell nor the front end, where it would be a command.
   *
   * @param {HTMLElement} root
   */
  hold(root) {
    focusQuietly(root);
    holder = this;
    clearTimeout(this.holding);
    this.holding = setTimeout(() => this.giveBack(), TYPING_PAUSE_MS);
  }

  /**
   * Give the focus back, before a key that somebody types on with gets where it belongs.
   *
   * @param {KeyboardEvent} event
   */
  typeOn(event) {
    if (event.key.length === 1 && !isChord(event) && isTypingField(this.before)) this.giveBack();
  }

  /** Give the focus back to what a dialog took it from, unless there is another dialog, or the user went elsewhere. */
  giveBack() {
    clearTimeout(this.holding);
    if (holder === this) holder = null;
    const active = focusedElement();
    const isHeld = active === document.body || Boolean(active?.matches(".ia-root"));
    if (isHeld && this.before?.isConnected) this.leave();
  }

  /** Give the focus to the element that had it before us, or to our cell. */
  leave() {
    const node = this.before?.isConnected ? this.before : this.cell;
    this.before = null;
    focusQuietly(node);
  }

  /**
   * Give the focus to the element of a new view that stands for the one that had it, with its selection.
   *
   * @param {HTMLElement} root of the new view
   */
  restore(root) {
    const { focused } = this;
    if (!focused || focused.isConnected || isTypingField(focusedElement())) return;
    const key = focused.dataset.k;
    /** @type {HTMLElement[]} */
    const keyed = [...root.querySelectorAll("[data-k]")].filter((each) => each instanceof HTMLElement);
    const node = key ? keyed.find((each) => each.dataset.k === key) : root;
    if (!node || ("disabled" in node && node.disabled)) return;
    focusQuietly(node);
    if (isTextField(focused) && isTextField(node) && focused.selectionStart !== null)
      node.setSelectionRange(focused.selectionStart, focused.selectionEnd);
  }
}

/**
 * @param {HTMLElement} node
 * @returns {node is HTMLInputElement | HTMLTextAreaElement}
 */
function isTextField(node) {
  return node instanceof HTMLInputElement || node instanceof HTMLTextAreaElement;
}
