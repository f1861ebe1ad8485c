/**
 * The parts of a dialog, from the question down to the answers.
 *
 * Contract: everything is set as text but the code or difference of a layout, which the kernel has sanitised, as it has
 * the blocks. Without a layout the title and its lines are all there is.
 */

import { parseSanitised } from "./blocks.js";
import { h } from "./dom.js";
import { focusedElement } from "./focus.js";
import { diffLines, markWords, splitTitle } from "./text.js";

/** @import { DialogLayout, PageDialog } from "../protocol.d.ts" */

const OUTCOME_LINES = 6;

/** An answer that a button gives; `key` is the key for it.
 * @typedef {{ value: string | boolean, label: string, kind: "yes" | "more" | "again" | "no", key: string }} Choice
 */

/**
 * Return the answers among which a dialog has the user choose, in their order.
 *
 * @param {PageDialog} frame
 * @param {DialogLayout | null} layout
 * @returns {Choice[]}
 */
export function choicesOf(frame, layout) {
  if (frame.method === "confirm")
    return [
      { value: true, label: "Yes", kind: "yes", key: "y" },
      { value: false, label: "No", kind: "no", key: "n" },
    ];
  if (frame.method !== "select") return [];
  if (layout) return layout.choices;
  return frame.options.map((option, index) => ({
    value: option,
    label: option,
    kind: /^No\b/.test(option) ? "no" : "yes",
    key: index < 9 ? String(index + 1) : "",
  }));
}

/**
 * A button that gives an answer, or leads to some.
 *
 * @param {string} id of the dialog
 * @param {string} label
 * @param {string} key
 * @param {string} style
 * @param {() => void} onclick
 */
export function choiceButton(id, label, key, style, onclick) {
  return h(
    "button",
    { class: `ia-option ${style}`, type: "button", "data-k": `${id} ${label}`, onclick },
    h("span", { class: "ia-option-text", text: label }),
    key ? h("span", { class: "ia-key", "aria-hidden": "true", text: key }) : null,
  );
}

/**
 * A button that opens what it leads to, in place.
 *
 * @param {string} id
 * @param {string} label
 * @param {string} key
 * @param {HTMLElement} folded
 */
export function foldButton(id, label, key, folded) {
  const button = choiceButton(id, label, key, "ia-fold-button", () => {
    folded.hidden = !folded.hidden;
    button.setAttribute("aria-expanded", String(!folded.hidden));
    const first = folded.querySelector("input, button");
    if (!folded.hidden && first instanceof HTMLElement) first.focus();
  });
  button.setAttribute("aria-expanded", String(!folded.hidden));
  return button;
}

/**
 * The question, in one line.
 *
 * @param {PageDialog} frame
 * @param {DialogLayout | null} layout
 * @param {string} id
 */
export function headingOf(frame, layout, id) {
  return h("div", { class: "ia-heading", id, text: layout?.heading ?? splitTitle(String(frame.title ?? "")).heading });
}

/**
 * What the user should know before an answer: a line for each warning.
 *
 * @param {DialogLayout | null} layout
 */
export function cautionsOf(layout) {
  return (layout?.warnings ?? []).map((warning) => {
    const words = markWords(warning, layout?.names ?? []).map(({ text, marked }) =>
      marked ? h("code", { text }) : text,
    );
    const icon = h("span", { class: "ia-caution-icon", "aria-hidden": "true", text: "⚠" });
    return h("div", { class: "ia-caution", role: "note" }, icon, h("span", {}, ...words));
  });
}

/**
 * What would happen; of many lines the first ones, and the others folded.
 *
 * @param {DialogLayout | null} layout
 */
export function outcomeOf(layout) {
  const node = h("div", { class: "ia-outcome", role: "note" });
  const lines = (layout?.outcome ?? "").split("\n");
  const left = lines.length - OUTCOME_LINES;
  const shown = left > 1 ? lines.slice(0, OUTCOME_LINES) : lines;
  node.replaceChildren(...withCode(shown.join("\n")));
  node.hidden = lines.join("") === "";
  if (left <= 1) return node;
  const rest = h("div", {}, ...withCode(lines.slice(OUTCOME_LINES).join("\n")));
  node.append(h("details", {}, h("summary", { text: `${left} more lines` }), rest));
  return node;
}

/**
 * A text whose names of variables and files, between backticks, are code.
 *
 * @param {string} text
 */
function withCode(text) {
  return text.split("\u0060").map((part, index) => (index % 2 === 1 ? h("code", { text: part }) : part));
}

/**
 * What is asked about, in one element that scrolls; `null` if there is nothing.
 *
 * @param {PageDialog} frame
 * @param {DialogLayout | null} layout
 * @returns {HTMLElement | null}
 */
export function detailsOf(frame, layout) {
  const props = { tabindex: "0", role: "group", "aria-label": "Details" };
  if (layout) {
    if (!layout.html) return null;
    return h("div", { class: "ia-body", ...props }, parseSanitised(layout.html));
  }
  const detail = splitTitle(String(frame.title ?? "")).body;
  const message = frame.method === "confirm" ? frame.message : "";
  const text = [detail, message].filter(Boolean).join("\n\n");
  if (!text) return null;
  if (!detail) return h("div", { class: "ia-message", ...props, text: message });
  return h("pre", { class: "ia-body", ...props }, ...detailNodes(text));
}

/**
 * Show a text in a `<pre>`; the lines of a diff get a coloured ground.
 *
 * @param {string} text
 * @returns {(string | HTMLElement)[]}
 */
function detailNodes(text) {
  const rows = diffLines(text);
  if (!rows) return [text];
  return rows.map(({ kind, line }) => h("span", { class: kind ? `ia-row ia-${kind}` : "ia-row", text: `${line}\n` }));
}

/**
 * The answers, in one row.
 *
 * @param {...HTMLElement} nodes
 */
export function row(...nodes) {
  return h("div", { class: "ia-options" }, ...nodes);
}

/**
 * A button that dismisses the dialog, where no answer does the same.
 *
 * @param {string} id
 * @param {(value: null) => void} answer
 */
export function cancelButton(id, answer) {
  const props = { class: "ia-quiet", type: "button", title: "Esc", text: "Cancel" };
  return h("button", { ...props, "data-k": `${id} cancel`, onclick: () => answer(null) });
}

/**
 * The answer after the one that has the focus, or before it, round and round; that of Enter, or the first one, if none
 * has it.
 *
 * @param {HTMLElement | null} box
 * @param {1 | -1} step
 * @returns {HTMLElement | undefined}
 */
export function nextOption(box, step) {
  const options = [...(box?.querySelectorAll(".ia-option") ?? [])].filter(
    (option) => option instanceof HTMLButtonElement && !option.disabled && option.offsetParent !== null,
  );
  const at = options.findIndex((option) => option === focusedElement());
  const byEnter = options.findIndex((option) => option.matches(".ia-default"));
  const next = options[at < 0 ? Math.max(0, byEnter) : (at + step + options.length) % options.length];
  return next instanceof HTMLElement ? next : undefined;
}

/**
 * How many seconds are left until a time.
 *
 * @param {number} until in ms since 1970
 */
export function secondsUntil(until) {
  return Math.max(0, Math.ceil((until - Date.now()) / 1000));
}
