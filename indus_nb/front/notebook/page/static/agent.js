// Made from src/*.js by tests/bundle.py, where the comments are. Do not edit.

// src/keys.js
function belongsToFrontEnd(key, atRoot) {
  if (key.key === "Enter" && key.shiftKey && atRoot) return true;
  if (/^F[0-9]+$/.test(key.key)) return true;
  const isShortcut = (key.ctrlKey || key.metaKey) && !key.altKey && key.key !== "Enter";
  return isShortcut && (/^[ps]$/i.test(key.key) || (key.shiftKey && !/^[zv]$/i.test(key.key)));
}

const CHORDS = { y: "yes", Y: "more", n: "no" };

function kindOfChord({ key, code, altKey, ctrlKey, metaKey, shiftKey, isComposing }, typing) {
  if (!altKey || ctrlKey || metaKey || isComposing) return "";
  const isLetter = /^[a-z]$/i.test(key);
  if (typing && !isLetter) return "";
  const letter = (isLetter ? key : code.replace(/^Key/, "")).toLowerCase(); // Macs write ¥
  return /** @type {Record<string, string>} */ (CHORDS)[shiftKey ? letter.toUpperCase() : letter] ?? "";
}

function dialogAction(key, dialog, { typing, scrolling, atBox }) {
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

const LIST_STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

function choiceOf(key, { choices, byEnter, isOfParts }, atBox) {
  if (key === "Enter") return atBox ? choices.find(({ value }) => value === byEnter) : undefined;
  const letter = key.toLowerCase();
  const labelled = choices.find((choice) => choice.key === letter);
  if (labelled || !isOfParts) return labelled;
  if (letter === "n") return choices.find(({ kind }) => kind === "no");
  return letter === "y" && choices[0]?.kind === "yes" ? choices[0] : undefined;
}

function isChord(key) {
  return key.ctrlKey || key.metaKey || key.altKey;
}

function submits(key, method) {
  return method === "editor" ? key.ctrlKey || key.metaKey : !isChord(key) && !key.shiftKey;
}

function composerAction(key, { open, busy, recalling, empty, complete }) {
  if (key.key === "Escape") return open ? "close" : null;
  if (key.key === "Enter" && key.altKey) return delivery(busy, "followUp");
  if (isChord(key) || key.shiftKey) return null;
  const completion = open ? COMPLETION_KEYS[key.key] : undefined;
  if (completion && !(key.key === "Enter" && complete)) return completion;
  if (key.key === "Enter") return delivery(busy, "steer");
  return historyAction(key.key, { recalling, empty });
}

const COMPLETION_KEYS = { ArrowDown: "next", ArrowUp: "previous", Tab: "accept", Enter: "accept" };

function delivery(busy, whenBusy) {
  return busy ? whenBusy : "send";
}

function historyAction(key, { recalling, empty }) {
  if (key === "ArrowDown" && recalling) return "newer";
  return key === "ArrowUp" && (recalling || empty) ? "older" : null;
}

function listTarget(key, { at, length, inRow }) {
  if (key === "ArrowDown") return at + 1;
  if (key === "ArrowUp") return Math.max(-1, at - 1);
  if (key === "Home" && inRow) return 0;
  if (key === "End" && inRow) return length - 1;
  return null;
}

// src/focus.js
const TYPING_FIELDS = "input, textarea, select, [contenteditable]:not([contenteditable=false]), .cm-content";

function focusedElement() {
  let node = document.activeElement;
  while (node?.shadowRoot?.activeElement) node = node.shadowRoot.activeElement;
  return node;
}

function isTypingField(node) {
  return node instanceof Element && node.matches(TYPING_FIELDS);
}

function focusQuietly(node) {
  if (node instanceof HTMLElement) node.focus({ preventScroll: true });
}

const ANSWERS = /^([1-9yn]|Enter)$/i;
const TYPING_PAUSE_MS = 1500;

let keyAt = 0;
let lostAt = 0;
let watchesKeys = false;
let holder = null;

function watchKeys() {
  if (watchesKeys) return;
  watchesKeys = true;
  const note = (event) => {
    const [target] = event.composedPath();
    const isLost = target === document.body || (target instanceof Element && target.matches(".ia-root"));
    if (!isLost) keyAt = Date.now();
    else if (ANSWERS.test(event.key) && !isChord(event)) lostAt = Date.now();
    else holder?.typeOn(event);
  };
  document.addEventListener("keydown", note, { capture: true, passive: true });
}

function forgetKey() {
  keyAt = 0;
}

function isQuiet() {
  return Date.now() - keyAt >= TYPING_PAUSE_MS;
}

function wasEarly() {
  return Date.now() - lostAt < TYPING_PAUSE_MS;
}

function isEmptyField(field) {
  return "value" in field ? field.value === "" : field.textContent === "";
}

class FocusMemory {
  constructor() {
    this.focused = null;
    this.before = null;
    this.cell = null;
    this.holding = undefined;
  }

  enter(node, root) {
    this.focused = node instanceof HTMLElement ? node : null;
    this.cell = root.closest(".jp-Cell");
  }

  forget() {
    this.focused = this.before = null;
  }

  hold(root) {
    focusQuietly(root);
    holder = this;
    clearTimeout(this.holding);
    this.holding = setTimeout(() => this.giveBack(), TYPING_PAUSE_MS);
  }

  typeOn(event) {
    if (event.key.length === 1 && !isChord(event) && isTypingField(this.before)) this.giveBack();
  }

  giveBack() {
    clearTimeout(this.holding);
    if (holder === this) holder = null;
    const active = focusedElement();
    const isHeld = active === document.body || Boolean(active?.matches(".ia-root"));
    if (isHeld && this.before?.isConnected) this.leave();
  }

  leave() {
    const node = this.before?.isConnected ? this.before : this.cell;
    this.before = null;
    focusQuietly(node);
  }

  restore(root) {
    const { focused } = this;
    if (!focused || focused.isConnected || isTypingField(focusedElement())) return;
    const key = focused.dataset.k;
    const keyed = [...root.querySelectorAll("[data-k]")].filter((each) => each instanceof HTMLElement);
    const node = key ? keyed.find((each) => each.dataset.k === key) : root;
    if (!node || ("disabled" in node && node.disabled)) return;
    focusQuietly(node);
    if (isTextField(focused) && isTextField(node) && focused.selectionStart !== null)
      node.setSelectionRange(focused.selectionStart, focused.selectionEnd);
  }
}

function isTextField(node) {
  return node instanceof HTMLInputElement || node instanceof HTMLTextAreaElement;
}

// src/agent_cells.js
const MARK = "ia-of-agent";
const INDEX = "data-windowed-list-index";
const watched = new WeakSet();
const elements = new WeakMap();

function watchAgentCells(root, store) {
  const notebook = root.closest(".jp-Notebook");
  if (notebook && store.notebook) elements.set(store.notebook, notebook);
  if (!notebook || watched.has(notebook)) return;
  watched.add(notebook);
  const mark = () => {
    for (const cell of notebook.querySelectorAll(`.jp-Cell[${INDEX}]`))
      cell.classList.toggle(MARK, store.isOfAgent(Number(cell.getAttribute(INDEX))));
  };
  new MutationObserver(mark).observe(notebook, { subtree: true, attributeFilter: [INDEX] });
  const list = notebook.querySelector(".jp-WindowedPanel-viewport") ?? notebook;
  new MutationObserver(mark).observe(list, { childList: true });
  mark();
}

function outputsOf({ notebook, shown, model }) {
  const index = [...(notebook?.cells ?? [])].findIndex(({ id }) => id === model.get("cell"));
  const element = shown?.content?.node ?? (notebook && elements.get(notebook));
  const cell = element?.querySelector(`.jp-Cell[${INDEX}="${index}"]`);
  return cell?.querySelector(".jp-OutputArea") ?? null;
}

// src/dom.js
function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name === "text") node.textContent = String(value);
    else if (name === "value") Object.assign(node, { value });
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function setText(node, text) {
  const shown = text ?? "";
  if (node.textContent !== shown) node.textContent = shown;
  node.hidden = shown === "";
}

function uniqueId() {
  return `ia-${Math.random().toString(36).slice(2)}`;
}

const ownNodes = new WeakSet();

function markOwn(node) {
  ownNodes.add(node);
}

function isOwn(node) {
  return node !== null && ownNodes.has(node);
}

const QUESTION = Symbol.for("indus_nb.question");

function markQuestion(node, id) {
  Object.assign(node, { [QUESTION]: id });
}

function questionOf(node) {
  return Reflect.get(node, QUESTION);
}

function morph(old, fresh) {
  let before = nextForeign(old.firstChild);
  for (let after = fresh.firstChild; after; ) {
    const next = after.nextSibling;
    if (!before) old.appendChild(after);
    else if (before.nodeName === after.nodeName) {
      morphNode(before, after);
      before = nextForeign(before.nextSibling);
    } else {
      const gone = before;
      before = nextForeign(before.nextSibling);
      old.replaceChild(after, gone);
    }
    after = next;
  }
  while (before) {
    const gone = before;
    before = nextForeign(before.nextSibling);
    old.removeChild(gone);
  }
}

function nextForeign(node) {
  let next = node;
  while (next && ownNodes.has(next)) next = next.nextSibling;
  return next;
}

function morphNode(before, after) {
  if (before instanceof Text && after instanceof Text) {
    if (after.data.startsWith(before.data)) before.appendData(after.data.slice(before.data.length));
    else before.data = after.data;
  } else if (before instanceof Element && after instanceof Element) {
    morphAttributes(before, after);
    morph(before, after);
  }
}

function morphAttributes(before, after) {
  for (const { name } of [...before.attributes]) if (!after.hasAttribute(name)) before.removeAttribute(name);
  for (const { name, value } of after.attributes)
    if (before.getAttribute(name) !== value) before.setAttribute(name, value);
}

// src/text.js
const MS_PER_SECOND = 1000;

