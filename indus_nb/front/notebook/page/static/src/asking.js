/**
 * The signs that a question waits: in the title of the browser's tab, and, as long as nobody sees it, a notification.
 *
 * Contract: there is one sign for all widgets of the document, and one notification for a question, however many views
 * show it. What the front end makes of the title meanwhile stays: only the sign is put before it, and taken away. A
 * notification comes when a question was out of sight for `UNSEEN_MS`, and goes when it is seen or is over.
 */

import { notifications } from "./notifications.js";

const SIGN = "● asks – ";
const UNSEEN_MS = 1500;
const MAX_CHARACTERS = 100;

/**
 * A question as one view shows it.
 *
 * @typedef {object} Waiting
 * @property {string} id
 * @property {string} text
 * @property {string} place the notebook that it is in
 * @property {boolean} isSeen
 * @property {() => void} show brings it into sight
 */

/** What waits for an answer in this document, by what shows it.
 * @type {Map<object, Waiting>} */
const waiting = new Map();
/** When each question that is out of sight was seen last, in ms since 1970.
 * @type {Map<string, number>} */
const unseenSince = new Map();
/** What takes away the notification of a question.
 * @type {Map<string, () => void>} */
const notices = new Map();

/**
 * Note what waits for an answer.
 *
 * @param {object} who
 * @param {Waiting | null} question
 */
export function noteWaiting(who, question) {
  if (question) waiting.set(who, question);
  else waiting.delete(who);
  const isMarked = document.title.startsWith(SIGN);
  if (waiting.size > 0 && !isMarked) document.title = SIGN + document.title;
  else if (waiting.size === 0 && isMarked) document.title = document.title.slice(SIGN.length);
  notify();
}

/** Show notifications of what nobody sees, and no others. */
function notify() {
  const all = [...waiting.values()];
  const seen = new Set(all.filter(({ isSeen }) => isSeen).map(({ id }) => id));
  const unseen = new Map(all.filter(({ id }) => !seen.has(id)).map((question) => [question.id, question]));
  for (const id of [...unseenSince.keys()]) if (!unseen.has(id)) unseenSince.delete(id);
  for (const [id, withdraw] of [...notices]) {
    if (unseen.has(id)) continue;
    notices.delete(id);
    withdraw();
  }
  for (const [id, question] of unseen) {
    if (!unseenSince.has(id)) unseenSince.set(id, Date.now());
    const since = Date.now() - (unseenSince.get(id) ?? 0);
    if (since >= UNSEEN_MS && !notices.has(id)) notices.set(id, notice(question));
  }
}

/**
 * Notify of a question; returns what takes that back.
 *
 * @param {Waiting} question
 */
function notice({ text, place, show }) {
  let isOver = false;
  let withdraw = () => {};
  const heading = text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text;
  const message = `${place ? `${place}: the` : "The"} agent asks. ${heading}`;
  const options = { autoClose: false, actions: [{ label: "Show", displayType: "accent", callback: show }] };
  notifications().then((found) => {
    if (!found || isOver) return;
    const id = found.emit(message, "info", options);
    withdraw = () => found.dismiss(id);
  });
  return () => {
    isOver = true;
    withdraw();
  };
}

/**
 * Bring the document that an element is in to the front, as a click on its tab does.
 *
 * @param {Element} element
 */
export function bringToFront(element) {
  const panel = element.closest(".lm-Widget[role=tabpanel], .jp-MainAreaWidget, .jp-NotebookPanel");
  const tab = panel && document.querySelector(`.lm-TabBar-tab[data-id="${CSS.escape(panel.id)}"]`);
  if (!tab) return;
  const { left, top, width, height } = tab.getBoundingClientRect();
  const at = { bubbles: true, button: 0, clientX: left + width / 2, clientY: top + height / 2 };
  tab.dispatchEvent(new PointerEvent("pointerdown", at));
  tab.dispatchEvent(new PointerEvent("pointerup", at));
}
