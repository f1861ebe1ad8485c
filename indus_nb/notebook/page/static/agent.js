// The page's half of indus_nb.notebook.page.widget.AgentWidget: an anywidget module without dependencies.
// Only the HTML of blocks, which the kernel has sanitised, is ever parsed; everything else is set as text.

const ARMED_AFTER = 250; // ms in which a new dialog takes no answer: keys and clicks still under way were not meant for it
const FORGET_ANSWER = 5000;
const RESYNC_AGAIN = 5000;
const TYPES_ON_WITHIN = 1500; // ms after a key in which the next one is under way
const NEXT_VIEW_WITHIN = 200;
const TOAST_STAYS = 8000;
const NEAR_END = 48; // px
const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const IMAGE_BYTES = 5e6;
const IMAGES = 8;

const page = (globalThis[Symbol.for("indus_nb page")] ??= Math.random().toString(36).slice(2));

/** An element; `text` and strings among the children become text, never HTML. */
function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Set text without touching what is as it should be. */
function say(node, text) {
  text ??= "";
  if (node.textContent !== text) node.textContent = text;
  node.hidden = text === "";
}

/** Make the children of `old` those of `fresh`, keeping nodes, so that selection, scroll and focus survive. */
function morph(old, fresh) {
  let before = old.firstChild;
  const skipOwn = () => {
    while (before?.indusOwn) before = before.nextSibling;
  };
  for (let after = fresh.firstChild; after; ) {
    const next = after.nextSibling;
    skipOwn();
    if (!before) old.append(after);
    else if (before.nodeName === after.nodeName) {
      if (before.nodeType === Node.TEXT_NODE) {
        if (after.data.startsWith(before.data)) before.appendData(after.data.slice(before.data.length));
        else before.data = after.data;
      } else {
        for (const { name } of [...before.attributes]) if (!after.hasAttribute(name)) before.removeAttribute(name);
        for (const { name, value } of after.attributes)
          if (before.getAttribute(name) !== value) before.setAttribute(name, value);
        morph(before, after);
      }
      before = before.nextSibling;
    } else {
      const gone = before;
      before = before.nextSibling;
      old.replaceChild(after, gone);
    }
    after = next;
  }
  for (skipOwn(); before; skipOwn()) {
    const gone = before;
    before = before.nextSibling;
    gone.remove();
  }
}

function duration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  const rest = String(seconds % 60).padStart(2, "0");
  return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}

/** Text for a <pre>; the lines of a diff on coloured ground. */
function lines(text) {
  if (!/^@@ /m.test(text)) return [text];
  const kinds = { "+": "ia-added", "-": "ia-removed" };
  return text.split("\n").map((line) => h("span", { class: `ia-row ${kinds[line[0]] ?? ""}`, text: `${line}\n` }));
}

/** Whether somebody who types there would be disturbed when the focus moved away. */
const typesIn = (node) => node?.matches?.("input, textarea, select, [contenteditable]:not([contenteditable=false]), .cm-content");

/** What is known of one model; its views show it and keep in it what the user began. */
class Store {
  constructor(model) {
    this.model = model;
    this.kind = model.get("kind");
    this.number = 0;
    this.blocks = new Map();
    this.state = {};
    this.dialogs = new Map(); // id → {frame, until, shown}
    this.answered = new Map(); // id → when
    this.toasts = new Map(); // n → toast
    this.lastToast = 0;
    this.drafts = new Map(); // what is half-written in a dialog
    this.opened = new Map(); // block key → which <details> the user opened or closed
    this.said = new Map(); // block key → how much of it was spoken
    this.follow = true;
    this.focus = null; // the element of ours that has it, or had it in a view that is gone
    this.before = null; // the element that a dialog took it from
    this.views = new Set();
    this.text = ""; // in the composer, like what follows
    this.images = [];
    this.problem = "";
    this.history = [];
    this.overlay = null;
    this.filter = "";
    this.taken = 0; // the newest text from the kernel that the composer took
    this.offered = null; // the newest download
    model.on("msg:custom", (message) => this.take(message));
    this.asked = Date.now();
    this.send({ kind: "ready" });
  }

  /** A cell's run has begun before anything says so. */
  get busy() {
    return this.state.busy ?? this.kind === "cell";
  }

  send(message) {
    this.model.send({ page, ...message });
  }

  take(message) {
    if (message.kind === "request") return this.serve(message);
    if (message.kind === "full") {
      this.blocks.clear();
      this.state = {};
      this.dialogs.clear();
      this.asked = 0;
    } else if (message.kind !== "patch" || message.n <= this.number) {
      return;
    } else if (message.n !== this.number + 1) {
      if (Date.now() - (this.asked ?? 0) > RESYNC_AGAIN) {
        this.asked = Date.now();
        this.send({ kind: "resync" });
      }
      return;
    }
    this.number = message.n;
    const changed = new Set(message.kind === "full" ? ["everything"] : []);
    for (const operation of message.ops) this.apply(operation, changed);
    if (message.kind === "full" && !this.complete) {
      this.complete = true;
      for (const key of this.blocks.keys()) this.said.set(key, Infinity); // it was there before this page
    }
    this.show(changed);
  }

  /** Apply an operation, and add what it changed: keys of blocks with a colon before them, names of state. */
  apply([what, ...given], changed) {
    switch (what) {
      case "put":
        this.blocks.set(given[0], given[1]);
        changed.add(`:${given[0]}`);
        break;
      case "tail":
        this.blocks.set(given[0], (this.blocks.get(given[0]) ?? "").slice(0, given[1]) + given[2]);
        changed.add(`:${given[0]}`);
        break;
      case "drop":
        this.blocks.delete(given[0]);
        this.opened.delete(given[0]);
        changed.add(`:${given[0]}`);
        break;
      case "set":
        if ("busy" in given[0]) this.state.stopping = false; // a stop that came too late was told by nobody but us
        Object.assign(this.state, given[0]);
        if ("started_ms_ago" in given[0]) {
          const ago = given[0].started_ms_ago;
          this.started = ago === null ? null : Date.now() - ago;
        }
        for (const name of Object.keys(given[0])) changed.add(name);
        if (changed.has("composer")) this.takeText(this.state.composer);
        if (given[0].download) this.offer(given[0].download);
        break;
      case "ask": {
        const [frame, left] = given;
        if (Date.now() - (this.answered.get(frame.id) ?? 0) < FORGET_ANSWER) break;
        this.dialogs.set(frame.id, { frame, until: left === null ? null : Date.now() + left });
        changed.add("dialogs");
        break;
      }
      case "unask":
        this.dialogs.delete(given[0]);
        this.drafts.delete(given[0]);
        changed.add("dialogs");
        break;
      case "toast":
        if (given[0].n <= this.lastToast) break;
        this.lastToast = given[0].n;
        this.toasts.set(given[0].n, given[0]);
        if (this.toasts.size > 5) this.toasts.delete(this.toasts.keys().next().value);
        if (given[0].type === "info") setTimeout(() => this.dismissToast(given[0].n), TOAST_STAYS);
        changed.add("toasts");
        break;
    }
  }

