/**
 * What a panel shows before anything was said: what to ask, which keys there are, and when the agent asks first.
 *
 * Contract: an example is put into the composer and not sent.
 */

import { Changes } from "./changes.js";
import { h } from "./dom.js";
import { approvalWords } from "./text.js";

/** @import { Store } from "./store.js" */

/** @type {[string, string][]} */
const KEYS = [
  ["Enter", "send, or steer the agent while it works"],
  ["Alt+Enter", "say it when the agent is done"],
  ["Esc", "stop"],
  ["/", "commands"],
];
/** Where the panel knows no kernel there are neither variables nor cells.
 * @type {[string, string][]} */
const KEYS_WITH_KERNEL = [...KEYS, ["@", "files and cells"], ["#", "variables"]];
/** @type {[string, string][]} */
const KEYS_WITHOUT_KERNEL = [...KEYS, ["@", "files"]];

export class EmptyState {
  /**
   * @param {Store} store
   * @param {() => void} onChoose is called when an example was put into the composer
   */
  constructor(store, onChoose) {
    this.store = store;
    this.onChoose = onChoose;
    this.shown = "";
    this.node = h("div", { class: "ia-start", hidden: true });
  }

  show() {
    const { approve, busy, examples = [], first_prompt: first, kernel, keys: form, log } = this.store.state;
    const said = [...this.store.mirror.blocks.values()].some((html) => html !== "");
    this.node.hidden = said || Boolean(busy) || Boolean(form) || !this.store.complete;
    const shown = JSON.stringify([examples, approve, first, kernel, log]);
    if (this.node.hidden || shown === this.shown) return;
    this.shown = shown;
    if (log) {
      this.node.replaceChildren("What other programs call is shown here.", this.approval(approve));
      return;
    }
    const keys = kernel ? KEYS_WITH_KERNEL : KEYS_WITHOUT_KERNEL;
    this.node.replaceChildren(
      h("div", { class: "ia-examples" }, ...examples.map((text) => this.example(text))),
      h("dl", { class: "ia-keys" }, ...keys.flatMap(([key, text]) => [h("dt", { text: key }), h("dd", { text })])),
      this.approval(approve),
      h("div", { class: "ia-approval", text: first ?? "" }),
    );
  }

  /** @param {string | undefined} approve */
  approval(approve) {
    return h("div", { class: "ia-approval", text: approvalWords(approve).long });
  }

  /** @param {string} text */
  example(text) {
    const onclick = () => {
      this.store.draft.replace(text);
      this.store.show(new Changes("composer"));
      this.onChoose();
    };
    return h("button", { class: "ia-example", type: "button", text, onclick });
  }
}
