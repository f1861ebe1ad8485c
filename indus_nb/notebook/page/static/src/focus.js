/**
 * Who has the focus, who had it, and who may get it.
 *
 * Contract: the focus is never taken from somebody who types: from a field or an editor that holds something, or within
 * a while after a key. It is given back to the element that a dialog took it from,
 * or to the cell, because a front end's keys do nothing while the document's body has it.
 */

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

/** When a key was pressed last, anywhere in the document, in ms since 1970. */
let keyAt = 0;
let watchesKeys = false;

/** Begin to note when keys are pressed. */
export function watchKeys() {
  if (watchesKeys) return;
  watchesKeys = true;
  const note = () => {
    keyAt = Date.now();
  };
  document.addEventListener("keydown", note, { capture: true, passive: true });
}

/**
 * Whether no key was pressed for so long.
 *
 * @param {number} ms
 */
export function isQuietFor(ms) {
  return Date.now() - keyAt >= ms;
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
