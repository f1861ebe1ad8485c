/**
 * The first line of a panel: the session's name, which model answers and how much it thinks, and the menu.
 *
 * Contract: what the user is writing or choosing there is not replaced by what the kernel sends meanwhile.
 */

import { h } from "./dom.js";

/** @import { ModelChoice, ModelId, SetThinking } from "../protocol.d.ts" */
/** @import { Store } from "./store.js" */

/** @typedef {Pick<ModelChoice, "provider" | "id" | "name">} ListedModel */

export class Header {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    /** The models in the order of the list.
     * @type {ListedModel[]} */
    this.models = [];
    this.modelsKey = "";
    this.levelsKey = "";
    this.name = this.makeName();
    this.model = h("select", {
      class: "ia-pick",
      "data-k": "model",
      "aria-label": "Model",
      onchange: () => this.chooseModel(),
    });
    this.level = h("select", {
      class: "ia-pick",
      "data-k": "level",
      "aria-label": "Thinking",
      onchange: () => this.chooseLevel(),
    });
    this.menu = this.makeMenu();
    this.more = h("button", {
      class: "ia-icon ia-fold",
      type: "button",
      "aria-label": "Menu",
      "aria-expanded": "false",
      text: "⋯",
      onclick: () => this.fold(this.isOpen),
    });
    this.node = h("div", { class: "ia-head" }, this.name, this.model, this.level, this.menu, this.more);
  }

  makeName() {
    const name = h("input", {
      class: "ia-name",
      "data-k": "name",
      "aria-label": "Name of the session",
      placeholder: "Unnamed session",
      spellcheck: "false",
    });
    name.addEventListener("change", () => this.store.send({ kind: "rename", name: name.value.trim() }));
    name.addEventListener("keydown", (event) => {
      if (event.key === "Escape") name.value = this.store.state.session?.name ?? "";
      if (event.key !== "Escape" && event.key !== "Enter") return;
      event.preventDefault();
      name.blur();
    });
    return name;
  }

  makeMenu() {
    const { store } = this;
    return h(
      "div",
      { class: "ia-menu", role: "group", "aria-label": "Session" },
      this.item("New", "Begin a new session", () => store.send({ kind: "new" })),
      this.item("Sessions", "Go on with another session", () => store.open("sessions")),
      this.item("Tree", "Go back to an earlier point, or fork there", () => store.open("tree")),
      this.item("Compact", "Summarise what was said so far", () => store.send({ kind: "compact" })),
      this.item("Export", "Download the session as a web page", () => {
        store.download.wanted = true;
        store.send({ kind: "export" });
      }),
    );
  }

  /**
   * @param {string} text
   * @param {string} title
   * @param {() => void} act
   */
  item(text, title, act) {
    const onclick = () => {
      this.fold(true);
      act();
    };
    return h("button", { class: "ia-item", type: "button", "data-k": text, title, text, onclick });
  }

  /** Whether the menu is unfolded, where there is no room for it in the line. */
  get isOpen() {
    return this.menu.classList.contains("ia-open");
  }

  /** @param {boolean} folded */
  fold(folded) {
    if (folded && this.isOpen && this.menu.contains(document.activeElement)) this.more.focus();
    this.menu.classList.toggle("ia-open", !folded);
    this.more.setAttribute("aria-expanded", String(!folded));
  }

  chooseModel() {
    const chosen = this.models[this.model.selectedIndex];
    if (chosen) this.store.send({ kind: "set_model", provider: chosen.provider, id: chosen.id });
  }

  chooseLevel() {
    const level = /** @type {SetThinking["level"]} */ (this.level.value);
    this.store.send({ kind: "set_thinking", level });
  }

  show() {
    const { session, models = [], current_model: current, levels = [], level } = this.store.state;
    if (document.activeElement !== this.name) this.name.value = session?.name ?? "";
    this.showModels(models, current ?? null);
    this.showLevels(levels, level ?? "");
  }

  /**
   * @param {ListedModel[]} models
   * @param {ModelId | null} current is listed first if `models` does not hold it
   */
  showModels(models, current) {
    /** @param {ModelId} model */
    const isCurrent = (model) => model.provider === current?.provider && model.id === current?.id;
    const listed = models.some(isCurrent) || !current ? models : [{ ...current, name: current.id }, ...models];
    const key = JSON.stringify(listed);
    if (key !== this.modelsKey) {
      this.modelsKey = key;
      /** @type {Map<string, ListedModel[]>} */
      const groups = new Map(listed.map(({ provider }) => [provider, []]));
      for (const model of listed) groups.get(model.provider)?.push(model);
      this.models = [...groups.values()].flat();
      this.model.replaceChildren(
        ...[...groups].map(([label, group]) =>
          h("optgroup", { label }, ...group.map(({ name, id }) => h("option", { text: name || id }))),
        ),
      );
    }
    this.model.selectedIndex = this.models.findIndex(isCurrent);
    this.model.title = current ? `${current.provider} · ${current.id}` : "";
  }

  /**
   * @param {string[]} levels
   * @param {string} level
   */
  showLevels(levels, level) {
    const key = levels.join();
    if (key !== this.levelsKey) {
      this.levelsKey = key;
      const text = (/** @type {string} */ name) => (name === "off" ? "no thinking" : `${name} thinking`);
      this.level.replaceChildren(...levels.map((name) => h("option", { value: name, text: text(name) })));
    }
    this.level.value = level;
    this.level.hidden = levels.length < 2;
  }
}
