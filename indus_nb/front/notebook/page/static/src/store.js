/**
 * One widget in this page: the kernel's description of it, what the user began, the messages to the kernel, and the
 * views that show it.
 *
 * Contract: a store lives as long as its widget's model, and views come and go. Whatever must survive a view stands here.
 * Messages are handled one by one, and each ends in one `show` of what it changed.
 */

import { outputsOf } from "./agent_cells.js";
import { Answers } from "./answers.js";
import { drawBeside } from "./beside.js";
import { Changes } from "./changes.js";
import { copyAnswer } from "./copying.js";
import { Download } from "./download.js";
import { Draft } from "./draft.js";
import { FocusMemory } from "./focus.js";
import { Follower } from "./following.js";
import { watchKernel, wordsOfEnd } from "./life.js";
import { Mirror } from "./mirror.js";
import { CellOfRun } from "./moving.js";
import { answerRequest, isOfAgent, nameNotebook, placed } from "./notebook.js";
import { noteWidget, replaceWidget } from "./saved_widgets.js";

/** @import { FromPage, PageRequest, ToPage, WidgetKind } from "../protocol.d.ts" */
/** @import { SessionContext, WidgetEnd } from "./life.js" */
/** @import { Notebook } from "./notebook.js" */
/** @import { KernelConnection } from "./running.js" */
/** @import { View } from "./view.js" */

const NOTEBOOK = Symbol.for("indus_nb notebook");
const TOAST_MS = 8000;
const NEW_VIEW_MS = 300;
const ENDED_STYLE =
  "color:color-mix(in srgb,currentcolor 30%,#808080);font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:12px";

/** The widget's model, as anywidget and the front end's widget manager give it.
 * @typedef {object} Model
 * @property {((name: "kind") => WidgetKind) & ((name: "cell" | "client") => string)} get
 * @property {(event: "msg:custom" | "comm_live_update", handler: (message: ToPage) => void) => void} on
 * @property {(message: object) => void} send
 * @property {{ context?: NotebookContext, _rendermime?: { latexTypesetter?: Typesetter } }} [widget_manager]
 */
