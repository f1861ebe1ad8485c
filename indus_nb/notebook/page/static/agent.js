// Made from src/*.js by tests/bundle.py, where the comments are. Do not edit.

// src/focus.js
const TYPING_FIELDS = "input, textarea, select, [contenteditable]:not([contenteditable=false]), .cm-content";

function isTypingField(node) {
  return node instanceof Element && node.matches(TYPING_FIELDS);
}

function focusQuietly(node) {
  if (node instanceof HTMLElement) node.focus({ preventScroll: true });
}

class FocusMemory {
  constructor() {
    this.focused = null;
    this.before = null;
    this.cell = null;
  }

  enter(node, root) {
    this.focused = node instanceof HTMLElement ? node : null;
    this.cell = root.closest(".jp-Cell");
  }

  forget() {
    this.focused = this.before = null;
  }

  leave() {
    const node = this.before?.isConnected ? this.before : this.cell;
    this.before = null;
    focusQuietly(node);
  }

  restore(root) {
    const { focused } = this;
    if (!focused || focused.isConnected || isTypingField(document.activeElement)) return;
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
  return { heading, body: rest.join("\n").replace(/^\n+|\s+$/g, "") };
}

function diffLines(text) {
  if (!/^@@ /m.test(text)) return null;
  return text.split("\n").map((line) => ({ kind: line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "", line }));
}

function lengthOfSentences(text) {
  return /^[\s\S]*(?:[.!?:](?=\s+\S)|\n(?=\s*\S))/.exec(text)?.[0].length ?? 0;
}

function lastWord(text) {
  return /\S*$/.exec(text)?.[0] ?? "";
}

function isCompletable(before) {
  const word = lastWord(before);
  return word !== "" && (/[/@]/.test(word) || before.startsWith("/"));
}

function completed(before, completion) {
  const head = before.slice(0, before.length - lastWord(before).length);
  return completion.startsWith(head) ? completion : head + completion;
}

function completeCommand(before, commands) {
  if (!/^\/\S*$/.test(before)) return null;
  const begun = before.slice(1).toLowerCase();
  return commands
    .filter(({ name }) => name.toLowerCase().startsWith(begun))
    .map(({ name, description = "" }) => ({ text: `/${name} `, label: `/${name}`, detail: description }));
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
    if (fresh) this.node.append(h("p", { text: fresh.slice(0, MAX_ANNOUNCEMENT_CHARACTERS) }));
    while (this.node.childElementCount > MAX_ANNOUNCEMENTS) this.node.firstChild?.remove();
  }
}

// src/blocks.js
const TYPESET_PAUSE_MS = 400;
const FILL_MS = 8;

function parse(sanitised) {
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
    let before = null;
    for (const key of blocks.keys()) {
      const node = this.shown.get(key)?.node;
      if (!node) continue;
      if (node.previousSibling !== before)
        this.node.insertBefore(node, before ? before.nextSibling : this.node.firstChild);
      before = node;
    }
    this.fill();
  }

  update(key) {
    const html = this.store.mirror.blocks.get(key);
    if (html === undefined) {
      this.drop(key);
      return;
    }
    let block = this.shown.get(key);
    if (!block) {
      block = { node: h("div", { class: "ia-block" }), html: null };
      this.shown.set(key, block);
      this.node.append(block.node);
    }
    if (block.html !== html) this.outdated.add(key);
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
    const content = parse(html);
    this.unannounced.add(key);
    this.keepOpened(key, content);
    morph(block.node, content);
    block.html = html;
    for (const code of block.node.querySelectorAll(".indus-call .indus-code")) this.offerCell(code);
    this.typesetSoon(block);
  }

  drop(key) {
    const block = this.shown.get(key);
    if (!block) return;
    this.outdated.delete(key);
    this.unannounced.delete(key);
    this.onDrop(key, block.node);
    block.node.remove();
    this.shown.delete(key);
    this.store.announced.delete(key);
  }

  offerCell(code) {
    const card = code.closest(".indus-call");
    if (!card || isOwn(card.lastChild)) return;
    const send = () => {
      const source = card.querySelector(".indus-code")?.textContent ?? "";
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
    if (this.store.kind !== "panel" || !block.node.textContent.includes("$")) return;
    clearTimeout(block.timer);
    block.timer = setTimeout(() => {
      const typesetter = this.store.model.widget_manager?._rendermime?.latexTypesetter;
      for (const answer of block.node.querySelectorAll(".indus-answer")) typesetter?.typeset(answer);
    }, TYPESET_PAUSE_MS);
  }
}

