/**
 * What the user has written in the composer and not sent: text, images, and earlier texts to recall.
 *
 * Contract: no text is lost. What another text replaces can be recalled, and so can what was sent. What was pasted still
 * counts as pasted when it comes back.
 */

/** @typedef {{ id: number, name: string, mimeType: string, data: string }} DraftImage `data` in base64 */

const MAX_HISTORY = 100;

const QUESTION_FIRST = "Not sent: a question above waits for its answer, which comes first.";

export class Draft {
  constructor() {
    this.text = "";
    /** @type {DraftImage[]} */
    this.images = [];
    this.problem = "";
    /** Whether several lines of the text were pasted, or written by the kernel: nothing in them stands for a value. */
    this.isPasted = false;
    /** Number of the newest text from the kernel that was put behind what is written. */
    this.insertedNumber = 0;
    /** Earlier texts, the newest last.
     * @type {string[]} */
    this.history = [];
    /** Those of them that were pasted.
     * @type {Set<string>} */
    this.pasted = new Set();
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
    if (!text) return;
    if (this.isPasted) this.pasted.add(text);
    if (this.history.at(-1) === text) return;
    this.history.push(text);
    if (this.history.length <= MAX_HISTORY) return;
    const oldest = this.history.shift();
    if (oldest !== undefined && !this.history.includes(oldest)) this.pasted.delete(oldest);
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
    this.isPasted = this.pasted.has(this.text);
  }

  /**
   * Put a text that the user chose in the place of what is written.
   *
   * @param {string} text
   */
  replace(text) {
    this.remember(this.text.trim());
    this.text = text;
    this.isPasted = false;
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
    const comesBack = given.text === this.history.at(-1); // it was sent and refused
    const isOfOthers = comesBack ? this.pasted.has(given.text) : given.text !== "";
    if (this.expectsTakenBack && before) {
      this.text = `${given.text}\n\n${this.text}`;
      this.isPasted ||= isOfOthers;
    } else {
      this.replace(given.text);
      this.isPasted = isOfOthers;
    }
    this.expectsTakenBack = false;
  }

  /**
   * Put the kernel's text behind what is written, once.
   *
   * @param {{ text: string, n: number } | null | undefined} given
   * @returns {boolean} whether it was new
   */
  insert(given) {
    if (!given || given.n <= this.insertedNumber) return false;
    this.insertedNumber = given.n;
    if (given.text) this.add(given.text);
    return true;
  }

  /**
   * Put a word, or whole lines, behind what is written.
   *
   * @param {string} given
   */
  add(given) {
    const isWhole = given.endsWith("\n");
    const follows = isWhole ? /(?:^|\n)$/ : /(?:^|\s)$/;
    const between = follows.test(this.text) ? "" : isWhole ? "\n" : " ";
    this.text = `${this.text}${between}${given}${isWhole ? "" : " "}`;
  }

  /**
   * Note whether a question comes first: where the conversation stands, and variables with it, may depend on the answer.
   *
   * @param {boolean} waits
   */
  holdBack(waits) {
    if (waits) this.problem = QUESTION_FIRST;
    else if (this.problem === QUESTION_FIRST) this.problem = "";
    return waits;
  }

  /** Empty it, because it was sent. */
  clear() {
    this.replace("");
    this.images = [];
    this.problem = "";
  }
}