  show(changed) {
    for (const view of this.views) view.show(changed);
  }

  dismissToast(n) {
    if (this.toasts.delete(n)) this.show(new Set(["toasts"]));
  }

  answer(id, value) {
    if (!this.dialogs.delete(id)) return;
    this.drafts.delete(id);
    this.answered.set(id, Date.now());
    this.send({ kind: "answer", id, value });
    this.show(new Set(["dialogs"]));
  }

  /** The button stays where it is, and keeps the focus: one that is disabled would lose it. */
  stop() {
    if (this.state.stopping) return;
    this.state.stopping = true;
    this.send({ kind: "stop" });
    this.show(new Set(["stopping"]));
  }

  stopAll() {
    this.state.stopping = true;
    this.send({ kind: "abort" });
    this.show(new Set(["stopping"]));
  }

  prompt(how) {
    const text = this.text.trim();
    if (!text && !this.images.length) return;
    // Each image goes by itself: servers refuse messages of more than 10 MB.
    for (const { data, mimeType } of this.images) this.send({ kind: "image", data, mimeType });
    this.send({ kind: "prompt", text, how });
    this.remember(text);
    this.text = "";
    this.images = [];
    this.problem = "";
    this.follow = true;
    this.show(new Set(["composer"]));
  }

  remember(text) {
    if (!text || this.history.at(-1) === text) return;
    this.history.push(text);
    if (this.history.length > 100) this.history.shift();
  }

  /** The kernel's text for the composer; what stood there can be had again with ArrowUp, or stands below it. */
  takeText(given) {
    if (!given || given.n <= this.taken) return;
    this.taken = given.n;
    const before = this.text.trim();
    if (this.takesBack && before) this.text = `${given.text}\n\n${this.text}`;
    else {
      this.remember(before);
      this.text = given.text;
    }
    this.takesBack = false;
  }

  /** Hand out a file. Its type is none that a browser would open in the front end's name. */
  offer({ name, html }) {
    delete this.state.download;
    if (this.offered) URL.revokeObjectURL(this.offered.href);
    this.offered = { name, href: URL.createObjectURL(new Blob([html], { type: "application/octet-stream" })) };
    if (this.wantsFile) h("a", { href: this.offered.href, download: name }).click();
    this.wantsFile = false;
  }

  forgetFile() {
    if (this.offered) URL.revokeObjectURL(this.offered.href);
    this.offered = null;
    this.show(new Set(["download"]));
  }

  /** Give the focus to where it was before us, or to our cell: the front end's keys do nothing without it. */
  leave() {
    const node = this.before?.isConnected ? this.before : this.cell;
    this.before = null;
    node?.focus({ preventScroll: true });
  }

  open(overlay) {
    this.overlay = overlay;
    this.filter = "";
    if (overlay === "sessions") this.send({ kind: "list_sessions" });
    if (overlay === "tree") this.send({ kind: "show_tree" });
    this.show(new Set(["overlay"]));
  }

  serve({ id, what, page: wanted, ...asked }) {
    if (wanted !== page) return; // another one was used last, and one cell is to be put in
    let value;
    try {
      value = this.inNotebook(what, asked);
    } catch (error) {
      value = { error: String(error?.message ?? error) };
    }
    if (value) this.send({ kind: "reply", id, value });
  }

  /** Have the formulas in the node typeset, if the front end can, once it has not changed for a while. */
  typesetSoon(node) {
    if (this.kind !== "panel" || !node.textContent.includes("$")) return;
    clearTimeout(node.indusTypeset);
    node.indusTypeset = setTimeout(() => {
      const typesetter = this.model.widget_manager?._rendermime?.latexTypesetter;
      for (const answer of node.querySelectorAll(".indus-answer")) typesetter?.typeset(answer);
    }, 400);
  }

  /** What is asked of the notebook that this widget is in. */
  inNotebook(what, asked) {
    const notebook = this.model.widget_manager?.context?.model; // the manager of JupyterLab knows its document
    if (!notebook?.cells) return { error: "unavailable" };
    const cells = [...notebook.cells];
    if (what === "cells")
      return {
        cells: cells.map((cell) => ({
          id: cell.id,
          type: cell.type,
          source: cell.sharedModel.getSource(),
          executionCount: cell.executionCount ?? null,
        })),
      };
    if (what === "insert_cell") {
      const own = Math.max(-1, ...[...this.views].map((view) => Number(view.root.closest(".jp-Cell")?.dataset.windowedListIndex ?? -1)));
      const found = asked.after ? cells.findIndex((cell) => cell.id === asked.after) : own < 0 ? cells.length - 1 : own;
      if (found < 0 && asked.after) return { error: "There is no such cell." };
      const type = asked.type === "markdown" ? "markdown" : "code";
      const metadata = type === "code" ? { trusted: true } : {};
      const source = String(asked.source ?? asked.code);
      notebook.sharedModel.insertCell(found + 1, { cell_type: type, source, metadata });
      return { id: notebook.cells.get(found + 1).id };
    }
    if (what === "replace_cell") {
      const cell = cells.find((each) => each.id === asked.cell);
      if (!cell) return { error: "There is no such cell." };
      if (cell.sharedModel.getSource() !== asked.old) return { error: "The cell was changed meanwhile." };
      cell.sharedModel.setSource(String(asked.source));
      return { id: cell.id };
    }
    return { error: `The page cannot do that: ${what}` };
  }
}

/** The blocks, in order. */
class Area {
  constructor(store) {
    this.store = store;
    this.nodes = new Map();
    this.node = h("div", { class: "ia-area jp-RenderedHTMLCommon", role: "log", "aria-live": "off", "aria-label": "Agent" });
    this.node.addEventListener("click", (event) => this.noteOpened(event));
  }

  show(changed) {
    const { blocks } = this.store;
    if (changed.has("everything")) {
      for (const key of this.nodes.keys()) if (!blocks.has(key)) this.drop(key);
      for (const key of blocks.keys()) this.put(key);
      let before = null;
      for (const key of blocks.keys()) {
        const node = this.nodes.get(key);
        if (node.previousSibling !== before) this.node.insertBefore(node, before ? before.nextSibling : this.node.firstChild);
        before = node;
      }
      return;
    }
    for (const name of changed)
      if (name[0] === ":") {
        const key = name.slice(1);
        if (blocks.has(key)) this.put(key);
        else this.drop(key);
      }
  }

  put(key) {
    let node = this.nodes.get(key);
    const html = this.store.blocks.get(key);
    if (node?.indusHtml === html) return;
    const template = document.createElement("template");
    template.innerHTML = html;
    if (!node) {
      node = h("div", { class: "ia-block" });
      node.indusKey = key;
      this.nodes.set(key, node);
      this.node.append(node);
    }
    this.keepOpened(key, template.content);
    morph(node, template.content);
    node.indusHtml = html;
    for (const code of node.querySelectorAll(".indus-call .indus-code")) this.offerCell(code);
    this.store.typesetSoon(node);
  }

