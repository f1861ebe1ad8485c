/**
 * Where in this document a question is shown, and whether it can be seen there.
 *
 * Contract: the cell that asks shows all of its question, and a panel leaves the details to it as long as enough of it
 * is in sight there: half of the question, or as much as half of the window. The browser says so of the element itself,
 * so what is scrolled away, folded, removed or in a notebook behind another one is not in sight. A question is announced
 * once, by whichever view. Documents know nothing of each other: where each output has a frame of its own, a panel
 * shows all.
 */

import { nameOfCell } from "./cell_name.js";

/** @import { View } from "./view.js" */

const ENOUGH = 0.5;
/** Shares of a question at which the browser says how much of it is in sight. */
const STEPS = Array.from({ length: 21 }, (_, step) => step / 20);

/** Those of all views in this document.
 * @type {Set<Sight>} */
const sights = new Set();
/** The ids of the questions that were announced, or took the focus, which announces them.
 * @type {Set<string>} */
const announced = new Set();

/** What one view shows of a question. */
export class Sight {
  /**
   * @param {View} view
   * @param {() => void} onChange called when any view of the question is more or less in sight, or gone
   */
  constructor(view, onChange) {
    this.view = view;
    this.onChange = onChange;
    /** The id of the question.
     * @type {string | null} */
    this.id = null;
    /** Whether anything of it is in sight. */
    this.isTouched = false;
    /** Whether enough of it is; `null` as long as that is not known.
     * @type {boolean | null} */
    this.isEnough = null;
    this.observer = new IntersectionObserver((entries) => this.note(entries.at(-1)), { threshold: STEPS });
    sights.add(this);
  }

  /**
   * Watch the element of a question.
   *
   * @param {string} id
   * @param {Element} box
   */
  begin(id, box) {
    this.id = id;
    this.observer.observe(box);
  }

  /** Watch nothing any more: the question is over, or the view is gone. */
  end() {
    const { id } = this;
    this.observer.disconnect();
    this.id = this.isEnough = null;
    this.isTouched = false;
    if (id === null) return;
    const others = [...sights].filter((sight) => sight.id === id);
    if (others.length === 0) announced.delete(id);
    for (const { onChange } of others) onChange();
  }

  /** The view is gone. */
  close() {
    sights.delete(this);
    this.end();
  }

  /** @param {IntersectionObserverEntry | undefined} entry */
  note(entry) {
    if (!entry || this.id === null) return;
    const { intersectionRatio, intersectionRect, isIntersecting, rootBounds } = entry;
    const share = intersectionRect.height / (rootBounds?.height ?? innerHeight);
    this.isTouched = isIntersecting;
    this.isEnough = isIntersecting && Math.max(intersectionRatio, share) >= ENOUGH;
    for (const { id, onChange } of sights) if (id === this.id) onChange();
  }

  /** Where the cell that asks shows the question of this panel; `null` in a cell, and where none does.
   * @returns {Sight | null} */
  get cell() {
    if (this.view.store.kind !== "panel" || this.id === null) return null;
    const cells = [...sights].filter(({ id, view }) => id === this.id && view.store.kind === "cell");
    return cells.find(({ isEnough }) => isEnough) ?? cells[0] ?? null;
  }

  /** Whether a cell of this document runs the conversation of this panel, and so is about to show its question. */
  get isAwaited() {
    const { kind, state } = this.view.store;
    if (kind !== "panel") return false;
    const stores = [...sights].map(({ view }) => view.store).filter((store) => store.kind === "cell");
    return stores.some(({ busy, ended, state: other }) => busy && !ended && other.session?.id === state.session?.id);
  }

  /**
   * Name the cell of this view; with its notebook, if that is another one than that of `from`.
   *
   * @param {Sight} from
   */
  nameFrom(from) {
    const { model, notebook, path, place } = this.view.store;
    const cells = [...(notebook?.cells ?? [])];
    const index = cells.findIndex(({ id }) => id === model.get("cell"));
    if (index < 0) return "its cell";
    const numbers = cells.map(({ executionCount }) => executionCount ?? null);
    return `${nameOfCell(numbers, index)}${path === from.view.store.path ? "" : ` of ${place}`}`;
  }

  /**
   * Announce the question, unless that was done.
   *
   * @param {() => void} say
   */
  announce(say) {
    if (this.id === null || announced.has(this.id)) return;
    announced.add(this.id);
    say();
  }
}
