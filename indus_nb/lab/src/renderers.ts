/**
 * Has widgets of a kernel drawn by the widget manager that knows them, in every notebook that uses the kernel.
 *
 * JupyterLab lets one connection to a kernel have its comms. A notebook that is switched to the kernel of another keeps
 * its own widget manager, which then learns of no widget.
 */

import { type INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { IRenderMime } from "@jupyterlab/rendermime";

export const WIDGET_VIEW = "application/vnd.jupyter.widget-view+json";
/** The rank that widget managers give it. */
const RANK = -10;

const ours = new WeakSet<IRenderMime.IRendererFactory>();

/** Do so in each notebook from the first change of its kernel on. */
export function shareRenderers(tracker: INotebookTracker): void {
  const watch = (notebook: NotebookPanel) => {
    notebook.sessionContext.kernelChanged.connect((_, { oldValue }) => {
      if (oldValue) share(tracker, notebook);
    });
  };
  tracker.forEach(watch);
  tracker.widgetAdded.connect((_, notebook) => watch(notebook));
  // A manager takes over what it draws some time after a notebook is opened; the wrong one where another was switched.
  NotebookActions.executionScheduled.connect((_, { notebook }) => {
    const panel = tracker.find(({ content }) => content === notebook);
    if (panel && holderOf(tracker, panel)) share(tracker, panel);
  });
}

/** Have whoever draws widgets in a notebook asked only while its own connection has the comms. */
function share(tracker: INotebookTracker, notebook: NotebookPanel): void {
  const { rendermime } = notebook.content;
  const own = rendermime.getFactory(WIDGET_VIEW);
  if (!own || ours.has(own)) return;
  const factory: IRenderMime.IRendererFactory = {
    safe: own.safe,
    mimeTypes: [WIDGET_VIEW],
    createRenderer: (options) => {
      const theirs = holderOf(tracker, notebook)?.content.rendermime.getFactory(WIDGET_VIEW);
      return (theirs ?? own).createRenderer(options);
    },
  };
  ours.add(factory);
  rendermime.addFactory(factory, RANK);
}

/** Find the other notebook whose connection has the comms of a notebook's kernel. */
function holderOf(tracker: INotebookTracker, { sessionContext }: NotebookPanel): NotebookPanel | undefined {
  const kernel = sessionContext.session?.kernel;
  if (!kernel || kernel.handleComms) return undefined;
  return tracker.find((other) => {
    const its = other.sessionContext.session?.kernel;
    return its?.id === kernel.id && its.handleComms;
  });
}