/** @typedef {{ model?: Notebook, path?: string, contentsModel?: { last_modified?: string } | null, sessionContext?: SessionContext }} NotebookContext */
/** @typedef {((shown: Element[], client: string) => ShownNotebook | undefined) | undefined} FindNotebook */
/** @typedef {{ context: NotebookContext, content?: { node: Element } }} ShownNotebook */
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
    this.answers = new Answers(this);
    /** Which `<details>` of a block the user opened or closed: block key → index → open.
     * @type {Map<string, Map<number, boolean>>} */
    this.opened = new Map();
    /** How many characters of a block were announced to screen readers, by block key.
     * @type {Map<string, number>} */
    this.announced = new Map();
    /** The block whose answer the user has just asked to copy: every page is sent it, and only one may.
     * @type {string} */
    this.copying = "";
    this.draft = new Draft();
    this.download = new Download();
    this.focus = new FocusMemory();
    /** Whether the views follow the end of what grows. */
    this.follow = true;
    this.follower = new Follower(this);
    /** Where a panel was scrolled to, in px. */
    this.scrollTop = 0;
    /** @type {"sessions" | "tree" | null} */
    this.overlay = null;
    /** The view that shows the list; `null` if that view is gone, until another one takes its place.
     * @type {View | null} */
    this.overlayView = null;
    /** @type {Set<View>} */
    this.views = new Set();
    /** What is said once the kernel is not there any more; "" before.
     * @type {string} */
    this.ended = "";
    this.unwatch = watchKernel(model, (how) => this.end(how));
    model.on("msg:custom", (message) => this.handleMessage(message));
    this.greeted = false;
    this.cell = new CellOfRun(this);
    this.greet();
  }

  /**
   * Begin to answer for the widget, once it is known to be in this notebook: of several notebooks on one kernel each gets
   * all widgets, and only one shows this.
   *
   * @returns {boolean} whether this has begun
   */
  greet() {
    if (!this.greeted && this.isHere) {
      this.greeted = true;
      this.send({ kind: "ready" });
    }
    return this.greeted;
  }

  /** Whether this notebook shows the widget, or the front end does not say which one does. */
  get isHere() {
    const [cell, client] = [this.model.get("cell"), this.model.get("client")];
    return !this.notebook?.cells || !(cell || client) || this.views.size > 0 || this.holds(cell, client);
  }

  /**
   * Whether a cell is in this notebook: it was run from here, or stands here.
   *
   * @param {string} cell its id
   * @param {string | null} client what the page that ran it is to the kernel
   */
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

  /** Whether a run goes on: in a cell it has begun before the kernel says so. */
  get busy() {
    return this.state.busy ?? this.kind === "cell";
  }

  /** The notebook that shows the widget, as our extension of JupyterLab knows it. */
  get shown() {
    const find = /** @type {Record<symbol, FindNotebook>} */ (/** @type {unknown} */ (globalThis))[NOTEBOOK];
    const roots = [...this.views].map(({ root }) => root);
    return find?.(roots, this.model.get("client"));
  }

  /** What is known of it; without that extension of one of the notebooks that use the kernel. */
  get context() {
    return this.shown?.context ?? this.model.widget_manager?.context;
  }

  /** The notebook that shows the widget, where the front end gives access to it. */
  get notebook() {
    return this.context?.model;
  }

  /** Where that notebook's file lies, below the directory of the server, where it is known. */
  get path() {
    return this.context?.path ?? "";
  }

  /**
   * Whether the agent has written the cell at an index.
   *
   * @param {number} index
   */
  isOfAgent(index) {
    return isOfAgent(this.notebook?.cells?.get(index));
  }

  /** The name of that file. */
  get place() {
    return this.path.split("/").at(-1) ?? "";
  }

  /**
   * Stay as it is: the kernel is not there any more, or the panel was closed. A run stands in the notebook as it was, for no widget will.
   *
   * @param {WidgetEnd} how
   */
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

  /** Hold nothing any more: the widget is closed. */
  close() {
    this.unwatch();
    this.answers.close();
    this.download.forget();
  }

  /** @param {FromPage} message */
  send(message) {
    if (this.ended) return;
    this.model.send({ page: pageId, ...message });
  }

  /** @param {ToPage} message */
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
    this.answers.tidy();
    for (const { n, type } of changes.newToasts) if (type === "info") setTimeout(() => this.dismissToast(n), TOAST_MS);
    if (this.dialogs.size === 0) this.draft.holdBack(false);
    if (changes.has("composer")) this.draft.receive(this.state.composer);
    if (changes.has("inserted") && this.draft.insert(this.state.inserted)) changes.parts.add("composer");
    this.takeOnce();
  }

  /** Do what the kernel sends for this moment and does not keep. */
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

  /** @param {PageRequest} request */
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
   * @param {string} [reason] why, where the question takes a reason
   */
  answer(id, value, reason) {
    if (!this.mirror.closeDialog(id)) return;
    this.answers.tidy();
    this.send(reason ? { kind: "answer", id, value, reason } : { kind: "answer", id, value });
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
    if (draft.isEmpty || this.ended) return;
    if (draft.holdBack(!this.busy && this.dialogs.size > 0)) {
      this.show(new Changes("composer"));
      return;
    }
    // Each image goes by itself: servers refuse messages of more than 10 MB.
    for (const { data, mimeType } of draft.images) this.send({ kind: "image", data, mimeType });
    this.send({ kind: "prompt", text: draft.text.trim(), how, literal: draft.isPasted });
    draft.clear();
    this.follow = true;
    this.show(new Changes("composer"));
  }

  /**
   * Open a list over the conversation, and have the kernel fill it.
   *
   * @param {"sessions" | "tree"} overlay
   * @param {View} view
   */
  open(overlay, view) {
    this.overlay = overlay;
    this.overlayView = view;
    this.send({ kind: overlay === "sessions" ? "list_sessions" : "show_tree" });
    this.show(new Changes("overlay"));
  }

  /**
   * Have the kernel hand over an answer, and copy it.
   *
   * @param {string} block its key
   */
  copy(block) {
    this.copying = block;
    this.send({ kind: "copy", block });
  }

  /** Have the kernel make a web page of the session, and download it. */
  export() {
    this.download.wanted = true;
    this.send({ kind: "export" });
  }

  forgetDownload() {
    this.download.forget();
    this.show(new Changes("download"));
  }
}