// src/keys.js
function belongsToFrontEnd(key, atRoot) {
  if (key.key === "Enter" && key.shiftKey && atRoot) return true;
  const isShortcut = (key.ctrlKey || key.metaKey) && !key.altKey && key.key !== "Enter";
  return isShortcut && (/^s$/i.test(key.key) || (key.shiftKey && !/^[zv]$/i.test(key.key)));
}

function dialogAction(key, dialog, { typing, scrolling }) {
  if (key.key === "Escape") return { type: "answer", value: null };
  if (key.key === "Enter" && typing) return submits(key, dialog.method) ? { type: "submit" } : null;
  if (key.key === "Enter" && key.shiftKey) return { type: "ignore" }; // which runs cells, and presses nothing
  if (typing || isChord(key)) return null;
  if (dialog.method === "confirm" && /^[yn]$/i.test(key.key)) return { type: "answer", value: /y/i.test(key.key) };
  return dialog.method === "select" ? optionAction(key.key, dialog.options ?? [], scrolling) : null;
}

const LIST_STEPS = { ArrowDown: 1, ArrowUp: -1 };

function optionAction(key, options, scrolling) {
  const option = /^[1-9]$/.test(key) ? options[Number(key) - 1] : undefined;
  if (option !== undefined) return { type: "answer", value: option };
  const step = LIST_STEPS[key];
  return step === undefined || scrolling ? null : { type: "move", step };
}

function isChord(key) {
  return key.ctrlKey || key.metaKey || key.altKey;
}

