/**
 * Pure functions on text: what is shown of it, and where it may be cut.
 *
 * Contract: no document and no clock but the one passed in, so each of them runs in Node as it does in a page. The text
 * may be hostile: each takes a time that grows with its length only.
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
  return { heading, body: rest.join("\n").replace(/^\n+/, "").trimEnd() };
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
 * Split a text at words that are to be marked; what only contains one of them is not.
 *
 * @param {string} text
 * @param {string[]} words
 * @returns {{ text: string, marked: boolean }[]}
 */
export function markWords(text, words) {
  if (words.length === 0) return [{ text, marked: false }];
  const longestFirst = [...words].sort((a, b) => b.length - a.length);
  const escaped = longestFirst.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const parts = text.split(new RegExp(`(?<![\\p{L}\\p{N}_])(${escaped.join("|")})(?![\\p{L}\\p{N}_])`, "u"));
  return parts.map((part, index) => ({ text: part, marked: index % 2 === 1 })).filter((part) => part.text !== "");
}

/**
 * Return how many characters of a growing text are whole sentences or lines.
 *
 * @param {string} text
 */
export function lengthOfSentences(text) {
  return /^[\s\S]*(?:[.!?:](?=\s)|\n)/.exec(text.trimEnd())?.[0].length ?? 0;
}

/**
 * Return the last word of a text, "" behind a space; the beginning of a mention in quotation marks is one word.
 *
 * @param {string} text
 */
export function lastWord(text) {
  return /(?:^|\s)(@"[^"\n]*)$/.exec(text)?.[1] ?? text.split(/\s/).at(-1) ?? "";
}

/**
 * Whether completions should be asked for: of a command, a path, a mention, a variable or the beginning of a value.
 *
 * @param {string} before the text before the caret
 */
export function isCompletable(before) {
  const word = lastWord(before);
  return word !== "" && (/[/@]|^[([,]?[#$]\w*$|(?<!\{)\{\w*$/.test(word) || before.startsWith("/"));
}

/**
 * Return the text that a chosen completion makes of `before`: it replaces all of it, or its last word.
 *
 * @param {string} before the text that completions were asked for
 * @param {string} completion
 */
export function completed(before, completion) {
  const word = lastWord(before);
  const bracket = /^[#$]/.test(completion) ? (/^[([,]?/.exec(word)?.[0].length ?? 0) : 0;
  const kept = completion.startsWith("{") ? word.lastIndexOf("{") : bracket;
  const head = before.slice(0, before.length - word.length + kept);
  return completion.startsWith(head) ? completion : head + completion;
}

/**
 * Return the completions of a command's name; `null` where no command is written.
 *
 * @param {string} before
 * @param {{ name: string, description?: string, whole?: boolean }[]} commands
 * @returns {{ text: string, label: string, detail: string, whole: boolean }[] | null}
 */
export function completeCommand(before, commands) {
  if (!/^\/\S*$/.test(before)) return null;
  const begun = before.slice(1).toLowerCase();
  return commands
    .filter(({ name }) => name.toLowerCase().startsWith(begun))
    .map(({ name, description = "", whole = false }) => ({
      text: `/${name} `,
      label: `/${name}`,
      detail: description,
      whole,
    }));
}

/**
 * Say when the agent asks before it does something.
 *
 * @param {string | undefined} mode `never`, `effects`, `writes`, `always`, or one that this page does not know
 * @returns {{ short: string, long: string }} `short` is empty if it is not known yet
 */
export function approvalWords(mode) {
  switch (mode) {
    case undefined:
      return { short: "", long: "" };
    case "never":
      return { short: "never asks", long: "The agent asks before nothing: it runs commands and changes files." };
    case "always":
      return { short: "asks always", long: "The agent asks before each tool that it uses." };
    case "effects":
      return { short: "asks first", long: "The agent asks before it changes variables or files of yours." };
    case "writes":
      return { short: "asks first", long: "The agent asks before it changes anything, and before it makes variables." };
    case "looks":
      return { short: "only looks", long: "The agent only looks: calls that would change something are refused." };
    default:
      return { short: `asks: ${mode}`, long: `When the agent asks: ${mode}.` };
  }
}

/**
 * Return a path as it is written in a notebook: relative to the notebook's directory.
 *
 * @param {string} path of a file, from the server's root
 * @param {string} notebook the notebook's path, from there
 */
export function relativePath(path, notebook) {
  /** @param {string} each */
  const parts = (each) =>
    each
      .replace(/^[^/:]*:/, "")
      .split("/")
      .filter(Boolean);
  const to = parts(path);
  const from = parts(notebook).slice(0, -1);
  while (from.length > 0 && to.length > 1 && from[0] === to[0]) {
    from.shift();
    to.shift();
  }
  return [...from.map(() => ".."), ...to].join("/");
}

/**
 * Write a path as a prompt mentions it, as `mention` in the kernel.
 *
 * @param {string} path
 */
export function mention(path) {
  return /\s/.test(path) && !path.includes('"') ? `@"${path}"` : `@${path}`;
}

/**
 * Whether the last word of a text begins a mention or names a variable.
 *
 * @param {string} text
 */
export function beginsMention(text) {
  return /^@|(?:^|[(,[])[#$]\w*$|\{\w*$/.test(lastWord(text));
}

/**
 * Format how full a context is.
 *
 * @param {{ tokens: number, window: number }} fill
 * @returns {{ percent: number, text: string, title: string }}
 */
export function contextFill({ tokens, window }) {
  const percent = Math.min(100, (100 * tokens) / window);
  const text = `${percent < 1 && tokens > 0 ? "< 1" : Math.round(percent)} %`;
  return { percent, text, title: `Context: ${tokens.toLocaleString("en")} of ${window.toLocaleString("en")} tokens` };
}