  /** A button on the card of a call whose code can become a cell. */
  offerCell(code) {
    const card = code.closest(".indus-call");
    if (card.lastChild.indusOwn) return;
    const send = () => this.store.send({ kind: "to_cell", code: card.querySelector(".indus-code").textContent.replace(/\n+$/, "") });
    const button = h("button", { class: "ia-to-cell", type: "button", title: "Put this code into a new cell", text: "To cell", onclick: send });
    button.indusOwn = true;
    card.append(button);
  }

  drop(key) {
    const node = this.nodes.get(key);
    if (!node) return;
    this.onDrop(key, node);
    node.remove();
    this.nodes.delete(key);
    this.store.said.delete(key);
  }

  noteOpened(event) {
    const details = event.target.closest?.("summary")?.parentElement;
    const block = details?.closest(".ia-block");
    if (!block || details.nodeName !== "DETAILS") return;
    const index = [...block.querySelectorAll("details")].indexOf(details);
    const opened = this.store.opened.get(block.indusKey) ?? new Map();
    opened.set(index, !details.open); // the click turns it only after this
    if (!details.open && this.store.kind === "panel") this.store.follow = false; // somebody reads here
    this.store.opened.set(block.indusKey, opened);
  }

  keepOpened(key, content) {
    const opened = this.store.opened.get(key);
    if (!opened) return;
    const details = content.querySelectorAll("details");
    for (const [index, open] of opened) details[index]?.toggleAttribute("open", open);
  }
}

/** The oldest open dialog; the others wait for their turn. */
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
      this.shown = first ? { id: first.frame.id } : null;
      if (first) this.open(first, hadFocus);
      else if (hadFocus) this.view.focusRest();
    }
    if (this.shown?.more) say(this.shown.more, dialogs.size > 1 ? `${dialogs.size - 1} more after this` : "");
    this.tick();
  }

  tick() {
    const dialog = this.shown && this.store.dialogs.get(this.shown.id);
    if (!dialog || dialog.until === null) return;
    const left = Math.max(0, Math.ceil((dialog.until - Date.now()) / 1000));
    say(this.shown.left, `${left} s left`);
  }

  open({ frame, until }, hadFocus) {
    const { store } = this;
    const { id } = frame;
    const [heading, ...rest] = String(frame.title ?? "").replace(/^\n+/, "").split("\n");
    const body = rest.join("\n").replace(/^\n+|\s+$/g, "");
    const name = `ia-${Math.random().toString(36).slice(2)}`;
    const send = (value) => store.answer(id, value);
    const dismiss = h("button", { class: "ia-quiet", type: "button", "data-k": `${id} dismiss`, title: "Esc", text: "Dismiss", onclick: () => send(null) });
    const left = h("span", { class: "ia-left", "aria-hidden": "true" });
    const more = h("span", { class: "ia-more" });
    const { controls, first, buttons = [] } = this.controls(frame, send, name);
    const box = h(
      "div",
      { class: "ia-dialog", role: "dialog", "aria-modal": "false", "aria-labelledby": name, tabindex: "-1" },
      h("div", { class: "ia-heading", id: name, text: heading }),
      body ? h("pre", { class: "ia-body", tabindex: "0", role: "group", "aria-label": "Details" }, ...lines(body)) : null,
      frame.message ? h("div", { class: "ia-message", text: frame.message }) : null,
      controls,
      h("div", { class: "ia-actions" }, ...buttons, h("span", { class: "ia-space" }), more, left, dismiss)
    );
    if (until !== null) box.append(h("span", { class: "ia-heard", text: `It answers itself in ${Math.ceil((until - Date.now()) / 1000)} seconds.` }));
    this.shown = { id, left, more, armed: false };
    const takers = box.querySelectorAll("button");
    for (const button of takers) button.disabled = true;
    box.addEventListener("keydown", (event) => this.key(event, frame, send));
    this.node.append(box);
    const moves = hadFocus || this.view.mayTakeFocus();
    if (moves) {
      if (!this.view.root.contains(document.activeElement)) store.before = document.activeElement;
      box.focus({ preventScroll: true });
    }
    setTimeout(() => {
      if (this.shown?.id !== id) return;
      this.shown.armed = true;
      for (const button of takers) button.disabled = false;
      // Never on a button: a key that was meant for the notebook would press it.
      if (moves && document.activeElement === box && typesIn(first)) first.focus({ preventScroll: true });
      this.view.restoreFocus();
    }, ARMED_AFTER);
    this.view.reveal();
  }

  controls(frame, send, name) {
    const { store } = this;
    const { id } = frame;
    const button = (text, value, primary) =>
      h("button", { class: primary ? "ia-primary" : "ia-secondary", type: "button", "data-k": `${id} ${text}`, text, onclick: () => send(typeof value === "function" ? value() : value) });
    if (frame.method === "select") {
      const options = frame.options.map((option, index) =>
        h(
          "button",
          { class: "ia-option", type: "button", "data-k": `${id} ${index}`, onclick: () => send(option) },
          h("span", { class: "ia-number", "aria-hidden": "true", text: index < 9 ? String(index + 1) : "" }),
          h("span", { class: "ia-option-text", text: option })
        )
      );
      return { controls: h("div", { class: "ia-options", role: "group", "aria-labelledby": name }, ...options), first: options[0] };
    }
    if (frame.method === "confirm") {
      const yes = button("Yes", true, true);
      return { controls: null, first: yes, buttons: [yes, button("No", false)] };
    }
    const single = frame.method === "input";
    const field = h(single ? "input" : "textarea", {
      class: "ia-field",
      "data-k": `${id} field`,
      "aria-labelledby": name,
      placeholder: frame.placeholder,
      rows: single ? null : 6,
      value: store.drafts.get(id) ?? frame.prefill ?? "",
      oninput: () => store.drafts.set(id, field.value),
    });
    const ok = button("Send", () => field.value, true);
    ok.title = single ? "Enter" : "Ctrl+Enter";
    return { controls: field, first: field, buttons: [ok] };
  }

  key(event, frame, send) {
    if (!this.shown?.armed || event.repeat || event.isComposing) return;
    const types = typesIn(event.target);
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    const done = (act) => {
      event.preventDefault();
      act();
    };
    if (event.key === "Escape") return done(() => send(null));
    if (event.key === "Enter" && types) {
      if (frame.method === "input" ? plain : event.ctrlKey || event.metaKey) done(() => send(event.target.value));
      return;
    }
    if (event.key === "Enter" && event.shiftKey) event.preventDefault(); // which runs cells, and presses nothing
    if (types || !plain) return;
    if (frame.method === "confirm" && /^[yn]$/i.test(event.key)) return done(() => send(/y/i.test(event.key)));
    if (frame.method !== "select") return;
    const option = frame.options[Number(event.key) - 1];
    if (/^[1-9]$/.test(event.key) && option !== undefined) return done(() => send(option));
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.target.matches("pre")) return;
    const options = [...this.node.querySelectorAll(".ia-option")];
    const at = options.indexOf(document.activeElement);
    done(() => options[at < 0 ? 0 : (at + step + options.length) % options.length].focus());
  }
}

