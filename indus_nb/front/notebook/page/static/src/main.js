/**
 * The anywidget module of `indus_nb.front.notebook.page.widget`: one store for each widget, one view for each display of it.
 *
 * The modules of this directory are joined into `../agent.js` by `python tests/bundle.py`; that is the file that a page
 * loads. None of them depends on anything else.
 */

import { CellView } from "./cell_view.js";
import { Changes } from "./changes.js";
import { KeyView } from "./key_view.js";
import { PanelView } from "./panel_view.js";
import { Store } from "./store.js";

/** @import { WidgetKind } from "../protocol.d.ts" */
/** @import { Model } from "./store.js" */

/** @type {Record<WidgetKind, typeof CellView | typeof KeyView | typeof PanelView>} */
const VIEWS = { cell: CellView, keys: KeyView, panel: PanelView };

export default () => {
  /** @type {Store} */
  let store;
  return {
    /** @param {{ model: Model }} context */
    initialize({ model }) {
      store = new Store(model);
      return () => store.close();
    },
    /** @param {{ el: HTMLElement }} context */
    render({ el }) {
      const view = new VIEWS[store.kind](store);
      store.views.add(view);
      store.greet();
      store.cell.watch();
      bringStyles(el);
      el.append(view.root);
      view.show(Changes.all());
      view.resume();
      store.focus.restore(view.root);
      return () => view.remove();
    },
  };
};

/**
 * Bring the style sheet into the shadow tree that an element is in, if it is in one: marimo shows widgets there.
 *
 * @param {HTMLElement} el
 */
function bringStyles(el) {
  const root = el.getRootNode();
  const styles = document.getElementById("indus-nb-styles");
  if (root instanceof ShadowRoot && styles && !root.getElementById(styles.id)) root.append(styles.cloneNode(true));
}
