/**
 * The calls of the agent that go on after their result: what each is, how long it has run, and its Stop.
 *
 * Contract: titles are text of a model, and set as text. A row stays the same element while its job runs, so that its
 * button keeps the focus.
 */

import { h } from "./dom.js";
import { focusedElement, focusQuietly } from "./focus.js";

/** @import { RunningJob } from "../protocol.d.ts" */
/** @import { Store } from "./store.js" */

export class Jobs {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    /** @type {Map<string, { node: HTMLElement, ran: HTMLElement }>} */
    this.rows = new Map();
    this.node = h("div", { class: "ia-jobs", role: "group", "aria-label": "Jobs", hidden: true });
  }

  show() {
    const { ended, state } = this.store;
    const jobs = ended ? [] : (state.jobs ?? []);
    const hadFocus = this.node.contains(focusedElement());
    const running = new Set(jobs.map(({ id }) => id));
    for (const [id, { node }] of this.rows) {
      if (running.has(id)) continue;
      node.remove();
      this.rows.delete(id);
    }
    for (const job of jobs) {
      const row = this.rows.get(job.id) ?? this.add(job);
      if (row.ran.textContent !== job.ran) row.ran.textContent = job.ran;
    }
    this.node.hidden = jobs.length === 0;
    if (hadFocus && !this.node.contains(focusedElement()))
      focusQuietly(this.node.closest(".ia-root")?.querySelector(".ia-text"));
  }

  /** @param {RunningJob} job */
  add({ id, tool, title }) {
    const ran = h("span", { class: "ia-ran" });
    const stop = h("button", {
      class: "ia-quiet",
      type: "button",
      "data-k": `stop ${id}`,
      text: "Stop",
      "aria-label": `Stop ${id}: ${title}`,
      onclick: () => this.store.send({ kind: "stop_job", jobId: id }),
    });
    const node = h(
      "div",
      { class: "ia-job" },
      h("span", { class: "ia-tag", text: id }),
      h("span", { class: "ia-line", title, text: `${tool}: ${title}` }),
      ran,
      stop,
    );
    this.node.append(node);
    const row = { node, ran };
    this.rows.set(id, row);
    return row;
  }
}
