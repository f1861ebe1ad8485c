/** The plugins of the extension: what JupyterLab and Notebook start. */

import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { INotebookTracker } from "@jupyterlab/notebook";
import { editing } from "./editing.ts";
import { Links } from "./links.ts";
import { tellPlaces } from "./places.ts";
import { sidePanel } from "./side_panel.ts";
import css from "./style.css";

const plugin: JupyterFrontEndPlugin<void> = {
  id: "indus_nb:plugin",
  description: "A coding agent in the notebook's own kernel.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ILayoutRestorer],
  activate(
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
  ): void {
    const style = document.createElement("style");
    style.textContent = css;
    document.head.append(style);
    const links = new Links(app, tracker);
    tellPlaces(tracker);
    sidePanel(app, links, restorer);
    editing(app, links, tracker, palette);
  },
};

export default plugin;
