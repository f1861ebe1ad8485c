/**
 * A thin line beside the cells of the notebook that the agent has written.
 *
 * Contract: a cell is marked by a class of its element alone, which nothing saves; what says whose it is stands in its
 * metadata. The front end makes elements while one scrolls, so marks are made as these come.
 */

/** @import { Store } from "./store.js" */

const MARK = "ia-of-agent";

export class AgentCells {
  /**
   * @param {Store} store
   * @param {HTMLElement} root of a view, which the front end puts into a cell later
   */
  constructor(store, root) {
    this.store = store;
    this.root = root;
    /** @type {Element | null} */
    this.notebook = null;
    this.observer = new MutationObserver(() => this.mark());
  }

  /** Mark the cells around the view from now on. */
  show() {
    const found = this.root.closest(".jp-Notebook");
    if (!found || found === this.notebook) return;
    this.notebook = found;
    const list = found.querySelector(".jp-WindowedPanel-viewport") ?? found;
    this.observer.disconnect();
    this.observer.observe(list, { childList: true });
    this.mark();
  }

  mark() {
    for (const cell of this.notebook?.querySelectorAll(".jp-Cell[data-windowed-list-index]") ?? []) {
      const index = Number(cell instanceof HTMLElement && cell.dataset.windowedListIndex);
      cell.classList.toggle(MARK, this.store.isOfAgent(index));
    }
  }

  stop() {
    this.mark();
    this.observer.disconnect();
  }
}
