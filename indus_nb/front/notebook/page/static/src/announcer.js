/**
 * Announces blocks to screen readers: whole sentences as they are finished, rather than a block each time it grows.
 *
 * Contract: no character is announced twice, by whichever view, and what was there before this page is not announced.
 * Only blocks that changed are looked at: to read the text of all of them again and again would hold up the page.
 */

import { h } from "./dom.js";
import { lengthOfSentences } from "./text.js";

/** @import { BlockList } from "./blocks.js" */
/** @import { Store } from "./store.js" */

const MAX_ANNOUNCEMENT_CHARACTERS = 2000;
const MAX_ANNOUNCEMENTS = 20;

export class Announcer {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.node = h("div", { class: "ia-announced", role: "log", "aria-live": "polite" });
  }

  /** @param {BlockList} blocks */
  update(blocks) {
    if (blocks.unannounced.size === 0) return;
    const last = [...blocks.shown.keys()].at(-1);
    for (const key of blocks.unannounced) {
      const done = !this.store.busy || key !== last;
      const node = blocks.shown.get(key)?.node;
      if (node) this.announce(key, node, done);
      if (done) blocks.unannounced.delete(key);
    }
  }

  /**
   * Announce what is new in a block.
   *
   * @param {string} key
   * @param {HTMLElement} node
   * @param {boolean} done whether it grows no more: then also what may be the beginning of a sentence
   */
  announce(key, node, done) {
    const { announced } = this.store;
    if (announced.get(key) === Number.POSITIVE_INFINITY) return;
    const answer = node.querySelector(".indus-answer");
    const text = (answer ?? node.querySelector(".indus-call summary, .indus-error, .indus-notice"))?.textContent ?? "";
    const before = announced.get(key) ?? 0;
    const rest = answer || !before ? text.slice(before) : "";
    const end = done || !answer ? rest.length : lengthOfSentences(rest);
    if (end <= 0) return;
    announced.set(key, before + end);
    const fresh = rest.slice(0, end).trim();
    if (fresh) this.say(fresh);
  }

  /** @param {string} text */
  say(text) {
    this.node.append(h("p", { text: text.slice(0, MAX_ANNOUNCEMENT_CHARACTERS) }));
    while (this.node.childElementCount > MAX_ANNOUNCEMENTS) this.node.firstChild?.remove();
  }
}
