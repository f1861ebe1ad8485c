/** The agent's state at a glance, in the status bar: what it does in the notebook in front, which model, today's cost. */

import type { IStatusBar } from "@jupyterlab/statusbar";
import { Signal } from "@lumino/signaling";
import { Widget } from "@lumino/widgets";
import type { Front } from "./front.ts";
import type { DoorState, Link } from "./link.ts";
import { goToQuestion, isAsking } from "./mark.ts";

const WORDS = { idle: "idle", working: "works", asking: "asks" };
const JOBS = "Jobs go on in the background; the panel lists them, and stops them";
const COST = "What the requests of your kernels have cost since midnight";

/** Show the state of the agent in the notebook in front. */
export function showStatus(front: Front, bar: IStatusBar): void {
  const { links, options } = front;
  const changes = new Signal<object, void>({});
  const item = new StatusItem(front);
  let shown: Link | null = null;
  const draw = () => {
    item.draw(shown);
    changes.emit();
  };
  const follow = () => {
    shown?.changed.disconnect(draw);
    shown = links.current;
    shown?.changed.connect(draw);
    draw();
  };
  links.currentChanged.connect(follow);
  options.changed.connect(draw);
  follow();
  bar.registerStatusItem("indus_nb:status", {
    item,
    align: "right",
    rank: 50,
    isActive: () => options.statusItem && shown !== null,
    activeStateChanged: changes,
  });
}

class StatusItem extends Widget {
  private readonly button = document.createElement("button");
  private link: Link | null = null;

  constructor(private readonly front: Front) {
    super();
    this.addClass("indus-status");
    this.button.type = "button";
    this.button.addEventListener("click", () => this.go());
    this.node.append(this.button);
  }

  draw(link: Link | null): void {
    this.link = link;
    if (!link) return;
    const { kernel } = link.state;
    const dollars = kernel?.cost_today ? `${amount(kernel.cost_today)} today` : "";
    const jobs = kernel?.jobs ? `${kernel.jobs} job${kernel.jobs === 1 ? "" : "s"}` : "";
    const said = [`Agent ${word(link.state)}`.trim(), jobs, kernel?.model, dollars];
    this.button.textContent = said.filter(Boolean).join(" · ");
    const titles = [kernel?.question ?? "Open the agent's panel", jobs && JOBS, dollars && COST];
    this.button.title = titles.filter(Boolean).join("\n");
    this.toggleClass("indus-mod-asks", isAsking(link));
  }

  private go(): void {
    if (!this.link) return;
    if (isAsking(this.link)) goToQuestion(this.front, this.link);
    else this.front.openPanel(this.link);
  }
}

function word({ kernel, phase }: DoorState): string {
  if (kernel) return WORDS[kernel.phase];
  return phase === "loading" ? "starts" : "";
}

function amount(dollars: number): string {
  return dollars < 0.01 ? "< $0.01" : `$${dollars.toFixed(2)}`;
}