/** Lines that stand beside the blocks. */
class Lines {
  constructor(store) {
    this.store = store;
    this.title = h("div", { class: "ia-title" });
    this.warning = h("div", { class: "ia-warning", role: "note" });
    this.above = h("div", { class: "ia-widgets" });
    this.below = h("div", { class: "ia-widgets" });
    this.status = h("div", { class: "ia-status" });
    this.toasts = h("div", { class: "ia-toasts", role: "status", "aria-live": "polite" });
  }

  show(changed) {
    const { state, store } = { state: this.store.state, store: this.store };
    const all = changed.has("everything");
    if (all || changed.has("title")) say(this.title, state.title);
    if (all || changed.has("warning")) say(this.warning, state.warning);
    if (all || changed.has("widgets")) {
      for (const [node, below] of [[this.above, false], [this.below, true]]) {
        const shown = Object.values(state.widgets ?? {}).filter((widget) => (widget.placement === "belowEditor") === below);
        node.replaceChildren(...shown.map((widget) => h("pre", { class: "ia-widget", text: widget.lines.join("\n") })));
        node.hidden = shown.length === 0;
      }
    }
    if (all || changed.has("status")) {
      const shown = Object.entries(state.status ?? {});
      this.status.replaceChildren(...shown.map(([key, text]) => h("span", { class: "ia-chip", title: key, text })));
      this.status.hidden = shown.length === 0;
    }
    if (all || changed.has("toasts")) {
      const there = new Map([...this.toasts.children].map((node) => [node.indusToast, node]));
      for (const [n, node] of there) if (!store.toasts.has(n)) node.remove();
      for (const [n, { text, type }] of store.toasts) {
        if (there.has(n)) continue;
        const close = h("button", { class: "ia-icon", type: "button", "aria-label": "Close", text: "✕", onclick: () => store.dismissToast(n) });
        const node = h("div", { class: `ia-toast ia-${["warning", "error"].includes(type) ? type : "info"}` }, h("span", { class: "ia-toast-text", text }), close);
        node.indusToast = n;
        this.toasts.append(node);
      }
    }
  }
}

/** One line of fixed height: what goes on, for how long and at what cost, and Stop. */
class Foot {
  constructor(store) {
    this.store = store;
    this.dot = h("span", { class: "ia-dot", "aria-hidden": "true" });
    this.note = h("span", { class: "ia-note" });
    this.time = h("span", { class: "ia-time" });
    this.tokens = h("span", { class: "ia-tokens" });
    this.cost = h("span", { class: "ia-cost" });
    this.stop = h("button", { class: "ia-stop", type: "button", "data-k": "stop", onclick: () => store.stop() }, h("span", { class: "ia-square", "aria-hidden": "true" }), h("span"));
    this.node = h("div", { class: "ia-foot" }, this.dot, this.note, this.time, this.tokens, this.cost, this.stop);
  }

  show() {
    const { state, dialogs } = this.store;
    const busy = this.store.busy;
    const asks = dialogs.size > 0;
    const mode = !busy ? "idle" : state.stopping ? "stopping" : asks ? "asks" : "busy";
    this.node.dataset.mode = mode;
    if (!busy && document.activeElement === this.stop) this.node.closest(".ia-root").focus({ preventScroll: true });
    this.stop.hidden = !busy;
    this.stop.setAttribute("aria-disabled", String(Boolean(state.stopping)));
    const label = state.stopping ? "Stopping …" : "Stop";
    if (this.stop.lastChild.textContent !== label) this.stop.lastChild.textContent = label;
    const note = mode === "stopping" ? "stopping …" : mode === "asks" ? "waiting for your answer" : state.note || state.model || "";
    if (this.note.textContent !== note) this.note.textContent = note;
    this.note.title = state.model ?? "";
    say(this.tokens, state.tokens);
    say(this.cost, state.cost);
    this.tick();
  }

  tick() {
    const { started, state } = this.store;
    if (started && this.store.busy) say(this.time, duration(Date.now() - started));
    else if (!started) say(this.time, "");
  }
}

/** Speaks to screen readers: whole sentences as they are finished, instead of a block each time it grows. */
class Voice {
  constructor(store) {
    this.store = store;
    this.node = h("div", { class: "ia-heard", role: "log", "aria-live": "polite" });
  }

  listen(area) {
    const last = [...area.nodes.keys()].at(-1);
    for (const [key, node] of area.nodes) this.tell(key, node, !this.store.busy || key !== last);
  }

  /** Say what is new in a block, with `done` also what may be the beginning of a sentence. */
  tell(key, node, done) {
    const { said } = this.store;
    const answer = node.querySelector(".indus-answer");
    const text = (answer ?? node.querySelector(".indus-call summary, .indus-error, .indus-notice"))?.textContent ?? "";
    const before = said.get(key) ?? 0;
    const rest = answer || !before ? text.slice(before) : "";
    const whole = /^[^]*(?:[.!?:](?=\s+\S)|\n(?=\s*\S))/.exec(rest)?.[0] ?? "";
    const end = done || !answer ? rest.length : whole.length;
    if (end <= 0) return;
    said.set(key, before + end);
    if (rest.slice(0, end).trim()) this.node.append(h("p", { text: rest.slice(0, end).trim().slice(0, 2000) }));
    while (this.node.childElementCount > 20) this.node.firstChild.remove();
  }
}

/** What the kinds of view have in common. */
class View {
  constructor(store, el) {
    this.store = store;
    this.el = el;
    this.area = new Area(store);
    this.dialogs = new Dialogs(store, this);
    this.lines = new Lines(store);
    this.foot = new Foot(store);
    this.voice = new Voice(store);
    this.area.onDrop = (key, node) => this.voice.tell(key, node, true);
    this.root = h("div", { class: `ia-root ia-${store.kind}`, tabindex: "-1" });
    this.root.addEventListener("keydown", (event) => this.guard(event));
    this.root.addEventListener("focusin", (event) => {
      store.focus = event.target;
      store.cell = this.root.closest(".jp-Cell");
    });
    this.root.addEventListener("focusout", () =>
      setTimeout(() => {
        // A view that is taken away loses the focus too; that one is given back in the next view.
        if (this.root.isConnected && !this.root.contains(document.activeElement)) store.focus = store.before = null;
      })
    );
    this.clock = setInterval(() => this.tick(), 500);
  }

  /** Keys of ours are not the front end's, but saving and its chords with Shift are. */
  guard(event) {
    this.keyAt = Date.now();
    if (event.key === "Enter" && event.shiftKey && event.target.matches(".ia-dialog, .ia-root")) return;
    const chord = (event.ctrlKey || event.metaKey) && !event.altKey && event.key !== "Enter";
    if (chord && (/^s$/i.test(event.key) || (event.shiftKey && !/^[zv]$/i.test(event.key)))) return;
    event.stopPropagation();
  }

  tick() {
    this.foot.tick();
    this.dialogs.tick();
    this.voice.listen(this.area);
  }

