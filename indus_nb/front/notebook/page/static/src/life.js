/**
 * Whether the kernel of a widget is still the one that made it, as the front end says.
 *
 * Contract: `onEnd` is called once, with what happened. A kernel that was restarted knows nothing of the widget, so there
 * is no way back. Where a front end says nothing of its kernel, it is never called.
 */

/** @import { WidgetKind } from "../protocol.d.ts" */

/** @typedef {"restarted" | "gone"} KernelEnd */
/** @typedef {KernelEnd | "closed"} WidgetEnd */
/** @typedef {(sender: unknown, status: string) => void} StatusSlot */
/** The part of JupyterLab's session context that is used here; other front ends have none.
 * @typedef {{ statusChanged: { connect(slot: StatusSlot): unknown, disconnect(slot: StatusSlot): unknown },
 *   session?: { kernel?: { clientId?: string, hasPendingInput?: boolean } | null } | null }} SessionContext */

/** @type {Record<string, KernelEnd>} */
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

/**
 * @param {{ on(event: "comm_live_update", handler: () => void): void,
 *   widget_manager?: { context?: { sessionContext?: SessionContext } } }} model
 * @param {(how: KernelEnd) => void} onEnd
 * @returns {() => void} ends it: what a notebook tells of its kernel would hold every widget that it ever had
 */
export function watchKernel(model, onEnd) {
  model.on("comm_live_update", () => onEnd("restarted")); // the widget manager has given up the connection
  /** @type {StatusSlot} */
  const note = (_sender, status) => {
    const how = ENDS[status];
    if (how) onEnd(how);
  };
  const changed = model.widget_manager?.context?.sessionContext?.statusChanged;
  changed?.connect(note);
  return () => changed?.disconnect(note);
}

/**
 * What a view says below what it shows, once its kernel is not there any more, or the panel was closed.
 *
 * @param {WidgetKind} kind
 * @param {WidgetEnd} how
 * @param {boolean} saved whether the conversation is in a file
 */
export function wordsOfEnd(kind, how, saved) {
  if (how === "closed") return "This panel was closed. The conversation goes on without it.";
  if (kind === "keys") return FORM_ENDS[how];
  const ended = (kind === "panel" ? PANEL_ENDS : CELL_ENDS)[how];
  return `${ended} ${saved ? "The conversation is saved: %agent --continue goes on with it." : "The conversation was not saved."}`;
}
