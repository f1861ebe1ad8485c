/**
 * Buttons that copy code, and answers of the model as they were written.
 *
 * Contract: a clipboard that cannot be written fails with a sentence, and with the text selected where it is shown. The
 * buttons are ours: what the kernel sends for a block leaves them where they are. They hold no text, which would be part
 * of what is read out, selected or copied: their signs are drawn by the style sheet.
 */

import { h, isOwn, markOwn } from "./dom.js";
import { focusedElement } from "./focus.js";

/** @import { CopiedAnswer } from "../protocol.d.ts" */
/** @import { Store } from "./store.js" */

const SAID_MS = 1500;
const COPIES_ANSWER = ":scope > .ia-copy-answer";
const BLOCKS_OF_CODE = ".indus-answer pre, .indus-call .indus-code";

/**
 * Give each block of code of a block its button, and in a panel the answer, too: of its pieces the last one has it.
 *
 * @param {HTMLElement} block
 * @param {string} key
 * @param {Store} store
 */
export function offerCopies(block, key, store) {
  for (const code of block.querySelectorAll(BLOCKS_OF_CODE)) {
    const text = () => (code.querySelector("code, pre") ?? code).textContent ?? "";
    const lines = code.querySelector("pre") ?? code;
    const act = (/** @type {HTMLButtonElement} */ button) => copy(text().replace(/\n$/, ""), code, button);
    addButton(lines, "afterbegin", "ia-copy", "Copy", act); // where it floats, the text behind it makes way
  }
  const answer = store.kind === "panel" ? block.querySelector(".indus-answer") : null;
  if (answer && store.mirror.blocks.has(pieceAfter(key, 1))) block.querySelector(COPIES_ANSWER)?.remove();
  else if (answer) addButton(block, "beforeend", "ia-copy ia-copy-answer", "Copy as Markdown", () => store.copy(key));
}

/**
 * The key of the piece of the same answer so many pieces after one.
 *
 * @param {string} key such as `b3.0`
 * @param {number} step
 */
export function pieceAfter(key, step) {
  const [answer, number] = key.split(".");
  return `${answer}.${Number(number) + step}`;
}

/**
 * @param {Element} parent
 * @param {"afterbegin" | "beforeend"} place within the parent
 * @param {string} style
 * @param {string} title
 * @param {(button: HTMLButtonElement) => void} act
 */
function addButton(parent, place, style, title, act) {
  if ([...parent.children].some((child) => isOwn(child) && child.className === style)) return;
  const button = h("button", {
    class: style,
    type: "button",
    title,
    "aria-label": title,
    onclick: () => act(button),
  });
  markOwn(button);
  parent.insertAdjacentElement(place, button);
}

/**
 * Copy an answer that the kernel has handed over.
 *
 * @param {CopiedAnswer} copied
 * @param {Iterable<HTMLElement>} roots of the views
 */
export function copyAnswer({ block, text }, roots) {
  const nodes = [...roots].flatMap((root) => [...root.querySelectorAll(".ia-block")]);
  const node = nodes.find((each) => each instanceof HTMLElement && each.dataset.block === block);
  if (!node) return;
  const button = node.querySelector(COPIES_ANSWER);
  copy(text, node, button instanceof HTMLButtonElement ? button : null);
}

/**
 * @param {string} text
 * @param {Element} shown where the text stands
 * @param {HTMLButtonElement | null} button says how it went
 */
async function copy(text, shown, button) {
  const done = (await written(text)) || copiedByCommand(text);
  if (!done) getSelection()?.selectAllChildren(shown);
  if (!button) return;
  button.dataset.said = done ? "✓" : "Press Ctrl+C";
  setTimeout(() => delete button.dataset.said, SAID_MS);
}

/**
 * @param {string} text
 * @returns {Promise<boolean>} whether the clipboard has it
 */
async function written(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // no right to, or a page that was not loaded over TLS
  }
}

/**
 * The way of older browsers, which works where the page has no clipboard.
 *
 * @param {string} text
 */
function copiedByCommand(text) {
  const before = focusedElement();
  const field = h("textarea", { class: "ia-announced", value: text });
  document.body.append(field);
  field.select();
  let done = false;
  try {
    done = document.execCommand("copy");
  } catch {
    // as where it does nothing
  }
  field.remove();
  if (before instanceof HTMLElement) before.focus({ preventScroll: true });
  return done;
}
