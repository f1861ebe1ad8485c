/** The settings of the extension, as the settings editor has them. Until they are read, all is on. */

import type { ISettingRegistry } from "@jupyterlab/settingregistry";
import { type ISignal, Signal } from "@lumino/signaling";

export class Options {
  errorBar = true;
  statusItem = true;
  questionMark = true;
  loadBeforeCells = true;
  installFrom = "";
  private readonly change = new Signal<this, void>(this);

  /** Emitted after each change. */
  get changed(): ISignal<this, void> {
    return this.change;
  }

  /** Follow the user's settings from now on. */
  follow(settings: ISettingRegistry.ISettings): void {
    const read = () => {
      for (const name of ["errorBar", "statusItem", "questionMark", "loadBeforeCells"] as const)
        this[name] = settings.get(name).composite !== false;
      this.installFrom = String(settings.get("installFrom").composite ?? "");
      this.change.emit();
    };
    settings.changed.connect(read);
    read();
  }
}
