/**
 * What a page says beside the end of a run and no file keeps: tokens, cost, seconds, which are others with each run.
 *
 * Contract: it is text, in the line that closes the run in the outputs of its cell, and goes with that line. A line that
 * says it by itself, since the kernel knew of no page that could, is left as it is.
 */

import { h } from "./dom.js";

/** How long the line may take to appear, or to move to where it stays. */
const SETTLES_MS = 3000;

/**
 * Write a text behind the last closing line of a cell, as soon as that is there.
 *
 * @param {Element | null} area the outputs of the cell; front ends without such an element show it in no place
 * @param {string} text
 */
export function drawBeside(area, text) {
  if (!area) return;
  const [begins = ""] = text.split(" · ");
  const draw = () => {
    const line = [...area.querySelectorAll(".indus-usage")].at(-1);
    if (line && !line.textContent?.includes(begins))
      line.append(h("span", { class: "ia-beside mathjax_ignore tex2jax_ignore", text: ` · ${text}` }));
  };
  const observer = new MutationObserver(draw);
  observer.observe(area, { childList: true, subtree: true });
  setTimeout(() => observer.disconnect(), SETTLES_MS);
  draw();
}
