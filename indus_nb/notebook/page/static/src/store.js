/**
 * One widget in this page: the kernel's description of it, what the user began, the messages to the kernel, and the
 * views that show it.
 *
 * Contract: a store lives as long as its widget's model, and views come and go. Whatever must survive a view stands here.
 * Messages are handled one by one, and each ends in one `show` of what it changed.
 */

import { Changes } from "./changes.js";
import { Download } from "./download.js";
import { Draft } from "./draft.js";
import { FocusMemory } from "./focus.js";
import { Mirror } from "./mirror.js";
import { answerRequest } from "./notebook.js";

/** @import { FromPage, PageRequest, ToPage, WidgetKind } from "../protocol.d.ts" */
/** @import { Notebook } from "./notebook.js" */
/** @import { View } from "./view.js" */

const TOAST_MS = 8000;

/** The widget's model, as anywidget and the front end's widget manager give it.
 * @typedef {object} Model
 * @property {(name: "kind") => WidgetKind} get
 * @property {(event: "msg:custom", handler: (message: ToPage) => void) => void} on
 * @property {(message: object) => void} send
 * @property {{ context?: { model?: Notebook }, _rendermime?: { latexTypesetter?: Typesetter } }} [widget_manager]
 */
/** @typedef {{ typeset(node: Element): void }} Typesetter */

/** The id of this document, one for all widgets in it: of several pages the kernel asks the one that was used last.
 * @type {string} */
const pageId = pageIdOf(/** @type {Record<symbol, string>} */ (/** @type {unknown} */ (globalThis)));

/** @param {Record<symbol, string>} scope */
function pageIdOf(scope) {
  const name = Symbol.for("indus_nb page");
  scope[name] ??= Math.random().toString(36).slice(2);
  return scope[name];
}

export class Store {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.kind = model.get("kind");
    this.mirror = new Mirror(() => this.send({ kind: "resync" }));
    this.complete = false;
    /** Half-written answers of dialogs, by id.
     * @type {Map<string, string>} */
    this.answers = new Map();
    /** Which `<details>` of a block the user opened or closed: block key → index → open.
     * @type {Map<string, Map<number, boolean>>} */
    this.opened = new Map();
    /** How many characters of a block were announced to screen readers, by block key.
     * @type {Map<string, number>} */
    this.announced = new Map();
    this.draft = new Draft();
    this.download = new Download();
    this.focus = new FocusMemory();
    /** Whether the views follow the end of what grows. */
    this.follow = true;
    /** Where a panel was scrolled to, in px. */
    this.scrollTop = 0;
    /** @type {"sessions" | "tree" | null} */
    this.overlay = null;
    /** @type {Set<View>} */
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

  /** Whether a run goes on: in a cell it has begun before the kernel says so. */
  get busy() {
    return this.state.busy ?? this.kind === "cell";
  }

  /** @param {FromPage} message */
  send(message) {
    this.model.send({ page: pageId, ...message });
  }

  /** @param {ToPage} message */
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

  /** Announce nothing of what was there before this page. */
  ignoreEarlier() {
    this.complete = true;
    for (const key of this.mirror.blocks.keys()) this.announced.set(key, Number.POSITIVE_INFINITY);
  }

  /**
   * Apply what a message means for things that the user began.
   *
   * @param {Changes} changes
   */
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

  /** @param {PageRequest} request */
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

  /** The index of the cell that shows this widget, the last one of several; -1 if it is not known. */
  cellIndex() {
    const cells = [...this.views].map((view) => view.root.closest(".jp-Cell"));
    return Math.max(
      -1,
      ...cells.map((cell) => Number((cell instanceof HTMLElement && cell.dataset.windowedListIndex) || -1)),
    );
  }

  /** @param {Changes} changes */
  show(changes) {
    for (const view of this.views) view.show(changes);
  }

  /** @param {number} n */
  dismissToast(n) {
    if (this.mirror.toasts.delete(n)) this.show(new Changes("toasts"));
  }

  /**
   * Answer a dialog.
   *
   * @param {string} id
   * @param {string | boolean | null} value `null` dismisses it
   */
  answer(id, value) {
    if (!this.mirror.closeDialog(id)) return;
    this.answers.delete(id);
    this.send({ kind: "answer", id, value });
    this.show(new Changes("dialogs"));
  }

  /** Stop the run. The button stays where it is, and keeps the focus: one that is disabled would lose it. */
  stop() {
    if (this.state.stopping) return;
    this.state.stopping = true;
    this.send({ kind: "stop" });
    this.show(new Changes("stopping"));
  }

  /** Stop the run, and take back what is queued. */
  stopAll() {
    this.state.stopping = true;
    this.send({ kind: "abort" });
    this.show(new Changes("stopping"));
  }

  /**
   * Send what is written in the composer.
   *
   * @param {"send" | "steer" | "followUp"} how
   */
  prompt(how) {
    const { draft } = this;
    if (draft.isEmpty) return;
    // Each image goes by itself: servers refuse messages of more than 10 MB.
    for (const { data, mimeType } of draft.images) this.send({ kind: "image", data, mimeType });
    this.send({ kind: "prompt", text: draft.text.trim(), how });
    draft.clear();
    this.follow = true;
    this.show(new Changes("composer"));
  }

  /**
   * Open a list over the conversation, and have the kernel fill it.
   *
   * @param {"sessions" | "tree"} overlay
   */
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
