/** Numbers in the answers of cells that a call has put out, and the way from them to its card. */

import type { CodeCell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { linkNumbers } from "../../front/notebook/page/static/src/found.js";
import { type Front, forEachNotebook } from "./front.ts";

/** Have such numbers lead there, in every notebook that is open, and in those to come. */
export function linkFoundNumbers(front: Front): void {
  forEachNotebook(front, ({ content, disposed }) => {
    let frame = 0;
    const drawSoon = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        draw(content);
      });
    };
    // Outputs are drawn a while after they came; what is typed is none.
    const changes = new MutationObserver((records) => {
      if (records.some(({ target }) => !(target instanceof Element && target.closest(".cm-editor")))) drawSoon();
    });
    changes.observe(content.node, { childList: true, subtree: true });
    disposed.connect(() => {
      changes.disconnect();
      cancelAnimationFrame(frame);
    });
    drawSoon();
  });
}

function draw({ widgets }: NotebookPanel["content"]): void {
  for (const cell of widgets) if (cell.model.type === "code") drawCell(cell as CodeCell);
}

function drawCell({ model, outputArea }: CodeCell): void {
  for (let index = 0; index < model.outputs.length; index++) {
    const ours = model.outputs.get(index).metadata.indus_nb;
    const node = outputArea.widgets[index]?.node;
    if (!node || ours === null || typeof ours !== "object" || !("found" in ours)) continue;
    linkNumbers(node, ours.found, (place) =>
      typeof place === "number" ? outputArea.node.querySelectorAll(".indus-call")[place] : null,
    );
  }
}
