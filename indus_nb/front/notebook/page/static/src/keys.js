/**
 * What a key means: pure functions from a key event and the state around it to an action.
 *
 * Contract: nothing here touches the document. A caller that gets an action prevents the key's default and carries the
 * action out; with `null` the key is none of ours.
 */

/** @typedef {Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">} Key */

/**
 * Whether a key that is pressed inside a view is left to the front end: saving, opening, function keys, its chords with
 * Shift, and Shift+Enter where nothing of ours has the focus but the view itself.
 *
 * @param {Key} key
 * @param {boolean} atRoot whether a dialog or the view itself has the focus
 */
export function belongsToFrontEnd(key, atRoot) {
  if (key.key === "Enter" && key.shiftKey && atRoot) return true;
  if (/^F[0-9]+$/.test(key.key)) return true;
  const isShortcut = (key.ctrlKey || key.metaKey) && !key.altKey && key.key !== "Enter";
  return isShortcut && (/^[ps]$/i.test(key.key) || (key.shiftKey && !/^[zv]$/i.test(key.key)));
}

/**
 * @typedef {{ type: "close" }
 *   | { type: "choose", value: string | boolean }
 *   | { type: "submit" }
 *   | { type: "move", step: 1 | -1 }
 *   | { type: "absent" }
 *   | { type: "ignore" }} DialogAction
 * `close` dismisses the dialog, or closes what was opened in it; `choose` presses a button (see `dialogs.js`); `submit`
 * sends what the field holds; `absent` says that no answer has this digit; `ignore` only prevents the key's default.
 */

/** The kinds of the answers that chords give, as the extension's keys do in a notebook. */
const CHORDS = { y: "yes", Y: "more", n: "no" };

/**
 * Return the kind of the answer that Alt+Y, Alt+Shift+Y or Alt+N gives; "" for any other key.
 *
 * @param {Key & Pick<KeyboardEvent, "code" | "isComposing">} event
 * @param {boolean} typing whether a text field has the focus: a sign that the key writes there is no chord
 */
export function kindOfChord({ key, code, altKey, ctrlKey, metaKey, shiftKey, isComposing }, typing) {
  if (!altKey || ctrlKey || metaKey || isComposing) return "";
  const isLetter = /^[a-z]$/i.test(key);
  if (typing && !isLetter) return "";
  const letter = (isLetter ? key : code.replace(/^Key/, "")).toLowerCase(); // Macs write ¥
  return /** @type {Record<string, string>} */ (CHORDS)[shiftKey ? letter.toUpperCase() : letter] ?? "";
}

/**
 * What of a dialog its keys depend on.
 *
 * @typedef {object} DialogKeys
 * @property {string} method
 * @property {{ value: string | boolean, kind: "yes" | "more" | "again" | "no", key: string }[]} choices in their order
 * @property {string | null} byEnter the value of the answer that Enter gives
 * @property {boolean} isOfParts whether its answers are known by more than their place in a list
 */

/**
 * Return what a key does in an open dialog.
 *
 * @param {Key} key
 * @param {DialogKeys} dialog
 * @param {{ typing: boolean, scrolling: boolean, atBox: boolean }} at whether a text field has the focus, or a text that
 *   scrolls, or the dialog itself or such a text
 * @returns {DialogAction | null}
 */
export function dialogAction(key, dialog, { typing, scrolling, atBox }) {
  if (key.key === "Escape") return { type: "close" };
  if (key.key === "Enter" && typing) return submits(key, dialog.method) ? { type: "submit" } : null;
  if (key.key === "Enter" && key.shiftKey) return { type: "ignore" }; // which runs cells, and presses nothing
  if (typing || isChord(key)) return null;
  const chosen = choiceOf(key.key, dialog, atBox);
  if (chosen) return { type: "choose", value: chosen.value };
  if (/^[1-9]$/.test(key.key) && dialog.choices.length > 0) return { type: "absent" };
  const step = LIST_STEPS[key.key];
  return step === undefined || scrolling || dialog.choices.length === 0 ? null : { type: "move", step };
}