function formatDuration(ms) {
  const seconds = Math.max(0, Math.floor(ms / MS_PER_SECOND));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  const rest = twoDigits(seconds % 60);
  return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${twoDigits(minutes % 60)}:${rest}`;
}

function twoDigits(value) {
  return String(value).padStart(2, "0");
}

function formatMoment(modified, now = new Date()) {
  const date = new Date(modified);
  if (Number.isNaN(date.getTime())) return "";
  const isToday = date.toDateString() === now.toDateString();
  return isToday
    ? date.toLocaleTimeString([], { timeStyle: "short" })
    : date.toLocaleDateString([], { dateStyle: "medium" });
}

function oneLine(text) {
  return text.replace(/\s+/g, " ");
}

function shortLabel(text) {
  return text.slice(0, 60);
}

function splitTitle(title) {
  const [heading = "", ...rest] = title.replace(/^\n+/, "").split("\n");
  return { heading, body: rest.join("\n").replace(/^\n+/, "").trimEnd() };
}

function diffLines(text) {
  if (!/^@@ /m.test(text)) return null;
  return text.split("\n").map((line) => ({ kind: line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "", line }));
}

function markWords(text, words) {
  if (words.length === 0) return [{ text, marked: false }];
  const longestFirst = [...words].sort((a, b) => b.length - a.length);
  const escaped = longestFirst.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const parts = text.split(new RegExp(`(?<![\\p{L}\\p{N}_])(${escaped.join("|")})(?![\\p{L}\\p{N}_])`, "u"));
  return parts.map((part, index) => ({ text: part, marked: index % 2 === 1 })).filter((part) => part.text !== "");
}

function lengthOfSentences(text) {
  return /^[\s\S]*(?:[.!?:](?=\s)|\n)/.exec(text.trimEnd())?.[0].length ?? 0;
}

function lastWord(text) {
  return /(?:^|\s)(@"[^"\n]*)$/.exec(text)?.[1] ?? text.split(/\s/).at(-1) ?? "";
}

function isCompletable(before) {
  const word = lastWord(before);
  return word !== "" && (/[/@]|^[([,]?[#$]\w*$|(?<!\{)\{\w*$/.test(word) || before.startsWith("/"));
}

function completed(before, completion) {
  const word = lastWord(before);
  const bracket = /^[#$]/.test(completion) ? (/^[([,]?/.exec(word)?.[0].length ?? 0) : 0;
  const kept = completion.startsWith("{") ? word.lastIndexOf("{") : bracket;
  const head = before.slice(0, before.length - word.length + kept);
  return completion.startsWith(head) ? completion : head + completion;
}

function completeCommand(before, commands) {
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

function approvalWords(mode) {
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

function relativePath(path, notebook) {
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

function mention(path) {
  return /\s/.test(path) && !path.includes('"') ? `@"${path}"` : `@${path}`;
}

function beginsMention(text) {
  return /^@|(?:^|[(,[])[#$]\w*$|\{\w*$/.test(lastWord(text));
}

function contextFill({ tokens, window }) {
  const percent = Math.min(100, (100 * tokens) / window);
  const text = `${percent < 1 && tokens > 0 ? "< 1" : Math.round(percent)} %`;
  return { percent, text, title: `Context: ${tokens.toLocaleString("en")} of ${window.toLocaleString("en")} tokens` };
}

// src/announcer.js
const MAX_ANNOUNCEMENT_CHARACTERS = 2000;
const MAX_ANNOUNCEMENTS = 20;

class Announcer {
  constructor(store) {
    this.store = store;
    this.node = h("div", { class: "ia-announced", role: "log", "aria-live": "polite" });
  }

  update(blocks) {
    if (blocks.unannounced.size === 0) return;
    const last = [...blocks.shown.keys()].at(-1);
    for (const key of blocks.unannounced) {
      const done = !this.store.busy || key !== last;
      const node = blocks.shown.get(key)?.node;
      if (node) this.announce(key, node, done);
      if (done) blocks.unannounced.delete(key);
    }
  }

  announce(key, node, done) {
    const { announced } = this.store;
    if (announced.get(key) === Number.POSITIVE_INFINITY) return;
    const answer = node.querySelector(".indus-answer");
    const text = (answer ?? node.querySelector(".indus-call summary, .indus-error, .indus-notice"))?.textContent ?? "";
    const before = announced.get(key) ?? 0;
    const rest = answer || !before ? text.slice(before) : "";
    const end = done || !answer ? rest.length : lengthOfSentences(rest);
    if (end <= 0) return;
    announced.set(key, before + end);
    const fresh = rest.slice(0, end).trim();
    if (fresh) this.say(fresh);
  }

  say(text) {
    this.node.append(h("p", { text: text.slice(0, MAX_ANNOUNCEMENT_CHARACTERS) }));
    while (this.node.childElementCount > MAX_ANNOUNCEMENTS) this.node.firstChild?.remove();
  }
}

// src/notifications.js
const PACKAGE = "@jupyterlab/apputils";
const BUNDLES = "webpackChunk";

let found;

function notifications() {
  found ??= find().catch(() => null);
  return found;
}

async function find() {
  for (const name of Object.keys(globalThis)) {
    if (!name.startsWith(BUNDLES)) continue;
    const [shared] = Object.values(loaderOf(Reflect.get(globalThis, name))?.S?.default?.[PACKAGE] ?? {});
    const found = shared && (await shared.get())().Notification;
    if (typeof found?.emit === "function" && typeof found.dismiss === "function") return found;
  }
  return null;
}

function loaderOf(parts) {
  let loader;
  if (Array.isArray(parts)) {
    const take = (/** @type {Bundle} */ given) => {
      loader = given;
    };
    parts.push([[Symbol("indus_nb")], {}, take]);
  }
  return loader;
}

// src/asking.js
const SIGN = "● asks – ";
const UNSEEN_MS = 1500;
const MAX_CHARACTERS = 100;

const waiting = new Map();
const unseenSince = new Map();
const notices = new Map();

function noteWaiting(who, question) {
  if (question) waiting.set(who, question);
  else waiting.delete(who);
  const isMarked = document.title.startsWith(SIGN);
  if (waiting.size > 0 && !isMarked) document.title = SIGN + document.title;
  else if (waiting.size === 0 && isMarked) document.title = document.title.slice(SIGN.length);
  notify();
}

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

function bringToFront(element) {
  const panel = element.closest(".lm-Widget[role=tabpanel], .jp-MainAreaWidget, .jp-NotebookPanel");
  const tab = panel && document.querySelector(`.lm-TabBar-tab[data-id="${CSS.escape(panel.id)}"]`);
  if (!tab) return;
  const { left, top, width, height } = tab.getBoundingClientRect();
  const at = { bubbles: true, button: 0, clientX: left + width / 2, clientY: top + height / 2 };
  tab.dispatchEvent(new PointerEvent("pointerdown", at));
  tab.dispatchEvent(new PointerEvent("pointerup", at));
}

// src/copying.js
const SAID_MS = 1500;
const COPIES_ANSWER = ":scope > .ia-copy-answer";
const BLOCKS_OF_CODE = ".indus-answer pre, .indus-call .indus-code";

function offerCopies(block, key, store) {
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

function pieceAfter(key, step) {
  const [answer, number] = key.split(".");
  return `${answer}.${Number(number) + step}`;
}

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

function copyAnswer({ block, text }, roots) {
  const nodes = [...roots].flatMap((root) => [...root.querySelectorAll(".ia-block")]);
  const node = nodes.find((each) => each instanceof HTMLElement && each.dataset.block === block);
  if (!node) return;
  const button = node.querySelector(COPIES_ANSWER);
  copy(text, node, button instanceof HTMLButtonElement ? button : null);
}

async function copy(text, shown, button) {
  const done = (await written(text)) || copiedByCommand(text);
  if (!done) getSelection()?.selectAllChildren(shown);
  if (!button) return;
  button.dataset.said = done ? "✓" : "Press Ctrl+C";
  setTimeout(() => delete button.dataset.said, SAID_MS);
}

async function written(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // no right to, or a page that was not loaded over TLS
  }
}

function copiedByCommand(text) {
  const before = focusedElement();
  const field = h("textarea", { class: "ia-announced", value: text });
  document.body.append(field);
  field.select();
  let done = false;
  try {
    done = document.execCommand("copy");
  } catch {
  }
  field.remove();
  if (before instanceof HTMLElement) before.focus({ preventScroll: true });
  return done;
}

// src/found.js
const FOUND_NUMBER = "indus-found";
const MAX_NUMBERS = 200;
const MAX_TITLE_CHARACTERS = 80;
const NO_PROSE = `code, pre, a, math, svg, mjx-container, .MathJax, [title], .${FOUND_NUMBER}`;
const IN_NUMBER_BEFORE = /[\p{L}\p{N}_]$|\p{N}[.,]$/u;
const IN_NUMBER_AFTER = /^[\p{N}_]|^[.,]\p{N}/u;

function linkNumbers(root, found, cardAt) {
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

function unlinkNumbers(root) {
  for (const node of root.querySelectorAll(`.${FOUND_NUMBER}`)) {
    const { parentNode } = node;
    node.replaceWith(...node.childNodes);
    parentNode?.normalize();
  }
}

function placesOf(texts, found) {
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

function beginOf(number, text, from) {
  for (let begin = text.indexOf(number, from); begin >= 0; begin = text.indexOf(number, begin + 1)) {
    const before = text.slice(Math.max(0, begin - 2), begin);
    const after = text.slice(begin + number.length, begin + number.length + 2);
    if (!IN_NUMBER_BEFORE.test(before) && !IN_NUMBER_AFTER.test(after)) return begin;
  }
  return -1;
}

function textsOf(answer) {
  const walker = document.createTreeWalker(answer, NodeFilter.SHOW_TEXT);
  const texts = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const isProse = !answer.contains(node.parentElement?.closest(NO_PROSE) ?? null);
    if (node instanceof Text && isProse && !node.data.includes("$")) texts.push(node);
  }
  return texts;
}

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

function headOf(card) {
  const head = card.querySelector("summary code, .indus-code") ?? card.querySelector("summary b");
  const line = head?.textContent?.trim().split("\n")[0] ?? "";
  return line.length > MAX_TITLE_CHARACTERS ? `${line.slice(0, MAX_TITLE_CHARACTERS)} …` : line;
}

function goToCards(cards) {
  for (const card of cards) unfold(card.querySelector("details"));
  const head = cards[0]?.querySelector("summary");
  const isQuiet = matchMedia("(prefers-reduced-motion: reduce)").matches;
  head?.scrollIntoView({ block: "center", behavior: isQuiet ? "auto" : "smooth" });
  head?.focus({ preventScroll: true });
}

function unfold(fold) {
  if (!fold) return;
  unfold(fold.parentElement?.closest("details"));
  if (!fold.open) fold.querySelector("summary")?.click();
}

// src/outdated.js
const OUTDATED_MARK = "indus-outdated";
const COMPUTE = "Compute again";
const AMBER = "color-mix(in srgb, var(--jp-warn-color1, #b0821f) 30%, transparent)";

function markOutdated(root, values) {
  const known = new Map(values.map((each) => [JSON.stringify([each.expression, each.value]), each]));
  let count = 0;
  for (const shown of root.querySelectorAll(".indus-answer span[title]")) {
    if (!(shown instanceof HTMLElement) || shown.classList.contains(OUTDATED_MARK)) continue;
    const found = known.get(JSON.stringify([shown.title, shown.textContent]));
    if (found) count++;
    markValue(shown, found);
  }
  return count;
}

function markValue(shown, found) {
  const next = shown.nextSibling;
  const mark = next instanceof HTMLElement && next.classList.contains(OUTDATED_MARK) ? next : null;
  if (!found) {
    if (!mark) return;
    mark.remove();
    shown.style.removeProperty("background");
    return;
  }
  if (!shown.style.background) shown.style.background = AMBER;
  const text = found.now === null ? " (old)" : ` → ${found.now} now`;
  if (mark?.textContent === text && mark.title === found.why) return;
  mark?.remove();
  const made = h("span", { class: OUTDATED_MARK, title: found.why, text });
  markOwn(made);
  shown.after(made);
}

class OutdatedLine {
  constructor(compute, leave) {
    this.leave = leave;
    this.words = h("span");
    this.button = h("button", {
      type: "button",
      text: COMPUTE,
      onclick: () => {
        this.button.textContent = "Computing …";
        compute();
      },
    });
    this.node = h("div", { class: "indus-outdated-line", role: "status", hidden: true }, this.words, this.button);
    this.node.dataset.lmSuppressShortcuts = "true";
  }

  offerAgain() {
    this.button.textContent = COMPUTE;
  }

  show(outdated, problem = "") {
    const hadFocus = this.node.contains(focusedElement());
    const words = outdated ? `${outdated.words}. ${problem}`.trimEnd() : "";
    if (this.words.textContent !== words) this.words.textContent = words;
    this.button.hidden = !outdated?.stale;
    this.node.hidden = !outdated;
    if (hadFocus && this.button.hidden) this.leave();
  }
}

// src/blocks.js
const TYPESET_PAUSE_MS = 400;
const FILL_MS = 8;
const GROUP_BLOCKS = 10;

function parseSanitised(sanitised) {
  const template = document.createElement("template");
  template.innerHTML = sanitised;
  return template.content;
}

class BlockList {
  constructor(store, onDrop) {
    this.store = store;
    this.onDrop = onDrop;
    this.shown = new Map();
    this.outdated = new Set();
    this.unannounced = new Set();
    this.filling = undefined;
    this.node = h("div", {
      class: "ia-area jp-RenderedHTMLCommon",
      role: "log",
      "aria-live": "off",
      "aria-label": "Agent",
      onclick: (/** @type {MouseEvent} */ event) => this.noteOpened(event),
    });
  }

  show(changes) {
    const { blocks } = this.store.mirror;
    if (!changes.everything) {
      for (const key of changes.blocks) this.update(key);
      this.fill();
      return;
    }
    for (const key of [...this.shown.keys(), ...blocks.keys()]) this.update(key);
    this.outdated = new Set([...blocks.keys()].filter((key) => this.outdated.has(key)));
    this.order([...blocks.keys()].flatMap((key) => this.shown.get(key)?.node ?? []));
    this.fill();
  }

  append(node) {
    let group = this.node.lastElementChild;
    if (!group || group.childElementCount >= GROUP_BLOCKS)
      group = this.node.appendChild(h("div", { class: "ia-group" }));
    group.append(node);
  }

  order(nodes) {
    const are = this.node.querySelectorAll(".ia-block");
    if (nodes.every((node, index) => node === are[index])) return;
    this.node.replaceChildren();
    for (const node of nodes) this.append(node);
  }

  update(key) {
    const html = this.store.mirror.blocks.get(key);
    if (html === undefined) {
      this.drop(key);
      return;
    }
    let block = this.shown.get(key);
    if (!block) {
      block = { node: h("div", { class: "ia-block", "data-block": key }), html: null };
      this.shown.set(key, block);
      this.append(block.node);
    }
    if (block.html !== html || block.found !== this.store.mirror.found.get(key)) this.outdated.add(key);
  }

  fill() {
    clearTimeout(this.filling);
    const until = performance.now() + FILL_MS;
    for (const key of [...this.outdated].reverse()) {
      this.fillBlock(key);
      if (performance.now() > until) break;
    }
    if (this.outdated.size > 0) this.filling = setTimeout(() => this.fill());
  }

  fillBlock(key) {
    this.outdated.delete(key);
    const block = this.shown.get(key);
    const html = this.store.mirror.blocks.get(key);
    if (!block || html === undefined) return;
    const content = parseSanitised(html);
    this.unannounced.add(key);
    this.keepOpened(key, content);
    unlinkNumbers(block.node);
    morph(block.node, content);
    block.html = html;
    block.found = this.store.mirror.found.get(key);
    linkNumbers(block.node, block.found, (card) => this.shown.get(`${card}`)?.node.querySelector(".indus-call"));
    for (const code of block.node.querySelectorAll(".indus-call .indus-code")) this.offerCell(code);
    offerCopies(block.node, key, this.store);
    const before = this.shown.get(pieceAfter(key, -1));
    if (before) offerCopies(before.node, pieceAfter(key, -1), this.store);
    if (this.store.state.outdated) this.markOutdated(block.node);
    this.typesetSoon(block);
  }

  markOutdated(root = this.node) {
    markOutdated(root, this.store.state.outdated?.values ?? []);
  }

  drop(key) {
    const block = this.shown.get(key);
    if (!block) return;
    this.outdated.delete(key);
    this.unannounced.delete(key);
    this.onDrop(key, block.node);
    const group = block.node.parentElement;
    block.node.remove();
    if (group?.childElementCount === 0) group.remove();
    this.shown.delete(key);
    this.store.announced.delete(key);
  }

  offerCell(code) {
    const card = code.closest(".indus-call");
    if (!card || isOwn(card.lastChild) || !this.store.notebook) return;
    const send = () => {
      const shown = card.querySelector(".indus-code pre") ?? card.querySelector(".indus-code"); // without its buttons
      const source = shown?.textContent ?? "";
      this.store.send({ kind: "to_cell", code: source.replace(/\n+$/, "") });
    };
    const title = "Put this code into a new cell";
    const button = h("button", { class: "ia-to-cell", type: "button", title, text: "To cell", onclick: send });
    markOwn(button);
    card.append(button);
  }

  stop() {
    clearTimeout(this.filling);
  }

  noteOpened(event) {
    const summary = event.target instanceof Element ? event.target.closest("summary") : null;
    const details = summary?.parentElement;
    const node = details?.closest(".ia-block");
    const key = [...this.shown].find(([, block]) => block.node === node)?.[0];
    if (!node || !(details instanceof HTMLDetailsElement) || key === undefined) return;
    const index = [...node.querySelectorAll("details")].indexOf(details);
    const opened = this.store.opened.get(key) ?? new Map();
    opened.set(index, !details.open); // the click turns it only after this
    this.store.opened.set(key, opened);
    if (!details.open && this.store.kind === "panel") this.store.follow = false; // the user reads here
  }

  keepOpened(key, content) {
    const opened = this.store.opened.get(key);
    if (!opened) return;
    const details = content.querySelectorAll("details");
    for (const [index, open] of opened) details[index]?.toggleAttribute("open", open);
  }

  typesetSoon(block) {
    if (!block.node.textContent.includes("$")) return;
    clearTimeout(block.timer);
    block.timer = setTimeout(() => {
      const typesetter = this.store.model.widget_manager?._rendermime?.latexTypesetter;
      for (const answer of block.node.querySelectorAll(".indus-answer")) typesetter?.typeset(answer);
    }, TYPESET_PAUSE_MS);
  }
}

// src/dialog_parts.js
const OUTCOME_LINES = 6;

function choicesOf(frame, layout) {
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

function choiceButton(id, label, key, style, onclick) {
  return h(
    "button",
    { class: `ia-option ${style}`, type: "button", "data-k": `${id} ${label}`, onclick },
    h("span", { class: "ia-option-text", text: label }),
    key ? h("span", { class: "ia-key", "aria-hidden": "true", text: key }) : null,
  );
}

function foldButton(id, label, key, folded) {
  const button = choiceButton(id, label, key, "ia-fold-button", () => {
    folded.hidden = !folded.hidden;
    button.setAttribute("aria-expanded", String(!folded.hidden));
    const first = folded.querySelector("input, button");
    if (!folded.hidden && first instanceof HTMLElement) first.focus();
  });
  button.setAttribute("aria-expanded", String(!folded.hidden));
  return button;
}

function headingOf(frame, layout, id) {
  return h("div", { class: "ia-heading", id, text: layout?.heading ?? splitTitle(String(frame.title ?? "")).heading });
}

function cautionsOf(layout) {
  return (layout?.warnings ?? []).map((warning) => {
    const words = markWords(warning, layout?.names ?? []).map(({ text, marked }) =>
      marked ? h("code", { text }) : text,
    );
    const icon = h("span", { class: "ia-caution-icon", "aria-hidden": "true", text: "⚠" });
    return h("div", { class: "ia-caution", role: "note" }, icon, h("span", {}, ...words));
  });
}

function outcomeOf(layout) {
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

function withCode(text) {
  return text.split("\u0060").map((part, index) => (index % 2 === 1 ? h("code", { text: part }) : part));
}

function detailsOf(frame, layout) {
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

function detailNodes(text) {
  const rows = diffLines(text);
  if (!rows) return [text];
  return rows.map(({ kind, line }) => h("span", { class: kind ? `ia-row ia-${kind}` : "ia-row", text: `${line}\n` }));
}

function row(...nodes) {
  return h("div", { class: "ia-options" }, ...nodes);
}

function cancelButton(id, answer) {
  const props = { class: "ia-quiet", type: "button", title: "Esc", text: "Cancel" };
  return h("button", { ...props, "data-k": `${id} cancel`, onclick: () => answer(null) });
}

function nextOption(box, step) {
  const options = [...(box?.querySelectorAll(".ia-option") ?? [])].filter(
    (option) => option instanceof HTMLButtonElement && !option.disabled && option.offsetParent !== null,
  );
  const at = options.findIndex((option) => option === focusedElement());
  const byEnter = options.findIndex((option) => option.matches(".ia-default"));
  const next = options[at < 0 ? Math.max(0, byEnter) : (at + step + options.length) % options.length];
  return next instanceof HTMLElement ? next : undefined;
}

function secondsUntil(until) {
  return Math.max(0, Math.ceil((until - Date.now()) / 1000));
}

// src/dialog_answers.js
function controlsOf(frame, layout, answers, answer) {
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

// src/dialog_keyboard.js
const ARM_DELAY_MS = 250;
const TAKEN_DELAY_MS = 500;
const EARLY_SHOWN_MS = 8000;
const EARLY = "That key came too early to count: press it again.";
const ABSENT = "No answer here has that key.";

class DialogKeyboard {
  constructor(dialogs) {
    this.dialogs = dialogs;
  }

  get shown() {
    return this.dialogs.shown;
  }

  noteEarly(shown) {
    clearTimeout(shown.again);
    const counts = Math.max(shown.keysFrom - Date.now(), ARM_DELAY_MS);
    shown.again = setTimeout(() => {
      setText(shown.early, EARLY);
      shown.again = setTimeout(() => setText(shown.early, ""), EARLY_SHOWN_MS);
    }, counts);
  }

  handleChord(event) {
    const { dialogs, shown } = this;
    const meant = kindOfChord(event, isTypingField(event.target));
    if (!meant || !shown?.layout || event.repeat) return false;
    const choice = shown.choices.find(({ kind }) => kind === meant);
    const hasFocus = shown.box.contains(focusedElement());
    if (shown.box.hidden) dialogs.view.announcer.say(dialogs.where.textContent ?? "");
    else if (!shown.armed || (hasFocus && Date.now() < shown.keysFrom)) this.noteEarly(shown);
    else if (choice) this.choose(choice.value, false);
    else setText(shown.early, ABSENT);
    return true;
  }

  handleKey(event, frame, answer) {
    const { shown } = this;
    if (!shown) return;
    const { target } = event;
    const took = target === shown.box;
    const isEarly = this.holdBack(shown, took) || !shown.armed;
    if (event.repeat || event.isComposing) return;
    const action = actionOf(event, frame, shown);
    const isLost = isEarly && action?.type === "choose" && shown.box.contains(focusedElement());
    clearTimeout(shown.again);
    setText(shown.early, "");
    if (isLost) this.noteEarly(shown);
    if (!action || !shown.armed) return;
    event.preventDefault();
    if (action.type === "close") this.close(target, answer);
    else if (action.type === "absent") setText(shown.early, ABSENT);
    else if (action.type === "submit") this.submit(/** @type {HTMLInputElement} */ (target));
    else if (isEarly) return;
    else if (action.type === "choose") this.choose(action.value, took);
    else if (action.type === "move") this.move(action.step);
  }

  holdBack(shown, took) {
    const isEarly = took && Date.now() < shown.keysFrom;
    if (isEarly || (took && shown.press !== undefined)) shown.keysFrom = Date.now() + TAKEN_DELAY_MS;
    this.takeBack();
    if (!shown.armed) this.dialogs.disarm(shown);
    return isEarly || (took && Date.now() < shown.keysFrom);
  }

  takeBack() {
    const { shown } = this;
    const waits = shown?.press !== undefined;
    clearTimeout(shown?.press);
    if (shown) shown.press = undefined;
    return waits;
  }

  close(target, answer) {
    const why = target instanceof Element ? target.closest(".ia-why") : null;
    if (!(why instanceof HTMLElement)) {
      answer(null);
      return;
    }
    why.hidden = true;
    focusQuietly(this.shown?.box);
  }

  submit(field) {
    const why = field.closest(".ia-why");
    const button = why ? why.querySelector("button") : this.shown?.box.querySelector("button.ia-primary");
    if (button instanceof HTMLButtonElement) button.click();
  }

  choose(value, tookFocus) {
    const { shown } = this;
    const button = shown?.choices.find((choice) => choice.value === value)?.button;
    const fold = button?.closest(".ia-again");
    const hasFocus = shown?.box.contains(focusedElement()); // else keys that follow are meant for another field
    if (!shown || !button || button.disabled) {
      if (hasFocus) shown?.reading?.focus();
    } else if (fold instanceof HTMLElement && fold.hidden) {
      fold.hidden = false; // a rule is not chosen before it could be read
      if (hasFocus) button.focus();
    } else if (tookFocus) shown.press = setTimeout(() => button.click(), ARM_DELAY_MS);
    else button.click();
  }

  move(step) {
    const { reading, box } = this.shown ?? { reading: null, box: null };
    if (reading && !reading.done && focusedElement() === box) {
      reading.focus();
      return;
    }
    nextOption(box, step)?.focus();
  }
}

function actionOf(event, { method }, { box, choices, layout }) {
  const { target } = event;
  const scrolling = target instanceof Element && target.matches(".ia-body, .ia-message");
  const at = { typing: isTypingField(target), scrolling, atBox: target === box || scrolling };
  const byEnter = layout?.default ?? null;
  return dialogAction(event, { method, choices, byEnter, isOfParts: layout !== null }, at);
}

// src/in_place.js
const IN_PLACE = Symbol.for("indus_nb in place");

class InPlace {
  constructor(id, onSeen) {
    this.id = id;
    this.node = h("button", { class: "ia-in-place", type: "button", hidden: true, onclick: () => this.shown?.show() });
    this.shown = null;
    this.unseen = new Set();
    this.sights = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) if (isIntersecting) this.unseen.delete(target);
      this.say();
      if (this.unseen.size === 0) onSeen();
    });
    this.box = new IntersectionObserver((entries) => {
      this.inSight = entries.at(-1)?.isIntersecting === true;
      this.say();
    });
    this.inSight = false;
  }

  look() {
    const find = /** @type {Record<symbol, ((id: string) => ShownInPlace | null) | undefined>} */ (
      /** @type {unknown} */ (globalThis)
    )[IN_PLACE];
    const before = this.shown?.ends ?? [];
    const boxBefore = this.shown?.box;
    this.shown = find?.(this.id) ?? null;
    this.node.hidden = this.shown === null;
    if (this.shown?.box !== boxBefore) {
      this.box.disconnect();
      this.inSight = false;
      if (this.shown) this.box.observe(this.shown.box);
    }
    const ends = this.shown?.ends ?? [];
    if (ends.length !== before.length || ends.some((end, index) => end !== before[index])) {
      this.sights.disconnect();
      this.unseen = new Set(ends);
      for (const end of ends) this.sights.observe(end);
    }
    this.say();
  }

  say() {
    const isSeen = this.unseen.size === 0;
    const what = isSeen ? "go there" : "scroll to its end there before you accept it";
    const where = isSeen && this.inSight ? "where you see it" : `at ${this.shown?.cell}: ${what}`;
    setText(this.node, this.shown ? `It is shown in the notebook, ${where}` : "");
  }

  stop() {
    this.sights.disconnect();
    this.box.disconnect();
  }
}

// src/reading.js
const TOLERANCE_PX = 2;
const FEW_LINES = 3;

class Reading {
  constructor(node, store, id) {
    this.text = node;
    this.store = store;
    this.id = id;
    this.endInSight = false;
    this.bar = h("button", { class: "ia-unread", type: "button", onclick: () => this.scrollOn() });
    this.whole = h("button", {
      class: "ia-whole",
      type: "button",
      text: "Show all of it",
      onclick: () => this.showAll(),
    });
    this.rest = h("div", { class: "ia-rest", hidden: true }, this.bar, this.whole);
    this.end = h("div", { class: "ia-text-end" });
    this.inPlace = new InPlace(id, () => this.note());
    node.before(this.inPlace.node);
    node.after(this.end, this.rest);
    this.look();
    this.sizes = new ResizeObserver(() => this.look());
    this.sizes.observe(node);
    this.sights = new IntersectionObserver((entries) => {
      this.endInSight = entries.at(-1)?.isIntersecting ?? false;
      this.look();
    });
    this.sights.observe(this.end);
    node.addEventListener("scroll", () => this.look());
  }

  get done() {
    return this.store.answers.isRead(this.id);
  }

  look() {
    this.inPlace.look();
    const isInPlace = this.inPlace.shown !== null;
    this.text.hidden = this.end.hidden = isInPlace;
    if (isInPlace) this.rest.hidden = true;
    else this.measure();
  }

  measure() {
    const hidden = this.hidden;
    if (hidden > TOLERANCE_PX && hidden <= FEW_LINES * this.lineHeight) this.text.classList.add("ia-unfolded");
    const below = this.hidden - this.text.scrollTop;
    this.rest.hidden = this.text.clientHeight > 0 && below <= TOLERANCE_PX;
    if (!this.rest.hidden) {
      const lines = Math.max(1, Math.ceil((below - TOLERANCE_PX) / this.lineHeight));
      const text = `▼ ${lines.toLocaleString("en")} more line${lines === 1 ? "" : "s"} below`;
      this.bar.textContent = this.done ? text : `${text}: scroll to the end before you allow it`;
    } else if (this.endInSight || !this.text.classList.contains("ia-unfolded")) this.note();
  }

  note() {
    if (!this.done) this.store.answers.noteRead(this.id);
  }

  get hidden() {
    return this.text.scrollHeight - this.text.clientHeight - this.ofStyle("paddingBottom", 0);
  }

  get lineHeight() {
    return this.ofStyle("lineHeight", 16);
  }

  ofStyle(name, otherwise) {
    return Number.parseFloat(getComputedStyle(this.text)[name]) || otherwise;
  }

  scrollOn() {
    this.text.scrollBy(0, Math.max(this.text.clientHeight - 2 * this.lineHeight, this.lineHeight));
  }

  showAll() {
    this.store.follow = false; // else the end would come into sight by itself
    this.text.classList.add("ia-unfolded");
    this.endInSight = false;
    this.sights.unobserve(this.end);
    this.sights.observe(this.end); // which tells where it is now
    this.look();
    this.focus();
  }

  focus() {
    focusQuietly(this.inPlace.shown ? this.inPlace.node : this.text);
  }

  stop() {
    this.inPlace.stop();
    this.sizes.disconnect();
    this.sights.disconnect();
  }
}

// src/cell_name.js
const ORDINALS = new Intl.PluralRules("en", { type: "ordinal" });
const ENDINGS = { one: "st", two: "nd", few: "rd" };

function nameOfCell(numbers, index) {
  const number = numbers[index] ?? null;
  if (number !== null && numbers.filter((each) => each === number).length === 1) return `cell [${number}]`;
  return `the ${index + 1}${ENDINGS[ORDINALS.select(index + 1)] ?? "th"} cell`;
}

// src/sights.js
const ENOUGH = 0.5;
const STEPS = Array.from({ length: 21 }, (_, step) => step / 20);

const sights = new Set();
const announced = new Set();

class Sight {
  constructor(view, onChange) {
    this.view = view;
    this.onChange = onChange;
    this.id = null;
    this.isTouched = false;
    this.isEnough = null;
    this.observer = new IntersectionObserver((entries) => this.note(entries.at(-1)), { threshold: STEPS });
    sights.add(this);
  }

  begin(id, box) {
    this.id = id;
    this.observer.observe(box);
  }

  end() {
    const { id } = this;
    this.observer.disconnect();
    this.id = this.isEnough = null;
    this.isTouched = false;
    if (id === null) return;
    const others = [...sights].filter((sight) => sight.id === id);
    if (others.length === 0) announced.delete(id);
    for (const { onChange } of others) onChange();
  }

  close() {
    sights.delete(this);
    this.end();
  }

  note(entry) {
    if (!entry || this.id === null) return;
    const { intersectionRatio, intersectionRect, isIntersecting, rootBounds } = entry;
    const share = intersectionRect.height / (rootBounds?.height ?? innerHeight);
    this.isTouched = isIntersecting;
    this.isEnough = isIntersecting && Math.max(intersectionRatio, share) >= ENOUGH;
    for (const { id, onChange } of sights) if (id === this.id) onChange();
  }

  get cell() {
    if (this.view.store.kind !== "panel" || this.id === null) return null;
    const cells = [...sights].filter(({ id, view }) => id === this.id && view.store.kind === "cell");
    return cells.find(({ isEnough }) => isEnough) ?? cells[0] ?? null;
  }

  get isAwaited() {
    const { kind, state } = this.view.store;
    if (kind !== "panel") return false;
    const stores = [...sights].map(({ view }) => view.store).filter((store) => store.kind === "cell");
    return stores.some(({ busy, ended, state: other }) => busy && !ended && other.session?.id === state.session?.id);
  }

  nameFrom(from) {
    const { model, notebook, path, place } = this.view.store;
    const cells = [...(notebook?.cells ?? [])];
    const index = cells.findIndex(({ id }) => id === model.get("cell"));
    if (index < 0) return "its cell";
    const numbers = cells.map(({ executionCount }) => executionCount ?? null);
    return `${nameOfCell(numbers, index)}${path === from.view.store.path ? "" : ` of ${place}`}`;
  }

  announce(say) {
    if (this.id === null || announced.has(this.id)) return;
    announced.add(this.id);
    say();
  }
}

// src/dialogs.js
const UNREAD = "Scroll to the end of what is asked first";

class Dialogs {
  constructor(store, view) {
    this.store = store;
    this.view = view;
    this.keyboard = new DialogKeyboard(this);
    this.node = h("div", { class: "ia-dialogs" });
    this.shown = null;
    this.noted = new Set();
    this.sight = new Sight(view, () => this.settle());
    const go = () => this.sight.cell?.view.bringUp();
    this.where = h("button", { class: "ia-where", type: "button", hidden: true, onclick: go });
  }

  show() {
    const { dialogs } = this.store;
    const [first] = dialogs.values();
    if (first?.frame.id !== this.shown?.id || JSON.stringify(first?.layout?.choices) !== this.shown?.offers) {
      const hadFocus = this.node.contains(focusedElement());
      if (this.shown && !dialogs.has(this.shown.id)) this.view.closeTyped(this.shown.id);
      this.node.replaceChildren();
      this.forget();
      if (first) this.open(first, hadFocus);
      else if (hadFocus) this.view.focusRest();
    }
    this.noteShown([...dialogs.keys()]);
    if (this.shown) setText(this.shown.more, dialogs.size > 1 ? `${dialogs.size - 1} more after this` : "");
    this.tick();
  }

  noteShown(ids) {
    for (const id of ids) if (!this.noted.has(id)) this.store.send({ kind: "dialog_shown", id });
    this.noted = new Set(ids);
  }

  forget() {
    clearTimeout(this.shown?.timer);
    clearTimeout(this.shown?.press);
    clearTimeout(this.shown?.again);
    this.shown?.reading?.stop();
    this.shown = null;
    this.sight.end();
    noteWaiting(this, null);
  }

  close() {
    this.forget();
    this.sight.close();
  }

  tick() {
    const { shown } = this;
    if (!shown) return;
    noteWaiting(this, this.waiting(shown)); // again and again: the front end may have set another title
    const until = this.store.dialogs.get(shown.id)?.until;
    if (typeof until === "number") setText(shown.left, `${secondsUntil(until)} s left`);
    shown.reading?.look();
    this.settle();
    if (this.isInvited(shown)) this.takeFocus();
  }

  isInvited({ before, box }) {
    return !box.hidden && before !== null && before === focusedElement() && this.view.mayTakeFocus();
  }

  settle(waits = true) {
    const { shown, where } = this;
    if (!shown) return;
    const { cell } = this.sight;
    if (waits && shown.box.hidden && !shown.awaits && (cell?.isEnough ?? null) === null) {
      shown.awaits = true;
      this.disarm(shown);
    }
    const wasThere = focusedElement() === where;
    const isLeft = (cell?.isEnough ?? shown.awaits) && !shown.box.contains(focusedElement());
    setText(where, cell && isLeft ? `A question waits at ${cell.nameFrom(this.sight)}: show` : "");
    if (isLeft === shown.box.hidden) return;
    shown.box.hidden = isLeft;
    if (isLeft) return;
    this.disarm(shown);
    shown.reading?.look();
    if (wasThere && where.hidden) this.takeFocus();
    else this.invite(shown);
    this.view.reveal();
  }

  invite(shown) {
    if (this.isInvited(shown)) this.takeFocus();
    else if (!this.store.answers.isElsewhere)
      this.sight.announce(() => this.view.announcer.say(`The agent asks: ${textOf(shown)}`));
  }

  disarm(shown) {
    shown.armed = false;
    for (const button of shown.buttons) button.disabled = true;
    clearTimeout(shown.timer);
    shown.timer = setTimeout(shown.arm, ARM_DELAY_MS);
  }

  waiting(shown) {
    const isSeen = this.sight.isTouched && document.visibilityState === "visible";
    return { id: shown.id, text: textOf(shown), place: this.store.place, isSeen, show: () => this.view.bringUp() };
  }

  open({ frame, until, layout }, hadFocus) {
    const { id } = frame;
    const answer = (value, reason) => {
      if (!this.takes(value)) return;
      if (!this.node.contains(focusedElement())) this.takeFocus(); // some browsers give a clicked button none
      forgetKey();
      this.store.answers.note();
      this.store.answer(id, value, reason);
    };
    const name = uniqueId();
    const left = h("span", { class: "ia-left", "aria-hidden": "true" });
    const more = h("span", { class: "ia-more" });
    const early = h("span", { class: "ia-early", role: "status" });
    const { rows, first, choices } = controlsOf(frame, layout, this.store.answers, answer);
    const details = detailsOf(frame, layout);
    const heading = headingOf(frame, layout, name);
    const box = h(
      "div",
      {
        ...{ class: "ia-dialog", role: "dialog", "aria-modal": "false", "aria-labelledby": name, tabindex: "-1" },
      },
      heading,
      ...cautionsOf(layout),
      details,
      outcomeOf(layout),
      ...rows,
      h("div", { class: "ia-actions" }, early, h("span", { class: "ia-space" }), more, left),
    );
    markQuestion(box, id);
    if (until !== null) {
      const text = `It answers itself in ${secondsUntil(until)} seconds.`;
      box.append(h("span", { class: "ia-announced", text }));
    }
    const buttons = [...box.querySelectorAll("button")];
    box.addEventListener("keydown", (event) => this.keyboard.handleKey(event, frame, answer));
    const isRead = choices.length === 0 || !details;
    const reading = isRead ? null : new Reading(details, this.store, id);
    const goesOn = hadFocus || (this.store.answers.isHere && this.view.root.contains(focusedElement()));
    const awaits = !goesOn && this.sight.isAwaited;
    box.hidden = awaits;
    this.node.append(this.where, box);
    this.sight.begin(id, box);
    const arm = () => {
      Object.assign(shown, { armed: true, awaits: false });
      this.settle(false);
      this.enable();
      if (shown.before === null && focusedElement() === box && isTypingField(first)) focusQuietly(first);
      this.store.focus.restore(this.view.root);
    };
    const shown = {
      ...{ id, offers: JSON.stringify(layout?.choices), box, left, more, early, layout, first, choices },
      ...{ reading, arm, buttons, awaits, armed: false, keysFrom: 0, before: focusedElement() },
      ...{ timer: undefined, press: undefined, again: undefined },
    };
    this.shown = shown;
    this.disarm(shown);
    if (hadFocus) this.takeFocus();
    else if (!awaits) this.invite(shown);
    if (wasEarly()) this.keyboard.noteEarly(shown);
    this.view.reveal();
  }

  write(id, text) {
    const field = this.shown?.id === id ? this.shown.box.querySelector(".ia-field") : null;
    if (field && "value" in field && field.value !== text) field.value = text;
  }

  takeFocus() {
    const { shown } = this;
    if (!shown) return;
    if (shown.box.hidden) {
      this.sight.cell?.view.bringUp();
      return;
    }
    this.sight.announce(() => {}); // by the focus
    shown.before = null;
    shown.keysFrom = Date.now() + TAKEN_DELAY_MS;
    if (!this.view.root.contains(focusedElement())) this.store.focus.before = focusedElement();
    focusQuietly(shown.armed && isTypingField(shown.first) ? shown.first : shown.box);
  }

  takes(value) {
    const { shown } = this;
    if (!shown?.armed) return false;
    const isNo = value === null || shown.choices.find((choice) => choice.value === value)?.kind === "no";
    return isNo || shown.reading === null || shown.reading.done;
  }

  enable() {
    const { shown } = this;
    if (!shown?.armed) return;
    const waiting = new Set(shown.choices.filter(({ value }) => !this.takes(value)).map(({ button }) => button));
    for (const button of shown.buttons) {
      button.disabled = waiting.has(button);
      button.classList.toggle("ia-waits", button.disabled);
      if (button.disabled) button.title = UNREAD;
      else if (button.title === UNREAD) button.removeAttribute("title");
    }
  }
}

function textOf({ box }) {
  return box.querySelector(".ia-heading")?.textContent ?? "";
}

// src/status.js
const TOAST_TYPES = ["info", "warning", "error"];

class StatusLines {
  constructor(store) {
    this.store = store;
    this.title = h("div", { class: "ia-title" });
    this.beside = h("div", { class: "ia-aside" });
    this.warning = h("div", { class: "ia-warning", role: "note" });
    this.above = h("div", { class: "ia-widgets" });
    this.below = h("div", { class: "ia-widgets" });
    this.status = h("div", { class: "ia-status" });
    this.toasts = h("div", { class: "ia-toasts", role: "status", "aria-live": "polite" });
    this.shownToasts = new Map();
  }

  show(changes) {
    const { state } = this.store;
    if (changes.has("title")) setText(this.title, state.title);
    if (changes.has("beside")) setText(this.beside, state.beside);
    if (changes.has("warning")) setText(this.warning, state.warning);
    if (changes.has("widgets")) this.showWidgets(state.widgets ?? {});
    if (changes.has("status")) this.showStatus(state.status ?? {});
    if (changes.has("toasts")) this.showToasts(this.store.mirror.toasts);
  }

  showWidgets(widgets) {
    const all = Object.values(widgets);
    for (const node of [this.above, this.below]) {
      const shown = all.filter((widget) => (widget.placement === "belowEditor") === (node === this.below));
      node.replaceChildren(...shown.map(({ lines }) => h("pre", { class: "ia-widget", text: lines.join("\n") })));
      node.hidden = shown.length === 0;
    }
  }

  showStatus(status) {
    const shown = Object.entries(status);
    this.status.replaceChildren(...shown.map(([key, text]) => h("span", { class: "ia-chip", title: key, text })));
    this.status.hidden = shown.length === 0;
  }

  showToasts(toasts) {
    for (const [n, node] of this.shownToasts) {
      if (toasts.has(n)) continue;
      node.remove();
      this.shownToasts.delete(n);
    }
    for (const [n, { text, type }] of toasts) {
      if (this.shownToasts.has(n)) continue;
      const node = h(
        "div",
        { class: `ia-toast ia-${TOAST_TYPES.includes(type) ? type : "info"}` },
        h("span", { class: "ia-toast-text", text }),
        closeButton(() => this.store.dismissToast(n)),
      );
      this.shownToasts.set(n, node);
      this.toasts.append(node);
    }
  }
}

function closeButton(onclick) {
  return h("button", { class: "ia-icon", type: "button", "aria-label": "Close", text: "✕", onclick });
}

function stopButton(store, label, title) {
  return h(
    "button",
    { class: "ia-stop", type: "button", "data-k": "stop", title, onclick: () => store.stop() },
    h("span", { class: "ia-square", "aria-hidden": "true" }),
    label,
  );
}

class Footer {
  constructor(store) {
    this.store = store;
    this.note = h("span", { class: "ia-note" });
    this.time = h("span", { class: "ia-time" });
    this.tokens = h("span", { class: "ia-tokens" });
    this.cost = h("span", { class: "ia-cost" });
    this.stopLabel = h("span");
    this.stop = stopButton(store, this.stopLabel);
    const dot = h("span", { class: "ia-dot", "aria-hidden": "true" });
    this.node = h("div", { class: "ia-foot" }, dot, this.note, this.time, this.tokens, this.cost, this.stop);
  }

  show() {
    const { busy, state } = this.store;
    this.showMode();
    if (!busy && focusedElement() === this.stop) focusQuietly(this.node.closest(".ia-root"));
    this.stop.hidden = !busy;
    this.stop.setAttribute("aria-disabled", String(Boolean(state.stopping)));
    replaceText(this.stopLabel, state.stopping ? "Stopping …" : "Stop");
    for (const [node, text] of /** @type {const} */ ([
      [this.tokens, state.tokens],
      [this.cost, state.cost],
    ])) {
      setText(node, text);
      node.title = text ?? ""; // where it is cut off
    }
    this.tick();
  }

  showMode() {
    const { busy, dialogs, state } = this.store;
    const mode = !busy ? "idle" : state.stopping ? "stopping" : dialogs.size > 0 ? "asks" : "busy";
    this.node.dataset.mode = mode;
    const notes = { stopping: "stopping …", asks: "waiting for your answer", idle: null, busy: null };
    const note = notes[mode] ?? (state.note || state.model || "");
    replaceText(this.note, note);
    this.note.title = [...new Set([note, state.model ?? ""])].filter(Boolean).join(" · ");
  }

  tick() {
    const { startedAt } = this.store.mirror;
    if (startedAt && this.store.busy) setText(this.time, formatDuration(Date.now() - startedAt));
    else if (!startedAt) setText(this.time, "");
  }
}

function replaceText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// src/view.js
const TICK_MS = 500;

const NEXT_VIEW_MS = 200;
const NEAR_END_PX = 48;

class View {
  constructor(store) {
    this.store = store;
    this.announcer = new Announcer(store);
    this.blocks = new BlockList(store, (key, node) => this.announcer.announce(key, node, true));
    this.dialogs = new Dialogs(store, this);
    this.lines = new StatusLines(store);
    this.footer = new Footer(store);
    watchKeys();
    this.ended = h("div", { class: "ia-ended", role: "status", hidden: true });
    const plain = "mathjax_ignore tex2jax_ignore";
    this.root = h("div", { class: `ia-root ia-${store.kind} ${plain}`, tabindex: "-1" });
    this.root.addEventListener("keydown", (event) => this.keepKey(event));
    this.root.addEventListener("focusin", (event) => store.focus.enter(event.target, this.root));
    this.root.addEventListener("focusout", () =>
      setTimeout(() => {
        if (this.root.isConnected && !this.root.contains(focusedElement())) store.focus.forget();
      }),
    );
    this.clock = setInterval(() => this.tick(), TICK_MS);
  }

  get reach() {
    return ".jp-Cell";
  }

  show(changes) {
    this.blocks.show(changes);
    this.lines.show(changes);
    setText(this.ended, this.store.ended);
  }

  keepKey(event) {
    if (this.dialogs.keyboard.handleChord(event)) event.preventDefault();
    const atRoot = event.target instanceof Element && event.target.matches(".ia-dialog, .ia-root");
    if (!belongsToFrontEnd(event, atRoot)) event.stopPropagation();
  }

  tick() {
    this.footer.tick();
    watchAgentCells(this.root, this.store);
    this.dialogs.tick();
    this.announcer.update(this.blocks);
  }

  mayTakeFocus() {
    const active = focusedElement();
    if (globalThis.top !== globalThis.self && !document.hasFocus()) return false; // the page around may have it
    const isFree = (!active || active === document.body) && !this.store.answers.isElsewhere;
    const isOurs = isFree || this.root.contains(active);
    if (isTypingField(active) && !isEmptyField(active)) return false;
    if (!isQuiet() && (isTypingField(active) || !this.root.contains(active))) return false;
    if (isOurs) return true;
    return Boolean(this.root.closest(this.reach)?.contains(active));
  }

  welcome() {}

  bringUp() {
    bringToFront(this.root);
    this.dialogs.node.scrollIntoView({ block: "nearest" });
    this.dialogs.takeFocus();
  }

  reveal() {}

  resume() {}

  closeTyped(_id) {}

  focusRest() {}

  remove() {
    const { store } = this;
    clearInterval(this.clock);
    this.blocks.stop();
    this.dialogs.close();
    store.views.delete(this);
    setTimeout(() => {
      if (store.views.size === 0 && store.focus.focused && focusedElement() === document.body) store.focus.leave();
    }, NEXT_VIEW_MS);
  }
}

// src/cell_view.js
class CellView extends View {
  constructor(store) {
    super(store);
    const { announcer, blocks, dialogs, ended, footer, lines } = this;
    this.root.append(
      lines.title,
      lines.beside,
      lines.warning,
      lines.above,
      blocks.node,
      dialogs.node,
      lines.toasts,
      lines.below,
      lines.status,
      ended,
      footer.node,
      announcer.node,
    );
  }

  get reach() {
    return this.store.state.background ? ".jp-Cell" : ".jp-Notebook";
  }

  mayTakeFocus() {
    return super.mayTakeFocus() && (this.store.follow || this.store.follower.nearEnd());
  }

  reveal() {
    if (this.store.follow) requestAnimationFrame(() => this.dialogs.node.scrollIntoView({ block: "nearest" }));
  }

  show(changes) {
    super.show(changes);
    if (changes.has("dialogs")) this.dialogs.show();
    this.footer.show();
    this.store.follower.attach(this.root);
  }

  closeTyped(id) {
    const { context, state } = this.store;
    const kernel = context?.sessionContext?.session?.kernel;
    const prompt = state.typed?.[id];
    if (prompt === undefined || !kernel) return;
    const lines = [...(this.root.closest(".jp-Cell")?.querySelectorAll(".jp-Stdin") ?? [])]
      .map((box) => box.closest(".jp-OutputArea-child") ?? box)
      .filter((line) => line instanceof HTMLElement && line.style.display !== "none");
    const own = lines.find((line) => line.querySelector(".jp-Stdin-prompt")?.textContent === prompt);
    if (!(own instanceof HTMLElement)) return;
    own.style.display = "none"; // the front end removes it itself later
    if (lines.length === 1) kernel.hasPendingInput = false; // else it runs no other cell
  }

  focusRest() {
    const { focus, state } = this.store;
    if (state.busy && !state.background) focus.hold(this.root);
    else if (focus.before?.isConnected) focus.leave();
    else focusQuietly(this.root);
  }

  remove() {
    this.store.follower.detach(this.root, this.footer.node);
    super.remove();
  }
}

// src/changes.js
class Changes {
  constructor(...parts) {
    this.everything = false;
    this.parts = new Set(parts);
    this.blocks = new Set();
    this.dropped = new Set();
    this.newToasts = [];
  }

  static all() {
    const changes = new Changes();
    changes.everything = true;
    return changes;
  }

  has(...parts) {
    return this.everything || parts.some((part) => this.parts.has(part));
  }
}

// src/key_form.js
class KeyForm {
  constructor(store, leave = () => {}) {
    this.store = store;
    this.leave = leave;
    this.shown = "";
    const ids = { provider: uniqueId(), key: uniqueId(), problem: uniqueId() };
    this.provider = h("select", { class: "ia-key-provider", id: ids.provider });
    this.key = h("input", {
      ...{ class: "ia-key-field", id: ids.key, type: "password", autocomplete: "off", spellcheck: "false" },
      "aria-describedby": ids.problem,
      oninput: () => this.enable(),
    });
    this.keep = h("fieldset", { class: "ia-key-keep" });
    this.send = h("button", { class: "ia-primary", type: "submit", text: "Test and save" });
    this.problem = h("div", { class: "ia-problem", id: ids.problem, role: "alert", hidden: true });
    this.notes = h("div", { class: "ia-key-notes" });
    this.fields = h(
      "form",
      { class: "ia-key-fields", onsubmit: (/** @type {Event} */ event) => this.submit(event) },
      h("label", { for: ids.provider, text: "Provider" }),
      this.provider,
      h("label", { for: ids.key, text: "API key" }),
      this.key,
      this.keep,
      h("div", { class: "ia-key-end" }, this.send, h("span", { text: "The test is a request that costs nothing." })),
    );
    const heading = h("div", { class: "ia-heading", text: "A key for a model" });
    this.node = h("div", { class: "ia-key-form", hidden: true }, heading, this.fields, this.problem, this.notes);
  }

  show() {
    const form = this.store.ended ? null : this.store.state.keys;
    const isDone = this.key.value === "" && this.node.contains(focusedElement());
    this.node.hidden = !form;
    if (!form) {
      this.key.value = "";
      if (isDone) this.leave();
      return;
    }
    this.build(form);
    setText(this.problem, form.problem);
    this.enable();
  }

  build({ providers, provider, place, notes }) {
    const shown = JSON.stringify([providers, provider, place, notes]);
    if (shown === this.shown) return;
    this.shown = shown;
    this.fields.hidden = providers.length === 0;
    this.provider.replaceChildren(
      ...providers.map((each) => h("option", { value: each.provider, text: `${each.provider} (${each.model})` })),
    );
    this.provider.value = provider || (providers[0]?.provider ?? "");
    const places = place ? [`Keep it in ${place}`, "For this kernel only"] : ["For this kernel only"];
    const name = uniqueId();
    this.keep.replaceChildren(
      h("legend", { text: "Where it is kept" }),
      ...places.map((text, at) => {
        const button = h("input", { type: "radio", name, value: String(at), checked: at === 0 });
        return h("label", {}, button, text);
      }),
    );
    this.notes.replaceChildren(...notes.map((text) => h("p", { text })));
  }

  enable() {
    const testing = Boolean(this.store.state.keys?.testing);
    this.send.disabled = testing || this.key.value.trim() === "";
    setText(this.send, testing ? "Testing …" : "Test and save");
  }

  submit(event) {
    event.preventDefault();
    const form = this.store.state.keys;
    const key = this.key.value.trim();
    if (!form || form.testing || !key) return;
    const chosen = this.keep.querySelector("input:checked");
    const keep = form.place !== "" && chosen instanceof HTMLInputElement && chosen.value === "0";
    this.key.value = "";
    focusQuietly(this.key); // the button is disabled meanwhile, and would lose the focus
    this.store.send({ kind: "key", provider: this.provider.value, key, keep });
  }
}

// src/key_view.js
class KeyView extends View {
  constructor(store) {
    super(store);
    this.form = new KeyForm(store);
    this.root.append(this.form.node, this.lines.toasts, this.ended, this.announcer.node);
  }

  show(changes) {
    super.show(changes);
    if (changes.has("keys")) this.form.show();
  }
}

// src/attachments.js
const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MAX_IMAGE_BYTES = 5e6;
const MAX_IMAGES = 8;
const MAX_FILE_BYTES = 5e6;
const PATHS_TYPE = "application/x-jupyter-icontents";

class Attachments {
  constructor(store, focusField) {
    this.store = store;
    this.focusField = focusField;
    this.shown = "";
    this.node = h("div", { class: "ia-images" });
    this.input = h("input", {
      type: "file",
      multiple: true,
      hidden: true,
      onchange: () => this.attach([...(this.input.files ?? [])]),
    });
    this.button = h("button", {
      class: "ia-icon",
      type: "button",
      title: "Attach images, or save files in the working directory",
      "aria-label": "Attach images",
      text: "+",
      onclick: () => this.input.click(),
    });
  }

  show() {
    const { images } = this.store.draft;
    this.node.hidden = images.length === 0;
    const shown = images.map((image) => image.id).join();
    if (shown === this.shown) return;
    this.shown = shown;
    this.node.replaceChildren(...images.map((image) => this.thumbnail(image)));
  }

  thumbnail(image) {
    const { draft } = this.store;
    const remove = () => {
      draft.images = draft.images.filter((each) => each !== image);
      this.store.show(new Changes("composer"));
      this.focusField();
    };
    const label = `Remove ${image.name}`;
    return h(
      "div",
      { class: "ia-image" },
      h("img", { src: `data:${image.mimeType};base64,${image.data}`, alt: image.name, title: image.name }),
      h("button", { class: "ia-icon", type: "button", "aria-label": label, text: "✕", onclick: remove }),
    );
  }

  async attach(files) {
    const { draft } = this.store;
    const problems = [];
    for (const file of files) {
      const isImage = IMAGE_TYPES.includes(file.type);
      const problem = isImage
        ? (imageProblem(file, draft.images.length) ?? (await this.read(file)))
        : (fileProblem(file) ?? (await this.hand(file)));
      if (problem) problems.push(problem);
    }
    this.input.value = "";
    draft.problem = problems.join(" ");
    this.store.show(new Changes("composer"));
  }

  async read(file) {
    try {
      const url = await dataUrl(file);
      const data = url.slice(url.indexOf(",") + 1);
      this.store.draft.images.push({ id: Math.random(), name: file.name, mimeType: file.type, data });
      return null;
    } catch (error) {
      return `${file.name} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  async hand(file) {
    try {
      const url = await dataUrl(file);
      this.store.send({ kind: "file", name: file.name.slice(-255), data: url.slice(url.indexOf(",") + 1) });
      return null;
    } catch (error) {
      return `${file.name} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  acceptPaths(event) {
    const paths = event.mimeData?.hasData(PATHS_TYPE) ? event.mimeData.getData(PATHS_TYPE) : null;
    if (!Array.isArray(paths)) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.type !== "lm-drop") {
      event.dropAction = "copy";
      return;
    }
    event.dropAction = "copy";
    const notebook = this.store.path;
    for (const path of paths) this.store.draft.add(mention(relativePath(String(path), notebook)));
    this.store.show(new Changes("composer"));
    this.focusField();
  }

  acceptDrops(node) {
    node.addEventListener("dragover", (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      event.stopPropagation();
      node.classList.add("ia-dropping");
    });
    for (const type of ["lm-dragenter", "lm-dragover", "lm-drop"])
      node.addEventListener(type, (event) => {
        this.acceptPaths(event);
        node.classList.toggle("ia-dropping", type !== "lm-drop" && event.defaultPrevented);
      });
    node.addEventListener("lm-dragleave", () => node.classList.remove("ia-dropping"));
    node.addEventListener("dragleave", () => node.classList.remove("ia-dropping"));
    node.addEventListener("drop", (event) => {
      node.classList.remove("ia-dropping");
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      event.stopPropagation();
      this.attach([...event.dataTransfer.files]);
    });
  }

  acceptPaste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    this.attach(files);
  }
}

function imageProblem({ name, type, size }, attached) {
  if (!IMAGE_TYPES.includes(type)) return `${name} is no PNG, JPEG, GIF or WebP image.`;
  if (size > MAX_IMAGE_BYTES) {
    const limit = MAX_IMAGE_BYTES / 1e6;
    return `${name} has ${(size / 1e6).toFixed(1)} MB; an image may have ${limit} MB.`;
  }
  if (attached >= MAX_IMAGES) return `${name} was left out: a message may hold ${MAX_IMAGES} images.`;
  return null;
}

function fileProblem({ name, size }) {
  if (size <= MAX_FILE_BYTES) return null;
  const limit = MAX_FILE_BYTES / 1e6;
  return `${name} has ${(size / 1e6).toFixed(1)} MB; more than ${limit} MB go into the list of files, and from there here.`;
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

// src/completions.js
const MAX_SHOWN = 50;
const WAIT_MS = 2000;

class Completions {
  constructor(field, id, onAccept) {
    this.field = field;
    this.onAccept = onAccept;
    this.node = h("ul", { class: "ia-choices", id, role: "listbox", "aria-label": "Completions", hidden: true });
    this.asked = null;
    this.offered = null;
    this.items = [];
    this.chosen = 0;
    this.waiting = null;
  }

  get isOpen() {
    return !this.node.hidden;
  }

  get isAwaited() {
    const isOutstanding =
      this.asked !== this.offered && this.asked === this.field.value.slice(0, this.field.selectionStart);
    return isOutstanding && beginsMention(this.asked ?? "");
  }

  get isComplete() {
    const item = this.items[this.chosen];
    if (!item || this.asked === null) return false;
    return completed(this.asked, item.text).trim() === this.field.value.trim();
  }

  get isWhole() {
    const isChosen = this.asked !== "/" || this.chosen > 0;
    return isChosen && this.field.value === this.asked && Boolean(this.items[this.chosen]?.whole);
  }

  offer(items) {
    if (!this.field.matches(":focus") || this.field.value.slice(0, this.field.selectionStart) !== this.asked) return;
    if (items.length === 0 && this.items.length > 0) return; // commands that only the page knows of
    const chosen = this.items[this.chosen]?.text;
    this.items = items.slice(0, MAX_SHOWN);
    this.node.hidden = this.items.length === 0;
    this.node.replaceChildren(...this.items.map((item, index) => this.row(item, index)));
    const again = this.asked === this.offered ? this.items.findIndex(({ text }) => text === chosen) : 0;
    this.offered = this.asked;
    this.choose(Math.max(0, again));
    this.waiting?.act();
  }

  wait(act) {
    if (this.waiting) return;
    const once = () => {
      this.stopWaiting();
      act();
    };
    this.waiting = { timer: setTimeout(once, WAIT_MS), act: once };
  }

  stopWaiting() {
    clearTimeout(this.waiting?.timer);
    this.waiting = null;
  }

  row(item, index) {
    const accept = (/** @type {PointerEvent} */ event) => {
      event.preventDefault();
      this.accept(index);
    };
    return h(
      "li",
      { role: "option", id: `${this.node.id}-${index}`, class: "ia-choice", onpointerdown: accept },
      h("span", { class: "ia-choice-label", text: item.label || item.text }),
      h("span", { class: "ia-detail", text: item.detail ?? "" }),
    );
  }

  choose(index) {
    const rows = [...this.node.children];
    this.field.setAttribute("aria-expanded", String(rows.length > 0));
    this.field.removeAttribute("aria-activedescendant");
    this.chosen = rows.length > 0 ? (index + rows.length) % rows.length : 0;
    for (const [each, row] of rows.entries()) row.setAttribute("aria-selected", String(each === this.chosen));
    const row = rows[this.chosen];
    if (!row) return;
    row.scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", row.id);
  }

  accept(index) {
    const item = this.items[index];
    if (!item || this.asked === null) return;
    this.field.setRangeText(completed(this.asked, item.text), 0, this.asked.length, "end");
    this.close();
    this.onAccept();
  }

  close() {
    this.stopWaiting();
    this.asked = this.offered = null;
    this.items = [];
    this.node.hidden = true;
    this.node.replaceChildren();
    this.choose(0);
  }
}

// src/queue.js
function joinsRun({ busy, code_only: isCode }) {
  return Boolean(busy) && !isCode;
}

function whenSent(steering, followUp) {
  if (followUp === 0) return "Will be sent with your next prompt.";
  if (steering === 0) return "Will be sent after the answer to your next prompt.";
  return "Will be sent with your next prompt and after its answer.";
}

class Queue {
  constructor(store) {
    this.store = store;
    this.node = h("div", { class: "ia-queue", hidden: true });
  }

  show() {
    const { steering = [], followUp = [] } = this.store.state.queue ?? {};
    const rows = [
      ...steering.map((text, index) => this.row("steering", "next", text, index)),
      ...followUp.map((text, index) => this.row("followUp", "afterwards", text, index)),
    ];
    const hadFocus = this.node.contains(focusedElement());
    this.node.hidden = rows.length === 0;
    const clear = this.button(rows.length > 1 ? "Clear all" : "Clear", "ia-clear", "clear_queue");
    if (joinsRun(this.store.state) || this.store.ended) this.node.replaceChildren(...rows, clear);
    else this.node.replaceChildren(this.unsent(whenSent(steering.length, followUp.length), clear), ...rows);
    if (hadFocus) focusQuietly(this.node.closest(".ia-root")?.querySelector(".ia-text"));
  }

  unsent(when, clear) {
    const send = this.button("Send now", "ia-send-now", "send_queued");
    return h("div", { class: "ia-unsent" }, h("span", { class: "ia-when", text: when }), send, clear);
  }

  button(text, name, kind) {
    return h("button", { class: `ia-quiet ${name}`, type: "button", text, onclick: () => this.store.send({ kind }) });
  }

  row(queue, label, text, index) {
    const edit = h("button", {
      class: "ia-quiet",
      type: "button",
      text: "Edit",
      "aria-label": `Take back and edit: ${shortLabel(text)}`,
      onclick: () => {
        this.store.draft.expectsTakenBack = true;
        this.store.send({ kind: "unqueue", queue, index, text });
      },
    });
    return h(
      "div",
      { class: "ia-queued" },
      h("span", { class: "ia-tag", text: label }),
      h("span", { class: "ia-line", title: text, text: oneLine(text) }),
      edit,
    );
  }
}

// src/composer.js
const MAX_HEIGHT_PX = 200;
const ALONE_MS = 250;

class Composer {
  constructor(store, view) {
    this.store = store;
    this.view = view;
    this.fitted = "";
    this.held = null;
    const listId = uniqueId();
    this.field = this.makeField(listId);
    this.completions = new Completions(this.field, listId, () => this.takeOver());
    this.attachments = new Attachments(store, () => focusQuietly(this.field));
    this.problem = h("div", { class: "ia-problem", role: "alert", hidden: true });
    this.stop = stopButton(store, h("span", { text: "Stop" }), "Stop (Esc also clears what waits)");
    this.later = h("button", {
      class: "ia-secondary",
      type: "button",
      title: "Alt+Enter: say it when this is done",
      text: "Follow up",
      onclick: () => this.submit("followUp"),
    });
    this.send = h("button", {
      class: "ia-primary",
      type: "button",
      "data-k": "send",
      onclick: () => this.submit(joinsRun(this.store.state) ? "steer" : "send"),
    });
    this.node = h(
      "div",
      { class: "ia-composer" },
      this.completions.node,
      this.attachments.node,
      this.field,
      this.problem,
      h(
        "div",
        { class: "ia-actions" },
        this.attachments.button,
        this.attachments.input,
        h("span", { class: "ia-space" }),
        this.stop,
        this.later,
        this.send,
      ),
    );
    this.attachments.acceptDrops(this.node);
  }

  makeField(listId) {
    return h("textarea", {
      class: "ia-text",
      "data-k": "composer",
      rows: 1,
      "aria-label": "Message",
      role: "combobox",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": listId,
      placeholder: "Ask",
      oninput: () => this.handleInput(),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.handleKey(event),
      onpaste: (/** @type {ClipboardEvent} */ event) => this.handlePaste(event),
      onblur: () => {
        this.completions.waiting?.act();
        this.completions.close();
      },
    });
  }

  show() {
    const { draft, state } = this.store;
    if (this.field.value !== draft.text) {
      this.field.value = draft.text;
      this.completions.close();
    }
    const asks = this.store.dialogs.size > 0;
    this.field.placeholder = asks
      ? "Answer above first"
      : state.commands?.length
        ? "Ask, or type / for commands"
        : "Ask";
    this.fit();
    setText(this.problem, draft.problem);
    this.attachments.show();
    this.showButtons(Boolean(state.busy), Boolean(state.stopping));
    const { asked } = this.completions;
    if (asked !== null && state.completions?.text === asked) this.completions.offer(state.completions.items);
  }

  showButtons(busy, stopping) {
    const { isEmpty } = this.store.draft;
    const joins = joinsRun(this.store.state);
    const label = joins ? "Steer" : "Send";
    if (this.send.textContent !== label) this.send.textContent = label;
    this.send.title = joins ? "Enter: say it as soon as possible" : "Enter";
    this.send.disabled = isEmpty || this.store.ended !== "";
    this.later.hidden = !joins;
    this.later.disabled = isEmpty;
    if (!busy && focusedElement() === this.stop) focusQuietly(this.field);
    this.stop.hidden = !busy;
    this.stop.setAttribute("aria-disabled", String(stopping));
  }

  fit() {
    if (this.fitted === this.field.value) return;
    this.fitted = this.field.value;
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight + 2, MAX_HEIGHT_PX)}px`;
  }

  takeOver() {
    this.store.draft.text = this.field.value;
    this.store.show(new Changes("composer"));
  }

  handleInput() {
    const { draft } = this.store;
    draft.problem = "";
    draft.recalled = null;
    if (this.field.value === "") draft.isPasted = false;
    const before = this.field.value.slice(0, this.field.selectionStart);
    this.completions.close();
    if (isCompletable(before)) this.complete(before);
    this.takeOver();
  }

  complete(before) {
    this.completions.asked = before;
    const commands = completeCommand(before, this.store.state.commands ?? []);
    if (commands) this.completions.offer(commands);
    this.store.send({ kind: "complete", text: before });
  }

  submit(how) {
    this.completions.close();
    this.store.draft.recalled = null;
    if (!this.performCommand()) this.store.prompt(how);
    focusQuietly(this.field);
  }

  performCommand() {
    const { draft, state } = this.store;
    const name = draft.text.trim().slice(1);
    if (!state.commands?.some((each) => `/${each.name}` === draft.text.trim() && each.source === "panel")) return false;
    if (name === "sessions" || name === "tree") this.store.open(name, this.view);
    else if (name === "export") this.store.export();
    else return false;
    draft.clear();
    this.store.show(new Changes("composer"));
    return true;
  }

  handlePaste(event) {
    if (event.clipboardData?.getData("text/plain").trim().includes("\n")) this.store.draft.isPasted = true;
    this.attachments.acceptPaste(event);
  }

  passOn(event) {
    const { held } = this;
    const { dialogs } = this.view;
    this.held = null;
    clearTimeout(held?.timer);
    if (held && (!held.isPassed || dialogs.keyboard.takeBack())) {
      this.write(held.key); // another key follows: this one was the beginning of a message
      return false;
    }
    const { key, code, ctrlKey, metaKey, altKey, shiftKey, repeat } = event;
    const box = dialogs.node.querySelector("[role=dialog]:not([hidden])");
    if (!box || this.field.value !== "" || !/^[1-9yn]$/i.test(key)) return false;
    if (ctrlKey || metaKey || altKey || repeat) return false;
    const pass = () => {
      passed.isPassed = !box.dispatchEvent(new KeyboardEvent("keydown", { key, code, shiftKey, cancelable: true }));
      if (passed.isPassed) return;
      this.held = null; // it means nothing there
      this.write(key);
    };
    const passed = { key, timer: setTimeout(pass, ALONE_MS), isPassed: false };
    this.held = passed;
    return true;
  }

  write(key) {
    this.field.setRangeText(key, 0, 0, "end");
    this.takeOver();
  }

  handleKey(event) {
    if (event.isComposing) return;
    if (this.passOn(event)) {
      event.preventDefault();
      return;
    }
    if (event.key === "Escape" && this.completions.waiting) {
      event.preventDefault();
      this.completions.close();
      return;
    }
    const action = this.actionOf(event);
    if (!action) return;
    event.preventDefault();
    const chooses = event.key === "Enter" && !event.altKey && this.completions.isAwaited;
    if (chooses) this.completions.wait(() => this.perform(this.actionOf(event) ?? action));
    else this.perform(action);
  }

  actionOf(event) {
    const { completions, field, store } = this;
    return composerAction(event, {
      open: completions.isOpen,
      busy: joinsRun(store.state),
      recalling: store.draft.recalled !== null,
      empty: field.value === "",
      complete: completions.isComplete || completions.isWhole,
    });
  }

  perform(action) {
    const { completions } = this;
    switch (action) {
      case "close":
        completions.close();
        break;
      case "next":
        completions.choose(completions.chosen + 1);
        break;
      case "previous":
        completions.choose(completions.chosen - 1);
        break;
      case "accept":
        completions.accept(completions.chosen);
        break;
      case "older":
        this.recall(-1);
        break;
      case "newer":
        this.recall(1);
        break;
      default:
        if (completions.isWhole) completions.accept(completions.chosen);
        this.submit(action);
    }
  }

  recall(step) {
    this.store.draft.recall(step);
    this.field.value = this.store.draft.text;
    this.store.show(new Changes("composer"));
  }
}

// src/empty_state.js
const KEYS = [
  ["Enter", "send, or steer the agent while it works"],
  ["Alt+Enter", "say it when the agent is done"],
  ["Esc", "stop"],
  ["/", "commands"],
];
const KEYS_WITH_KERNEL = [...KEYS, ["@", "files and cells"], ["#", "variables"]];
const KEYS_WITHOUT_KERNEL = [...KEYS, ["@", "files"]];

class EmptyState {
  constructor(store, onChoose) {
    this.store = store;
    this.onChoose = onChoose;
    this.shown = "";
    this.node = h("div", { class: "ia-start", hidden: true });
  }

  show() {
    const { approve, busy, examples = [], first_prompt: first, kernel, keys: form, log } = this.store.state;
    const said = [...this.store.mirror.blocks.values()].some((html) => html !== "");
    this.node.hidden = said || Boolean(busy) || Boolean(form) || !this.store.complete;
    const shown = JSON.stringify([examples, approve, first, kernel, log]);
    if (this.node.hidden || shown === this.shown) return;
    this.shown = shown;
    if (log) {
      this.node.replaceChildren("What other programs call is shown here.", this.approval(approve));
      return;
    }
    const keys = kernel ? KEYS_WITH_KERNEL : KEYS_WITHOUT_KERNEL;
    this.node.replaceChildren(
      h("div", { class: "ia-examples" }, ...examples.map((text) => this.example(text))),
      h("dl", { class: "ia-keys" }, ...keys.flatMap(([key, text]) => [h("dt", { text: key }), h("dd", { text })])),
      this.approval(approve),
      h("div", { class: "ia-approval", text: first ?? "" }),
    );
  }

  approval(approve) {
    return h("div", { class: "ia-approval", text: approvalWords(approve).long });
  }

  example(text) {
    const onclick = () => {
      this.store.draft.replace(text);
      this.store.show(new Changes("composer"));
      this.onChoose();
    };
    return h("button", { class: "ia-example", type: "button", text, onclick });
  }
}

// src/header.js
const UNNAMED = "Unnamed session";
const UNDO = "Take back what the agent's last call changed in variables, files and cells";
const CELLS = "Write code that changes something as cells of the notebook, with its outputs";
const PLAN = "Have the next prompt planned first: nothing is changed before you say go";
const DOCK =
  "To keep the panel in sight, right-click it, choose “Create New View for Cell Output”, and drag the tab to where you want it.";

class Header {
  constructor(store, view) {
    this.store = store;
    this.view = view;
    this.models = [];
    this.modelsKey = "";
    this.levelsKey = "";
    this.name = this.makeName();
    this.model = h("select", {
      class: "ia-pick",
      "data-k": "model",
      "aria-label": "Model",
      onchange: () => this.chooseModel(),
    });
    this.level = h("select", {
      class: "ia-pick",
      "data-k": "level",
      "aria-label": "Thinking",
      onchange: () => this.chooseLevel(),
    });
    this.approve = h("span", { class: "ia-approve", hidden: true });
    this.switches = [];
    this.filled = h("span", { class: "ia-filled" });
    this.percent = h("span");
    const bar = h("span", { class: "ia-bar", "aria-hidden": "true" }, this.filled);
    this.context = h("span", { class: "ia-context", hidden: true }, bar, this.percent);
    this.undo = this.item("Undo", UNDO, () => store.send({ kind: "undo" }));
    this.dock = this.item("↗ Dock", DOCK, () => this.say(DOCK));
    this.hint = h("div", { class: "ia-hint", role: "note", hidden: true });
    this.menu = this.makeMenu();
    this.shortcuts = h(
      "div",
      { class: "ia-shortcuts", role: "group", "aria-label": "Session" },
      ...this.usual("short "),
    );
    this.more = h("button", {
      class: "ia-icon ia-fold",
      type: "button",
      "aria-label": "Menu",
      "aria-expanded": "false",
      text: "⋯",
      onclick: () => this.fold(this.isOpen),
    });
    const { approve, context, hint, level, menu, model, more, name, shortcuts } = this;
    this.node = h("div", { class: "ia-head" }, name, approve, context, model, level, shortcuts, more, menu, hint);
  }

  makeName() {
    const name = h("input", {
      class: "ia-name",
      "data-k": "name",
      "aria-label": "Name of the session",
      placeholder: UNNAMED,
      spellcheck: "false",
    });
    name.addEventListener("change", () => this.store.send({ kind: "set_session_name", name: name.value.trim() }));
    name.addEventListener("keydown", (event) => {
      if (event.key === "Escape") name.value = this.store.state.session?.name ?? "";
      if (event.key !== "Escape" && event.key !== "Enter") return;
      event.preventDefault();
      name.blur();
    });
    return name;
  }

  makeMenu() {
    const { store } = this;
    return h(
      "div",
      { class: "ia-menu", role: "group", "aria-label": "Menu" },
      h("div", { class: "ia-usual" }, ...this.usual("")),
      this.undo,
      this.item("Compact", "Summarise what was said so far", () => store.send({ kind: "compact" })),
      this.item("Export", "Download the session as a web page", () => store.export()),
      this.dock,
    );
  }

  usual(place) {
    const { store, view } = this;
    return [
      this.switch("Cells", CELLS, "cells", place),
      this.switch("Plan", PLAN, "plan", place),
      this.item("New", "Begin a new session", () => store.send({ kind: "new_session" }), place),
      this.item("Sessions", "Go on with another session", () => store.open("sessions", view), place),
      this.item("Tree", "Go back to an earlier point, or fork there", () => store.open("tree", view), place),
    ];
  }

  say(text) {
    this.hint.replaceChildren(
      h("span", { text }),
      closeButton(() => this.hint.toggleAttribute("hidden", true)),
    );
    this.hint.hidden = false;
  }

  item(text, title, act, place = "") {
    const onclick = () => {
      this.fold(true);
      act();
    };
    return h("button", { class: "ia-item", type: "button", "data-k": `${place}${text}`, title, text, onclick });
  }

  switch(text, title, mode, place) {
    const button = this.item(
      text,
      title,
      () => this.store.send({ kind: "switch", mode, on: !this.store.state[mode] }),
      place,
    );
    this.switches.push({ button, mode });
    return button;
  }

  get isOpen() {
    return this.menu.classList.contains("ia-open");
  }

  fold(folded) {
    if (folded && this.isOpen && this.menu.contains(focusedElement())) this.more.focus();
    this.menu.classList.toggle("ia-open", !folded);
    this.more.setAttribute("aria-expanded", String(!folded));
  }

  chooseModel() {
    const chosen = this.models[this.model.selectedIndex];
    if (chosen) this.store.send({ kind: "set_model", provider: chosen.provider, modelId: chosen.id });
  }

  chooseLevel() {
    const level = /** @type {SetThinkingLevel["level"]} */ (this.level.value);
    this.store.send({ kind: "set_thinking_level", level });
  }

  show() {
    const { state } = this.store;
    const { approve, context, kernel, session, models = [], current_model: current, levels = [], level } = state;
    this.undo.hidden = !kernel;
    this.dock.hidden = !this.store.notebook;
    for (const { button, mode } of this.switches) {
      button.hidden = !kernel || state.log === true;
      button.setAttribute("aria-pressed", String(state[mode] === true));
    }
    const on = this.switches.filter(({ button, mode }) => this.menu.contains(button) && state[mode] === true);
    this.more.classList.toggle("ia-on", on.length > 0); // where there is no room, the switches are in the menu
    this.more.title = on.map(({ button }) => `${button.textContent} is on`).join(", ");
    const words = approvalWords(approve);
    setText(this.approve, words.short);
    this.approve.title = words.long;
    this.context.hidden = !context;
    if (context) {
      const { percent, text, title } = contextFill(context);
      this.filled.style.width = `${percent}%`;
      this.percent.textContent = text;
      this.context.title = title;
    }
    this.name.readOnly = state.log === true;
    if (focusedElement() !== this.name) this.name.value = session?.name ?? "";
    this.name.placeholder = session?.begins || UNNAMED;
    this.showModels(models, current ?? null);
    this.showLevels(levels, level ?? "");
  }

  showModels(models, current) {
    const isCurrent = (model) => model.provider === current?.provider && model.id === current?.id;
    const listed =
      models.some(isCurrent) || !current ? models : [{ ...current, name: current.id, price: "" }, ...models];
    const key = JSON.stringify(listed);
    if (key !== this.modelsKey) {
      this.modelsKey = key;
      const groups = new Map(listed.map(({ provider }) => [provider, []]));
      for (const model of listed) groups.get(model.provider)?.push(model);
      this.models = [...groups.values()].flat();
      this.model.replaceChildren(
        ...[...groups].map(([label, group]) =>
          h(
            "optgroup",
            { label },
            ...group.map(({ name, id, price }) =>
              h("option", { text: [name || id, price].filter(Boolean).join(" · ") }),
            ),
          ),
        ),
      );
    }
    this.model.selectedIndex = this.models.findIndex(isCurrent);
    this.model.title = current ? `${current.provider} · ${current.id}\nUS dollars for a million tokens in / out` : "";
  }

  showLevels(levels, level) {
    const key = levels.join();
    if (key !== this.levelsKey) {
      this.levelsKey = key;
      const text = (/** @type {string} */ name) => (name === "off" ? "no thinking" : `${name} thinking`);
      this.level.replaceChildren(...levels.map((name) => h("option", { value: name, text: text(name) })));
    }
    this.level.value = level;
    this.level.hidden = levels.length < 2;
  }
}

// src/jobs.js
class Jobs {
  constructor(store) {
    this.store = store;
    this.rows = new Map();
    this.node = h("div", { class: "ia-jobs", role: "group", "aria-label": "Jobs", hidden: true });
  }

  show() {
    const { ended, state } = this.store;
    const jobs = ended ? [] : (state.jobs ?? []);
    const hadFocus = this.node.contains(focusedElement());
    const running = new Set(jobs.map(({ id }) => id));
    for (const [id, { node }] of this.rows) {
      if (running.has(id)) continue;
      node.remove();
      this.rows.delete(id);
    }
    for (const job of jobs) {
      const row = this.rows.get(job.id) ?? this.add(job);
      if (row.ran.textContent !== job.ran) row.ran.textContent = job.ran;
    }
    this.node.hidden = jobs.length === 0;
    if (hadFocus && !this.node.contains(focusedElement()))
      focusQuietly(this.node.closest(".ia-root")?.querySelector(".ia-text"));
  }

  add({ id, tool, title }) {
    const ran = h("span", { class: "ia-ran" });
    const stop = h("button", {
      class: "ia-quiet",
      type: "button",
      "data-k": `stop ${id}`,
      text: "Stop",
      "aria-label": `Stop ${id}: ${title}`,
      onclick: () => this.store.send({ kind: "stop_job", jobId: id }),
    });
    const node = h(
      "div",
      { class: "ia-job" },
      h("span", { class: "ia-tag", text: id }),
      h("span", { class: "ia-line", title, text: `${tool}: ${title}` }),
      ran,
      stop,
    );
    this.node.append(node);
    const row = { node, ran };
    this.rows.set(id, row);
    return row;
  }
}

// src/overlay.js
const MAX_DEPTH = 16;

class Overlay {
  constructor(store, view) {
    this.store = store;
    this.view = view;
    this.placed = false;
    this.title = h("span", { class: "ia-overlay-title", id: uniqueId() });
    this.filter = h("input", {
      class: "ia-filter",
      type: "search",
      "aria-label": "Filter",
      placeholder: "Filter",
      oninput: () => this.applyFilter(),
    });
    this.list = h("ul", { class: "ia-list" });
    this.node = h(
      "div",
      { class: "ia-overlay", role: "dialog", "aria-modal": "false", "aria-labelledby": this.title.id, hidden: true },
      h(
        "div",
        { class: "ia-overlay-head" },
        this.title,
        this.filter,
        closeButton(() => this.close()),
      ),
      this.list,
    );
    this.node.addEventListener("keydown", (event) => this.handleKey(event));
  }

  show() {
    const { store } = this;
    store.overlayView ??= this.view; // the one that showed it was replaced
    const overlay = store.overlayView === this.view ? store.overlay : null;
    const opens = overlay !== null && this.node.hidden;
    this.node.hidden = overlay === null;
    this.view.scroller.inert = overlay !== null;
    if (overlay === null) {
      this.list.replaceChildren();
      return;
    }
    this.title.textContent = overlay === "sessions" ? "Sessions" : "Tree";
    if (opens) this.filter.value = "";
    const focused = this.entries().findIndex((entry) => entry === focusedElement());
    const rows = this.rows(overlay);
    const empty = h("li", { class: "ia-empty", text: rows ? "There is nothing yet." : "Loading …" });
    this.list.replaceChildren(...(rows?.length ? rows : [empty]));
    this.applyFilter();
    if (opens || !this.placed) {
      this.list.querySelector("[aria-current=true]")?.scrollIntoView({ block: "nearest" });
      this.placed = Boolean(rows?.length);
      if (opens) focusQuietly(this.filter);
    }
    if (focused >= 0) focusQuietly(this.entries()[focused]);
  }

  entries() {
    return [...this.list.querySelectorAll(".ia-entry")].filter((each) => each instanceof HTMLElement);
  }

  rows(overlay) {
    const { sessions, tree } = this.store.state;
    return overlay === "sessions"
      ? sessions?.map((session) => this.sessionRow(session))
      : tree?.map((entry) => this.treeRow(entry));
  }

  sessionRow({ path, name, modified, messages, current }) {
    const shown = name || "Unnamed session";
    const detail = [`${messages} message${messages === 1 ? "" : "s"}`, formatMoment(modified)]
      .filter(Boolean)
      .join(" · ");
    const button = h(
      "button",
      {
        class: "ia-entry",
        type: "button",
        "aria-current": current ? "true" : null,
        onclick: () => this.choose({ kind: "switch_session", sessionPath: path }),
      },
      h("span", { class: "ia-line", title: shown, text: oneLine(shown) }),
      h("span", { class: "ia-detail", text: current ? `here · ${detail}` : detail }),
    );
    return h("li", {}, button);
  }

  treeRow({ id, depth, role, text: full, here, label }) {
    const text = oneLine(String(full ?? ""));
    if (id === null) return h("li", { class: "ia-empty", text });
    const button = h(
      "button",
      {
        class: "ia-entry",
        type: "button",
        title: "Go on from here",
        "aria-current": here ? "true" : null,
        onclick: () => this.choose({ kind: "navigate_tree", targetId: id }),
      },
      h("span", { class: "ia-role", text: role }),
      h("span", { class: "ia-line", text }),
      label ? h("span", { class: "ia-tag", text: label }) : null,
      here ? h("span", { class: "ia-detail", text: "here" }) : null,
    );
    const fork = h("button", {
      class: "ia-quiet ia-fork",
      type: "button",
      title: "Begin a session of its own from here",
      "aria-label": `Fork: ${shortLabel(text)}`,
      text: "Fork",
      onclick: () => this.choose({ kind: "fork", entryId: id }),
    });
    const row = h("li", { class: "ia-node" }, button, fork);
    row.style.setProperty("--ia-depth", String(Math.min(Number(depth) || 0, MAX_DEPTH)));
    row.dataset.role = role;
    return row;
  }

  applyFilter() {
    const wanted = this.filter.value.trim().toLowerCase();
    for (const row of this.list.children)
      row.toggleAttribute("hidden", wanted !== "" && !row.textContent?.toLowerCase().includes(wanted));
  }

  choose(message) {
    this.store.send(message);
    this.close();
  }

  close() {
    this.store.overlay = null;
    this.placed = false;
    this.store.show(new Changes("overlay"));
    this.view.focusRest();
  }

  handleKey(event) {
    const visible = this.entries().filter((entry) => !entry.closest("li")?.hidden);
    const row = focusedElement()?.closest("li") ?? null;
    const at = visible.findIndex((entry) => entry.parentElement === row);
    const target = listTarget(event.key, { at, length: visible.length, inRow: row !== null });
    if (target === null) return;
    event.preventDefault();
    (target < 0 ? this.filter : visible[target])?.focus();
  }
}

// src/panel_view.js
class PanelView extends View {
  constructor(store) {
    super(store);
    this.top = 0;
    this.header = new Header(store, this);
    this.jobs = new Jobs(store);
    this.queue = new Queue(store);
    this.outdated = new OutdatedLine(
      () => store.send({ kind: "check_values" }),
      () => this.focusRest(),
    );
    this.overlay = new Overlay(store, this);
    this.composer = new Composer(store, this);
    this.start = new EmptyState(store, () => focusQuietly(this.composer.field));
    this.keys = new KeyForm(store, () => this.focusRest());
    this.file = h("div", { class: "ia-file", hidden: true });
    this.end = h("button", {
      class: "ia-end",
      type: "button",
      "aria-label": "To the end",
      text: "↓",
      hidden: true,
      onclick: () => this.goToEnd(),
    });
    const region = { class: "ia-scroll", tabindex: "0", role: "region", "aria-label": "Conversation" };
    this.scroller = h("div", region, this.blocks.node, this.keys.node, this.start.node, this.dialogs.node);
    this.scroller.addEventListener("scroll", () => this.noteScroll(), { passive: true });
    const { announcer, footer, lines } = this;
    this.root.append(
      this.header.node,
      lines.title,
      lines.warning,
      h("div", { class: "ia-middle" }, this.scroller, this.end, lines.toasts, this.overlay.node),
      h(
        "div",
        { class: "ia-lower" },
        this.file,
        lines.above,
        this.outdated.node,
        this.jobs.node,
        this.queue.node,
        this.ended,
      ),
      h("div", { class: "ia-bottom" }, this.composer.node, lines.below, lines.status),
      footer.node,
      announcer.node,
    );
    footer.stop.remove(); // the composer has its own
    this.root.addEventListener("keydown", (event) => this.handleKey(event));
    const sizes = new ResizeObserver(() => this.followEnd());
    for (const node of [this.scroller, this.blocks.node, this.dialogs.node]) sizes.observe(node);
  }

  show(changes) {
    super.show(changes);
    this.root.classList.toggle("ia-log", this.store.state.log === true);
    if (changes.has("session", "models", "current_model", "levels", "level", "busy", "approve", "context"))
      this.header.show();
    else if (changes.has("kernel", "cells", "plan", "log")) this.header.show();
    if (changes.has("jobs")) this.jobs.show();
    if (changes.has("queue", "busy", "code_only")) this.queue.show();
    if (changes.has("outdated") || changes.newToasts.length > 0) this.outdated.offerAgain();
    if (changes.has("outdated")) this.showOutdated();
    if (changes.has("sessions", "tree", "overlay")) this.overlay.show();
    if (changes.has("composer", "completions", "commands", "busy", "code_only", "stopping", "dialogs"))
      this.composer.show();
    if (changes.has("keys")) this.keys.show();
    this.start.show();
    if (changes.has("dialogs")) this.dialogs.show();
    if (changes.has("download")) this.showFile();
    this.footer.show();
    this.followEnd();
  }

  showOutdated() {
    this.outdated.show(this.store.ended ? null : this.store.state.outdated);
    this.blocks.markOutdated();
  }

  showFile() {
    const { offered } = this.store.download;
    this.file.hidden = !offered;
    if (!offered) return;
    this.file.replaceChildren(
      h("a", { href: offered.href, download: offered.name, text: `Download ${offered.name}` }),
      closeButton(() => this.store.forgetDownload()),
    );
  }

  handleKey(event) {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
    if (event.target instanceof Element && event.target.closest(".ia-dialog")) return; // one that takes no answer yet
    if (this.header.isOpen) this.header.fold(true);
    else if (this.store.overlay) this.overlay.close();
    else if (this.store.state.busy && !this.store.state.stopping) this.store.stopAll();
    else return;
    event.preventDefault();
  }

  mayTakeFocus() {
    return this.store.follow && super.mayTakeFocus();
  }

  reveal() {
    this.followEnd();
  }

  welcome() {
    const active = focusedElement();
    const isNear = !active || active === document.body || active.closest(".jp-Notebook")?.contains(this.root);
    const isEmptyCell = active?.matches(".cm-content") && active.textContent === "";
    if (isNear && (!isTypingField(active) || isEmptyCell)) focusQuietly(this.composer.field);
  }

  noteScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    if (scrollHeight - scrollTop - clientHeight < NEAR_END_PX) this.store.follow = true;
    else if (scrollTop < this.top - 2) this.store.follow = false;
    this.top = this.store.scrollTop = scrollTop;
    this.showEnd();
  }

  showEnd() {
    const { dialogs, follow } = this.store;
    this.end.hidden = follow;
    const text = dialogs.size > 0 ? "↓ question" : "↓";
    if (this.end.textContent !== text) this.end.textContent = text;
  }

  followEnd() {
    this.showEnd();
    if (this.store.follow) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  goToEnd() {
    this.store.follow = true;
    this.followEnd();
    this.focusRest();
  }

  resume() {
    if (!this.store.follow) this.scroller.scrollTop = this.store.scrollTop;
    this.showEnd();
  }

  remove() {
    if (this.store.overlayView === this) this.store.overlayView = null;
    super.remove();
  }

  focusRest() {
    focusQuietly(this.store.state.log ? this.scroller : this.composer.field);
  }
}

// src/answers.js
const all = new Set();
let last = null;

class Answers {
  constructor(store) {
    this.store = store;
    this.texts = new Map();
    this.read = new Set();
    all.add(this);
  }

  get(id) {
    return [...all].map(({ texts }) => texts.get(id)).find((text) => text !== undefined);
  }

  has(id) {
    return this.get(id) !== undefined;
  }

  set(id, text) {
    for (const { store, texts } of all) {
      texts.delete(id);
      for (const { dialogs } of store.views) dialogs.write(id, text);
    }
    this.texts.set(id, text);
  }

  isRead(id) {
    return [...all].some(({ read }) => read.has(id));
  }

  noteRead(id) {
    this.read.add(id);
    for (const { store } of all) for (const { dialogs } of store.views) dialogs.enable();
  }

  tidy() {
    for (const id of this.read) if (!this.store.dialogs.has(id)) this.read.delete(id);
    for (const id of this.texts.keys()) if (!this.store.dialogs.has(id)) this.texts.delete(id);
  }

  note() {
    last = this;
  }

  get isHere() {
    return last === this;
  }

  get isElsewhere() {
    if (last === null || last === this || !all.has(last)) return false;
    const { busy, ended, state } = last.store;
    return busy && !ended && state.session?.id === this.store.state.session?.id;
  }

  close() {
    all.delete(this);
    if (last === this) last = null;
  }
}

// src/beside.js
const SETTLES_MS = 3000;

function drawBeside(area, text) {
  if (!area) return;
  const [begins = ""] = text.split(" · ");
  const draw = () => {
    const line = [...area.querySelectorAll(".indus-usage")].at(-1);
    if (line && !line.textContent?.includes(begins))
      line.append(h("span", { class: "ia-beside mathjax_ignore tex2jax_ignore", text: ` · ${text}` }));
  };
  const observer = new MutationObserver(draw);
  observer.observe(area, { childList: true, subtree: true });
  setTimeout(() => observer.disconnect(), SETTLES_MS);
  draw();
}

// src/download.js
class Download {
  constructor() {
    this.offered = null;
    this.wanted = false;
  }

  offer({ name, html }) {
    this.forget();
    this.offered = { name, href: URL.createObjectURL(new Blob([html], { type: "application/octet-stream" })) };
    if (this.wanted) h("a", { href: this.offered.href, download: name }).click();
    this.wanted = false;
  }

  forget() {
    if (this.offered) URL.revokeObjectURL(this.offered.href);
    this.offered = null;
  }
}

// src/draft.js
const MAX_HISTORY = 100;

const QUESTION_FIRST = "Not sent: a question above waits for its answer, which comes first.";

class Draft {
  constructor() {
    this.text = "";
    this.images = [];
    this.problem = "";
    this.isPasted = false;
    this.insertedNumber = 0;
    this.history = [];
    this.pasted = new Set();
    this.recalled = null;
    this.kernelNumber = 0;
    this.expectsTakenBack = false;
  }

  get isEmpty() {
    return !this.text.trim() && this.images.length === 0;
  }

  remember(text) {
    if (!text) return;
    if (this.isPasted) this.pasted.add(text);
    if (this.history.at(-1) === text) return;
    this.history.push(text);
    if (this.history.length <= MAX_HISTORY) return;
    const oldest = this.history.shift();
    if (oldest !== undefined && !this.history.includes(oldest)) this.pasted.delete(oldest);
  }

  recall(step) {
    const at = (this.recalled ?? this.history.length) + step;
    if (at < 0 || at > this.history.length) return;
    this.recalled = at === this.history.length ? null : at;
    this.text = this.history[at] ?? "";
    this.isPasted = this.pasted.has(this.text);
  }

  replace(text) {
    this.remember(this.text.trim());
    this.text = text;
    this.isPasted = false;
  }

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

  insert(given) {
    if (!given || given.n <= this.insertedNumber) return false;
    this.insertedNumber = given.n;
    if (given.text) this.add(given.text);
    return true;
  }

  add(given) {
    const isWhole = given.endsWith("\n");
    const follows = isWhole ? /(?:^|\n)$/ : /(?:^|\s)$/;
    const between = follows.test(this.text) ? "" : isWhole ? "\n" : " ";
    this.text = `${this.text}${between}${given}${isWhole ? "" : " "}`;
  }

  holdBack(waits) {
    if (waits) this.problem = QUESTION_FIRST;
    else if (this.problem === QUESTION_FIRST) this.problem = "";
    return waits;
  }

  clear() {
    this.replace("");
    this.images = [];
    this.problem = "";
  }
}

// src/described.js
const MAX_OUTPUT_CHARACTERS = 20_000;
const BAR = "<progress"; // by this the kernel knows a display of how far something was
const MAX_SENT_CHARACTERS = 4_000_000; // servers refuse messages above 10 MB
const OURS = "indus_nb";

function markOf(cell) {
  const mark = /** @type {AgentMark | undefined} */ (cell?.getMetadata?.(OURS));
  return typeof mark?.run === "string" ? mark : undefined;
}

function describeCell(cell, { outputs, whole }) {
  const tags = cell.getMetadata?.("tags");
  const agent = markOf(cell);
  const described = {
    id: cell.id,
    type: cell.type,
    source: cell.sharedModel.getSource(),
    executionCount: cell.executionCount ?? null,
    ...(Array.isArray(tags) ? { tags } : {}),
    ...(agent ? { agent } : {}),
  };
  if (!outputs || !cell.outputs) return described;
  const shown = cell.outputs.toJSON();
  return { ...described, outputs: cell.id === whole ? asFarAsTheyFit(shown) : shown.map(inShort) };
}

function asFarAsTheyFit(outputs) {
  let left = MAX_SENT_CHARACTERS;
  return outputs.map((output) => {
    const size = JSON.stringify(output).length;
    if (size > left) return inShort(output);
    left -= size;
    return output;
  });
}

function inShort({ output_type, name, text, data, ename, evalue }) {
  if (data) {
    const kinds = Object.entries(data).map(([kind, value]) => [kind, kind === "text/plain" ? beginning(value) : ""]);
    const bar = beginning(data["text/html"]).startsWith(BAR) ? { "text/html": BAR } : {};
    return { output_type, data: { ...Object.fromEntries(kinds), ...bar } };
  }
  return text === undefined ? { output_type, ename, evalue } : { output_type, name, text: beginning(text) };
}

function beginning(text) {
  return (Array.isArray(text) ? text.join("") : String(text ?? "")).slice(0, MAX_OUTPUT_CHARACTERS);
}

// src/running.js
function runCell(cell, kernel) {
  if (cell.clearExecution) cell.clearExecution();
  else cell.outputs.clear();
  cell.trusted = true;
  if ("executionState" in cell) cell.executionState = "running";
  const content = {
    code: cell.sharedModel.getSource(),
    silent: false,
    store_history: true,
    user_expressions: {},
    allow_stdin: false,
    stop_on_error: true,
  };
  const future = kernel.requestExecute(content, false, { cellId: cell.id });
  const places = new Map();
  future.onIOPub = (message) => show(message, cell.outputs, places);
  future.done
    .then((reply) => {
      cell.executionCount = reply?.content.execution_count ?? null;
    })
    .catch(() => {}) // the kernel is gone
    .finally(() => {
      if ("executionState" in cell) cell.executionState = "idle";
    });
}

function show({ header: { msg_type: type }, content }, outputs, places) {
  const { transient, ...shown } = content;
  const id = transient?.display_id;
  switch (type) {
    case "stream":
    case "error":
    case "execute_result":
    case "display_data": {
      outputs.add({ ...shown, output_type: type });
      if (id) places.set(id, [...(places.get(id) ?? []), outputs.length - 1]);
      break;
    }
    case "update_display_data":
      for (const place of places.get(id) ?? []) outputs.set(place, { ...shown, output_type: "display_data" });
      break;
    case "clear_output":
      outputs.clear(Boolean(content.wait));
      places.clear();
      break;
    default:
  }
}

// src/saved_widgets.js
const VIEW = "application/vnd.jupyter.widget-view+json";
const STATE = "application/vnd.jupyter.widget-state+json";
const NO_BROKEN_LINK =
  "<style>.jupyter-widgets-disconnected:has(> * > .indus-notice)::before { display: none }</style>";

function shownWidgets(notebook) {
  const outputs = [...(notebook?.cells ?? [])].flatMap((cell) => cell.outputs?.toJSON() ?? []);
  const ids = outputs.map(({ data }) => /** @type {{ model_id?: unknown } | undefined} */ (data?.[VIEW])?.model_id);
  return [...new Set(ids)].filter((id) => typeof id === "string");
}

function findWidget(notebook, widget) {
  for (const { outputs } of notebook?.cells ?? []) {
    const index = outputs?.toJSON().findIndex((output) => shows(output, widget)) ?? -1;
    if (outputs && index >= 0) return { outputs, index };
  }
  return null;
}

function shows(output, widget) {
  return /** @type {{ model_id?: string } | undefined} */ (output.data?.[VIEW])?.model_id === widget;
}

function replaceWidget(notebook, widget, html, text) {
  const found = findWidget(notebook, widget);
  const data = { "text/html": html, "text/plain": text };
  found?.outputs.set(found.index, { output_type: "display_data", data, metadata: {} });
}

function noteWidget(notebook, widget, html) {
  if (!notebook?.getMetadata || !notebook.setMetadata) return;
  const saved =
    /** @type {Record<string, { version_major?: number, version_minor?: number, state?: Record<string, unknown> }>} */ (
      notebook.getMetadata("widgets") ?? {}
    );
  const layout = `${widget}-layout`;
  const state = { ...saved[STATE]?.state };
  const before = JSON.stringify(state);
  const shown = shownWidgets(notebook);
  const gone = Object.keys(state).filter((id) => isNote(state[id]) && !shown.includes(id));
  for (const id of [widget, ...gone]) {
    delete state[id];
    delete state[`${id}-layout`];
  }
  if (html !== null) {
    state[widget] = {
      model_module: "@jupyter-widgets/controls",
      model_module_version: "2.0.0",
      model_name: "HTMLModel",
      state: { layout: `IPY_MODEL_${layout}`, value: `${html}${NO_BROKEN_LINK}` },
    };
    state[layout] = {
      model_module: "@jupyter-widgets/base",
      model_module_version: "2.0.0",
      model_name: "LayoutModel",
      state: {},
    };
  }
  if (JSON.stringify(state) === before) return;
  const rest = { ...saved };
  delete rest[STATE];
  if (Object.keys(state).length > 0) rest[STATE] = { version_major: 2, version_minor: 0, ...saved[STATE], state };
  if (Object.keys(rest).length > 0) notebook.setMetadata("widgets", rest);
  else notebook.deleteMetadata?.("widgets");
}

function isNote(saved) {
  const value = /** @type {{ state?: { value?: unknown } } | undefined} */ (saved)?.state?.value;
  return typeof value === "string" && value.endsWith(NO_BROKEN_LINK);
}

// src/notebook.js
const NO_SUCH_CELL = "There is no such cell.";
const CHANGED_MEANWHILE = "The cell was changed meanwhile.";

function answerRequest(notebook, request, ownIndex, kernel, isMoved = false) {
  if (!notebook?.cells) return { error: "unavailable" };
  switch (request.what) {
    case "cells":
      return {
        cells: [...notebook.cells].map((cell) => describeCell(cell, request)),
        ...(notebook.collaborative ? { shared: true } : {}),
      };
    case "change_cells":
      return changeCells(notebook, request, ownIndex);
    case "run_cells":
      return runCells(notebook, request, kernel);
    case "show_run":
      return showRun(notebook, request, kernel?.clientId, isMoved);
    default:
      return { error: `The page cannot do that: ${/** @type {{ what: string }} */ (request).what}` };
  }
}

function placed(value, context) {
  if (!("cells" in value || "ids" in value) || !context?.path) return value;
  const saved = context.contentsModel?.last_modified ?? "";
  return { ...value, path: context.path, ...("cells" in value ? { saved } : {}) };
}

function metadataOf(type, agent) {
  return { ...(type === "code" ? { trusted: true } : {}), ...(agent ? { [OURS]: agent } : {}) };
}

function changeCells(notebook, { edits: asked }, ownIndex) {
  const { sharedModel } = notebook;
  if (!sharedModel.deleteCell) return { error: "unavailable" };
  const cells = [...notebook.cells];
  const own = (cells[ownIndex] ?? cells.at(-1))?.id ?? "";
  const edits = asked.map((edit) => ({ ...edit, after: edit.after ?? own }));
  const left = edits.filter(({ cell, old, source }) => old !== null || sourceOf(cells, cell) !== source);
  const error = whyNot(notebook, left);
  if (error) return { error };
  const done = carriedOut(notebook, left);
  const places = new Map([...notebook.cells].map(({ id }, index) => [id, index + 1]));
  const numbers = edits.map(({ cell }) => places.get(cell) ?? 0);
  const removed = done
    .filter(({ source }) => source === null)
    .map(({ cell: id, outputs, agent }) => ({ id, outputs, ...(agent ? { agent } : {}) }));
  const isLarge = JSON.stringify(removed).length > MAX_SENT_CHARACTERS;
  return { numbers, removed: isLarge ? removed.map((each) => ({ ...each, outputs: [] })) : removed };
}

function sourceOf(cells, id) {
  return cells.find((cell) => cell.id === id)?.sharedModel.getSource();
}

function whyNot(notebook, edits) {
  const sources = new Map([...notebook.cells].map((cell) => [cell.id, cell.sharedModel.getSource()]));
  for (const { cell, old, source, after } of edits) {
    if ((sources.get(cell) ?? null) !== old) return sources.has(cell) ? CHANGED_MEANWHILE : NO_SUCH_CELL;
    if (old === null && after && !sources.has(after)) return NO_SUCH_CELL;
    if (source === null) sources.delete(cell);
    else sources.set(cell, source);
  }
  return "";
}

function carriedOut(notebook, edits) {
  const done = [];
  try {
    for (const step of stepsOf(edits)) {
      const isNew = step[0]?.old === null;
      if (isNew) insertCells(notebook, step);
      for (const edit of step) done.unshift(isNew ? edit : { ...edit, ...editCell(notebook, edit) });
    }
  } catch (error) {
    for (const edit of done) editCell(notebook, { ...edit, old: edit.source, source: edit.old });
    throw error;
  }
  return done;
}

function stepsOf(edits) {
  const steps = [];
  for (const edit of edits) {
    const before = steps.at(-1)?.at(-1);
    if (before?.old === null && edit.old === null && edit.after === before.cell) steps.at(-1)?.push(edit);
    else steps.push([edit]);
  }
  return steps;
}

function insertCells({ cells, sharedModel }, edits) {
  const after = edits[0]?.after;
  const at = after ? [...cells].findIndex(({ id }) => id === after) + 1 : 0;
  const made = edits.map(({ cell: id, type, source, outputs, agent }) => {
    const done = type === "code" && outputs.length > 0 ? { outputs, execution_count: null } : {};
    return { id, cell_type: type, source: String(source), metadata: metadataOf(type, agent), ...done };
  });
  sharedModel.insertCells(at, made);
}

function editCell(notebook, edit) {
  const { cell: id, source, after, outputs } = edit;
  const cells = [...notebook.cells];
  const index = cells.findIndex((cell) => cell.id === id);
  const cell = cells[index];
  if (cell && source !== null) cell.sharedModel.setSource(source);
  else if (cell) {
    const shown = /** @type {CellEdit["outputs"]} */ (cell.outputs?.toJSON() ?? []);
    const mark = markOf(cell);
    notebook.sharedModel.deleteCell?.(index);
    return { outputs: shown, after: cells[index - 1]?.id ?? "", ...(mark ? { agent: mark } : {}) };
  } else insertCells(notebook, [edit]);
  return { outputs, after };
}

function showRun(notebook, { cell: id, client: ran, widget, source, asked, outputs, over, missed }, client, isMoved) {
  if (client && client === ran && !isMoved) return { gets: "displays" };
  const cell = [...notebook.cells].find((each) => each.id === id);
  const own = cell?.outputs;
  if (!own) return { error: NO_SUCH_CELL };
  const shown = own.toJSON();
  const at = shown.findIndex((output) => shows(output, widget));
  if (isMoved && at < 0) return { gets: "displays" }; // it was run again
  if (at < 0 && outputs.length > 0 && outputs.every((output) => shown.some((each) => isAlike(each, output))))
    return { gets: "writes" }; // it was asked twice: what was printed beside them is of this run
  const isElsewhere = !isMoved && (notebook.collaborative ? !missed : !over && at >= 0);
  if (isElsewhere) return { gets: "nothing" };
  const isOther = cell.sharedModel.getSource() !== source;
  const prompt = displayOf(asked);
  const from = isOther ? shown.findIndex(({ data }) => data?.["text/html"] === prompt.data["text/html"]) : -1;
  const stays = shown.map((output, index) => {
    const isKept = from >= 0 ? index < from : at >= 0 ? output.output_type !== "display_data" : isOther;
    return { output, isKept, isBefore: at < 0 || index < at };
  });
  const kept = stays.filter(({ isKept }) => isKept);
  own.fromJSON([
    ...kept.filter(({ isBefore }) => isBefore).map(({ output }) => output),
    ...(isOther ? [prompt] : []),
    ...outputs.map(displayOf),
    ...kept.filter(({ isBefore }) => !isBefore).map(({ output }) => output),
  ]);
  return { gets: "writes" };
}

function isAlike({ data }, wanted) {
  return ["text/html", "text/plain"].every((kind) => data?.[kind] === wanted.data[kind]);
}

function displayOf({ data, metadata }) {
  return { output_type: "display_data", data, metadata };
}

function runCells(notebook, { cells: ids }, kernel) {
  const known = new Map([...notebook.cells].map((cell) => [cell.id, cell]));
  if (known.size === 0 || typeof kernel?.requestExecute !== "function") return { error: "unavailable" };
  const cells = ids.map((id) => known.get(id));
  if (cells.some((cell) => cell?.type !== "code" || !cell.outputs)) return { error: NO_SUCH_CELL };
  for (const cell of cells) runCell(/** @type {RunnableCell} */ (/** @type {unknown} */ (cell)), kernel);
  return { ids };
}

function showWhole(notebook, index) {
  const cell = Number.isInteger(index) ? notebook?.cells?.get(index) : undefined;
  if (!cell?.getMetadata || !cell.setMetadata || cell.getMetadata("scrolled") !== undefined) return false;
  cell.setMetadata("scrolled", false);
  return true;
}

function isOfAgent(cell) {
  return markOf(cell) !== undefined;
}

function nameNotebook(notebook, id) {
  if (!notebook?.getMetadata || !notebook.setMetadata) return;
  const held = notebook.getMetadata(OURS);
  const ours = typeof held === "object" && held !== null && !Array.isArray(held) ? held : {};
  if (!(/** @type {{ id?: unknown }} */ (ours).id)) notebook.setMetadata(OURS, { ...ours, id });
}

// src/following.js
const AFTER_MS = 1000;
const GAP_PX = 8;
const LONG_PX = 900;
const BOXED = "jp-mod-outputsScrolled";

class Follower {
  constructor(store) {
    this.store = store;
    this.root = null;
    this.area = null;
    this.found = null;
    this.top = 0;
    this.rest = 0;
    this.ending = undefined;
    this.box = { left: 0, width: 0, height: 0, foot: 0 };
    this.standIn = null;
    this.resized = undefined;
    this.noteScroll = this.noteScroll.bind(this);
  }

  attach(root) {
    clearTimeout(this.ending);
    this.removeStandIn();
    this.root = root;
    const area = root.closest(".jp-OutputArea");
    if (area instanceof HTMLElement && area !== this.area) {
      this.resized?.disconnect();
      this.resized = new ResizeObserver(() => this.update());
      this.resized.observe(area);
      this.area = area;
    }
    this.update();
  }

  detach(root, foot) {
    if (root !== this.root) return;
    if (this.store.busy) this.showStandIn(foot);
    clearTimeout(this.ending);
    this.ending = setTimeout(() => this.end(), AFTER_MS);
  }

  end() {
    this.resized?.disconnect();
    this.use(null);
    this.root = this.area = null;
  }

  showStandIn(foot) {
    const { area, box } = this;
    if (!area?.isConnected) return;
    this.removeStandIn();
    const standIn = h("div", { class: "ia-root ia-stand-in" }, foot);
    standIn.style.left = `${box.left}px`;
    standIn.style.width = `${box.width}px`;
    area.style.minHeight = `${box.height}px`;
    area.style.paddingBottom = `${box.foot}px`;
    area.classList.add("ia-held");
    area.append(standIn);
    this.standIn = standIn;
    setTimeout(() => {
      if (this.standIn === standIn) this.removeStandIn();
      if (this.standIn === null) area.style.minHeight = "";
    }, NEXT_VIEW_MS);
  }

  removeStandIn() {
    this.standIn?.remove();
    this.standIn = null;
    this.area?.style.removeProperty("padding-bottom");
    this.area?.classList.remove("ia-held");
  }

  use(scroller) {
    if (scroller === this.found) return;
    this.found?.removeEventListener("scroll", this.noteScroll);
    this.found?.style.removeProperty("overflow-anchor");
    this.found = scroller;
    this.top = this.rest = scroller?.scrollTop ?? 0;
    scroller?.addEventListener("scroll", this.noteScroll, { passive: true });
  }

  scroller() {
    if (this.found?.isConnected && overflows(this.found)) return this.found;
    let node = this.root?.isConnected ? this.root.parentElement : this.area;
    while (node && !(overflows(node) && /auto|scroll/.test(getComputedStyle(node).overflowY)))
      node = node.parentElement;
    this.use(node);
    return node;
  }

  distanceBelow(scroller) {
    const { area, root } = this;
    const whole = area && area !== scroller && scroller.contains(area) ? area : root;
    if (!whole?.isConnected) return 0;
    const end = whole.getBoundingClientRect().bottom - scroller.getBoundingClientRect().bottom;
    return end + Math.max(0, this.editorBelow(scroller, whole));
  }

  editorBelow(scroller, whole) {
    const active = focusedElement();
    if (!isTypingField(active) || !scroller.contains(active) || whole.contains(active)) return 0;
    const distance = active.getBoundingClientRect().bottom - whole.getBoundingClientRect().bottom;
    return distance < scroller.clientHeight / 2 ? distance : 0;
  }

  nearEnd() {
    return this.distanceBelow(this.scroller() ?? document.documentElement) < NEAR_END_PX;
  }

  noteScroll() {
    const scroller = this.found;
    if (!scroller) return;
    const { scrollTop } = scroller;
    if (Math.abs(scrollTop - this.top) > 2) {
      if (this.distanceBelow(scroller) < NEAR_END_PX) this.store.follow = true;
      else if (scrollTop < this.top) this.store.follow = false;
      this.rest = scrollTop;
    }
    this.top = scrollTop;
    scroller.style.setProperty("overflow-anchor", this.store.follow ? "none" : "auto");
  }

  measure() {
    const { area, root } = this;
    const foot = root?.querySelector(".ia-foot");
    if (!area || !foot || !root?.isConnected || this.standIn) return;
    const outer = area.getBoundingClientRect();
    const inner = root.getBoundingClientRect();
    const { height } = foot.getBoundingClientRect();
    this.box = { left: inner.left - outer.left, width: inner.width, height: outer.height, foot: height };
  }

  unbox() {
    const { area } = this;
    const cell = area?.closest(".jp-Cell");
    if (!area || !(cell instanceof HTMLElement) || !document.body.dataset.notebook) return;
    if (area.scrollHeight < LONG_PX) return;
    if (showWhole(this.store.notebook, Number(cell.dataset.windowedListIndex))) cell.classList.remove(BOXED);
  }

  update() {
    this.unbox();
    this.measure();
    const scroller = this.scroller();
    if (!scroller) return;
    this.noteScroll();
    if (!this.store.follow) return;
    const end = scroller.scrollTop + this.distanceBelow(scroller);
    const least = Math.max(this.rest, end + GAP_PX);
    const most = this.store.busy ? Math.max(this.rest, end + scroller.clientHeight / 2) : least;
    const top = Math.min(Math.max(scroller.scrollTop, least), most);
    if (Math.abs(top - scroller.scrollTop) < 1) return;
    scroller.scrollTop = top;
    this.top = scroller.scrollTop;
  }
}

function overflows(node) {
  return node.scrollHeight > node.clientHeight + NEAR_END_PX;
}

// src/life.js
const ENDS = { restarting: "restarted", autorestarting: "restarted", terminating: "gone", dead: "gone" };

const CELL_ENDS = {
  restarted: "The kernel was restarted: this run ended. What was finished is above.",
  gone: "The kernel has ended, and this run with it. What was finished is above.",
};
const FORM_ENDS = {
  restarted: "The kernel was restarted: `%agent key` asks again.",
  gone: "The kernel has ended: `%agent key` asks again.",
};
const PANEL_ENDS = {
  restarted: "The kernel was restarted. Run the cell again to go on.",
  gone: "The kernel has ended. Start it, and run the cell again to go on.",
};

function watchKernel(model, onEnd) {
  model.on("comm_live_update", () => onEnd("restarted")); // the widget manager has given up the connection
  const note = (_sender, status) => {
    const how = ENDS[status];
    if (how) onEnd(how);
  };
  const changed = model.widget_manager?.context?.sessionContext?.statusChanged;
  changed?.connect(note);
  return () => changed?.disconnect(note);
}

function wordsOfEnd(kind, how, saved) {
  if (how === "closed") return "This panel was closed. The conversation goes on without it.";
  if (kind === "keys") return FORM_ENDS[how];
  const ended = (kind === "panel" ? PANEL_ENDS : CELL_ENDS)[how];
  return `${ended} ${saved ? "The conversation is saved: %agent --continue goes on with it." : "The conversation was not saved."}`;
}

// src/mirror.js
const RESYNC_INTERVAL_MS = 5000;
const IGNORE_ANSWERED_MS = 5000; // in which a dialog that was answered here may still be sent again
const MAX_TOASTS = 5;
const RUNS = /<span\b[^>]*\bclass="indus-runs"[^>]*>[^<]*<\/span>/g; // the sign of a call that goes on
const NOT_YET = /(<span\b[^>]*>preview, not run) yet\b/g; // beside a call that the user is asked about

class Mirror {
  constructor(resync) {
    this.resync = resync;
    this.number = 0;
    this.blocks = new Map();
    this.found = new Map();
    this.state = {};
    this.dialogs = new Map();
    this.toasts = new Map();
    this.startedAt = null;
    this.lastToast = 0;
    this.answered = new Map();
    this.askedAt = Date.now(); // a new page asks for everything by itself
  }

  receive(message) {
    if (message.kind === "full") {
      this.blocks.clear();
      this.found.clear();
      this.state = {};
      this.dialogs.clear();
      this.askedAt = 0;
    } else if (message.kind !== "patch" || message.n <= this.number) {
      return null;
    } else if (message.n !== this.number + 1) {
      this.askAgain();
      return null;
    }
    this.number = message.n;
    const changes = message.kind === "full" ? Changes.all() : new Changes();
    for (const operation of message.ops) this.apply(operation, changes);
    return changes;
  }

  askAgain() {
    if (Date.now() - this.askedAt <= RESYNC_INTERVAL_MS) return;
    this.askedAt = Date.now();
    this.resync();
  }

  apply(operation, changes) {
    switch (operation[0]) {
      case "put": {
        const [, key, html] = operation;
        this.blocks.set(key, html);
        changes.blocks.add(key);
        break;
      }
      case "tail": {
        const [, key, length, html] = operation;
        this.blocks.set(key, (this.blocks.get(key) ?? "").slice(0, length) + html);
        changes.blocks.add(key);
        break;
      }
      case "drop": {
        const [, key] = operation;
        this.blocks.delete(key);
        this.found.delete(key);
        changes.blocks.add(key);
        changes.dropped.add(key);
        break;
      }
      case "found": {
        const [, key, numbers] = operation;
        this.found.set(key, numbers);
        changes.blocks.add(key);
        break;
      }
      case "set":
        this.applyState(operation[1], changes);
        break;
      case "ask": {
        const [, frame, left, layout] = operation;
        if (Date.now() - (this.answered.get(frame.id) ?? 0) < IGNORE_ANSWERED_MS) break;
        this.dialogs.set(frame.id, { frame, until: left === null ? null : Date.now() + left, layout: layout ?? null });
        changes.parts.add("dialogs");
        break;
      }
      case "unask":
        this.dialogs.delete(operation[1]);
        changes.parts.add("dialogs");
        break;
      case "toast":
        this.applyToast(operation[1], changes);
        break;
      default:
    }
  }

  applyState(state, changes) {
    if ("busy" in state) this.state.stopping = false; // a stop that came too late is known to this page only
    if (state.busy && this.state.busy === false) {
      this.toasts.clear(); // they are about what was before this run, and cover its answer
      changes.parts.add("toasts");
    }
    Object.assign(this.state, state);
    if (state.started_ms_ago !== undefined) {
      this.startedAt = state.started_ms_ago === null ? null : Date.now() - state.started_ms_ago;
    }
    for (const name of Object.keys(state)) changes.parts.add(name);
  }

  applyToast(toast, changes) {
    if (toast.n <= this.lastToast) return;
    this.lastToast = toast.n;
    this.toasts.set(toast.n, toast);
    if (this.toasts.size > MAX_TOASTS) this.toasts.delete(Math.min(...this.toasts.keys()));
    changes.newToasts.push(toast);
    changes.parts.add("toasts");
  }

  closeDialog(id) {
    if (!this.dialogs.delete(id)) return false;
    this.answered.set(id, Date.now());
    return true;
  }

  end(keepsAsked) {
    const [first] = this.dialogs.values();
    this.dialogs.clear();
    for (const [key, html] of this.blocks)
      this.blocks.set(key, html.replace(RUNS, "<span>–</span>").replace(NOT_YET, "$1"));
    if (keepsAsked && first?.layout?.html) this.blocks.set("asked", first.layout.html);
  }
}

// src/moving.js
class CellOfRun {
  constructor(store) {
    this.store = store;
    this.outputs = undefined;
    this.isMoved = false;
  }

  watch() {
    const { context, kind, model, notebook } = this.store;
    const client = context?.sessionContext?.session?.kernel?.clientId;
    if (kind !== "cell" || !client || client !== model.get("client")) return;
    const outputs = [...(notebook?.cells ?? [])].find(({ id }) => id === model.get("cell"))?.outputs;
    if (!outputs || outputs === this.outputs) return;
    const isMoved = this.outputs !== undefined;
    this.outputs = outputs;
    if (!isMoved) return;
    this.isMoved = true;
    this.store.send({ kind: "moved" });
  }
}

// src/store.js
const NOTEBOOK = Symbol.for("indus_nb notebook");
const TOAST_MS = 8000;
const NEW_VIEW_MS = 300;
const ENDED_STYLE =
  "color:color-mix(in srgb,currentcolor 30%,#808080);font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:12px";

const pageId = pageIdOf(/** @type {Record<symbol, string>} */ (/** @type {unknown} */ (globalThis)));

function pageIdOf(scope) {
  const name = Symbol.for("indus_nb page");
  scope[name] ??= Math.random().toString(36).slice(2);
  return scope[name];
}

class Store {
  constructor(model) {
    this.model = model;
    this.kind = model.get("kind");
    this.mirror = new Mirror(() => this.send({ kind: "resync" }));
    this.complete = false;
    this.answers = new Answers(this);
    this.opened = new Map();
    this.announced = new Map();
    this.copying = "";
    this.draft = new Draft();
    this.download = new Download();
    this.focus = new FocusMemory();
    this.follow = true;
    this.follower = new Follower(this);
    this.scrollTop = 0;
    this.overlay = null;
    this.overlayView = null;
    this.views = new Set();
    this.ended = "";
    this.unwatch = watchKernel(model, (how) => this.end(how));
    model.on("msg:custom", (message) => this.handleMessage(message));
    this.greeted = false;
    this.cell = new CellOfRun(this);
    this.greet();
  }

  greet() {
    if (!this.greeted && this.isHere) {
      this.greeted = true;
      this.send({ kind: "ready" });
    }
    return this.greeted;
  }

  get isHere() {
    const [cell, client] = [this.model.get("cell"), this.model.get("client")];
    return !this.notebook?.cells || !(cell || client) || this.views.size > 0 || this.holds(cell, client);
  }

  holds(cell, client) {
    const own = this.context?.sessionContext?.session?.kernel?.clientId;
    return Boolean(own && own === client) || [...(this.notebook?.cells ?? [])].some(({ id }) => id === cell);
  }

  get state() {
    return this.mirror.state;
  }

  get dialogs() {
    return this.mirror.dialogs;
  }

  get busy() {
    return this.state.busy ?? this.kind === "cell";
  }

  get shown() {
    const find = /** @type {Record<symbol, FindNotebook>} */ (/** @type {unknown} */ (globalThis))[NOTEBOOK];
    const roots = [...this.views].map(({ root }) => root);
    return find?.(roots, this.model.get("client"));
  }

  get context() {
    return this.shown?.context ?? this.model.widget_manager?.context;
  }

  get notebook() {
    return this.context?.model;
  }

  get path() {
    return this.context?.path ?? "";
  }

  isOfAgent(index) {
    return isOfAgent(this.notebook?.cells?.get(index));
  }

  get place() {
    return this.path.split("/").at(-1) ?? "";
  }

  end(how) {
    if (this.ended) return;
    const { mirror, state } = this;
    this.ended = wordsOfEnd(this.kind, how, state.saved !== false);
    Object.assign(state, { busy: false, stopping: false, note: "" });
    mirror.end(this.kind === "cell");
    this.show(Changes.all());
    if (this.kind === "cell" && state.widget) {
      const said = `<div class="indus-notice" style="${ENDED_STYLE}">${this.ended}</div>`; // words of ours alone
      const html = [...mirror.blocks.values(), said].join("");
      replaceWidget(this.notebook, state.widget, html, this.ended);
      noteWidget(this.notebook, state.widget, null);
    }
  }

  close() {
    this.unwatch();
    this.answers.close();
    this.download.forget();
  }

  send(message) {
    if (this.ended) return;
    this.model.send({ page: pageId, ...message });
  }

  handleMessage(message) {
    if (!this.greet()) return;
    if (message.kind === "request") {
      this.handleRequest(message);
      return;
    }
    const changes = this.mirror.receive(message);
    if (!changes) return;
    if (message.kind === "full" && !this.complete) this.ignoreEarlier();
    this.carryOver(changes);
    if (changes.has("fallback") && this.state.widget && this.state.fallback !== undefined)
      noteWidget(this.notebook, this.state.widget, this.state.fallback);
    if (changes.has("notebook") && this.state.notebook) nameNotebook(this.notebook, this.state.notebook);
    if (changes.has("beside", "busy") && this.state.beside && this.state.busy === false)
      drawBeside(this.follower.area ?? outputsOf(this), this.state.beside);
    if (this.state.closed) this.end("closed");
    this.show(changes);
  }

  ignoreEarlier() {
    this.complete = true;
    for (const key of this.mirror.blocks.keys()) this.announced.set(key, Number.POSITIVE_INFINITY);
  }

  carryOver(changes) {
    for (const key of changes.dropped) this.opened.delete(key);
    this.answers.tidy();
    for (const { n, type } of changes.newToasts) if (type === "info") setTimeout(() => this.dismissToast(n), TOAST_MS);
    if (this.dialogs.size === 0) this.draft.holdBack(false);
    if (changes.has("composer")) this.draft.receive(this.state.composer);
    if (changes.has("inserted") && this.draft.insert(this.state.inserted)) changes.parts.add("composer");
    this.takeOnce();
  }

  takeOnce() {
    if (this.state.copied) {
      if (this.state.copied.block === this.copying) {
        this.copying = "";
        const roots = [...this.views].map(({ root }) => root);
        copyAnswer(this.state.copied, roots);
      }
      delete this.state.copied;
    }
    if (this.state.focus) {
      setTimeout(() => [...this.views].at(-1)?.welcome(), NEW_VIEW_MS); // its newest view may still be on its way
      delete this.state.focus;
    }
    if (this.state.download) {
      this.download.offer(this.state.download);
      delete this.state.download;
    }
  }

  handleRequest(request) {
    if (request.page !== pageId) return; // another page was used last, and one cell is to be inserted
    let value;
    this.cell.watch(); // no view may be there that has noted it
    try {
      const kernel = this.context?.sessionContext?.session?.kernel;
      const runs = /** @type {KernelConnection | null | undefined} */ (/** @type {unknown} */ (kernel));
      const { origin } = request;
      value =
        origin && this.notebook?.cells && !this.holds(origin.cell, origin.client)
          ? { error: "elsewhere" }
          : placed(answerRequest(this.notebook, request, this.cellIndex(), runs, this.cell.isMoved), this.context);
    } catch (error) {
      value = { error: error instanceof Error ? error.message : String(error) };
    }
    this.send({ kind: "reply", id: request.id, value });
  }

  cellIndex() {
    const cells = [...this.views].map((view) => view.root.closest(".jp-Cell"));
    return Math.max(
      -1,
      ...cells.map((cell) => Number((cell instanceof HTMLElement && cell.dataset.windowedListIndex) || -1)),
    );
  }

  show(changes) {
    for (const view of this.views) view.show(changes);
  }

  dismissToast(n) {
    if (this.mirror.toasts.delete(n)) this.show(new Changes("toasts"));
  }

  answer(id, value, reason) {
    if (!this.mirror.closeDialog(id)) return;
    this.answers.tidy();
    this.send(reason ? { kind: "answer", id, value, reason } : { kind: "answer", id, value });
    this.show(new Changes("dialogs"));
  }

  stop() {
    if (this.state.stopping) return;
    this.state.stopping = true;
    this.send({ kind: "stop" });
    this.show(new Changes("stopping"));
  }

  stopAll() {
    this.state.stopping = true;
    this.send({ kind: "abort" });
    this.show(new Changes("stopping"));
  }

  prompt(how) {
    const { draft } = this;
    if (draft.isEmpty || this.ended) return;
    if (draft.holdBack(!this.busy && this.dialogs.size > 0)) {
      this.show(new Changes("composer"));
      return;
    }
    for (const { data, mimeType } of draft.images) this.send({ kind: "image", data, mimeType });
    this.send({ kind: "prompt", text: draft.text.trim(), how, literal: draft.isPasted });
    draft.clear();
    this.follow = true;
    this.show(new Changes("composer"));
  }

  open(overlay, view) {
    this.overlay = overlay;
    this.overlayView = view;
    this.send({ kind: overlay === "sessions" ? "list_sessions" : "show_tree" });
    this.show(new Changes("overlay"));
  }

  copy(block) {
    this.copying = block;
    this.send({ kind: "copy", block });
  }

  export() {
    this.download.wanted = true;
    this.send({ kind: "export" });
  }

  forgetDownload() {
    this.download.forget();
    this.show(new Changes("download"));
  }
}

// src/main.js
const VIEWS = { cell: CellView, keys: KeyView, panel: PanelView };

export default () => {
  let store;
  return {
    initialize({ model }) {
      store = new Store(model);
      return () => store.close();
    },
    render({ el }) {
      const view = new VIEWS[store.kind](store);
      store.views.add(view);
      store.greet();
      store.cell.watch();
      bringStyles(el);
      el.append(view.root);
      view.show(Changes.all());
      view.resume();
      store.focus.restore(view.root);
      return () => view.remove();
    },
  };
};

function bringStyles(el) {
  const root = el.getRootNode();
  const styles = document.getElementById("indus-nb-styles");
  if (root instanceof ShadowRoot && styles && !root.getElementById(styles.id)) root.append(styles.cloneNode(true));
}
