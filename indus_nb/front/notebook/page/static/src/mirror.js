/**
 * The page's copy of a widget: blocks, state, dialogs and toasts, as the kernel describes them in numbered messages.
 *
 * Contract:
 * - Each patch is applied once, and only on top of the one before it. What is old is ignored; behind a gap everything
 *   is asked for again, at most once in `RESYNC_INTERVAL_MS`, and nothing is applied until it is there.
 * - A full message replaces all that is known, except what the user has just answered or closed.
 * - Messages of unknown kinds and unknown operations change nothing: the kernel may be newer than this page.
 */

import { Changes } from "./changes.js";

/** @import { DialogLayout, Operation, PageDialog, PanelState, Toast, ToPage } from "../protocol.d.ts" */

const RESYNC_INTERVAL_MS = 5000;
const IGNORE_ANSWERED_MS = 5000; // in which a dialog that was answered here may still be sent again
const MAX_TOASTS = 5;
const RUNS = /<span\b[^>]*\bclass="indus-runs"[^>]*>[^<]*<\/span>/g; // the sign of a call that goes on
const NOT_YET = /(<span\b[^>]*>preview, not run) yet\b/g; // beside a call that the user is asked about

export class Mirror {
  /** @param {() => void} resync asks the kernel for everything */
  constructor(resync) {
    this.resync = resync;
    this.number = 0;
    /** HTML of blocks by key, in order. It was sanitised by the kernel.
     * @type {Map<string, string>} */
    this.blocks = new Map();
    /** Numbers in blocks, by the keys of these, with the keys of the blocks with their cards.
     * @type {Map<string, readonly (readonly string[])[]>} */
    this.found = new Map();
    /** @type {PanelState} */
    this.state = {};
    /** Open dialogs by id, the oldest first; `until` in ms since 1970.
     * @type {Map<string, { frame: PageDialog, until: number | null, layout: DialogLayout | null }>} */
    this.dialogs = new Map();
    /** @type {Map<number, Toast>} */
    this.toasts = new Map();
    /** When the run began, in ms since 1970.
     * @type {number | null} */
    this.startedAt = null;
    this.lastToast = 0;
    /** When dialogs were answered here, by id.
     * @type {Map<string, number>} */
    this.answered = new Map();
    this.askedAt = Date.now(); // a new page asks for everything by itself
  }

  /**
   * Apply a message of the kernel.
   *
   * @param {ToPage} message
   * @returns {Changes | null} `null` if it was not applied
   */
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

  /**
   * Apply an operation, and note what it changes.
   *
   * @param {Operation} operation
   * @param {Changes} changes
   */
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

  /**
   * @param {PanelState} state
   * @param {Changes} changes
   */
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

  /**
   * @param {Toast} toast
   * @param {Changes} changes
   */
  applyToast(toast, changes) {
    if (toast.n <= this.lastToast) return;
    this.lastToast = toast.n;
    this.toasts.set(toast.n, toast);
    if (this.toasts.size > MAX_TOASTS) this.toasts.delete(Math.min(...this.toasts.keys()));
    changes.newToasts.push(toast);
    changes.parts.add("toasts");
  }

  /**
   * Close a dialog that the user answers here.
   *
   * @param {string} id
   * @returns {boolean} whether it was open
   */
  closeDialog(id) {
    if (!this.dialogs.delete(id)) return false;
    this.answered.set(id, Date.now());
    return true;
  }

  /**
   * End all that goes on: its kernel is not there any more.
   *
   * @param {boolean} keepsAsked whether what the user was asked about stays below the blocks
   */
  end(keepsAsked) {
    const [first] = this.dialogs.values();
    this.dialogs.clear();
    for (const [key, html] of this.blocks)
      this.blocks.set(key, html.replace(RUNS, "<span>–</span>").replace(NOT_YET, "$1"));
    if (keepsAsked && first?.layout?.html) this.blocks.set("asked", first.layout.html);
  }
}
