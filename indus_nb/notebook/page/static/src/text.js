/**
 * Pure functions on text: what is shown of it, and where it may be cut.
 *
 * Contract: no document and no clock but the one passed in, so each of them runs in Node as it does in a page.
 */

const MS_PER_SECOND = 1000;

/**
 * Format a time span: "12 s", "3:05" or "1:02:03".
 *
 * @param {number} ms
 */
export function formatDuration(ms) {
  const seconds = Math.max(0, Math.floor(ms / MS_PER_SECOND));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  const rest = twoDigits(seconds % 60);
  return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${twoDigits(minutes % 60)}:${rest}`;
}

/** @param {number} value */
function twoDigits(value) {
  return String(value).padStart(2, "0");
}

/**
 * Format a moment: the time if it is on the day of `now`, else the date; "" if it is not a moment.
 *
 * @param {number} modified in ms since 1970
 * @param {Date} [now]
 */
export function formatMoment(modified, now = new Date()) {
  const date = new Date(modified);
  if (Number.isNaN(date.getTime())) return "";
  const isToday = date.toDateString() === now.toDateString();
  return isToday
    ? date.toLocaleTimeString([], { timeStyle: "short" })
    : date.toLocaleDateString([], { dateStyle: "medium" });
}

/**
 * Join the lines of a text with spaces.
 *
 * @param {string} text
 */
export function oneLine(text) {
  return text.replace(/\s+/g, " ");
}

/**
 * Cut a text for the name that a screen reader reads out.
 *
 * @param {string} text
 */
export function shortLabel(text) {
  return text.slice(0, 60);
}

/**
 * Split a dialog's title into its first line and what stands below.
 *
 * @param {string} title
 * @returns {{ heading: string, body: string }}
 */
export function splitTitle(title) {
  const [heading = "", ...rest] = title.replace(/^\n+/, "").split("\n");
  return { heading, body: rest.join("\n").replace(/^\n+|\s+$/g, "") };
}

/**
 * Split a unified diff into its lines, each with its kind; `null` if the text is not a diff.
 *
 * @param {string} text
 * @returns {{ kind: "added" | "removed" | "", line: string }[] | null}
 */
export function diffLines(text) {
  if (!/^@@ /m.test(text)) return null;
  return text.split("\n").map((line) => ({ kind: line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "", line }));
}

/**
 * Return how many characters of a growing text are whole sentences or lines.
 *
 * @param {string} text
 */
export function lengthOfSentences(text) {
  return /^[\s\S]*(?:[.!?:](?=\s+\S)|\n(?=\s*\S))/.exec(text)?.[0].length ?? 0;
}

/**
 * Return the last word of a text, "" behind a space.
 *
 * @param {string} text
 */
export function lastWord(text) {
  return /\S*$/.exec(text)?.[0] ?? "";
}

/**
 * Whether completions should be asked for: of a command, a path or a mention.
 *
 * @param {string} before the text before the caret
 */
export function isCompletable(before) {
  const word = lastWord(before);
  return word !== "" && (/[/@]/.test(word) || before.startsWith("/"));
}

/**
 * Return the text that a chosen completion makes of `before`: it replaces all of it, or its last word.
 *
 * @param {string} before the text that completions were asked for
 * @param {string} completion
 */
export function completed(before, completion) {
  const head = before.slice(0, before.length - lastWord(before).length);
  return completion.startsWith(head) ? completion : head + completion;
}

/**
 * Return the completions of a command's name; `null` where no command is written.
 *
 * @param {string} before
 * @param {{ name: string, description?: string }[]} commands
 * @returns {{ text: string, label: string, detail: string }[] | null}
 */
export function completeCommand(before, commands) {
  if (!/^\/\S*$/.test(before)) return null;
  const begun = before.slice(1).toLowerCase();
  return commands
    .filter(({ name }) => name.toLowerCase().startsWith(begun))
    .map(({ name, description = "" }) => ({ text: `/${name} `, label: `/${name}`, detail: description }));
}
