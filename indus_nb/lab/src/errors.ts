/**
 * A bar below each traceback, with buttons that ask the agent about it; of a long one it stands where that leaves sight.
 *
 * Contract: it is drawn by the page alone, over any notebook for Python, and nothing of it is in the notebook. It stands
 * below the error of a cell's newest run, and is gone when the cell runs again. Cells that talk to the agent get none.
 */

import type { CodeCell, ICodeCellModel } from "@jupyterlab/cells";
import type { IError } from "@jupyterlab/nbformat";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { type Front, forEachNotebook, isForPython } from "./front.ts";
import type { Link } from "./link.ts";

export type Task = "fix" | "explain";

/** How much of a source and of a traceback is sent: of these texts the kernel shows the model less. */
const MAX_CHARACTERS = 20_000;
/** The cell of each notebook that the user asked to have mended, by its id, until that is proposed. */
const mended = new WeakMap<Link, string>();
/** What each conversation is at of what was asked about an error. */
const asked = new WeakMap<Link, string>();
/** What the user ends a cell with; the latter two come from a cell that asks about rows. */
const INTERRUPTS = ["KeyboardInterrupt", "RowsInterrupted", "RowsCancelled"];
const OF_AGENT = /^[ \t]*%{1,2}agent\b/m;
const LABELS: Readonly<Record<Task, [text: string, title: string]>> = {
  fix: ["Fix", "Ask the agent to find the cause and to propose the mended cell"],
  explain: ["Explain", "Ask the agent why this cell failed; it changes nothing"],
};

/** Draw bars in every notebook that is open, and in those to come. */
export function drawErrorBars(front: Front): void {
  forEachNotebook(front, (notebook) => {
    const bars = new ErrorBars(front, notebook);
    notebook.disposed.connect(() => bars.dispose());
  });
}

/** Ask about the error that a cell shows; opens the panel, where the answer arrives. */
export async function askAboutError(front: Front, link: Link, cell: CodeCell, task: Task): Promise<void> {
  const error = errorOf(cell);
  if (!error) return;
  const traceback = error.traceback.length > 0 ? error.traceback.join("\n") : `${error.ename}: ${error.evalue}`;
  const source = cell.model.sharedModel.getSource();
  const same = JSON.stringify([task, cell.model.id, source, traceback]);
  const isAsked = asked.get(link) === same;
  asked.set(link, same);
  if (!(await front.openPanel(link))) asked.delete(link);
  if (isAsked || !asked.has(link)) return;
  forgetWhenOver(link);
  if (task === "fix") mended.set(link, cell.model.id);
  link.send({
    kind: task,
    cell: cell.model.id,
    source: source.slice(0, MAX_CHARACTERS),
    changed: cell.model.isDirty,
    error: traceback.slice(-MAX_CHARACTERS),
  });
}

/** Forget what was asked once the conversation was at work since, or could not begin. */
function forgetWhenOver(link: Link): void {
  let began = false;
  const note = () => {
    const { kernel } = link.state;
    began ||= kernel !== null && kernel.phase !== "idle";
    if (kernel && !kernel.error && !(began && kernel.phase === "idle")) return;
    asked.delete(link);
    link.changed.disconnect(note);
  };
  link.changed.connect(note);
}

/** Whether the user waits for what is proposed for a cell, since its error was asked about; said once. */
export function takeMended(link: Link, cell: string | null): boolean {
  return cell !== null && mended.get(link) === cell && mended.delete(link);
}

/** The error that a cell of the user's shows, which its newest run ended with. */
export function errorOf(cell: CodeCell): IError | null {
  const found = place(cell.model);
  return found < 0 ? null : (cell.model.outputs.get(found).toJSON() as IError);
}

/** Where the error stands among a cell's outputs; -1 if there is none that the agent is asked about. */
function place({ outputs, sharedModel }: ICodeCellModel): number {
  for (let index = outputs.length - 1; index >= 0; index--) {
    if (outputs.get(index).type !== "error") continue;
    const { ename } = outputs.get(index).toJSON();
    return INTERRUPTS.includes(ename as string) || OF_AGENT.test(sharedModel.getSource()) ? -1 : index;
  }
  return -1;
}

class ErrorBars {
  private readonly bars = new Map<CodeCell, HTMLElement>();
  private readonly watched = new WeakSet<CodeCell>();

  constructor(
    private readonly front: Front,
    private readonly notebook: NotebookPanel,
  ) {
    const { content } = notebook;
    content.modelChanged.connect(this.watchCells, this);
    content.modelContentChanged.connect(this.watchCells, this);
    front.options.changed.connect(this.drawAll, this);
    this.watchCells();
  }

  dispose(): void {
    this.front.options.changed.disconnect(this.drawAll, this);
    this.bars.clear();
  }

  private get cells(): CodeCell[] {
    return this.notebook.content.widgets.filter((cell): cell is CodeCell => cell.model.type === "code");
  }

  private watchCells(): void {
    for (const cell of this.cells) {
      if (this.watched.has(cell)) continue;
      this.watched.add(cell);
      const draw = () => this.draw(cell);
      cell.model.outputs.changed.connect(draw);
      cell.disposed.connect(() => this.bars.delete(cell));
      draw();
    }
  }

  private drawAll(): void {
    for (const cell of this.cells) this.draw(cell);
  }

  private draw(cell: CodeCell): void {
    const index = this.front.options.errorBar && isForPython(this.notebook) ? place(cell.model) : -1;
    const { widgets } = cell.outputArea;
    const above = index < 0 ? undefined : (widgets[index] ?? widgets.at(-1));
    const bar = this.bars.get(cell);
    if (!above) {
      bar?.remove();
      this.bars.delete(cell);
    } else if (bar?.previousSibling !== above.node) {
      const next = bar ?? this.bar(cell);
      this.bars.set(cell, next);
      above.node.after(next);
    }
  }

  private bar(cell: CodeCell): HTMLElement {
    const bar = document.createElement("div");
    bar.className = "indus-error-bar";
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Ask the agent about this error");
    // The notebook's shortcuts would take Enter and Space away from the buttons.
    bar.dataset.lmSuppressShortcuts = "true";
    bar.append(...(["fix", "explain"] as const).map((task) => this.button(cell, task)));
    return bar;
  }

  private button(cell: CodeCell, task: Task): HTMLElement {
    const button = document.createElement("button");
    [button.textContent, button.title] = LABELS[task];
    button.type = "button";
    button.addEventListener("click", () => {
      askAboutError(this.front, this.front.links.of(this.notebook), cell, task);
    });
    return button;
  }
}
