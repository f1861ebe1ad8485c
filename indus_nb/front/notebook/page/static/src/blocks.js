/**
 * The blocks of a run or a conversation, in order.
 *
 * Contract for hostile text:
 * - This is the only module that parses HTML, and it parses nothing but the HTML of blocks and of a question's layout.
 *   The kernel has sanitised that (`indus_nb.render.markup`): no scripts, handlers, styles of its own or addresses that
 *   a browser would run. Nothing from another field of a message may be passed to `parseSanitised`.
 * - It is parsed into a template, whose content is inert, and enters the document node by node.
 * - Whatever this page adds (`offerCell`) is made with `h`, as text.
 *
 * Contract for long conversations: every block has its place at once, and its content from the last block to the first,
 * as much as fits into `FILL_MS` at a time. Between these times the page answers the user. At least one block is filled
 * at once, so one that grows is never behind. Blocks lie in groups of `GROUP_BLOCKS`, for with every step of scrolling
 * the browser looks at each element whose content it may leave out.
 */

import { offerCopies, pieceAfter } from "./copying.js";
import { h, isOwn, markOwn, morph } from "./dom.js";
import { linkNumbers, unlinkNumbers } from "./found.js";
import { markOutdated } from "./outdated.js";

/** @import { Changes } from "./changes.js" */
/** @import { Store } from "./store.js" */

const TYPESET_PAUSE_MS = 400;
const FILL_MS = 8;
const GROUP_BLOCKS = 10;

/**
 * A block as it is shown; `html` is `null` until its content is there.
 *
 * @typedef {object} ShownBlock
 * @property {HTMLElement} node
 * @property {string | null} html
 * @property {readonly (readonly string[])[] | undefined} [found] its numbers that lead to cards
 * @property {ReturnType<typeof setTimeout>} [timer]
 */

/**
 * Parse HTML that the kernel has sanitised.
 *
 * @param {string} sanitised
 */
export function parseSanitised(sanitised) {
  const template = document.createElement("template");
  template.innerHTML = sanitised;
  return template.content;
}

export class BlockList {
  /**
   * @param {Store} store
   * @param {(key: string, node: HTMLElement) => void} onDrop is called before a block is removed
   */
  constructor(store, onDrop) {
    this.store = store;
    this.onDrop = onDrop;
    /** @type {Map<string, ShownBlock>} */
    this.shown = new Map();
    /** Keys of blocks whose content is not what it should be, in the order in which they changed.
     * @type {Set<string>} */
    this.outdated = new Set();
    /** Keys of blocks that changed since they were announced.
     * @type {Set<string>} */
    this.unannounced = new Set();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.filling = undefined;
    this.node = h("div", {
      class: "ia-area jp-RenderedHTMLCommon",
      role: "log",
      "aria-live": "off",
      "aria-label": "Agent",
      onclick: (/** @type {MouseEvent} */ event) => this.noteOpened(event),
    });
  }

  /** @param {Changes} changes */
  show(changes) {
    const { blocks } = this.store.mirror;
    if (!changes.everything) {
      for (const key of changes.blocks) this.update(key);
      this.fill();
      return;
    }
    for (const key of [...this.shown.keys(), ...blocks.keys()]) this.update(key);
    this.outdated = new Set([...blocks.keys()].filter((key) => this.outdated.has(key)));
    this.order([...blocks.keys()].flatMap((key) => this.shown.get(key)?.node ?? []));
    this.fill();
  }

  /**
   * Add a block behind all others.
   *
   * @param {HTMLElement} node
   */
  append(node) {
    let group = this.node.lastElementChild;
    if (!group || group.childElementCount >= GROUP_BLOCKS)
      group = this.node.appendChild(h("div", { class: "ia-group" }));
    group.append(node);
  }

  /**
   * Give the blocks their order, unless they have it: what is moved loses the focus.
   *
   * @param {HTMLElement[]} nodes
   */
  order(nodes) {
    const are = this.node.querySelectorAll(".ia-block");
    if (nodes.every((node, index) => node === are[index])) return;
    this.node.replaceChildren();
    for (const node of nodes) this.append(node);
  }

  /**
   * Give a block its place, or take it away, and note whether its content has to follow.
   *
   * @param {string} key
   */
  update(key) {
    const html = this.store.mirror.blocks.get(key);
    if (html === undefined) {
      this.drop(key);
      return;
    }
    let block = this.shown.get(key);
    if (!block) {
      block = { node: h("div", { class: "ia-block", "data-block": key }), html: null };
      this.shown.set(key, block);
      this.append(block.node);
    }
    if (block.html !== html || block.found !== this.store.mirror.found.get(key)) this.outdated.add(key);
  }

