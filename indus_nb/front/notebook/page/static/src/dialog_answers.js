/**
 * What a dialog is answered with: buttons, those that open others in place, and fields.
 */

import { cancelButton, choiceButton, choicesOf, foldButton, row } from "./dialog_parts.js";
import { h } from "./dom.js";

/** @import { Answers } from "./answers.js" */
/** @import { DialogLayout, Editor, Input, PageDialog } from "../protocol.d.ts" */
/** @import { Choice } from "./dialog_parts.js" */

/** @typedef {(value: string | boolean | null, reason?: string) => void} Answer */
/** @typedef {Choice & { button: HTMLButtonElement }} Offered */

/**
 * Return the controls of a dialog: its rows, which of them comes first, and the answers that have a button.
 *
 * @param {PageDialog} frame
 * @param {DialogLayout | null} layout
 * @param {Answers} answers
 * @param {Answer} answer
 * @returns {{ rows: HTMLElement[], first: HTMLElement | undefined, choices: Offered[] }}
 */
export function controlsOf(frame, layout, answers, answer) {
  if (frame.method === "input" || frame.method === "editor") {
    const field = fieldOf(frame, answers);
    const send = choiceButton(frame.id, frame.method === "input" ? "Send" : "Done", "", "ia-primary", () =>
      answer(field.value),
    );
    send.title = frame.method === "input" ? "Enter" : "Ctrl+Enter";
    return { rows: [field, row(send, cancelButton(frame.id, answer))], first: field, choices: [] };
  }
  const choices = choicesOf(frame, layout).map((choice) => {
    const isPrimary = layout ? choice.value === layout.default : choice.value === true;
    const style = isPrimary ? `ia-primary${layout ? " ia-default" : ""}` : "";
    const { label } = choice;
    return { ...choice, button: choiceButton(frame.id, label, choice.key, style, () => answer(choice.value)) };
  });
  const again = choices.filter(({ kind }) => kind === "again");
  const refusal = choices.find(({ kind }) => kind === "no");
  const nodes = choices.filter(({ kind }) => kind !== "again").map(({ button }) => button);
  const folds = [];
  if (again.length > 0) {
    const list = h("div", { class: "ia-again", hidden: true }, ...again.map(({ button }) => button));
    folds.push(list);
    nodes.splice(1, 0, foldButton(frame.id, "Yes, and always …", again[0]?.key ?? "", list));
  }
  if (refusal && layout?.reason) {
    const why = reasonRow(frame.id, answers, (reason) => answer(refusal.value, reason));
    folds.push(why);
    nodes.push(foldButton(frame.id, "No, because …", "", why));
  }
  if (!refusal) nodes.push(cancelButton(frame.id, answer));
  return { rows: [row(...nodes), ...folds], first: nodes[0], choices };
}

/**
 * A field for the reason of a no, which opens in place.
 *
 * @param {string} id
 * @param {Answers} answers
 * @param {(reason: string) => void} send
 */
function reasonRow(id, answers, send) {
  const field = h("input", {
    class: "ia-field ia-reason",
    "data-k": `${id} reason`,
    "aria-label": "Why not?",
    placeholder: "Why not? The model reads it.",
    value: answers.get(id) ?? "",
    oninput: () => answers.set(id, field.value),
  });
  const button = choiceButton(id, "Send reason", "", "", () => send(field.value));
  return h("div", { class: "ia-why", hidden: !answers.has(id) }, field, button);
}

/**
 * @param {Input | Editor} frame
 * @param {Answers} answers
 */
function fieldOf(frame, answers) {
  const isLine = frame.method === "input";
  const prefill = frame.method === "editor" ? frame.prefill : null;
  const field = h(isLine ? "input" : "textarea", {
    class: "ia-field",
    "data-k": `${frame.id} field`,
    "aria-label": String(frame.title ?? ""),
    placeholder: frame.method === "input" ? frame.placeholder : null,
    rows: isLine ? null : 6,
    value: answers.get(frame.id) ?? prefill ?? "",
    oninput: () => answers.set(frame.id, field.value),
  });
  return field;
}
