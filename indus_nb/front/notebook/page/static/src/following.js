/**
 * The place of a run in the notebook: what is read stays in view while the run grows, and while its views are replaced.
 *
 * Contract: the notebook stays where the user left it until the answer fills the window; from then on it scrolls along
 * with the end. Once the user scrolls up, away from the end, nothing scrolls until they are back at it. All of this lasts
 * from the first view of a run to `AFTER_MS` after its last one, for what then stands in its place comes a moment later.
 */

import { h } from "./dom.js";
import { focusedElement, isTypingField } from "./focus.js";
import { showWhole } from "./notebook.js";
import { NEAR_END_PX, NEXT_VIEW_MS } from "./view.js";

/** @import { Store } from "./store.js" */

const AFTER_MS = 1000;
const GAP_PX = 8;
const LONG_PX = 900;
const BOXED = "jp-mod-outputsScrolled";

export class Follower {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    /** The view that grows, or the one that did last.
     * @type {HTMLElement | null} */
    this.root = null;
    /** All outputs of its cell.
     * @type {HTMLElement | null} */
    this.area = null;
    /** The element that scrolls, as it was found last.
     * @type {HTMLElement | null} */
    this.found = null;
    /** Where that is scrolled to, as far as is known, in px. */
    this.top = 0;
    /** Where somebody else than this class has scrolled it to, in px. */
    this.rest = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.ending = undefined;
    /** Where the view is in the cell's output, and how high that and its last line are, in px. */
    this.box = { left: 0, width: 0, height: 0, foot: 0 };
    /** What stands for a view that is gone, until the next one is there.
     * @type {HTMLElement | null} */
    this.standIn = null;
    /** @type {ResizeObserver | undefined} */
    this.resized = undefined;
    this.noteScroll = this.noteScroll.bind(this);
  }

  /**
   * Follow a new view.
   *
   * @param {HTMLElement} root
   */
  attach(root) {
    clearTimeout(this.ending);
    this.removeStandIn();
    this.root = root;
    const area = root.closest(".jp-OutputArea");
    if (area instanceof HTMLElement && area !== this.area) {
      this.resized?.disconnect();
      this.resized = new ResizeObserver(() => this.update());
      this.resized.observe(area);
      this.area = area;
    }
    this.update();
  }

  /**
   * A view is gone: the next one follows in a moment, or what the run has come to.
   *
   * @param {HTMLElement} root
   * @param {HTMLElement} foot what is to be seen of it until then
   */
  detach(root, foot) {
    if (root !== this.root) return;
    if (this.store.busy) this.showStandIn(foot);
    clearTimeout(this.ending);
    this.ending = setTimeout(() => this.end(), AFTER_MS);
  }

  end() {
    this.resized?.disconnect();
    this.use(null);
    this.root = this.area = null;
  }

  /**
   * Keep the cells below in place, and the line with Stop in sight. The view may be out of the document by now.
   *
   * @param {HTMLElement} foot
   */
  showStandIn(foot) {
    const { area, box } = this;
    if (!area?.isConnected) return;
    this.removeStandIn();
    const standIn = h("div", { class: "ia-root ia-stand-in" }, foot);
    standIn.style.left = `${box.left}px`;
    standIn.style.width = `${box.width}px`;
    area.style.minHeight = `${box.height}px`;
    area.style.paddingBottom = `${box.foot}px`;
    area.classList.add("ia-held");
    area.append(standIn);
    this.standIn = standIn;
    setTimeout(() => {
      if (this.standIn === standIn) this.removeStandIn();
      if (this.standIn === null) area.style.minHeight = "";
    }, NEXT_VIEW_MS);
  }

  removeStandIn() {
    this.standIn?.remove();
    this.standIn = null;
    this.area?.style.removeProperty("padding-bottom");
    this.area?.classList.remove("ia-held");
  }

  /**
   * Listen to another element that scrolls.
   *
   * @param {HTMLElement | null} scroller
   */
  use(scroller) {
    if (scroller === this.found) return;
    this.found?.removeEventListener("scroll", this.noteScroll);
    this.found?.style.removeProperty("overflow-anchor");
    this.found = scroller;
    this.top = this.rest = scroller?.scrollTop ?? 0;
    scroller?.addEventListener("scroll", this.noteScroll, { passive: true });
  }

  /** Find the nearest element around that scrolls. */
  scroller() {
    if (this.found?.isConnected && overflows(this.found)) return this.found;
    let node = this.root?.isConnected ? this.root.parentElement : this.area;
    while (node && !(overflows(node) && /auto|scroll/.test(getComputedStyle(node).overflowY)))
      node = node.parentElement;
    this.use(node);
    return node;
  }

  /**
   * How much further down than the scrolled element the run ends, in px.
   *
   * @param {HTMLElement} scroller
   */
  distanceBelow(scroller) {
    const { area, root } = this;
    const whole = area && area !== scroller && scroller.contains(area) ? area : root;
    if (!whole?.isConnected) return 0;
    const end = whole.getBoundingClientRect().bottom - scroller.getBoundingClientRect().bottom;
    return end + Math.max(0, this.editorBelow(scroller, whole));
  }

  /**
   * How much further down than the run an editor ends in which the user types, the next cell's for instance, in px.
   *
   * @param {HTMLElement} scroller
   * @param {HTMLElement} whole
   */
  editorBelow(scroller, whole) {
    const active = focusedElement();
    if (!isTypingField(active) || !scroller.contains(active) || whole.contains(active)) return 0;
    const distance = active.getBoundingClientRect().bottom - whole.getBoundingClientRect().bottom;
    return distance < scroller.clientHeight / 2 ? distance : 0;
  }

  /** Whether the end is in sight, or nearly. */
  nearEnd() {
    return this.distanceBelow(this.scroller() ?? document.documentElement) < NEAR_END_PX;
  }

  noteScroll() {
    const scroller = this.found;
    if (!scroller) return;
    const { scrollTop } = scroller;
    if (Math.abs(scrollTop - this.top) > 2) {
      if (this.distanceBelow(scroller) < NEAR_END_PX) this.store.follow = true;
      else if (scrollTop < this.top) this.store.follow = false;
      this.rest = scrollTop;
    }
    this.top = scrollTop;
    // The browser keeps what it takes for read in place, which is the next cell when that is selected.
    scroller.style.setProperty("overflow-anchor", this.store.follow ? "none" : "auto");
  }

  /** Remember the place of the view: it is told that it is gone when nothing can be measured any more. */
  measure() {
    const { area, root } = this;
    const foot = root?.querySelector(".ia-foot");
    if (!area || !foot || !root?.isConnected || this.standIn) return;
    const outer = area.getBoundingClientRect();
    const inner = root.getBoundingClientRect();
    const { height } = foot.getBoundingClientRect();
    this.box = { left: inner.left - outer.left, width: inner.width, height: outer.height, foot: height };
  }

  /** Keep Notebook 7 from showing a long run in a low box that scrolls: it does so unless the cell says otherwise. */
  unbox() {
    const { area } = this;
    const cell = area?.closest(".jp-Cell");
    if (!area || !(cell instanceof HTMLElement) || !document.body.dataset.notebook) return;
    if (area.scrollHeight < LONG_PX) return;
    if (showWhole(this.store.notebook, Number(cell.dataset.windowedListIndex))) cell.classList.remove(BOXED);
  }

  /** Scroll, if the user follows the end. */
  update() {
    this.unbox();
    this.measure();
    const scroller = this.scroller();
    if (!scroller) return;
    this.noteScroll();
    if (!this.store.follow) return;
    const end = scroller.scrollTop + this.distanceBelow(scroller);
    const least = Math.max(this.rest, end + GAP_PX);
    // While something grows again after a dialog or a card was folded away, the rest need not move up and down.
    const most = this.store.busy ? Math.max(this.rest, end + scroller.clientHeight / 2) : least;
    const top = Math.min(Math.max(scroller.scrollTop, least), most);
    if (Math.abs(top - scroller.scrollTop) < 1) return;
    scroller.scrollTop = top;
    this.top = scroller.scrollTop;
  }
}

/** @param {HTMLElement} node */
function overflows(node) {
  return node.scrollHeight > node.clientHeight + NEAR_END_PX;
}
