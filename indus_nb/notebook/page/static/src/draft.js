/**
 * What the user has written in the composer and not sent: text, images, and earlier texts to recall.
 *
 * Contract: no text is lost. What the kernel's text replaces can be recalled, and so can what was sent.
 */

/** @typedef {{ id: number, name: string, mimeType: string, data: string }} DraftImage `data` in base64 */

const MAX_HISTORY = 100;

export class Draft {
  constructor() {
    this.text = "";
    /** @type {DraftImage[]} */
    this.images = [];
    this.problem = "";
    /** Earlier texts, the newest last.
     * @type {string[]} */
    this.history = [];
    /** The index of the recalled text in `history`.
     * @type {number | null} */
    this.recalled = null;
    /** Number of the newest text from the kernel. */
    this.kernelNumber = 0;
    /** Whether the next text from the kernel is one that the user took back, to be put above what is written. */
    this.expectsTakenBack = false;
  }

  get isEmpty() {
    return !this.text.trim() && this.images.length === 0;
  }

  /**
   * Keep a text to be recalled.
   *
   * @param {string} text
   */
  remember(text) {
    if (!text || this.history.at(-1) === text) return;
    this.history.push(text);
    if (this.history.length > MAX_HISTORY) this.history.shift();
  }

  /**
   * Go through the history.
   *
   * @param {1 | -1} step to a newer or an older text; behind the newest one is an empty text
   */
  recall(step) {
    const at = (this.recalled ?? this.history.length) + step;
    if (at < 0 || at > this.history.length) return;
    this.recalled = at === this.history.length ? null : at;
    this.text = this.history[at] ?? "";
  }

  /**
   * Take over the kernel's text for the composer, once.
   *
   * @param {{ text: string, n: number } | null | undefined} given
   */
  receive(given) {
    if (!given || given.n <= this.kernelNumber) return;
    this.kernelNumber = given.n;
    const before = this.text.trim();
    if (this.expectsTakenBack && before) this.text = `${given.text}\n\n${this.text}`;
    else {
      this.remember(before);
      this.text = given.text;
    }
    this.expectsTakenBack = false;
  }

  /** Empty it, because it was sent. */
  clear() {
    this.remember(this.text.trim());
    this.text = "";
    this.images = [];
    this.problem = "";
  }
}