/** @type {Record<string, 1 | -1>} */
const LIST_STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

/**
 * The answer that a key gives: the one whose button is labelled with it, that of Enter, and for a question in parts y
 * for the first answer if it is a yes, and n for the first no.
 *
 * @param {string} key
 * @param {DialogKeys} dialog
 * @param {boolean} atBox
 */
function choiceOf(key, { choices, byEnter, isOfParts }, atBox) {
  if (key === "Enter") return atBox ? choices.find(({ value }) => value === byEnter) : undefined;
  const letter = key.toLowerCase();
  const labelled = choices.find((choice) => choice.key === letter);
  if (labelled || !isOfParts) return labelled;
  if (letter === "n") return choices.find(({ kind }) => kind === "no");
  return letter === "y" && choices[0]?.kind === "yes" ? choices[0] : undefined;
}

/**
 * Whether a key is pressed together with one that makes a command of it.
 *
 * @param {Key} key
 */
export function isChord(key) {
  return key.ctrlKey || key.metaKey || key.altKey;
}

/**
 * Whether Enter submits a text field: alone in a line, with Ctrl or Cmd where it begins a new line.
 *
 * @param {Key} key
 * @param {string} method
 */
function submits(key, method) {
  return method === "editor" ? key.ctrlKey || key.metaKey : !isChord(key) && !key.shiftKey;
}

/** @typedef {"close" | "next" | "previous" | "accept" | "older" | "newer" | "send" | "steer" | "followUp"} ComposerAction */

/**
 * Return what a key does in the composer.
 *
 * @param {Key} key
 * @param {object} composer
 * @param {boolean} composer.open whether completions are shown
 * @param {boolean} composer.busy whether a run goes on
 * @param {boolean} composer.recalling whether an earlier text was recalled
 * @param {boolean} composer.empty whether the field holds nothing
 * @param {boolean} composer.complete whether the field already holds the chosen completion, or that makes a whole
 *   prompt of it
 * @returns {ComposerAction | null}
 */
export function composerAction(key, { open, busy, recalling, empty, complete }) {
  if (key.key === "Escape") return open ? "close" : null;
  if (key.key === "Enter" && key.altKey) return delivery(busy, "followUp");
  if (isChord(key) || key.shiftKey) return null;
  const completion = open ? COMPLETION_KEYS[key.key] : undefined;
  if (completion && !(key.key === "Enter" && complete)) return completion;
  if (key.key === "Enter") return delivery(busy, "steer");
  return historyAction(key.key, { recalling, empty });
}

/** @type {Record<string, ComposerAction>} */
const COMPLETION_KEYS = { ArrowDown: "next", ArrowUp: "previous", Tab: "accept", Enter: "accept" };

/**
 * @param {boolean} busy
 * @param {"steer" | "followUp"} whenBusy
 */
function delivery(busy, whenBusy) {
  return busy ? whenBusy : "send";
}

/**
 * @param {string} key
 * @param {{ recalling: boolean, empty: boolean }} composer
 * @returns {ComposerAction | null}
 */
function historyAction(key, { recalling, empty }) {
  if (key === "ArrowDown" && recalling) return "newer";
  return key === "ArrowUp" && (recalling || empty) ? "older" : null;
}

/**
 * Return the row that a key moves to in a list with a filter above it: an index, or -1 for the filter.
 *
 * @param {string} key
 * @param {object} list
 * @param {number} list.at the row that has the focus, -1 if none has
 * @param {number} list.length
 * @param {boolean} list.inRow whether the focus is in a row, rather than in the filter
 * @returns {number | null} `null` if the key does not move; an index past the end moves nowhere
 */
export function listTarget(key, { at, length, inRow }) {
  if (key === "ArrowDown") return at + 1;
  if (key === "ArrowUp") return Math.max(-1, at - 1);
  if (key === "Home" && inRow) return 0;
  if (key === "End" && inRow) return length - 1;
  return null;
}
