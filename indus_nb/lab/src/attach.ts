/**
 * What a user attaches: each becomes a reference, or a short quotation, in the composer of the panel.
 *
 * Contract: nothing is sent to a model by this; the user sees what was written, and may change it.
 */

import { Dialog, InputDialog, showDialog } from "@jupyterlab/apputils";
import type { Cell } from "@jupyterlab/cells";
import type { IFileBrowserFactory } from "@jupyterlab/filebrowser";
import { mention, relativePath } from "../../front/notebook/page/static/src/text.js";
import type { Front } from "./front.ts";
import type { Link } from "./link.ts";
import { numberOf } from "./names.ts";

/** How much is quoted; of what is longer the user attaches the cell. */
const MAX_QUOTED = 4_000;
const TITLE = "Attach a Variable";

/** Write a text into the composer, behind what is there. */
async function insert(front: Front, link: Link, text: string): Promise<void> {
  if (text && (await front.openPanel(link))) link.send({ kind: "insert", text });
}

/** Quote what is selected in the active cell, or in the notebook's outputs. */
export function attachSelection(front: Front, link: Link): Promise<void> {
  return insert(front, link, quotation(selectedIn(link)));
}

/** The selected text; empty if there is none in this notebook. */
export function selectedIn({ notebook }: Link): string {
  const editor = notebook.content.activeCell?.editor;
  if (editor) {
    const { start, end } = editor.getSelection();
    const [from, to] = [editor.getOffsetAt(start), editor.getOffsetAt(end)].sort((one, other) => one - other);
    const text = editor.model.sharedModel.getSource().slice(from, to);
    if (text) return text;
  }
  const selection = document.getSelection();
  return selection && notebook.node.contains(selection.anchorNode) ? selection.toString() : "";
}

/** Refer to the active cell by its number, or quote it where it has none. */
export function attachCell(front: Front, link: Link): Promise<void> {
  const cell = link.notebook.content.activeCell;
  return cell ? insert(front, link, reference(cell)) : Promise.resolve();
}

function reference(cell: Cell): string {
  const count = numberOf(cell);
  return count === null ? quotation(cell.model.sharedModel.getSource()) : `@cell ${count}`;
}

/** Refer to the files that are chosen in the file browser. */
export function attachFiles(front: Front, link: Link, browsers: IFileBrowserFactory): Promise<void> {
  const chosen = [...(browsers.tracker.currentWidget?.selectedItems() ?? [])];
  const { path } = link.notebook.context;
  const mentions = chosen.map((file) => mention(relativePath(file.path, path)));
  return insert(front, link, mentions.join(" "));
}

/** Let the user choose one of the kernel's variables, and refer to it. */
export async function attachVariable(front: Front, link: Link): Promise<void> {
  if (!(await front.openPanel(link))) return;
  const items = (await variablesOf(link)).map(({ name, type }) => `${name}: ${type}`);
  if (items.length === 0) {
    await showDialog({ title: TITLE, body: "The kernel holds no variable of yours.", buttons: [Dialog.okButton()] });
    return;
  }
  const { value } = await InputDialog.getItem({ title: TITLE, items, okLabel: "Attach" });
  if (value) await insert(front, link, `$${value.split(":")[0]}`);
}

function variablesOf(link: Link): Promise<readonly { name: string; type: string }[]> {
  return new Promise((resolve) => {
    const listening = link.on("variables", ({ variables }) => {
      listening.dispose();
      resolve(variables);
    });
    link.send({ kind: "list_variables" });
  });
}

/** Quote a text as code, in which nothing stands for a value. */
function quotation(text: string): string {
  const shown = text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text;
  if (shown.trim() === "") return "";
  const longest = Math.max(2, ...[...shown.matchAll(/`{3,}/g)].map(([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${shown.replace(/\n$/, "")}\n${fence}\n`;
}