  /** Whether a new dialog may have the focus: not from one who types, nor from what is outside the notebook. */
  mayTakeFocus() {
    const active = document.activeElement;
    if (globalThis.top !== globalThis.self && !document.hasFocus()) return false; // the page around may have it
    if (typesIn(active) && (active.value !== "" || Date.now() - (this.keyAt ?? 0) < TYPES_ON_WITHIN)) return false;
    if (!active || active === document.body || this.root.contains(active)) return true;
    return Boolean(this.root.closest(this.around)?.contains(active)) && !typesIn(active);
  }

  restoreFocus() {
    const { focus } = this.store;
    if (!focus || focus.isConnected || typesIn(document.activeElement)) return;
    const key = focus.dataset.k;
    const node = key ? [...this.root.querySelectorAll("[data-k]")].find((each) => each.dataset.k === key) : this.root;
    if (!node || node.disabled) return;
    const { selectionStart, selectionEnd } = focus;
    node.focus({ preventScroll: true });
    if (selectionStart !== undefined) node.setSelectionRange?.(selectionStart, selectionEnd);
  }

  reveal() {}

  resume() {}

  remove() {
    const { store } = this;
    clearInterval(this.clock);
    store.views.delete(this);
    setTimeout(() => {
      if (store.views.size === 0 && store.focus && document.activeElement === document.body) store.leave();
    }, NEXT_VIEW_WITHIN);
  }
}

/** Keep the cells below in place while the view moves on: this one is gone a moment before the next one is there. */
function keepHeight(node) {
  if (!node) return;
  node.style.minHeight = `${node.getBoundingClientRect().height}px`;
  setTimeout(() => (node.style.minHeight = ""), NEXT_VIEW_WITHIN);
}

/** The live tail of a run. */
class CellView extends View {
  constructor(store, el) {
    super(store, el);
    const { lines } = this;
    this.root.append(
      lines.title, lines.warning, lines.above, this.area.node, this.dialogs.node, lines.toasts, lines.below, lines.status,
      this.foot.node, this.voice.node
    );
    this.onScroll = () => this.noteScroll();
  }

  /** A cell that waits for the answer has the whole notebook wait, which in command mode takes a number for a heading. */
  get around() {
    return this.store.state.background ? ".jp-Cell" : ".jp-Notebook";
  }

  /** What cannot be seen must not take keys. */
  mayTakeFocus() {
    return super.mayTakeFocus() && (this.store.follow || this.below(this.scroller() ?? document.documentElement) < NEAR_END);
  }

  reveal() {
    if (this.store.follow) requestAnimationFrame(() => this.dialogs.node.scrollIntoView({ block: "nearest" }));
  }

  show(changed) {
    const all = changed.has("everything");
    this.area.show(changed);
    this.lines.show(changed);
    if (all || changed.has("dialogs")) this.dialogs.show();
    this.foot.show();
    this.followEnd();
  }

  /** The nearest element around that scrolls. */
  scroller() {
    let node = this.found;
    const scrolls = (each) => each.scrollHeight > each.clientHeight + NEAR_END;
    if (node?.isConnected && scrolls(node)) return node;
    for (node = this.root.parentElement; node; node = node.parentElement)
      if (scrolls(node) && /auto|scroll/.test(getComputedStyle(node).overflowY)) break;
    if (node !== this.found) {
      this.found?.removeEventListener("scroll", this.onScroll);
      this.found = node;
      this.top = node?.scrollTop;
      node?.addEventListener("scroll", this.onScroll, { passive: true });
    }
    return node;
  }

  below(scroller) {
    return this.root.getBoundingClientRect().bottom - scroller.getBoundingClientRect().bottom;
  }

  /** How much further down an editor ends in which somebody types, the next cell's for instance. */
  editorBelow(scroller) {
    const active = document.activeElement;
    if (!typesIn(active) || !scroller.contains(active) || this.root.contains(active)) return 0;
    const distance = active.getBoundingClientRect().bottom - this.root.getBoundingClientRect().bottom;
    return distance < scroller.clientHeight / 2 ? distance : 0;
  }

  noteScroll() {
    const scroller = this.found;
    const { scrollTop } = scroller;
    if (this.below(scroller) < NEAR_END) this.store.follow = true;
    else if (scrollTop < this.top - 2) this.store.follow = false;
    this.top = scrollTop;
  }

  followEnd() {
    const scroller = this.scroller();
    if (!scroller || !this.store.follow) return;
    const below = this.below(scroller);
    const hidden = Math.max(below, below + this.editorBelow(scroller));
    if (hidden > 0) scroller.scrollTop += hidden + 8;
  }

  /** Where to go from an answered dialog: to what the user was at. */
  focusRest() {
    if (this.store.before?.isConnected) this.store.leave();
    else this.root.focus({ preventScroll: true });
  }

  remove() {
    this.found?.removeEventListener("scroll", this.onScroll);
    if (this.store.state.busy) keepHeight(this.root.closest(".jp-OutputArea"));
    super.remove();
  }
}

/** A whole conversation. */
class PanelView extends View {
  constructor(store, el) {
    super(store, el);
    this.around = ".jp-Cell";
    this.head = new Head(store);
    this.queue = new Queue(store);
    this.overlay = new Overlay(store, this);
    this.composer = new Composer(store);
    this.file = h("div", { class: "ia-file", hidden: true });
    this.end = h("button", { class: "ia-end", type: "button", "aria-label": "To the end", text: "↓", hidden: true, onclick: () => this.toEnd() });
    this.scroller = h("div", { class: "ia-scroll", tabindex: "0", role: "region", "aria-label": "Conversation" }, this.area.node);
    this.scroller.addEventListener("scroll", () => this.noteScroll(), { passive: true });
    const { lines } = this;
    this.root.append(
      this.head.node, lines.title, lines.warning,
      h("div", { class: "ia-middle" }, this.scroller, this.end, lines.toasts, this.overlay.node),
      h("div", { class: "ia-lower" }, this.dialogs.node, this.file, lines.above, this.queue.node),
      h("div", { class: "ia-bottom" }, this.composer.node, lines.below, lines.status),
      this.foot.node, this.voice.node
    );
    this.foot.stop.remove();
    this.root.addEventListener("keydown", (event) => this.key(event));
    const sizes = new ResizeObserver(() => this.follow());
    for (const node of [this.scroller, this.area.node]) sizes.observe(node);
  }

  show(changed) {
    const all = changed.has("everything");
    const any = (...names) => all || names.some((name) => changed.has(name));
    this.area.show(changed);
    this.lines.show(changed);
    if (any("session", "models", "current_model", "levels", "level", "busy")) this.head.show();
    if (any("queue")) this.queue.show();
    if (any("sessions", "tree", "overlay")) this.overlay.show();
    if (any("composer", "completions", "commands", "busy", "stopping")) this.composer.show();
    if (any("dialogs")) this.dialogs.show();
    if (any("download")) this.showFile();
    this.foot.show();
    this.follow();
  }

  showFile() {
    const { offered } = this.store;
    this.file.hidden = !offered;
    if (offered)
      this.file.replaceChildren(
        h("a", { href: offered.href, download: offered.name, text: `Download ${offered.name}` }),
        h("button", { class: "ia-icon", type: "button", "aria-label": "Close", text: "✕", onclick: () => this.store.forgetFile() })
      );
  }

