/**
 * The chat of one notebook: the panel that its kernel has, or why there is none.
 *
 * Contract: it begins when it is first shown. From then on it shows the panel of the conversation that the notebook has,
 * whichever that is after a restart or another kernel.
 */

import { PathExt } from "@jupyterlab/coreutils";
import { PanelLayout, Widget } from "@lumino/widgets";
import { Installer } from "./installer.ts";
import type { Link, Phase } from "./link.ts";
import type { Options } from "./options.ts";
import { placeIn } from "./places.ts";
import { WIDGET_VIEW as VIEW } from "./renderers.ts";

const COMPOSER = "textarea.ia-text";

const SENTENCES: Record<Exclude<Phase, "not-installed">, string> = {
  none: "The kernel is on its way.",
  "no-kernel": "This notebook has no kernel. Start one, and the agent comes with it.",
  "not-python": "The agent works in Python kernels; this notebook has another one.",
  waiting: "The kernel is busy: the agent comes when the cell has ended.",
  loading: "The agent is on its way.",
  ready: "The agent is on its way.",
  failed: "The agent could not be opened.",
};
/** What a renderer of widgets is marked with that cannot draw one. */
const NOT_DRAWN = "jupyter-widgets";
const PANEL = ".ia-panel";
/** How long a rendered view may draw nothing: then it is rendered once more, and after as long again given up. */
const DRAW_MS = 10_000;
const NO_WIDGETS =
  "This page cannot show widgets. Reload it if the package jupyterlab_widgets was installed since it was loaded; else install that where Jupyter itself runs, then reload the page.";
const RELOAD = "This page does not know the agent's panel, as after a change of kernel. Reload the page.";

export class Chat extends Widget {
  /** Whose chat it is: the panel stays while notebooks change. */
  private readonly of = document.createElement("p");
  private readonly said = document.createElement("p");
  private sentenceSaid = "";
  private readonly again = document.createElement("button");
  private readonly installer: Installer;
  private view: Widget | null = null;
  /** Whether the page could not draw the panel of the conversation that was asked for. */
  private isUndrawn = false;
  /** The id of the widget that the view shows. */
  private shown: string | null = null;
  /** The conversation whose panel was asked for; `undefined` before, `null` where the notebook had none. */
  private asked: string | null | undefined;
  private begun = false;
  private readonly watch = new MutationObserver(() => this.say());
  private timer = 0;

  constructor(
    private readonly link: Link,
    options: Options,
  ) {
    super();
    this.addClass("indus_nb-Chat");
    this.layout = new PanelLayout();
    this.installer = new Installer(link, options);
    this.said.className = "indus_nb-said";
    this.said.setAttribute("role", "status");
    this.of.className = "indus_nb-of";
    this.again.type = "button";
    this.again.className = "indus_nb-again jp-mod-styled";
    this.again.textContent = "Try again";
    this.again.hidden = true;
    this.again.onclick = () => this.begin();
    this.node.append(this.of, this.said, this.again, this.installer.node);
    placeIn(link.notebook, this.node);
    link.changed.connect(this.follow, this);
    link.notebook.context.pathChanged.connect(this.nameNotebook, this);
    this.nameNotebook();
  }

  /** Open the conversation; again if that failed before. */
  begin(): void {
    this.begun = true;
    if (!this.view) {
      this.asked = undefined;
      this.shown = null;
    }
    this.follow();
    this.link.ensure();
  }

  /** Focus the composer, when it is there. */
  focusWhenThere(): void {
    const composer = this.composer;
    if (composer) {
      composer.focus();
      return;
    }
    const watch = new MutationObserver(() => {
      const found = this.composer;
      if (!found) return;
      watch.disconnect();
      found.focus();
    });
    watch.observe(this.node, { childList: true, subtree: true });
  }

  override dispose(): void {
    this.link.changed.disconnect(this.follow, this);
    this.link.notebook.context.pathChanged.disconnect(this.nameNotebook, this);
    this.watch.disconnect();
    clearTimeout(this.timer);
    this.view = null;
    super.dispose();
  }

