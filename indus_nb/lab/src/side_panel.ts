/** The panel at the side: the chat with the agent of the notebook in front. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import type { Links } from "./links.ts";

export const OPEN_PANEL = "indus_nb:open-panel";

export function sidePanel(app: JupyterFrontEnd, links: Links): void {
  app.commands.addCommand(OPEN_PANEL, {
    label: "Open Agent Panel",
    execute: async () => {
      const link = links.current;
      if (link && (await link.ensure())) link.send({ kind: "open_panel" });
    },
  });
}
