/** The plugins of the extension: what JupyterLab and Notebook start. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { INotebookTracker } from "@jupyterlab/notebook";
import { Links } from "./links.ts";
import { sidePanel } from "./side_panel.ts";
import css from "./style.css";

const plugin: JupyterFrontEndPlugin<void> = {
  id: "indus_nb:plugin",
  description: "A coding agent in the notebook's own kernel.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [],
  activate(app: JupyterFrontEnd, tracker: INotebookTracker): void {
    const style = document.createElement("style");
    style.textContent = css;
    document.head.append(style);
    const links = new Links(app, tracker);
    sidePanel(app, links);
  },
};

export default plugin;