  key(event) {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
    if (event.target.closest(".ia-dialog")) return; // one that takes no answer yet
    if (this.head.open) this.head.fold(true);
    else if (this.store.overlay) this.overlay.close();
    else if (this.store.state.busy && !this.store.state.stopping) this.store.stopAll();
    else return;
    event.preventDefault();
  }

  noteScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const atEnd = scrollHeight - scrollTop - clientHeight < NEAR_END;
    if (atEnd) this.store.follow = true;
    else if (scrollTop < (this.top ?? 0) - 2) this.store.follow = false;
    this.top = this.store.top = scrollTop;
    this.end.hidden = this.store.follow;
  }

  /** Go to the end, unless the reader left it. */
  follow() {
    this.end.hidden = this.store.follow;
    if (this.store.follow) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  toEnd() {
    this.store.follow = true;
    this.follow();
    this.composer.field.focus({ preventScroll: true });
  }

  /** A view that is shown anew begins where the last one was. */
  resume() {
    if (!this.store.follow) this.scroller.scrollTop = this.store.top ?? 0;
    this.end.hidden = this.store.follow;
  }

  focusRest() {
    this.composer.field.focus({ preventScroll: true });
  }
}

/** The name, what answers, and what can be done with the whole. */
class Head {
  constructor(store) {
    this.store = store;
    this.name = h("input", { class: "ia-name", "data-k": "name", "aria-label": "Name of the session", placeholder: "Unnamed session", spellcheck: "false" });
    this.name.addEventListener("change", () => store.send({ kind: "rename", name: this.name.value.trim() }));
    this.name.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.name.value = store.state.session?.name ?? "";
      if (event.key !== "Escape" && event.key !== "Enter") return;
      event.preventDefault();
      this.name.blur();
    });
    this.model = h("select", { class: "ia-pick", "data-k": "model", "aria-label": "Model", onchange: () => this.chooseModel() });
    this.level = h("select", { class: "ia-pick", "data-k": "level", "aria-label": "Thinking", onchange: () => store.send({ kind: "set_thinking", level: this.level.value }) });
    const item = (text, title, act) => {
      const button = h("button", { class: "ia-item", type: "button", "data-k": text, title, text });
      button.addEventListener("click", () => {
        this.fold(true);
        act();
      });
      return button;
    };
    this.menu = h(
      "div",
      { class: "ia-menu", role: "group", "aria-label": "Session" },
      item("New", "Begin a new session", () => store.send({ kind: "new" })),
      item("Sessions", "Go on with another session", () => store.open("sessions")),
      item("Tree", "Go back to an earlier point, or fork there", () => store.open("tree")),
      item("Compact", "Summarise what was said so far", () => store.send({ kind: "compact" })),
      item("Export", "Download the session as a web page", () => {
        store.wantsFile = true;
        store.send({ kind: "export" });
      })
    );
    this.more = h("button", { class: "ia-icon ia-fold", type: "button", "aria-label": "Menu", "aria-expanded": "false", text: "⋯", onclick: () => this.fold(this.open) });
    this.node = h("div", { class: "ia-head" }, this.name, this.model, this.level, this.menu, this.more);
  }

  get open() {
    return this.menu.classList.contains("ia-open");
  }

  fold(folded) {
    if (folded && this.open && this.menu.contains(document.activeElement)) this.more.focus();
    this.menu.classList.toggle("ia-open", !folded);
    this.more.setAttribute("aria-expanded", String(!folded));
  }

  chooseModel() {
    const chosen = this.models[this.model.selectedIndex];
    if (chosen) this.store.send({ kind: "set_model", provider: chosen.provider, id: chosen.id });
  }

  show() {
    const { session, models = [], current_model: current, levels = [], level } = this.store.state;
    if (document.activeElement !== this.name) this.name.value = session?.name ?? "";
    const is = (model) => model.provider === current?.provider && model.id === current?.id;
    const listed = models.some(is) || !current ? models : [{ ...current, name: current.id }, ...models];
    const key = JSON.stringify(listed);
    if (key !== this.modelsKey) {
      this.modelsKey = key;
      const groups = new Map(listed.map((model) => [model.provider, []]));
      for (const model of listed) groups.get(model.provider).push(model);
      this.models = [...groups.values()].flat();
      this.model.replaceChildren(
        ...[...groups].map(([label, group]) => h("optgroup", { label }, ...group.map((model) => h("option", { text: model.name || model.id }))))
      );
    }
    this.model.selectedIndex = this.models.findIndex(is);
    this.model.title = current ? `${current.provider} · ${current.id}` : "";
    if (levels.join() !== this.levelsKey) {
      this.levelsKey = levels.join();
      this.level.replaceChildren(...levels.map((name) => h("option", { value: name, text: name === "off" ? "no thinking" : `${name} thinking` })));
    }
    this.level.value = level ?? "";
    this.level.hidden = levels.length < 2;
  }
}

/** What waits to be said. */
class Queue {
  constructor(store) {
    this.store = store;
    this.node = h("div", { class: "ia-queue", hidden: true });
  }

  show() {
    const { steering = [], followUp = [] } = this.store.state.queue ?? {};
    const rows = [...this.rows("steering", "next", steering), ...this.rows("followUp", "afterwards", followUp)];
    const hadFocus = this.node.contains(document.activeElement);
    this.node.hidden = rows.length === 0;
    this.node.replaceChildren(...rows);
    if (rows.length)
      this.node.append(
        h("button", { class: "ia-quiet ia-clear", type: "button", text: rows.length > 1 ? "Clear all" : "Clear", onclick: () => this.store.send({ kind: "clear_queue" }) })
      );
    if (hadFocus) this.node.closest(".ia-root").querySelector(".ia-text").focus({ preventScroll: true });
  }

  rows(queue, label, texts) {
    return texts.map((text, index) =>
      h(
        "div",
        { class: "ia-queued" },
        h("span", { class: "ia-tag", text: label }),
        h("span", { class: "ia-line", title: text, text: text.replace(/\s+/g, " ") }),
        h("button", {
          class: "ia-quiet", type: "button", text: "Edit", "aria-label": `Take back and edit: ${text.slice(0, 60)}`,
          onclick: () => {
            this.store.takesBack = true;
            this.store.send({ kind: "unqueue", queue, index, text });
          },
        })
      )
    );
  }
}

/** Sessions or the tree, over the transcript. */
class Overlay {
  constructor(store, view) {
    this.store = store;
    this.view = view;
    this.title = h("span", { class: "ia-overlay-title", id: `ia-${Math.random().toString(36).slice(2)}` });
    this.filter = h("input", { class: "ia-filter", type: "search", "aria-label": "Filter", placeholder: "Filter", oninput: () => this.narrow() });
    this.list = h("ul", { class: "ia-list" });
    const close = h("button", { class: "ia-icon", type: "button", "aria-label": "Close", text: "✕", onclick: () => this.close() });
    this.node = h(
      "div",
      { class: "ia-overlay", role: "dialog", "aria-modal": "false", "aria-labelledby": this.title.id, hidden: true },
      h("div", { class: "ia-overlay-head" }, this.title, this.filter, close),
      this.list
    );
    this.node.addEventListener("keydown", (event) => this.key(event));
  }

