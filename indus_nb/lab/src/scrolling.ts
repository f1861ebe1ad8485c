/**
 * Scrolling along from a question to what is proposed below it.
 *
 * Contract: the notebook scrolls only down, only while the user has the question in sight and does not type in the
 * notebook, and never past the beginning of what is proposed. The focus stays where it is.
 */

import type { Notebook } from "@jupyterlab/notebook";
import { questionOf } from "../../front/notebook/page/static/src/dom.js";
import { focusedElement, isEmptyField, isTypingField } from "../../front/notebook/page/static/src/focus.js";

/** How long it may take until the question is shown. */
const FRAMES = 120;
/** How long the question must be in sight first: the notebook still scrolls to it. */
const RESTING_FRAMES = 5;
const GAP_PX = 8;

/** What is proposed, from its beginning to its ends. */
export interface Proposed {
  readonly beginning: Element;
  readonly ends: readonly Element[];
}

/** Whether the user writes in a cell of the notebook. */
export function isWritten({ node }: Notebook): boolean {
  const focused = focusedElement();
  return isTypingField(focused) && node.contains(focused) && !isEmptyField(focused);
}

/**
 * Bring what is proposed into sight, as much of it as fits, once the question was for a moment.
 *
 * @param isInSight returns whether the user has the question in sight, and is where they were
 * @param proposed returns nothing once the question is over
 */
export async function scrollAlong(
  notebook: Notebook,
  isInSight: () => boolean,
  proposed: () => Proposed | null,
): Promise<void> {
  let resting = 0;
  for (let frame = 0; frame < FRAMES && resting < RESTING_FRAMES; frame += 1) {
    await new Promise(requestAnimationFrame);
    resting = isInSight() ? resting + 1 : 0;
  }
  const found = proposed();
  if (resting < RESTING_FRAMES || !found?.beginning.isConnected || isWritten(notebook)) return;
  const { outerNode } = notebook;
  const view = outerNode.getBoundingClientRect();
  const end = Math.max(...found.ends.map((each) => each.getBoundingClientRect().bottom));
  const below = Math.min(end + GAP_PX - view.bottom, found.beginning.getBoundingClientRect().top - view.top);
  if (below > 0) outerNode.scrollTop += below;
}

/** Whether the end of a question of a cell, where its answers are, is in sight in the notebook. */
export function isAskedInSight({ isVisible, node, outerNode }: Notebook, id: string): boolean {
  const shown = node.querySelectorAll<HTMLElement>(".ia-dialog:not([hidden])");
  const question = isVisible ? [...shown].find((each) => questionOf(each) === id) : undefined;
  if (!question) return false;
  const view = outerNode.getBoundingClientRect();
  const { bottom } = question.getBoundingClientRect();
  return bottom > view.top && bottom <= view.bottom;
}