function submits(key, method) {
  return method === "input" ? !isChord(key) : key.ctrlKey || key.metaKey;
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

// src/dialogs.js
const ARM_DELAY_MS = 250;

class Dialogs {
  constructor(store, view) {
    this.store = store;
    this.view = view;
    this.node = h("div", { class: "ia-dialogs" });
    this.shown = null;
  }

  show() {
    const { dialogs } = this.store;
    const [first] = dialogs.values();
    if (first?.frame.id !== this.shown?.id) {
      const hadFocus = this.node.contains(document.activeElement);
      this.node.replaceChildren();
      this.shown = null;
      if (first) this.open(first, hadFocus);
      else if (hadFocus) this.view.focusRest();
    }
    if (this.shown) setText(this.shown.more, dialogs.size > 1 ? `${dialogs.size - 1} more after this` : "");
    this.tick();
  }

  tick() {
    const until = this.shown && this.store.dialogs.get(this.shown.id)?.until;
    if (this.shown && typeof until === "number") setText(this.shown.left, `${secondsUntil(until)} s left`);
  }

  open({ frame, until }, hadFocus) {
    const { id } = frame;
    const answer = (value) => this.store.answer(id, value);
    const left = h("span", { class: "ia-left", "aria-hidden": "true" });
    const more = h("span", { class: "ia-more" });
    const { box, first } = this.build(frame, answer, left, more);
    if (until !== null) {
      const text = `It answers itself in ${secondsUntil(until)} seconds.`;
      box.append(h("span", { class: "ia-announced", text }));
    }
    const shown = { id, left, more, armed: false };
    this.shown = shown;
    const buttons = box.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    box.addEventListener("keydown", (event) => this.handleKey(event, frame, answer));
    this.node.append(box);
    const takesFocus = hadFocus || this.view.mayTakeFocus();
    if (takesFocus) {
      if (!this.view.root.contains(document.activeElement)) this.store.focus.before = document.activeElement;
      focusQuietly(box);
    }
    setTimeout(() => {
      if (this.shown !== shown) return;
      shown.armed = true;
      for (const button of buttons) button.disabled = false;
      if (takesFocus && document.activeElement === box && isTypingField(first)) focusQuietly(first);
      this.store.focus.restore(this.view.root);
    }, ARM_DELAY_MS);
    this.view.reveal();
  }

  build(frame, answer, left, more) {
    const name = uniqueId();
    const { heading, body: detail } = splitTitle(String(frame.title ?? ""));
    const { body, first, buttons } = this.controls(frame, answer, name);
    const details = { class: "ia-body", tabindex: "0", role: "group", "aria-label": "Details" };
    const dismiss = h("button", {
      class: "ia-quiet",
      type: "button",
      "data-k": `${frame.id} dismiss`,
      title: "Esc",
      text: "Dismiss",
      onclick: () => answer(null),
    });
    const box = h(
      "div",
      { class: "ia-dialog", role: "dialog", "aria-modal": "false", "aria-labelledby": name, tabindex: "-1" },
      h("div", { class: "ia-heading", id: name, text: heading }),
      detail ? h("pre", details, ...detailNodes(detail)) : null,
      frame.method === "confirm" && frame.message ? h("div", { class: "ia-message", text: frame.message }) : null,
      body,
      h("div", { class: "ia-actions" }, ...buttons, h("span", { class: "ia-space" }), more, left, dismiss),
    );
    return { box, first };
  }

  controls(frame, answer, name) {
    switch (frame.method) {
      case "select": {
        const options = frame.options.map((option, index) => optionButton(frame.id, option, index, answer));
        const body = h("div", { class: "ia-options", role: "group", "aria-labelledby": name }, ...options);
        return { body, first: options[0], buttons: [] };
      }
      case "confirm": {
        const yes = answerButton(frame.id, "Yes", "ia-primary", () => answer(true));
        const no = answerButton(frame.id, "No", "ia-secondary", () => answer(false));
        return { body: null, first: yes, buttons: [yes, no] };
      }
      default: {
        const field = this.field(frame, name);
        const send = answerButton(frame.id, "Send", "ia-primary", () => answer(field.value));
        send.title = frame.method === "input" ? "Enter" : "Ctrl+Enter";
        return { body: field, first: field, buttons: [send] };
      }
    }
  }

  field(frame, name) {
    const { answers } = this.store;
    const isLine = frame.method === "input";
    const prefill = frame.method === "editor" ? frame.prefill : null;
    const field = h(isLine ? "input" : "textarea", {
      class: "ia-field",
      "data-k": `${frame.id} field`,
      "aria-labelledby": name,
      placeholder: frame.method === "input" ? frame.placeholder : null,
      rows: isLine ? null : 6,
      value: answers.get(frame.id) ?? prefill ?? "",
      oninput: () => answers.set(frame.id, field.value),
    });
    return field;
  }

  handleKey(event, frame, answer) {
    if (!this.shown?.armed || event.repeat || event.isComposing) return;
    const { target } = event;
    const scrolling = target instanceof Element && target.matches("pre");
    const action = dialogAction(event, frame, { typing: isTypingField(target), scrolling });
    if (!action) return;
    event.preventDefault();
    if (action.type === "answer") answer(action.value);
    else if (action.type === "submit") answer(/** @type {HTMLInputElement} */ (target).value);
    else if (action.type === "move") this.move(action.step);
  }

  move(step) {
    const options = [...this.node.querySelectorAll(".ia-option")].filter((each) => each instanceof HTMLElement);
    const at = options.findIndex((option) => option === document.activeElement);
    options[at < 0 ? 0 : (at + step + options.length) % options.length]?.focus();
  }
}

function secondsUntil(until) {
  return Math.max(0, Math.ceil((until - Date.now()) / 1000));
}

function answerButton(id, text, style, onclick) {
  return h("button", { class: style, type: "button", "data-k": `${id} ${text}`, text, onclick });
}

function optionButton(id, option, index, answer) {
  return h(
    "button",
    { class: "ia-option", type: "button", "data-k": `${id} ${index}`, onclick: () => answer(option) },
    h("span", { class: "ia-number", "aria-hidden": "true", text: index < 9 ? String(index + 1) : "" }),
    h("span", { class: "ia-option-text", text: option }),
  );
}

function detailNodes(text) {
  const rows = diffLines(text);
  if (!rows) return [text];
  return rows.map(({ kind, line }) => h("span", { class: kind ? `ia-row ia-${kind}` : "ia-row", text: `${line}\n` }));
}

// src/status.js
const TOAST_TYPES = ["info", "warning", "error"];

class StatusLines {
  constructor(store) {
    this.store = store;
    this.title = h("div", { class: "ia-title" });
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
    if (!busy && document.activeElement === this.stop) focusQuietly(this.node.closest(".ia-root"));
    this.stop.hidden = !busy;
    this.stop.setAttribute("aria-disabled", String(Boolean(state.stopping)));
    replaceText(this.stopLabel, state.stopping ? "Stopping …" : "Stop");
    setText(this.tokens, state.tokens);
    setText(this.cost, state.cost);
    this.tick();
  }

  showMode() {
    const { busy, dialogs, state } = this.store;
    const mode = !busy ? "idle" : state.stopping ? "stopping" : dialogs.size > 0 ? "asks" : "busy";
    this.node.dataset.mode = mode;
    const notes = { stopping: "stopping …", asks: "waiting for your answer", idle: null, busy: null };
    replaceText(this.note, notes[mode] ?? (state.note || state.model || ""));
    this.note.title = state.model ?? "";
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
const TYPING_PAUSE_MS = 1500; // after a key, in which the next one is under way

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
    this.keyAt = 0;
    this.root = h("div", { class: `ia-root ia-${store.kind}`, tabindex: "-1" });
    this.root.addEventListener("keydown", (event) => this.keepKey(event));
    this.root.addEventListener("focusin", (event) => store.focus.enter(event.target, this.root));
    this.root.addEventListener("focusout", () =>
      setTimeout(() => {
        if (this.root.isConnected && !this.root.contains(document.activeElement)) store.focus.forget();
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
  }

  keepKey(event) {
    this.keyAt = Date.now();
    const atRoot = event.target instanceof Element && event.target.matches(".ia-dialog, .ia-root");
    if (!belongsToFrontEnd(event, atRoot)) event.stopPropagation();
  }

  tick() {
    this.footer.tick();
    this.dialogs.tick();
    this.announcer.update(this.blocks);
  }

  mayTakeFocus() {
    const active = document.activeElement;
    if (globalThis.top !== globalThis.self && !document.hasFocus()) return false; // the page around may have it
    if (isTypingField(active) && (!isEmptyField(active) || Date.now() - this.keyAt < TYPING_PAUSE_MS)) return false;
    if (!active || active === document.body || this.root.contains(active)) return true;
    return Boolean(this.root.closest(this.reach)?.contains(active)) && !isTypingField(active);
  }

  reveal() {}

  resume() {}

  focusRest() {}

  remove() {
    const { store } = this;
    clearInterval(this.clock);
    this.blocks.stop();
    store.views.delete(this);
    setTimeout(() => {
      if (store.views.size === 0 && store.focus.focused && document.activeElement === document.body)
        store.focus.leave();
    }, NEXT_VIEW_MS);
  }
}

function isEmptyField(field) {
  return "value" in field && field.value === "";
}

// src/cell_view.js
class CellView extends View {
  constructor(store) {
    super(store);
    this.found = null;
    this.top = 0;
    this.noteScroll = this.noteScroll.bind(this);
    const { announcer, blocks, dialogs, footer, lines } = this;
    this.root.append(
      lines.title,
      lines.warning,
      lines.above,
      blocks.node,
      dialogs.node,
      lines.toasts,
      lines.below,
      lines.status,
      footer.node,
      announcer.node,
    );
  }

  get reach() {
    return this.store.state.background ? ".jp-Cell" : ".jp-Notebook";
  }

  mayTakeFocus() {
    if (!super.mayTakeFocus()) return false;
    return this.store.follow || this.distanceBelow(this.scroller() ?? document.documentElement) < NEAR_END_PX;
  }

  reveal() {
    if (this.store.follow) requestAnimationFrame(() => this.dialogs.node.scrollIntoView({ block: "nearest" }));
  }

  show(changes) {
    super.show(changes);
    if (changes.has("dialogs")) this.dialogs.show();
    this.footer.show();
    this.followEnd();
  }

  scroller() {
    if (this.found?.isConnected && overflows(this.found)) return this.found;
    let node = this.root.parentElement;
    while (node && !(overflows(node) && /auto|scroll/.test(getComputedStyle(node).overflowY)))
      node = node.parentElement;
    if (node !== this.found) {
      this.found?.removeEventListener("scroll", this.noteScroll);
      this.found = node;
      this.top = node?.scrollTop ?? 0;
      node?.addEventListener("scroll", this.noteScroll, { passive: true });
    }
    return node;
  }

  distanceBelow(scroller) {
    return this.root.getBoundingClientRect().bottom - scroller.getBoundingClientRect().bottom;
  }

  editorBelow(scroller) {
    const active = document.activeElement;
    if (!isTypingField(active) || !scroller.contains(active) || this.root.contains(active)) return 0;
    const distance = active.getBoundingClientRect().bottom - this.root.getBoundingClientRect().bottom;
    return distance < scroller.clientHeight / 2 ? distance : 0;
  }

  noteScroll() {
    const scroller = this.found;
    if (!scroller) return;
    const { scrollTop } = scroller;
    if (this.distanceBelow(scroller) < NEAR_END_PX) this.store.follow = true;
    else if (scrollTop < this.top - 2) this.store.follow = false;
    this.top = scrollTop;
  }

  followEnd() {
    const scroller = this.scroller();
    if (!scroller || !this.store.follow) return;
    const below = this.distanceBelow(scroller);
    const hidden = Math.max(below, below + this.editorBelow(scroller));
    if (hidden > 0) scroller.scrollTop += hidden + 8;
  }

  focusRest() {
    if (this.store.focus.before?.isConnected) this.store.focus.leave();
    else this.root.focus({ preventScroll: true });
  }

  remove() {
    this.found?.removeEventListener("scroll", this.noteScroll);
    if (this.store.state.busy) keepHeight(this.root.closest(".jp-OutputArea"));
    super.remove();
  }
}

function overflows(node) {
  return node.scrollHeight > node.clientHeight + NEAR_END_PX;
}

function keepHeight(node) {
  if (!(node instanceof HTMLElement)) return;
  node.style.minHeight = `${node.getBoundingClientRect().height}px`;
  setTimeout(() => {
    node.style.minHeight = "";
  }, NEXT_VIEW_MS);
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

// src/attachments.js
const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MAX_IMAGE_BYTES = 5e6;
const MAX_IMAGES = 8;

class Attachments {
  constructor(store, focusField) {
    this.store = store;
    this.focusField = focusField;
    this.shown = "";
    this.node = h("div", { class: "ia-images" });
    this.input = h("input", {
      type: "file",
      accept: IMAGE_TYPES.join(),
      multiple: true,
      hidden: true,
      onchange: () => this.attach([...(this.input.files ?? [])]),
    });
    this.button = h("button", {
      class: "ia-icon",
      type: "button",
      title: "Attach images",
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
      const problem = imageProblem(file, draft.images.length) ?? (await this.read(file));
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

  acceptDrops(node) {
    node.addEventListener("dragover", (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      event.stopPropagation();
      node.classList.add("ia-dropping");
    });
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

class Completions {
  constructor(field, id, onAccept) {
    this.field = field;
    this.onAccept = onAccept;
    this.node = h("ul", { class: "ia-choices", id, role: "listbox", "aria-label": "Completions", hidden: true });
    this.asked = null;
    this.items = [];
    this.chosen = 0;
  }

  get isOpen() {
    return !this.node.hidden;
  }

  get isComplete() {
    return this.items[this.chosen]?.text.trim() === this.field.value.trim();
  }

  offer(items) {
    if (!this.field.matches(":focus") || this.field.value.slice(0, this.field.selectionStart) !== this.asked) return;
    if (items.length === 0 && this.items.length > 0) return; // commands that only the page knows of
    this.items = items.slice(0, MAX_SHOWN);
    this.node.hidden = this.items.length === 0;
    this.node.replaceChildren(...this.items.map((item, index) => this.row(item, index)));
    this.choose(0);
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
    this.asked = null;
    this.items = [];
    this.node.hidden = true;
    this.node.replaceChildren();
    this.choose(0);
  }
}

// src/composer.js
const MAX_HEIGHT_PX = 200;

class Composer {
  constructor(store) {
    this.store = store;
    this.fitted = "";
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
      onclick: () => this.submit(store.state.busy ? "steer" : "send"),
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
      onpaste: (/** @type {ClipboardEvent} */ event) => this.attachments.acceptPaste(event),
      onblur: () => this.completions.close(),
    });
  }

  show() {
    const { draft, state } = this.store;
    if (this.field.value !== draft.text) {
      this.field.value = draft.text;
      this.completions.close();
    }
    this.field.placeholder = state.commands?.length ? "Ask, or type / for commands" : "Ask";
    this.fit();
    setText(this.problem, draft.problem);
    this.attachments.show();
    this.showButtons(Boolean(state.busy), Boolean(state.stopping));
    const { asked } = this.completions;
    if (asked !== null && state.completions?.text === asked) this.completions.offer(state.completions.items);
  }

  showButtons(busy, stopping) {
    const { isEmpty } = this.store.draft;
    const label = busy ? "Steer" : "Send";
    if (this.send.textContent !== label) this.send.textContent = label;
    this.send.title = busy ? "Enter: say it as soon as possible" : "Enter";
    this.send.disabled = isEmpty;
    this.later.hidden = !busy;
    this.later.disabled = isEmpty;
    if (!busy && document.activeElement === this.stop) focusQuietly(this.field);
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
    this.store.prompt(how);
    focusQuietly(this.field);
  }

  handleKey(event) {
    if (event.isComposing) return;
    const { completions, field, store } = this;
    const action = composerAction(event, {
      open: completions.isOpen,
      busy: Boolean(store.state.busy),
      recalling: store.draft.recalled !== null,
      empty: field.value === "",
      complete: completions.isComplete,
    });
    if (!action) return;
    event.preventDefault();
    this.perform(action);
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
        this.submit(action);
    }
  }

  recall(step) {
    this.store.draft.recall(step);
    this.field.value = this.store.draft.text;
    this.store.show(new Changes("composer"));
  }
}

// src/header.js
class Header {
  constructor(store) {
    this.store = store;
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
    this.menu = this.makeMenu();
    this.more = h("button", {
      class: "ia-icon ia-fold",
      type: "button",
      "aria-label": "Menu",
      "aria-expanded": "false",
      text: "⋯",
      onclick: () => this.fold(this.isOpen),
    });
    this.node = h("div", { class: "ia-head" }, this.name, this.model, this.level, this.menu, this.more);
  }

  makeName() {
    const name = h("input", {
      class: "ia-name",
      "data-k": "name",
      "aria-label": "Name of the session",
      placeholder: "Unnamed session",
      spellcheck: "false",
    });
    name.addEventListener("change", () => this.store.send({ kind: "rename", name: name.value.trim() }));
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
      { class: "ia-menu", role: "group", "aria-label": "Session" },
      this.item("New", "Begin a new session", () => store.send({ kind: "new" })),
      this.item("Sessions", "Go on with another session", () => store.open("sessions")),
      this.item("Tree", "Go back to an earlier point, or fork there", () => store.open("tree")),
      this.item("Compact", "Summarise what was said so far", () => store.send({ kind: "compact" })),
      this.item("Export", "Download the session as a web page", () => {
        store.download.wanted = true;
        store.send({ kind: "export" });
      }),
    );
  }

  item(text, title, act) {
    const onclick = () => {
      this.fold(true);
      act();
    };
    return h("button", { class: "ia-item", type: "button", "data-k": text, title, text, onclick });
  }

  get isOpen() {
    return this.menu.classList.contains("ia-open");
  }

  fold(folded) {
    if (folded && this.isOpen && this.menu.contains(document.activeElement)) this.more.focus();
    this.menu.classList.toggle("ia-open", !folded);
    this.more.setAttribute("aria-expanded", String(!folded));
  }

  chooseModel() {
    const chosen = this.models[this.model.selectedIndex];
    if (chosen) this.store.send({ kind: "set_model", provider: chosen.provider, id: chosen.id });
  }

  chooseLevel() {
    const level = /** @type {SetThinking["level"]} */ (this.level.value);
    this.store.send({ kind: "set_thinking", level });
  }

  show() {
    const { session, models = [], current_model: current, levels = [], level } = this.store.state;
    if (document.activeElement !== this.name) this.name.value = session?.name ?? "";
    this.showModels(models, current ?? null);
    this.showLevels(levels, level ?? "");
  }

  showModels(models, current) {
    const isCurrent = (model) => model.provider === current?.provider && model.id === current?.id;
    const listed = models.some(isCurrent) || !current ? models : [{ ...current, name: current.id }, ...models];
    const key = JSON.stringify(listed);
    if (key !== this.modelsKey) {
      this.modelsKey = key;
      const groups = new Map(listed.map(({ provider }) => [provider, []]));
      for (const model of listed) groups.get(model.provider)?.push(model);
      this.models = [...groups.values()].flat();
      this.model.replaceChildren(
        ...[...groups].map(([label, group]) =>
          h("optgroup", { label }, ...group.map(({ name, id }) => h("option", { text: name || id }))),
        ),
      );
    }
    this.model.selectedIndex = this.models.findIndex(isCurrent);
    this.model.title = current ? `${current.provider} · ${current.id}` : "";
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
    const { overlay } = this.store;
    const opens = overlay !== null && this.node.hidden;
    this.node.hidden = overlay === null;
    this.view.scroller.inert = overlay !== null;
    if (overlay === null) {
      this.list.replaceChildren();
      return;
    }
    this.title.textContent = overlay === "sessions" ? "Sessions" : "Tree";
    if (opens) this.filter.value = "";
    const focused = this.entries().findIndex((entry) => entry === document.activeElement);
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
    const detail = [`${messages} messages`, formatMoment(modified)].filter(Boolean).join(" · ");
    const button = h(
      "button",
      {
        class: "ia-entry",
        type: "button",
        "aria-current": current ? "true" : null,
        onclick: () => this.choose({ kind: "switch", path }),
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
        onclick: () => this.choose({ kind: "navigate", entry: id }),
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
      onclick: () => this.choose({ kind: "fork", entry: id }),
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
    const row = document.activeElement?.closest("li") ?? null;
    const at = visible.findIndex((entry) => entry.parentElement === row);
    const target = listTarget(event.key, { at, length: visible.length, inRow: row !== null });
    if (target === null) return;
    event.preventDefault();
    (target < 0 ? this.filter : visible[target])?.focus();
  }
}

// src/queue.js
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
    const hadFocus = this.node.contains(document.activeElement);
    this.node.hidden = rows.length === 0;
    this.node.replaceChildren(...rows);
    if (rows.length > 0) this.node.append(this.clearButton(rows.length > 1 ? "Clear all" : "Clear"));
    if (hadFocus) focusQuietly(this.node.closest(".ia-root")?.querySelector(".ia-text"));
  }

  clearButton(text) {
    const onclick = () => this.store.send({ kind: "clear_queue" });
    return h("button", { class: "ia-quiet ia-clear", type: "button", text, onclick });
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

// src/panel_view.js
class PanelView extends View {
  constructor(store) {
    super(store);
    this.top = 0;
    this.header = new Header(store);
    this.queue = new Queue(store);
    this.overlay = new Overlay(store, this);
    this.composer = new Composer(store);
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
    this.scroller = h("div", region, this.blocks.node);
    this.scroller.addEventListener("scroll", () => this.noteScroll(), { passive: true });
    const { announcer, dialogs, footer, lines } = this;
    this.root.append(
      this.header.node,
      lines.title,
      lines.warning,
      h("div", { class: "ia-middle" }, this.scroller, this.end, lines.toasts, this.overlay.node),
      h("div", { class: "ia-lower" }, dialogs.node, this.file, lines.above, this.queue.node),
      h("div", { class: "ia-bottom" }, this.composer.node, lines.below, lines.status),
      footer.node,
      announcer.node,
    );
    footer.stop.remove(); // the composer has its own
    this.root.addEventListener("keydown", (event) => this.handleKey(event));
    const sizes = new ResizeObserver(() => this.followEnd());
    for (const node of [this.scroller, this.blocks.node]) sizes.observe(node);
  }

  show(changes) {
    super.show(changes);
    if (changes.has("session", "models", "current_model", "levels", "level", "busy")) this.header.show();
    if (changes.has("queue")) this.queue.show();
    if (changes.has("sessions", "tree", "overlay")) this.overlay.show();
    if (changes.has("composer", "completions", "commands", "busy", "stopping")) this.composer.show();
    if (changes.has("dialogs")) this.dialogs.show();
    if (changes.has("download")) this.showFile();
    this.footer.show();
    this.followEnd();
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

  noteScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    if (scrollHeight - scrollTop - clientHeight < NEAR_END_PX) this.store.follow = true;
    else if (scrollTop < this.top - 2) this.store.follow = false;
    this.top = this.store.scrollTop = scrollTop;
    this.end.hidden = this.store.follow;
  }

  followEnd() {
    this.end.hidden = this.store.follow;
    if (this.store.follow) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  goToEnd() {
    this.store.follow = true;
    this.followEnd();
    this.focusRest();
  }

  resume() {
    if (!this.store.follow) this.scroller.scrollTop = this.store.scrollTop;
    this.end.hidden = this.store.follow;
  }

  focusRest() {
    focusQuietly(this.composer.field);
  }
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

class Draft {
  constructor() {
    this.text = "";
    this.images = [];
    this.problem = "";
    this.history = [];
    this.recalled = null;
    this.kernelNumber = 0;
    this.expectsTakenBack = false;
  }

  get isEmpty() {
    return !this.text.trim() && this.images.length === 0;
  }

  remember(text) {
    if (!text || this.history.at(-1) === text) return;
    this.history.push(text);
    if (this.history.length > MAX_HISTORY) this.history.shift();
  }

  recall(step) {
    const at = (this.recalled ?? this.history.length) + step;
    if (at < 0 || at > this.history.length) return;
    this.recalled = at === this.history.length ? null : at;
    this.text = this.history[at] ?? "";
  }

  receive(given) {
    if (!given || given.n <= this.kernelNumber) return;
    this.kernelNumber = given.n;
    const before = this.text.trim();
    if (this.expectsTakenBack && before) this.text = `${given.text}\n\n${this.text}`;
    else {
      this.remember(before);
      this.text = given.text;
    }
    this.expectsTakenBack = false;
  }

  clear() {
    this.remember(this.text.trim());
    this.text = "";
    this.images = [];
    this.problem = "";
  }
}

// src/mirror.js
const RESYNC_INTERVAL_MS = 5000;
const IGNORE_ANSWERED_MS = 5000; // in which a dialog that was answered here may still be sent again
const MAX_TOASTS = 5;

class Mirror {
  constructor(resync) {
    this.resync = resync;
    this.number = 0;
    this.blocks = new Map();
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
        changes.blocks.add(key);
        changes.dropped.add(key);
        break;
      }
      case "set":
        this.applyState(operation[1], changes);
        break;
      case "ask": {
        const [, frame, left] = operation;
        if (Date.now() - (this.answered.get(frame.id) ?? 0) < IGNORE_ANSWERED_MS) break;
        this.dialogs.set(frame.id, { frame, until: left === null ? null : Date.now() + left });
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
}

// src/notebook.js
const NO_SUCH_CELL = "There is no such cell.";

function answerRequest(notebook, request, ownIndex) {
  if (!notebook?.cells) return { error: "unavailable" };
  switch (request.what) {
    case "cells":
      return { cells: [...notebook.cells].map(describeCell) };
    case "insert_cell":
      return insertCell(notebook, request, ownIndex);
    case "replace_cell":
      return replaceCell(notebook, request);
    default:
      return { error: `The page cannot do that: ${/** @type {{ what: string }} */ (request).what}` };
  }
}

function insertCell(notebook, { after, type: wanted, source }, ownIndex) {
  const cells = [...notebook.cells];
  const found = after ? cells.findIndex((cell) => cell.id === after) : ownIndex;
  if (found < 0 && after) return { error: NO_SUCH_CELL };
  const index = (found < 0 ? cells.length - 1 : found) + 1;
  const type = wanted === "markdown" ? "markdown" : "code";
  const metadata = type === "code" ? { trusted: true } : {};
  notebook.sharedModel.insertCell(index, { cell_type: type, source: String(source), metadata });
  return { id: notebook.cells.get(index).id };
}

function replaceCell(notebook, { cell: id, old, source }) {
  const cell = [...notebook.cells].find((each) => each.id === id);
  if (!cell) return { error: NO_SUCH_CELL };
  if (cell.sharedModel.getSource() !== old) return { error: "The cell was changed meanwhile." };
  cell.sharedModel.setSource(String(source));
  return { id: cell.id };
}

function describeCell(cell) {
  return {
    id: cell.id,
    type: cell.type,
    source: cell.sharedModel.getSource(),
    executionCount: cell.executionCount ?? null,
  };
}

// src/store.js
const TOAST_MS = 8000;

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
    this.answers = new Map();
    this.opened = new Map();
    this.announced = new Map();
    this.draft = new Draft();
    this.download = new Download();
    this.focus = new FocusMemory();
    this.follow = true;
    this.scrollTop = 0;
    this.overlay = null;
    this.views = new Set();
    model.on("msg:custom", (message) => this.handleMessage(message));
    this.send({ kind: "ready" });
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

  send(message) {
    this.model.send({ page: pageId, ...message });
  }

  handleMessage(message) {
    if (message.kind === "request") {
      this.handleRequest(message);
      return;
    }
    const changes = this.mirror.receive(message);
    if (!changes) return;
    if (message.kind === "full" && !this.complete) this.ignoreEarlier();
    this.carryOver(changes);
    this.show(changes);
  }

  ignoreEarlier() {
    this.complete = true;
    for (const key of this.mirror.blocks.keys()) this.announced.set(key, Number.POSITIVE_INFINITY);
  }

  carryOver(changes) {
    for (const key of changes.dropped) this.opened.delete(key);
    for (const id of this.answers.keys()) if (!this.dialogs.has(id)) this.answers.delete(id);
    for (const { n, type } of changes.newToasts) if (type === "info") setTimeout(() => this.dismissToast(n), TOAST_MS);
    if (changes.has("composer")) this.draft.receive(this.state.composer);
    if (this.state.download) {
      this.download.offer(this.state.download);
      delete this.state.download;
    }
  }

  handleRequest(request) {
    if (request.page !== pageId) return; // another page was used last, and one cell is to be inserted
    let value;
    try {
      value = answerRequest(this.model.widget_manager?.context?.model, request, this.cellIndex());
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

  answer(id, value) {
    if (!this.mirror.closeDialog(id)) return;
    this.answers.delete(id);
    this.send({ kind: "answer", id, value });
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
    if (draft.isEmpty) return;
    for (const { data, mimeType } of draft.images) this.send({ kind: "image", data, mimeType });
    this.send({ kind: "prompt", text: draft.text.trim(), how });
    draft.clear();
    this.follow = true;
    this.show(new Changes("composer"));
  }

  open(overlay) {
    this.overlay = overlay;
    this.send({ kind: overlay === "sessions" ? "list_sessions" : "show_tree" });
    this.show(new Changes("overlay"));
  }

  forgetDownload() {
    this.download.forget();
    this.show(new Changes("download"));
  }
}

// src/main.js
export default () => {
  let store;
  return {
    initialize({ model }) {
      store = new Store(model);
    },
    render({ el }) {
      const view = store.kind === "panel" ? new PanelView(store) : new CellView(store);
      store.views.add(view);
      el.append(view.root);
      view.show(Changes.all());
      view.resume();
      store.focus.restore(view.root);
      return () => view.remove();
    },
  };
};