  show() {
    const { overlay, state } = this.store;
    const opens = overlay !== null && this.node.hidden;
    this.node.hidden = overlay === null;
    this.view.scroller.inert = overlay !== null;
    if (overlay === null) return this.list.replaceChildren();
    const entries = overlay === "sessions" ? state.sessions : state.tree;
    this.title.textContent = overlay === "sessions" ? "Sessions" : "Tree";
    if (opens) this.filter.value = "";
    const at = [...this.list.querySelectorAll(".ia-entry")].indexOf(document.activeElement);
    const make = overlay === "sessions" ? (entry) => this.session(entry) : (entry) => this.entry(entry);
    this.list.replaceChildren(...(entries ?? []).map(make));
    if (!entries?.length) this.list.append(h("li", { class: "ia-empty", text: entries ? "There is nothing yet." : "Loading …" }));
    this.narrow();
    const here = this.list.querySelector("[aria-current=true]");
    if (opens || !this.placed) {
      here?.scrollIntoView({ block: "nearest" });
      this.placed = Boolean(entries?.length);
      if (opens) this.filter.focus({ preventScroll: true });
    }
    if (at >= 0) this.list.querySelectorAll(".ia-entry")[at]?.focus({ preventScroll: true });
  }

  session(entry) {
    const name = entry.name || "Unnamed session";
    const detail = [`${entry.messages} messages`, when(entry.modified)].filter(Boolean).join(" · ");
    return h(
      "li", {},
      h(
        "button",
        { class: "ia-entry", type: "button", "aria-current": entry.current ? "true" : null, onclick: () => this.choose({ kind: "switch", path: entry.path }) },
        h("span", { class: "ia-line", title: name, text: name.replace(/\s+/g, " ") }),
        h("span", { class: "ia-detail", text: entry.current ? `here · ${detail}` : detail })
      )
    );
  }

  entry(entry) {
    const text = String(entry.text ?? "").replace(/\s+/g, " ");
    if (entry.id === null) return h("li", { class: "ia-empty", text });
    const row = h(
      "li", { class: "ia-node" },
      h(
        "button",
        { class: "ia-entry", type: "button", title: "Go on from here", "aria-current": entry.here ? "true" : null, onclick: () => this.choose({ kind: "navigate", entry: entry.id }) },
        h("span", { class: "ia-role", text: entry.role }),
        h("span", { class: "ia-line", text }),
        entry.label ? h("span", { class: "ia-tag", text: entry.label }) : null,
        entry.here ? h("span", { class: "ia-detail", text: "here" }) : null
      ),
      h("button", { class: "ia-quiet ia-fork", type: "button", title: "Begin a session of its own from here", "aria-label": `Fork: ${text.slice(0, 60)}`, text: "Fork", onclick: () => this.choose({ kind: "fork", entry: entry.id }) })
    );
    row.style.setProperty("--ia-depth", Math.min(Number(entry.depth) || 0, 16));
    row.dataset.role = entry.role;
    return row;
  }

  narrow() {
    const wanted = this.filter.value.trim().toLowerCase();
    for (const row of this.list.children) row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
  }

  choose(message) {
    this.store.send(message);
    this.close();
  }

  close() {
    this.store.overlay = null;
    this.placed = false;
    this.store.show(new Set(["overlay"]));
    this.view.focusRest();
  }

  key(event) {
    const entries = [...this.list.querySelectorAll("li:not([hidden]) > .ia-entry")];
    const row = document.activeElement.closest("li");
    const at = entries.findIndex((entry) => entry.parentElement === row);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1 };
    if (row) Object.assign(steps, { Home: 0, End: entries.length - 1 });
    if (!(event.key in steps)) return;
    event.preventDefault();
    (entries[steps[event.key]] ?? (steps[event.key] < 0 ? this.filter : null))?.focus();
  }
}

