/** The panel at the side: the chat with the agent of the notebook in front. */

import type { ILayoutRestorer, JupyterFrontEnd } from "@jupyterlab/application";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { PanelLayout, Widget } from "@lumino/widgets";
import { Chat } from "./chat.ts";
import { agentIcon } from "./icon.ts";
import type { Links } from "./links.ts";
import type { Options } from "./options.ts";

export const OPEN_PANEL = "indus_nb:open-panel";
const ID = "indus_nb-panel";
const TITLE = "Agent";
const RANK = 900;

/**
 * Add the panel to the right area, and the command that opens it.
 *
 * @param options the settings, as a chat needs them
 * @param restorer opens it again after a reload, where the application has one
 */
export function sidePanel(
  app: JupyterFrontEnd,
  links: Links,
  options: Options,
  restorer: ILayoutRestorer | null,
): void {
  const panel = new SidePanel(links, options);
  app.shell.add(panel, "right", { rank: RANK, type: TITLE });
  restorer?.add(panel, ID);
  app.commands.addCommand(OPEN_PANEL, {
    label: "Open Agent Panel",
    caption: "Talk to the agent in the kernel of the notebook in front",
    icon: agentIcon,
    execute: () => app.shell.activateById(ID),
  });
}

/** Holds the chats of all notebooks, and shows that of the one in front. */
class SidePanel extends Widget {
  private readonly chats = new Map<NotebookPanel, Chat>();
  private readonly none = document.createElement("p");

  constructor(
    private readonly links: Links,
    private readonly options: Options,
  ) {
    super();
    this.id = ID;
    this.addClass("indus_nb-SidePanel");
    this.title.icon = agentIcon;
    this.title.caption = TITLE;
    this.node.setAttribute("role", "region");
    this.node.setAttribute("aria-label", TITLE);
    this.none.className = "indus_nb-said";
    this.none.textContent = "Open a notebook to talk to the agent in its kernel.";
    this.node.append(this.none);
    this.layout = new PanelLayout();
    links.currentChanged.connect(this.follow, this);
  }

  protected override onAfterShow(): void {
    this.follow();
  }

  protected override onActivateRequest(): void {
    this.follow();
    this.current()?.focusWhenThere();
  }

  private current(): Chat | null {
    const { current } = this.links;
    if (!current) return null;
    const known = this.chats.get(current.notebook);
    if (known) return known;
    const chat = new Chat(current, this.options);
    this.chats.set(current.notebook, chat);
    (this.layout as PanelLayout).addWidget(chat);
    current.notebook.disposed.connect((notebook) => {
      this.chats.delete(notebook);
      chat.dispose();
    });
    return chat;
  }

  /** Show the chat of the notebook in front; nothing happens in its kernel before that can be seen. */
  private follow(): void {
    if (!this.isVisible) return;
    const chat = this.current();
    for (const each of this.chats.values()) each.setHidden(each !== chat);
    this.none.hidden = chat !== null;
    chat?.begin();
  }
}
