/**
 * Numbers of answers that a call has put out: each leads to the card of that call.
 *
 * Contract: which these are is read from a notebook's metadata, which others may have written. That is compared with text
 * and used as an index, and nothing of it becomes markup. Nothing of this is in the notebook.
 */

import { h } from "./dom.js";

const FOUND_NUMBER = "indus-found";
const MAX_NUMBERS = 200;
const MAX_TITLE_CHARACTERS = 80;
/** What no number is looked for in: code, links, formulas, live values, and numbers that no result shows. */
const NO_PROSE = `code, pre, a, math, svg, mjx-container, .MathJax, [title], .${FOUND_NUMBER}`;
const IN_NUMBER_BEFORE = /[\p{L}\p{N}_]$|\p{N}[.,]$/u;
const IN_NUMBER_AFTER = /^[\p{N}_]|^[.,]\p{N}/u;

/** @typedef {(place: unknown) => Element | null | undefined} CardAt */

/**
 * Have the numbers of a part of an answer lead to the cards of the calls that have put them out.
 *
 * @param {Element} root holds that part
 * @param {unknown} found a list of numbers as they are written, in their order, each with the places of its cards
 * @param {CardAt} cardAt
 */
export function linkNumbers(root, found, cardAt) {
  if (!Array.isArray(found) || root.querySelector(`.${FOUND_NUMBER}`)) return;
  const texts = [...root.querySelectorAll(".indus-answer")].flatMap(textsOf);
  const contents = texts.map(({ data }) => data);
  for (const { index, begin, end, cards } of placesOf(contents, found).reverse()) {
    const text = texts[index];
    text?.splitText(end);
    const number = text?.splitText(begin);
    if (number) leadToCards(number, cards, cardAt);
  }
}

/**
 * Have them lead nowhere, so that the text is as it was.
 *
 * @param {Element} root
 */
export function unlinkNumbers(root) {
  for (const node of root.querySelectorAll(`.${FOUND_NUMBER}`)) {
    const { parentNode } = node;
    node.replaceWith(...node.childNodes);
    parentNode?.normalize();
  }
}

/**
 * Where numbers stand in texts: each behind the one before it, and none that is not there.
 *
 * @param {readonly string[]} texts
 * @param {readonly unknown[]} found
 * @returns {{ index: number, begin: number, end: number, cards: unknown[] }[]}
 */
export function placesOf(texts, found) {
  const places = [];
  let first = 0;
  let from = 0;
  for (const each of found.slice(0, MAX_NUMBERS)) {
    const [number, ...cards] = Array.isArray(each) ? each : [];
    if (typeof number !== "string" || !/\p{N}/u.test(number)) continue;
    for (let index = first; index < texts.length; index++) {
      const begin = beginOf(number, texts[index] ?? "", index === first ? from : 0);
      if (begin < 0) continue;
      first = index;
      from = begin + number.length;
      places.push({ index, begin, end: from, cards });
      break;
    }
  }
  return places;
}

/**
 * @param {string} number
 * @param {string} text
 * @param {number} from
 * @returns {number} where it begins, and is no part of another number or a name; -1 where it does not
 */
function beginOf(number, text, from) {
  for (let begin = text.indexOf(number, from); begin >= 0; begin = text.indexOf(number, begin + 1)) {
    const before = text.slice(Math.max(0, begin - 2), begin);
    const after = text.slice(begin + number.length, begin + number.length + 2);
    if (!IN_NUMBER_BEFORE.test(before) && !IN_NUMBER_AFTER.test(after)) return begin;
  }
  return -1;
}

/**
 * @param {Element} answer
 * @returns {Text[]} those in which numbers are looked for; a formula that is still to be drawn has its dollars
 */
function textsOf(answer) {
  const walker = document.createTreeWalker(answer, NodeFilter.SHOW_TEXT);
  const texts = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const isProse = !answer.contains(node.parentElement?.closest(NO_PROSE) ?? null);
    if (node instanceof Text && isProse && !node.data.includes("$")) texts.push(node);
  }
  return texts;
}

/**
 * @param {Text} number
 * @param {unknown[]} places
 * @param {CardAt} cardAt
 */
function leadToCards(number, places, cardAt) {
  const cards = () => places.map(cardAt).filter((card) => card instanceof Element);
  const describe = () => {
    const heads = cards().map(headOf);
    node.title = heads.length > 0 ? `from the result of ${heads.join(" and ")}` : "";
  };
  const node = h("span", {
    class: FOUND_NUMBER,
    role: "link",
    tabindex: 0,
    onmouseenter: describe,
    onfocus: describe,
    onclick: () => {
      if (getSelection()?.isCollapsed !== false) goToCards(cards());
    },
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      goToCards(cards());
    },
  });
  node.dataset.lmSuppressShortcuts = "true"; // the notebook's would take Enter away
  number.replaceWith(node);
  node.append(number);
}

/** @param {Element} card */
function headOf(card) {
  const head = card.querySelector("summary code, .indus-code") ?? card.querySelector("summary b");
  const line = head?.textContent?.trim().split("\n")[0] ?? "";
  return line.length > MAX_TITLE_CHARACTERS ? `${line.slice(0, MAX_TITLE_CHARACTERS)} …` : line;
}

/**
 * Open cards, and bring the first one into sight, with the focus.
 *
 * @param {Element[]} cards
 */
function goToCards(cards) {
  for (const card of cards) unfold(card.querySelector("details"));
  const head = cards[0]?.querySelector("summary");
  const isQuiet = matchMedia("(prefers-reduced-motion: reduce)").matches;
  head?.scrollIntoView({ block: "center", behavior: isQuiet ? "auto" : "smooth" });
  head?.focus({ preventScroll: true });
}

/**
 * Open what is folded, and what is around it, as a click of the user would.
 *
 * @param {HTMLDetailsElement | null | undefined} fold
 */
function unfold(fold) {
  if (!fold) return;
  unfold(fold.parentElement?.closest("details"));
  if (!fold.open) fold.querySelector("summary")?.click();
}
