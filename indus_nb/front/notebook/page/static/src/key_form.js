/**
 * A form for an API key.
 *
 * Contract: what is written in it is sent once, on the button, and then removed. It stands in no draft and no state, so
 * a view that is replaced has an empty field again.
 */

import { h, setText, uniqueId } from "./dom.js";
import { focusedElement, focusQuietly } from "./focus.js";

/** @import { KeyForm as Form } from "../protocol.d.ts" */
/** @import { Store } from "./store.js" */

export class KeyForm {
  /**
   * @param {Store} store
   * @param {() => void} [leave] gives the focus to what comes next, once the key that was sent from here is taken
   */
  constructor(store, leave = () => {}) {
    this.store = store;
    this.leave = leave;
    /** The providers and the place that are shown.
     * @type {string} */
    this.shown = "";
    const ids = { provider: uniqueId(), key: uniqueId(), problem: uniqueId() };
    this.provider = h("select", { class: "ia-key-provider", id: ids.provider });
    this.key = h("input", {
      ...{ class: "ia-key-field", id: ids.key, type: "password", autocomplete: "off", spellcheck: "false" },
      "aria-describedby": ids.problem,
      oninput: () => this.enable(),
    });
    this.keep = h("fieldset", { class: "ia-key-keep" });
    this.send = h("button", { class: "ia-primary", type: "submit", text: "Test and save" });
    this.problem = h("div", { class: "ia-problem", id: ids.problem, role: "alert", hidden: true });
    this.notes = h("div", { class: "ia-key-notes" });
    this.fields = h(
      "form",
      { class: "ia-key-fields", onsubmit: (/** @type {Event} */ event) => this.submit(event) },
      h("label", { for: ids.provider, text: "Provider" }),
      this.provider,
      h("label", { for: ids.key, text: "API key" }),
      this.key,
      this.keep,
      h("div", { class: "ia-key-end" }, this.send, h("span", { text: "The test is a request that costs nothing." })),
    );
    const heading = h("div", { class: "ia-heading", text: "A key for a model" });
    this.node = h("div", { class: "ia-key-form", hidden: true }, heading, this.fields, this.problem, this.notes);
  }

  show() {
    const form = this.store.ended ? null : this.store.state.keys;
    // Of a key that is being written the rest must not get into a field whose text is sent to a model.
    const isDone = this.key.value === "" && this.node.contains(focusedElement());
    this.node.hidden = !form;
    if (!form) {
      this.key.value = "";
      if (isDone) this.leave();
      return;
    }
    this.build(form);
    setText(this.problem, form.problem);
    this.enable();
  }

  /** @param {Form} form */
  build({ providers, provider, place, notes }) {
    const shown = JSON.stringify([providers, provider, place, notes]);
    if (shown === this.shown) return;
    this.shown = shown;
    this.fields.hidden = providers.length === 0;
    this.provider.replaceChildren(
      ...providers.map((each) => h("option", { value: each.provider, text: `${each.provider} (${each.model})` })),
    );
    this.provider.value = provider || (providers[0]?.provider ?? "");
    const places = place ? [`Keep it in ${place}`, "For this kernel only"] : ["For this kernel only"];
    const name = uniqueId();
    this.keep.replaceChildren(
      h("legend", { text: "Where it is kept" }),
      ...places.map((text, at) => {
        const button = h("input", { type: "radio", name, value: String(at), checked: at === 0 });
        return h("label", {}, button, text);
      }),
    );
    this.notes.replaceChildren(...notes.map((text) => h("p", { text })));
  }

  /** Enable the button when there is something to test. */
  enable() {
    const testing = Boolean(this.store.state.keys?.testing);
    this.send.disabled = testing || this.key.value.trim() === "";
    setText(this.send, testing ? "Testing …" : "Test and save");
  }

  /** @param {Event} event */
  submit(event) {
    event.preventDefault();
    const form = this.store.state.keys;
    const key = this.key.value.trim();
    if (!form || form.testing || !key) return;
    const chosen = this.keep.querySelector("input:checked");
    const keep = form.place !== "" && chosen instanceof HTMLInputElement && chosen.value === "0";
    this.key.value = "";
    focusQuietly(this.key); // the button is disabled meanwhile, and would lose the focus
    this.store.send({ kind: "key", provider: this.provider.value, key, keep });
  }
}
