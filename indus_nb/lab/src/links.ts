/** The links of an application: one per notebook, made when it is first asked for. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";
import { type ISignal, Signal } from "@lumino/signaling";
import type { Widget } from "@lumino/widgets";
import { Link } from "./link.ts";

export class Links {
  private readonly links = new Map<NotebookPanel, Link>();
  private readonly changed = new Signal<this, void>(this);

  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly tracker: INotebookTracker,
  ) {
    tracker.currentChanged.connect(() => this.changed.emit());
    window.addEventListener("pagehide", () => {
      for (const link of this.links.values()) link.leaveNotebook();
    });
  }

  /** The link of a notebook. */
  of(notebook: NotebookPanel): Link {
    const known = this.links.get(notebook);
    if (known) return known;
    const link = new Link(notebook, (kernel) => this.withComms(kernel));
    this.links.set(notebook, link);
    notebook.disposed.connect(() => {
      this.links.delete(notebook);
      link.dispose();
    });
    return link;
  }

  /** The link of the notebook in front, if there is one. */
  get current(): Link | null {
    const notebook = this.tracker.currentWidget;
    return notebook && !notebook.isDisposed ? this.of(notebook) : null;
  }

  /** Emitted when another notebook is in front, or none. */
  get currentChanged(): ISignal<this, void> {
    return this.changed;
  }

  /**
   * Find the connection to a kernel over which comms pass: of several notebooks on one kernel only one has it.
   */
  private withComms(kernel: Kernel.IKernelConnection): Kernel.IKernelConnection {
    if (kernel.handleComms) return kernel;
    for (const widget of this.app.shell.widgets("main")) {
      const other = (widget as Widget & Partial<Pick<NotebookPanel, "sessionContext">>).sessionContext?.session?.kernel;
      if (other?.id === kernel.id && other.handleComms) return other;
    }
    return kernel;
  }
}
