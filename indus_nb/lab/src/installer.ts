/** How the package comes into a kernel that lacks it: from where the user says, by a line that runs there. */

import type { Kernel, KernelMessage } from "@jupyterlab/services";
import type { Link } from "./link.ts";
import type { Options } from "./options.ts";

const MAX_CHARACTERS = 2_000;
const PLACE = "/path/to/the/clone";

/** The line that installs from a directory, a file or an address. */
function line(from: string): string {
  return /:\/\//.test(from) ? `%pip install "indus_nb[widgets] @ ${from}"` : `%pip install "${from}[widgets]"`;
}

export class Installer {
  static readonly sentence =
    "The package indus_nb is not installed where this notebook's kernel runs. Install it there from your clone of it:";
  readonly node = document.createElement("form");
  private readonly field = document.createElement("input");
  private readonly button = document.createElement("button");
  private readonly shown = document.createElement("code");
  private readonly printed = document.createElement("pre");

  constructor(
    private readonly link: Link,
    private readonly options: Options,
  ) {
    this.field.className = "jp-mod-styled";
    this.field.placeholder = PLACE;
    this.field.spellcheck = false;
    this.field.setAttribute("aria-label", "Directory of the clone, wheel, or address");
    this.field.oninput = () => this.follow();
    this.button.className = "jp-mod-styled jp-mod-accept";
    this.button.textContent = "Install it";
    this.node.onsubmit = (event) => {
      event.preventDefault();
      this.install(line(this.field.value.trim()));
    };
    this.printed.setAttribute("role", "log");
    this.printed.tabIndex = 0;
    this.printed.setAttribute("aria-label", "What the installation prints");
    this.printed.hidden = true;
    this.node.className = "indus_nb-install";
    this.node.hidden = true;
    this.node.append(this.field, this.shown, this.button, this.printed);
  }

  /** Appear, with the place that the settings name, or not. */
  show(wanted: boolean): void {
    if (wanted && this.node.hidden) {
      this.field.value ||= this.options.installFrom;
      this.follow();
    }
    this.node.hidden = !wanted;
  }

  private follow(): void {
    const from = this.field.value.trim();
    this.shown.textContent = line(from || PLACE);
    this.button.disabled = from === "";
  }

  private async install(code: string): Promise<void> {
    const kernel = this.link.notebook.sessionContext.session?.kernel;
    if (!kernel) return;
    this.button.disabled = true;
    this.printed.hidden = false;
    this.printed.textContent = "Installing…\n";
    try {
      await this.run(kernel, code);
      await this.link.ensure();
    } catch (error) {
      this.print(String(error));
    }
    this.follow();
  }

  private async run(kernel: Kernel.IKernelConnection, code: string): Promise<void> {
    const future = kernel.requestExecute({ code, store_history: false, allow_stdin: false });
    future.onIOPub = ({ header, content }) => {
      if (header.msg_type === "stream") this.print((content as KernelMessage.IStreamMsg["content"]).text);
    };
    await future.done;
  }

  private print(text: string): void {
    this.printed.textContent = `${this.printed.textContent}${text}`.slice(-MAX_CHARACTERS);
    this.printed.scrollTop = this.printed.scrollHeight;
  }
}
