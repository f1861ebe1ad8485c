/**
 * A thin line beside the cells of the notebook that the agent has written.
 *
 * Contract: a cell is marked by a class of its element alone, which nothing saves; what says whose it is stands in its
 * metadata. The front end makes and numbers elements while one scrolls, so marks are made as these come.
 */

/** @import { Store } from "./store.js" */

const MARK = "ia-of-agent";
const INDEX = "data-windowed-list-index";
/** The elements of notebooks whose cells are marked, for as long as they are there. */
const watched = new WeakSet();
/** The element of a notebook in which a view has stood, by the notebook's model.
 * @type {WeakMap<object, Element>} */
const elements = new WeakMap();

/**
 * Mark the cells of the notebook around a view from now on.
 *
 * @param {HTMLElement} root of the view, which the front end puts into a cell later
 * @param {Store} store
 */
export function watchAgentCells(root, store) {
  const notebook = root.closest(".jp-Notebook");
  if (notebook && store.notebook) elements.set(store.notebook, notebook);
  if (!notebook || watched.has(notebook)) return;
  watched.add(notebook);
  const mark = () => {
    for (const cell of notebook.querySelectorAll(`.jp-Cell[${INDEX}]`))
      cell.classList.toggle(MARK, store.isOfAgent(Number(cell.getAttribute(INDEX))));
  };
  new MutationObserver(mark).observe(notebook, { subtree: true, attributeFilter: [INDEX] });
  const list = notebook.querySelector(".jp-WindowedPanel-viewport") ?? notebook;
  new MutationObserver(mark).observe(list, { childList: true });
  mark();
}

/**
 * The outputs of the cell that a widget belongs to, if the front end shows it, and it is known where.
 *
 * @param {Store} store
 */
export function outputsOf({ notebook, shown, model }) {
  const index = [...(notebook?.cells ?? [])].findIndex(({ id }) => id === model.get("cell"));
  const element = shown?.content?.node ?? (notebook && elements.get(notebook));
  const cell = element?.querySelector(`.jp-Cell[${INDEX}="${index}"]`);
  return cell?.querySelector(".jp-OutputArea") ?? null;
}
