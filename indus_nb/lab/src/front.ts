/** What every feature is given: the application, its notebooks, their links, and the way to the panel. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { Link } from "./link.ts";
import type { Links } from "./links.ts";
import type { Options } from "./options.ts";

export interface Front {
  readonly app: JupyterFrontEnd;
  readonly tracker: INotebookTracker;
  readonly links: Links;
  readonly options: Options;
  /** Show the panel of a notebook; `false` if its kernel cannot have one, which the panel then explains. */
  openPanel(link: Link): Promise<boolean>;
}

/** Do something with every notebook that is open, and with those to come. */
export function forEachNotebook({ tracker }: Front, act: (notebook: NotebookPanel) => void): void {
  tracker.forEach(act);
  tracker.widgetAdded.connect((_, notebook) => act(notebook));
}

/** Whether a notebook is for Python, as far as it says. */
export function isForPython({ content }: NotebookPanel): boolean {
  const language = content.model?.defaultKernelLanguage ?? "";
  return language === "" || /python/i.test(language);
}