function when(modified) {
  const date = new Date(typeof modified === "number" && modified < 1e11 ? modified * 1000 : modified);
  if (Number.isNaN(date.getTime())) return "";
  const today = date.toDateString() === new Date().toDateString();
  return today ? date.toLocaleTimeString([], { timeStyle: "short" }) : date.toLocaleDateString([], { dateStyle: "medium" });
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** Where the user writes. */
class Composer {
  constructor(store) {
    this.store = store;
    this.name = `ia-${Math.random().toString(36).slice(2)}`;
    this.field = h("textarea", {
      class: "ia-text", "data-k": "composer", rows: 1, "aria-label": "Message", role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": this.name,
      placeholder: "Ask",
    });
    this.field.addEventListener("input", () => this.typed());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.field.addEventListener("paste", (event) => this.pasted(event));
    this.field.addEventListener("blur", () => this.closeChoices());
    this.choices = h("ul", { class: "ia-choices", id: this.name, role: "listbox", "aria-label": "Completions", hidden: true });
    this.images = h("div", { class: "ia-images" });
    this.problem = h("div", { class: "ia-problem", role: "alert", hidden: true });
    this.files = h("input", { type: "file", accept: IMAGE_TYPES.join(), multiple: true, hidden: true, onchange: () => this.attach(this.files.files) });
    this.clip = h("button", { class: "ia-icon", type: "button", title: "Attach images", "aria-label": "Attach images", text: "+", onclick: () => this.files.click() });
    this.later = h("button", { class: "ia-secondary", type: "button", title: "Alt+Enter: say it when this is done", text: "Follow up", onclick: () => this.submit("followUp") });
    this.stop = h("button", { class: "ia-stop", type: "button", "data-k": "stop", title: "Stop (Esc also clears what waits)", onclick: () => store.stop() }, h("span", { class: "ia-square", "aria-hidden": "true" }), h("span", { text: "Stop" }));
    this.send = h("button", { class: "ia-primary", type: "button", "data-k": "send", onclick: () => this.submit(store.state.busy ? "steer" : "send") });
    this.node = h(
      "div", { class: "ia-composer" },
      this.choices, this.images, this.field, this.problem,
      h("div", { class: "ia-actions" }, this.clip, this.files, h("span", { class: "ia-space" }), this.stop, this.later, this.send)
    );
    this.node.addEventListener("dragover", (event) => {
      if (![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      event.stopPropagation();
      this.node.classList.add("ia-dropping");
    });
    this.node.addEventListener("dragleave", () => this.node.classList.remove("ia-dropping"));
    this.node.addEventListener("drop", (event) => {
      this.node.classList.remove("ia-dropping");
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      event.stopPropagation();
      this.attach(event.dataTransfer.files);
    });
    this.at = null; // in the history
    this.chosen = 0;
    this.items = [];
  }

  show() {
    const { store } = this;
    const { busy, stopping } = store.state;
    if (this.field.value !== store.text) {
      this.field.value = store.text;
      this.closeChoices();
    }
    this.field.placeholder = store.state.commands?.length ? "Ask, or type / for commands" : "Ask";
    this.fit();
    say(this.problem, store.problem);
    this.images.hidden = store.images.length === 0;
    const key = store.images.map((image) => image.id).join();
    if (key !== this.imagesKey) {
      this.imagesKey = key;
      this.images.replaceChildren(...store.images.map((image) => this.thumbnail(image)));
    }
    const empty = !store.text.trim() && store.images.length === 0;
    const label = busy ? "Steer" : "Send";
    if (this.send.textContent !== label) this.send.textContent = label;
    this.send.title = busy ? "Enter: say it as soon as possible" : "Enter";
    this.send.disabled = empty;
    this.later.hidden = !busy;
    this.later.disabled = empty;
    if (!busy && document.activeElement === this.stop) this.field.focus({ preventScroll: true });
    this.stop.hidden = !busy;
    this.stop.setAttribute("aria-disabled", String(Boolean(stopping)));
    if (this.asked !== undefined && store.state.completions?.text === this.asked) this.offer(store.state.completions.items);
  }

  /** As high as its text, up to a limit. */
  fit() {
    if (this.fitted === this.field.value) return;
    this.fitted = this.field.value;
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight + 2, 200)}px`;
  }

  typed() {
    const { store } = this;
    store.text = this.field.value;
    store.problem = "";
    this.at = null;
    const before = this.field.value.slice(0, this.field.selectionStart);
    const word = /\S*$/.exec(before)[0];
    this.closeChoices();
    if (word && (/[/@]/.test(word) || before.startsWith("/"))) this.complete(before);
    store.show(new Set(["composer"]));
  }

  complete(before) {
    this.asked = before;
    if (/^\/\S*$/.test(before)) {
      const commands = (this.store.state.commands ?? []).filter(({ name }) => name.toLowerCase().startsWith(before.slice(1).toLowerCase()));
      this.offer(commands.map(({ name, description }) => ({ text: `/${name} `, label: `/${name}`, detail: description })));
    }
    this.store.send({ kind: "complete", text: before });
  }

  offer(items) {
    if (!this.field.matches(":focus") || this.field.value.slice(0, this.field.selectionStart) !== this.asked) return;
    if (!items?.length && this.items.length) return; // commands that only the page knows of
    this.items = (items ?? []).slice(0, 50);
    this.chosen = 0;
    this.choices.hidden = this.items.length === 0;
    this.choices.replaceChildren(
      ...this.items.map((item, index) =>
        h(
          "li",
          { role: "option", id: `${this.name}-${index}`, class: "ia-choice", onpointerdown: (event) => (event.preventDefault(), this.accept(index)) },
          h("span", { class: "ia-choice-label", text: item.label || item.text }),
          h("span", { class: "ia-detail", text: item.detail ?? "" })
        )
      )
    );
    this.mark(0);
  }

  mark(index) {
    const rows = [...this.choices.children];
    this.field.setAttribute("aria-expanded", String(rows.length > 0));
    if (!rows.length) return this.field.removeAttribute("aria-activedescendant");
    this.chosen = (index + rows.length) % rows.length;
    for (const [each, row] of rows.entries()) row.setAttribute("aria-selected", String(each === this.chosen));
    rows[this.chosen].scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", rows[this.chosen].id);
  }

  closeChoices() {
    this.asked = undefined;
    this.items = [];
    this.choices.hidden = true;
    this.choices.replaceChildren();
    this.mark(0);
  }

  /** An item stands for all that was asked about, or for its last word. */
  accept(index) {
    const { text } = this.items[index];
    const asked = this.asked;
    const head = asked.slice(0, asked.length - /\S*$/.exec(asked)[0].length);
    const done = text.startsWith(head) ? text : head + text;
    this.field.setRangeText(done, 0, asked.length, "end");
    this.closeChoices();
    this.store.text = this.field.value;
    this.store.show(new Set(["composer"]));
  }

  submit(how) {
    this.closeChoices();
    this.at = null;
    this.store.prompt(how);
    this.field.focus({ preventScroll: true });
  }

  key(event) {
    if (event.isComposing) return;
    const open = !this.choices.hidden;
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey;
    const { busy } = this.store.state;
    const act = {
      Escape: open && (() => this.closeChoices()),
      ArrowDown: plain && (open ? () => this.mark(this.chosen + 1) : this.at !== null && (() => this.recall(1))),
      ArrowUp: plain && (open ? () => this.mark(this.chosen - 1) : (this.at !== null || !this.field.value) && (() => this.recall(-1))),
      Tab: plain && open && (() => this.accept(this.chosen)),
      Enter: event.altKey
        ? () => this.submit(busy ? "followUp" : "send")
        : plain && (open && this.items[this.chosen].text.trim() !== this.field.value.trim() ? () => this.accept(this.chosen) : () => this.submit(busy ? "steer" : "send")),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  recall(step) {
    const { history } = this.store;
    const at = (this.at ?? history.length) + step;
    if (at < 0 || at > history.length) return;
    this.at = at === history.length ? null : at;
    this.store.text = this.field.value = history[at] ?? "";
    this.store.show(new Set(["composer"]));
  }

  pasted(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    this.attach(files);
  }

  async attach(files) {
    const { store } = this;
    const problems = [];
    for (const file of files) {
      if (!IMAGE_TYPES.includes(file.type)) problems.push(`${file.name} is no PNG, JPEG, GIF or WebP image.`);
      else if (file.size > IMAGE_BYTES) problems.push(`${file.name} has ${(file.size / 1e6).toFixed(1)} MB; an image may have 5 MB.`);
      else if (store.images.length >= IMAGES) problems.push(`${file.name} was left out: a message may hold ${IMAGES} images.`);
      else {
        try {
          const url = await dataUrl(file);
          store.images.push({ id: Math.random(), name: file.name, mimeType: file.type, data: url.slice(url.indexOf(",") + 1) });
        } catch (error) {
          problems.push(`${file.name} cannot be read: ${error.message}`);
        }
      }
    }
    this.files.value = "";
    store.problem = problems.join(" ");
    store.show(new Set(["composer"]));
  }

  thumbnail(image) {
    const remove = () => {
      this.store.images = this.store.images.filter((each) => each !== image);
      this.store.show(new Set(["composer"]));
      this.field.focus({ preventScroll: true });
    };
    return h(
      "div",
      { class: "ia-image" },
      h("img", { src: `data:${image.mimeType};base64,${image.data}`, alt: image.name, title: image.name }),
      h("button", { class: "ia-icon", type: "button", "aria-label": `Remove ${image.name}`, text: "✕", onclick: remove })
    );
  }
}

export default () => {
  let store;
  return {
    initialize({ model }) {
      store = new Store(model);
    },
    render({ el }) {
      const view = new (store.kind === "panel" ? PanelView : CellView)(store, el);
      store.views.add(view);
      el.append(view.root);
      view.show(new Set(["everything"]));
      view.resume();
      view.restoreFocus();
      return () => view.remove();
    },
  };
};