  /** Fill outdated blocks from the last to the first for `FILL_MS`, and the others a moment later. */
  fill() {
    clearTimeout(this.filling);
    const until = performance.now() + FILL_MS;
    for (const key of [...this.outdated].reverse()) {
      this.fillBlock(key);
      if (performance.now() > until) break;
    }
    if (this.outdated.size > 0) this.filling = setTimeout(() => this.fill());
  }

  /** @param {string} key */
  fillBlock(key) {
    this.outdated.delete(key);
    const block = this.shown.get(key);
    const html = this.store.mirror.blocks.get(key);
    if (!block || html === undefined) return;
    const content = parseSanitised(html);
    this.unannounced.add(key);
    this.keepOpened(key, content);
    unlinkNumbers(block.node);
    morph(block.node, content);
    block.html = html;
    block.found = this.store.mirror.found.get(key);
    linkNumbers(block.node, block.found, (card) => this.shown.get(`${card}`)?.node.querySelector(".indus-call"));
    for (const code of block.node.querySelectorAll(".indus-call .indus-code")) this.offerCell(code);
    offerCopies(block.node, key, this.store);
    const before = this.shown.get(pieceAfter(key, -1));
    if (before) offerCopies(before.node, pieceAfter(key, -1), this.store);
    if (this.store.state.outdated) this.markOutdated(block.node);
    this.typesetSoon(block);
  }

  /**
   * Mark values in answers that do not hold.
   *
   * @param {Element} root
   */
  markOutdated(root = this.node) {
    markOutdated(root, this.store.state.outdated?.values ?? []);
  }

  /** @param {string} key */
  drop(key) {
    const block = this.shown.get(key);
    if (!block) return;
    this.outdated.delete(key);
    this.unannounced.delete(key);
    this.onDrop(key, block.node);
    const group = block.node.parentElement;
    block.node.remove();
    if (group?.childElementCount === 0) group.remove();
    this.shown.delete(key);
    this.store.announced.delete(key);
  }

  /**
   * Add a button to the card of a call whose code can become a cell.
   *
   * @param {Element} code
   */
  offerCell(code) {
    const card = code.closest(".indus-call");
    if (!card || isOwn(card.lastChild) || !this.store.notebook) return;
    const send = () => {
      const shown = card.querySelector(".indus-code pre") ?? card.querySelector(".indus-code"); // without its buttons
      const source = shown?.textContent ?? "";
      this.store.send({ kind: "to_cell", code: source.replace(/\n+$/, "") });
    };
    const title = "Put this code into a new cell";
    const button = h("button", { class: "ia-to-cell", type: "button", title, text: "To cell", onclick: send });
    markOwn(button);
    card.append(button);
  }

  /** Fill no more: the view is gone. */
  stop() {
    clearTimeout(this.filling);
  }

  /** @param {MouseEvent} event */
  noteOpened(event) {
    const summary = event.target instanceof Element ? event.target.closest("summary") : null;
    const details = summary?.parentElement;
    const node = details?.closest(".ia-block");
    const key = [...this.shown].find(([, block]) => block.node === node)?.[0];
    if (!node || !(details instanceof HTMLDetailsElement) || key === undefined) return;
    const index = [...node.querySelectorAll("details")].indexOf(details);
    const opened = this.store.opened.get(key) ?? new Map();
    opened.set(index, !details.open); // the click turns it only after this
    this.store.opened.set(key, opened);
    if (!details.open && this.store.kind === "panel") this.store.follow = false; // the user reads here
  }

  /**
   * @param {string} key
   * @param {DocumentFragment} content
   */
  keepOpened(key, content) {
    const opened = this.store.opened.get(key);
    if (!opened) return;
    const details = content.querySelectorAll("details");
    for (const [index, open] of opened) details[index]?.toggleAttribute("open", open);
  }

  /**
   * Have formulas typeset, if the front end can, once a block has not changed for a while.
   *
   * @param {ShownBlock} block
   */
  typesetSoon(block) {
    if (!block.node.textContent.includes("$")) return;
    clearTimeout(block.timer);
    block.timer = setTimeout(() => {
      const typesetter = this.store.model.widget_manager?._rendermime?.latexTypesetter;
      for (const answer of block.node.querySelectorAll(".indus-answer")) typesetter?.typeset(answer);
    }, TYPESET_PAUSE_MS);
  }
}
