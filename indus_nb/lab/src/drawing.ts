/**
 * Proposed cells, drawn where they will stand: in the editors of the cells that they change, and below cells.
 *
 * Contract: the notebook's model is never touched. What is drawn goes away as a whole.
 */

import type { EditorView } from "@codemirror/view";
import type { Cell, MarkdownCell } from "@jupyterlab/cells";
import type { CodeMirrorEditor } from "@jupyterlab/codemirror";
import type { Notebook } from "@jupyterlab/notebook";
import { type PanelLayout, Widget } from "@lumino/widgets";
import { codeBlock, drawDraft } from "./cell_diff.ts";
import type { ShownCell } from "./door.ts";

export class Drawing {
  private readonly views = new Set<EditorView>();
  private readonly ghosts = new Map<string, Widget>();
  private readonly opened = new Set<MarkdownCell>();
  /** What stands at the ends of what is drawn, by the ids of the cells that it is drawn in or below. */
  private readonly marks = new Map<string, HTMLElement>();

  /** @param touched called when the user, or anybody, has changed a cell under what is drawn */
  constructor(
    private readonly notebook: Notebook,
    private readonly touched: () => void,
  ) {}

  /** Whether all cells that these name are in the notebook. */
  static fits(notebook: Notebook, cells: readonly ShownCell[]): boolean {
    return cells.every(({ cell, after }) => [cell, after].every((id) => id === null || cellOf(notebook, id)));
  }

  /** Whether a cell that is to be changed has another source by now. */
  static isOutdated(notebook: Notebook, cells: readonly ShownCell[]): boolean {
    return cells.some(({ cell, old }) => {
      const now = cell === null ? null : cellOf(notebook, cell)?.model.sharedModel.getSource();
      return old !== null && now !== old;
    });
  }

  /** Draw these cells in the place of those before; the last one may not be whole yet. */
  draw(cells: readonly ShownCell[], done: boolean): void {
    const changed = new Set(cells.map(({ cell }) => viewOf(cellOf(this.notebook, cell))));
    for (const view of this.views) if (!changed.has(view)) this.erase(view);
    const below = new Map<string, ShownCell[]>();
    let above: string | null = null;
    for (const [index, proposed] of cells.entries()) {
      above = proposed.after ?? above;
      if (proposed.cell !== null) this.change(proposed, done || index < cells.length - 1);
      else if (above !== null) below.set(above, [...(below.get(above) ?? []), proposed]);
    }
    for (const [id, ghost] of this.ghosts) if (!below.has(id)) ghost.dispose();
    for (const [id, proposed] of below) this.add(id, proposed);
    this.forgetMarks(new Set(cells.map(({ cell, after }) => cell ?? after)));
  }

  /** The ends of what is drawn: who saw down to them has seen it. A cell far out of sight is not in the document. */
  get ends(): readonly HTMLElement[] {
    const drawn = [...this.marks].filter(([id, mark]) => cellOf(this.notebook, id)?.node.contains(mark));
    return drawn.map(([, mark]) => mark);
  }

  clear(): void {
    this.forgetMarks(new Set());
    for (const view of this.views) this.erase(view);
    for (const ghost of this.ghosts.values()) ghost.dispose();
    for (const cell of this.opened) cell.rendered = true;
    this.ghosts.clear();
    this.opened.clear();
  }

  /** The mark of an end, which stays the same one when it is drawn again. */
  private mark(id: string): HTMLElement {
    const mark = this.marks.get(id) ?? document.createElement("div");
    this.marks.set(id, mark);
    return mark;
  }

  private forgetMarks(except: ReadonlySet<string | null>): void {
    for (const [id, mark] of this.marks) {
      if (except.has(id)) continue;
      mark.remove();
      this.marks.delete(id);
    }
  }

  private erase(view: EditorView): void {
    drawDraft(view, null);
    this.views.delete(view);
  }

  private change({ cell: id, source }: ShownCell, done: boolean): void {
    const cell = cellOf(this.notebook, id);
    const text = cell?.model.type === "markdown" ? (cell as MarkdownCell) : null;
    if (text?.rendered) {
      text.rendered = false;
      this.opened.add(text);
    }
    const view = viewOf(cell);
    if (!view) return;
    this.views.add(view);
    drawDraft(view, { source, done, touched: this.touched });
    cell?.inputArea?.node.parentElement?.after(this.mark(cell.model.id)); // below the editor, above outputs
  }

  private add(id: string, cells: readonly ShownCell[]): void {
    const cell = cellOf(this.notebook, id);
    if (!cell) return;
    const known = this.ghosts.get(id);
    const ghost = known && !known.isDisposed ? known : new Widget();
    if (ghost !== known) {
      ghost.addClass("indus_nb-ghosts");
      this.ghosts.set(id, ghost);
      (cell.layout as PanelLayout).addWidget(ghost);
    }
    const state = cells.some(({ type }) => type === "code") ? (this.codeView()?.state ?? null) : null;
    ghost.node.replaceChildren(
      ...cells.map(({ source, type }) => {
        const block = codeBlock(source, "indus_nb-ghost indus_nb-inserted", type === "code" ? state : null);
        block.setAttribute("aria-label", type === "code" ? "New code cell" : "New Markdown cell");
        block.setAttribute("role", "group");
        return block;
      }),
    );
    ghost.node.append(this.mark(id));
  }

  /** Return an editor that knows how code looks. */
  private codeView(): EditorView | null {
    const shown = this.notebook.widgets.find((cell) => cell.model.type === "code" && viewOf(cell));
    return viewOf(shown);
  }
}

/** Find a cell by its id. */
export function cellOf(notebook: Notebook, id: string | null): Cell | undefined {
  return notebook.widgets.find(({ model }) => model.id === id);
}

function viewOf(cell: Cell | undefined): EditorView | null {
  return (cell?.editor as CodeMirrorEditor | null | undefined)?.editor ?? null;
}
