/** How the package comes into a kernel that lacks it: the line, and a button that runs it there. */

import type { Kernel, KernelMessage } from "@jupyterlab/services";
import type { Link } from "./link.ts";

const LINE = "%pip install indus_nb";
const MAX_CHARACTERS = 2_000;

export class Installer {
  static readonly sentence =
    "The package indus_nb is not installed where this notebook's kernel runs. This line does it:";
  readonly node = document.createElement("div");
  private readonly button = document.createElement("button");
  private readonly printed = document.createElement("pre");

  constructor(private readonly link: Link) {
    const line = document.createElement("code");
    line.textContent = LINE;
    this.button.className = "jp-mod-styled jp-mod-accept";
    this.button.textContent = "Install it";
    this.button.onclick = () => this.install();
    this.printed.setAttribute("role", "log");
    this.printed.tabIndex = 0;
    this.printed.setAttribute("aria-label", "What the installation prints");
    this.printed.hidden = true;
    this.node.className = "indus_nb-install";
    this.node.append(line, this.button, this.printed);
  }

  private async install(): Promise<void> {
    const kernel = this.link.notebook.sessionContext.session?.kernel;
    if (!kernel) return;
    this.button.disabled = true;
    this.printed.hidden = false;
    this.printed.textContent = "Installing…\n";
    try {
      await this.run(kernel);
      await this.link.ensure();
    } catch (error) {
      this.print(String(error));
    }
    this.button.disabled = false;
  }

  private async run(kernel: Kernel.IKernelConnection): Promise<void> {
    const future = kernel.requestExecute({ code: LINE, store_history: false, allow_stdin: false });
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
