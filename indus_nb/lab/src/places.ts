/**
 * Which notebook a part of the page belongs to, for what the kernel's widgets do in it.
 *
 * The widget manager of a kernel knows one notebook, the first of several that use it; and what stands at the side is
 * in none.
 */

import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";

const places = new WeakMap<Element, NotebookPanel>();

/** What our widgets call: with the elements that show one, and with the connection that the kernel knows of it. */
const NAME = Symbol.for("indus_nb notebook");

/** Note that what an element holds belongs to a notebook. */
export function placeIn(notebook: NotebookPanel, element: Element): void {
  places.set(element, notebook);
}

/** Let our widgets know which notebook they are in. */
export function tellPlaces(tracker: INotebookTracker): void {
  tracker.forEach((notebook) => {
    placeIn(notebook, notebook.node);
  });
  tracker.widgetAdded.connect((_, notebook) => placeIn(notebook, notebook.node));
  (globalThis as Record<symbol, unknown>)[NAME] = (elements: Element[], client: string) => {
    const shown = elements.map(placeOf).find((notebook) => notebook && !notebook.isDisposed);
    return shown ?? tracker.find(({ sessionContext }) => sessionContext.session?.kernel?.clientId === client);
  };
}

function placeOf(element: Element): NotebookPanel | undefined {
  for (let at: Element | null = element; at; at = at.parentElement) {
    const notebook = places.get(at);
    if (notebook) return notebook;
  }
  return undefined;
}
