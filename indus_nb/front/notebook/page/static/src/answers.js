/**
 * What the user writes in answer to dialogs and has read of them, and where the last answer was given.
 *
 * Contract: what was written and not sent is kept by the dialog's id, for a front end makes new views. It is one text,
 * and what was read is one as well, however many widgets of the document show the dialog. The question after an answer goes on where that was given.
 */

/** @import { Store } from "./store.js" */

/** Those of the widgets in this document.
 * @type {Set<Answers>} */
const all = new Set();
/** Those of the widget in which the user answered last.
 * @type {Answers | null} */
let last = null;

export class Answers {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    /** @type {Map<string, string>} */
    this.texts = new Map();
    /** The ids of the dialogs whose text was read to its end.
     * @type {Set<string>} */
    this.read = new Set();
    all.add(this);
  }

  /** @param {string} id of the dialog */
  get(id) {
    return [...all].map(({ texts }) => texts.get(id)).find((text) => text !== undefined);
  }

  /** @param {string} id of the dialog */
  has(id) {
    return this.get(id) !== undefined;
  }

  /**
   * Keep a text, and have all views of the dialog show it.
   *
   * @param {string} id of the dialog
   * @param {string} text
   */
  set(id, text) {
    for (const { store, texts } of all) {
      texts.delete(id);
      for (const { dialogs } of store.views) dialogs.write(id, text);
    }
    this.texts.set(id, text);
  }

  /**
   * Whether the text of a dialog was read to its end, in whichever view.
   *
   * @param {string} id of the dialog
   */
  isRead(id) {
    return [...all].some(({ read }) => read.has(id));
  }

  /**
   * Note that the text of a dialog was read to its end, and have all views take answers.
   *
   * @param {string} id of the dialog
   */
  noteRead(id) {
    this.read.add(id);
    for (const { store } of all) for (const { dialogs } of store.views) dialogs.enable();
  }

  /** Forget what was written to dialogs that are over, and what was read of them. */
  tidy() {
    for (const id of this.read) if (!this.store.dialogs.has(id)) this.read.delete(id);
    for (const id of this.texts.keys()) if (!this.store.dialogs.has(id)) this.texts.delete(id);
  }

  /** Note that the user answers here. */
  note() {
    last = this;
  }

  /** Whether the user answered last here. */
  get isHere() {
    return last === this;
  }

  /** Whether the user answers this conversation in another widget, which still shows what goes on. */
  get isElsewhere() {
    if (last === null || last === this || !all.has(last)) return false;
    const { busy, ended, state } = last.store;
    return busy && !ended && state.session?.id === this.store.state.session?.id;
  }

  /** Hold nothing any more: the widget is closed. */
  close() {
    all.delete(this);
    if (last === this) last = null;
  }
}
