/**
 * Marks of values in the answers of cells that do not hold any more, and below such an answer the way to compute them.
 *
 * Contract: it is drawn by the page alone, and nothing of it is in the notebook. The outputs are watched only while the
 * kernel says that something in them does not hold.
 */

import type { CodeCell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { markOutdated, OutdatedLine } from "../../front/notebook/page/static/src/outdated.js";
import type { OutdatedValues } from "./door.ts";
import { type Front, forEachNotebook } from "./front.ts";
import type { Link } from "./link.ts";

/** Mark such values in every notebook that is open, and in those to come. */
export function markOutdatedValues(front: Front): void {
  forEachNotebook(front, (notebook) => {
    const marks = new Marks(notebook, front.links.of(notebook));
    notebook.disposed.connect(() => marks.dispose());
  });
}

class Marks {
  private readonly lines = new Map<CodeCell, OutdatedLine>();
  private cells = new Map<string, OutdatedValues>();
  private problem = "";
  private frame = 0;
  /** Outputs are drawn a while after they came, and those out of sight once they are scrolled to. */
  private readonly changes = new MutationObserver(() => {
    this.frame ||= requestAnimationFrame(() => this.draw());
  });

  constructor(
    private readonly notebook: NotebookPanel,
    private readonly link: Link,
  ) {
    link.on("outdated", ({ cells, problem }) => {
      this.problem = problem;
      this.show(new Map(cells.map(({ cell, outdated }) => [cell, outdated])));
    });
    link.changed.connect(() => {
      if (link.state.phase !== "ready" && this.cells.size > 0) this.show(new Map());
    });
  }

  dispose(): void {
    cancelAnimationFrame(this.frame);
    this.changes.disconnect();
    this.lines.clear();
  }

  private show(cells: Map<string, OutdatedValues>): void {
    this.cells = cells;
    for (const line of this.lines.values()) line.offerAgain();
    this.changes.disconnect();
    if (cells.size > 0) this.changes.observe(this.notebook.content.node, { childList: true, subtree: true });
    this.draw();
  }

  private draw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    for (const cell of this.notebook.content.widgets) {
      if (cell.model.type === "code") this.drawCell(cell as CodeCell);
    }
  }

  private drawCell(cell: CodeCell): void {
    const outdated = this.cells.get(cell.model.id);
    const line = this.lines.get(cell);
    if (!outdated && !line) return;
    const { node } = cell.outputArea;
    const count = markOutdated(node, outdated?.values ?? []);
    const shown = line ?? this.lineOf(cell);
    if (count > 0 && node.lastElementChild !== shown.node) node.append(shown.node);
    shown.show(count > 0 ? outdated : null, this.problem);
    if (!outdated) {
      shown.node.remove();
      this.lines.delete(cell);
    }
  }

  private lineOf(cell: CodeCell): OutdatedLine {
    const line = new OutdatedLine(
      () => this.link.send({ kind: "check_values" }),
      () => this.notebook.content.node.focus(),
    );
    this.lines.set(cell, line);
    cell.disposed.connect(() => this.lines.delete(cell));
    return line;
  }
}