  private nameNotebook(): void {
    const { path } = this.link.notebook.context;
    this.of.textContent = PathExt.basename(path);
    this.of.title = path;
  }

  private get composer(): HTMLElement | null {
    return this.node.querySelector<HTMLElement>(COMPOSER);
  }

  private get showsWidgets(): boolean {
    return this.link.notebook.content.rendermime.mimeTypes.includes(VIEW);
  }

  private get isDrawn(): boolean {
    return this.node.querySelector(PANEL) !== null;
  }

  private follow(): void {
    if (!this.begun) return;
    const { phase, kernel } = this.link.state;
    this.showView(kernel?.panel ?? null);
    // The kernel opens that of another conversation by itself, but for one that it took for gone.
    if (kernel && (this.asked === undefined || (!kernel.panel && this.asked !== kernel.session))) {
      this.asked = kernel.session;
      this.isUndrawn = false;
      this.link.send({ kind: "open_panel" });
    }
    if (!kernel) this.asked = undefined;
    this.say();
    this.installer.show(phase === "not-installed");
  }

  /** Say why there is no panel, as long as none is drawn. */
  private say(): void {
    const sentence = this.isDrawn ? "" : this.sentence();
    this.said.hidden = sentence === "";
    if (this.isDrawn) this.watch.disconnect();
    this.again.hidden = !sentence.startsWith(SENTENCES.failed);
    if (this.sentenceSaid === sentence) return;
    this.sentenceSaid = sentence;
    this.said.replaceChildren(...withCode(sentence));
  }

  private sentence(): string {
    const { phase, problem, kernel } = this.link.state;
    if (phase === "not-installed") return Installer.sentence;
    if (kernel && !kernel.error && !this.view) {
      if (!this.showsWidgets) return NO_WIDGETS;
      if (this.isUndrawn) return RELOAD;
    }
    const why = kernel?.error ?? problem;
    return why ? `${SENTENCES.failed} ${why}` : SENTENCES[phase];
  }

  private showView(id: string | null): void {
    if (id === this.shown) return;
    this.isUndrawn = id === null; // the page has removed the panel that it was told of, as one does that knows none
    this.shown = id;
    this.clear();
    this.view = id === null ? null : this.render(id);
  }

  private clear(): void {
    clearTimeout(this.timer);
    this.view?.dispose();
    this.view = null;
  }

  /**
   * Show a widget of the kernel, as an output of the notebook would.
   *
   * @param again whether a view of it was there that drew nothing
   */
  private render(id: string, again = false): Widget | null {
    const { rendermime } = this.link.notebook.content;
    const data = { [VIEW]: { version_major: 2, version_minor: 0, model_id: id } };
    const model = rendermime.createModel({ data, trusted: true });
    if (!this.showsWidgets) return null;
    const view = rendermime.createRenderer(VIEW);
    view.addClass("indus_nb-View");
    const look = () => {
      if (this.view !== view || this.isDrawn) return;
      if (again) {
        this.giveUp();
        return;
      }
      this.clear();
      this.view = this.render(id, true);
    };
    // What takes its time to be rendered is left to it.
    view.renderModel(model).then(() => {
      if (this.view !== view) return;
      if (view.hasClass(NOT_DRAWN)) this.giveUp();
      else this.timer = window.setTimeout(look, DRAW_MS);
    });
    (this.layout as PanelLayout).addWidget(view);
    this.watch.observe(this.node, { childList: true, subtree: true });
    return view;
  }

  private giveUp(): void {
    this.clear();
    this.isUndrawn = true;
    this.follow();
  }
}

/** A sentence whose parts between backticks are code. */
function withCode(sentence: string): (string | HTMLElement)[] {
  return sentence.split("`").map((part, index, { length }) => {
    if (index % 2 === 0) return part;
    if (index === length - 1) return `\`${part}`; // which no other backtick ends
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  });
}
