/**
 * The first line of a panel: the session's name, which model answers and how much it thinks, and the menu.
 *
 * Contract: what the user is writing or choosing there is not replaced by what the kernel sends meanwhile.
 */

import { h, setText } from "./dom.js";
import { focusedElement } from "./focus.js";
import { closeButton } from "./status.js";
import { approvalWords, contextFill } from "./text.js";

/** @import { ModelChoice, ModelId, SetThinkingLevel } from "../protocol.d.ts" */
/** @import { PanelView } from "./panel_view.js" */
/** @import { Store } from "./store.js" */

/** @typedef {Pick<ModelChoice, "provider" | "id" | "name" | "price">} ListedModel */

const UNNAMED = "Unnamed session";
const UNDO = "Take back what the agent's last call changed in variables, files and cells";
const CELLS = "Write code that changes something as cells of the notebook, with its outputs";
const PLAN = "Have the next prompt planned first: nothing is changed before you say go";
const DOCK =
  "To keep the panel in sight, right-click it, choose “Create New View for Cell Output”, and drag the tab to where you want it.";

export class Header {
  /**
   * @param {Store} store
   * @param {PanelView} view
   */
  constructor(store, view) {
    this.store = store;
    this.view = view;
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
    this.approve = h("span", { class: "ia-approve", hidden: true });
    /** Buttons that stay pressed while a way of working is on.
     * @type {{ button: HTMLButtonElement, mode: "cells" | "plan" }[]} */
    this.switches = [];
    this.filled = h("span", { class: "ia-filled" });
    this.percent = h("span");
    const bar = h("span", { class: "ia-bar", "aria-hidden": "true" }, this.filled);
    this.context = h("span", { class: "ia-context", hidden: true }, bar, this.percent);
    this.undo = this.item("Undo", UNDO, () => store.send({ kind: "undo" }));
    this.dock = this.item("↗ Dock", DOCK, () => this.say(DOCK));
    this.hint = h("div", { class: "ia-hint", role: "note", hidden: true });
    this.menu = this.makeMenu();
    this.shortcuts = h(
      "div",
      { class: "ia-shortcuts", role: "group", "aria-label": "Session" },
      ...this.usual("short "),
    );
    this.more = h("button", {
      class: "ia-icon ia-fold",
      type: "button",
      "aria-label": "Menu",
      "aria-expanded": "false",
      text: "⋯",
      onclick: () => this.fold(this.isOpen),
    });
    const { approve, context, hint, level, menu, model, more, name, shortcuts } = this;
    this.node = h("div", { class: "ia-head" }, name, approve, context, model, level, shortcuts, more, menu, hint);
  }

