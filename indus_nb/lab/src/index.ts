/** The plugins of the extension: what JupyterLab and Notebook start. */

import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { IFileBrowserFactory } from "@jupyterlab/filebrowser";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { IStatusBar } from "@jupyterlab/statusbar";
import { addCommands } from "./commands.ts";
import { editing } from "./editing.ts";
import { drawErrorBars } from "./errors.ts";
import { linkFoundNumbers } from "./found.ts";
import type { Front } from "./front.ts";
import { Links } from "./links.ts";
import { loadBeforeCells } from "./loading.ts";
import { markQuestions } from "./mark.ts";
import { Options } from "./options.ts";
import { markOutdatedValues } from "./outdated.ts";
import { tellPlaces } from "./places.ts";
import presence from "./presence.css";
import { noteEmptyCells } from "./ran_empty.ts";
import { shareRenderers } from "./renderers.ts";
import { OPEN_PANEL, sidePanel } from "./side_panel.ts";
import { showStatus } from "./status.ts";
import css from "./style.css";

const ID = "indus_nb:plugin";

const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: "A coding agent in the notebook's own kernel.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ILayoutRestorer, ICommandPalette, ISettingRegistry, IStatusBar, IFileBrowserFactory],
  activate(
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    settings: ISettingRegistry | null,
    statusBar: IStatusBar | null,
    browsers: IFileBrowserFactory | null,
  ): void {
    const style = document.createElement("style");
    style.textContent = css + presence;
    document.head.append(style);
    const links = new Links(app, tracker);
    tellPlaces(tracker);
    noteEmptyCells();
    shareRenderers(tracker);
    const options = new Options();
    sidePanel(app, links, options, restorer);
    editing(app, links, tracker, palette);
    const front: Front = {
      app,
      tracker,
      links,
      options,
      openPanel: async (link) => {
        await app.commands.execute(OPEN_PANEL);
        return link.ensure();
      },
    };
    settings?.load(ID).then((loaded) => options.follow(loaded));
    addCommands(front, palette, browsers);
    drawErrorBars(front);
    markQuestions(front);
    markOutdatedValues(front);
    linkFoundNumbers(front);
    loadBeforeCells(front);
    if (statusBar) showStatus(front, statusBar);
  },
};

export default plugin;