  makeName() {
    const name = h("input", {
      class: "ia-name",
      "data-k": "name",
      "aria-label": "Name of the session",
      placeholder: UNNAMED,
      spellcheck: "false",
    });
    name.addEventListener("change", () => this.store.send({ kind: "set_session_name", name: name.value.trim() }));
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
      { class: "ia-menu", role: "group", "aria-label": "Menu" },
      h("div", { class: "ia-usual" }, ...this.usual("")),
      this.undo,
      this.item("Compact", "Summarise what was said so far", () => store.send({ kind: "compact" })),
      this.item("Export", "Download the session as a web page", () => store.export()),
      this.dock,
    );
  }

  /**
   * The buttons that stand in the line where there is room, and in the menu where there is not.
   *
   * @param {string} place makes their names for the focus differ
   */
  usual(place) {
    const { store, view } = this;
    return [
      this.switch("Cells", CELLS, "cells", place),
      this.switch("Plan", PLAN, "plan", place),
      this.item("New", "Begin a new session", () => store.send({ kind: "new_session" }), place),
      this.item("Sessions", "Go on with another session", () => store.open("sessions", view), place),
      this.item("Tree", "Go back to an earlier point, or fork there", () => store.open("tree", view), place),
    ];
  }

  /**
   * Show a sentence below the line until it is clicked.
   *
   * @param {string} text
   */
  say(text) {
    this.hint.replaceChildren(
      h("span", { text }),
      closeButton(() => this.hint.toggleAttribute("hidden", true)),
    );
    this.hint.hidden = false;
  }

  /**
   * @param {string} text
   * @param {string} title
   * @param {() => void} act
   * @param {string} [place]
   */
  item(text, title, act, place = "") {
    const onclick = () => {
      this.fold(true);
      act();
    };
    return h("button", { class: "ia-item", type: "button", "data-k": `${place}${text}`, title, text, onclick });
  }

  /**
   * A button for a way of working.
   *
   * @param {string} text
   * @param {string} title
   * @param {"cells" | "plan"} mode
   * @param {string} place
   */
  switch(text, title, mode, place) {
    const button = this.item(
      text,
      title,
      () => this.store.send({ kind: "switch", mode, on: !this.store.state[mode] }),
      place,
    );
    this.switches.push({ button, mode });
    return button;
  }

  /** Whether the menu is unfolded. */
  get isOpen() {
    return this.menu.classList.contains("ia-open");
  }

  /** @param {boolean} folded */
  fold(folded) {
    if (folded && this.isOpen && this.menu.contains(focusedElement())) this.more.focus();
    this.menu.classList.toggle("ia-open", !folded);
    this.more.setAttribute("aria-expanded", String(!folded));
  }

  chooseModel() {
    const chosen = this.models[this.model.selectedIndex];
    if (chosen) this.store.send({ kind: "set_model", provider: chosen.provider, modelId: chosen.id });
  }

  chooseLevel() {
    const level = /** @type {SetThinkingLevel["level"]} */ (this.level.value);
    this.store.send({ kind: "set_thinking_level", level });
  }

  show() {
    const { state } = this.store;
    const { approve, context, kernel, session, models = [], current_model: current, levels = [], level } = state;
    this.undo.hidden = !kernel;
    this.dock.hidden = !this.store.notebook;
    for (const { button, mode } of this.switches) {
      button.hidden = !kernel || state.log === true;
      button.setAttribute("aria-pressed", String(state[mode] === true));
    }
    const on = this.switches.filter(({ button, mode }) => this.menu.contains(button) && state[mode] === true);
    this.more.classList.toggle("ia-on", on.length > 0); // where there is no room, the switches are in the menu
    this.more.title = on.map(({ button }) => `${button.textContent} is on`).join(", ");
    const words = approvalWords(approve);
    setText(this.approve, words.short);
    this.approve.title = words.long;
    this.context.hidden = !context;
    if (context) {
      const { percent, text, title } = contextFill(context);
      this.filled.style.width = `${percent}%`;
      this.percent.textContent = text;
      this.context.title = title;
    }
    this.name.readOnly = state.log === true;
    if (focusedElement() !== this.name) this.name.value = session?.name ?? "";
    this.name.placeholder = session?.begins || UNNAMED;
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
    const listed =
      models.some(isCurrent) || !current ? models : [{ ...current, name: current.id, price: "" }, ...models];
    const key = JSON.stringify(listed);
    if (key !== this.modelsKey) {
      this.modelsKey = key;
      /** @type {Map<string, ListedModel[]>} */
      const groups = new Map(listed.map(({ provider }) => [provider, []]));
      for (const model of listed) groups.get(model.provider)?.push(model);
      this.models = [...groups.values()].flat();
      this.model.replaceChildren(
        ...[...groups].map(([label, group]) =>
          h(
            "optgroup",
            { label },
            ...group.map(({ name, id, price }) =>
              h("option", { text: [name || id, price].filter(Boolean).join(" · ") }),
            ),
          ),
        ),
      );
    }
    this.model.selectedIndex = this.models.findIndex(isCurrent);
    this.model.title = current ? `${current.provider} · ${current.id}\nUS dollars for a million tokens in / out` : "";
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
