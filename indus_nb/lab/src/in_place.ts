/**
 * Asking at the cells of one notebook, and the reviews of what is proposed for it.
 *
 * Contract: a cell has its old source until the kernel changes it, which it does only after the user accepted. What
 * the user writes into a cell meanwhile is kept, and ends what was proposed for it.
 */

import type { Cell } from "@jupyterlab/cells";
import type { CommandRegistry } from "@lumino/commands";
import type { PanelLayout } from "@lumino/widgets";
import { questionOf } from "../../front/notebook/page/static/src/dom.js";
import type { Draft, EditOver, Review, ShownCell } from "./door.ts";
import { cellOf, Drawing } from "./drawing.ts";
import { EditBox } from "./edit_box.ts";
import { takeMended } from "./errors.ts";
import type { Link } from "./link.ts";
import { dialogIn } from "./mark.ts";
import { nameOf } from "./names.ts";
import { answerPageRequests, askForMissed } from "./pages.ts";
import { isAskedInSight, isWritten, scrollAlong } from "./scrolling.ts";

type Where = "above" | "below";

const CHANGED = "The cell was changed meanwhile, so what was proposed for it was put away. Ask again.";
const LOST = "The kernel is gone. Nothing was changed.";
const SELECT = "Select one of these cells, and press the key again.";
const REVIEWING = "indus_nb-mod-reviewing";
/** The keys that mean an answer in the agent's widgets, by its kind. */
const CHORDS = {
  yes: { key: "y" },
  more: { key: "Y", shiftKey: true },
  no: { key: "n" },
};

/** The kinds of answers that have a command. */
export type Kind = keyof typeof CHORDS;

/** What dialogs elsewhere in the page need to point to a review. */
export interface ShownInPlace {
  /** The name of the cell that it stands at. */
  readonly cell: string;
  /** The box with its answers, which may be out of sight. */
  readonly box: HTMLElement;
  /** The end of each cell that is proposed; once all were in sight a yes is taken. */
  readonly ends: readonly HTMLElement[];
  /** Bring it into sight, with the focus on its answers. */
  show(): Promise<void>;
}

/** A question that waits in the notebook, and the cells that it is at. */
interface Asked {
  readonly edit?: Edit;
  /** What shows it in a widget of the agent's, where nothing is proposed in place. */
  readonly box?: HTMLElement;
  readonly cells: Set<Cell>;
}

/** All that is asked and proposed in a notebook. */
export class InPlace {
  private readonly edits = new Set<Edit>();

  constructor(
    readonly link: Link,
    readonly commands: CommandRegistry,
  ) {
    answerPageRequests(link);
    askForMissed(link);
    link.on("draft", (message) => this.byRequest(message.id)?.draft(message));
    link.on("review", (message) => this.review(message));
    link.on("review_over", ({ id }) => this.byReview(id)?.close());
    link.on("edit_over", (message) => this.byRequest(message.id)?.over(message));
    let wasReady = false;
    link.changed.connect(() => {
      const isReady = link.state.phase === "ready";
      if (wasReady && !isReady) for (const edit of this.edits) edit.lose();
      wasReady = isReady;
    });
  }

  /** Open the box at a cell; where one is open it is written in. */
  ask(cell: Cell, where: Where): void {
    const edits = [...this.edits];
    const open = edits.find((edit) => edit.hasFocus) ?? edits.find((edit) => edit.isAt(cell, where));
    if (open) open.focus();
    else this.make(cell, where).focus();
  }

  /**
   * Answer the question that the user is at with the first answer of a kind: the one whose box has the focus, else that of
   * the active cell, else the only one of the notebook.
   *
   * @returns what the user reads where nothing was answered, else ""
   */
  answer(kind: Kind): string {
    const { activeCell } = this.link.notebook.content;
    const asked = this.asked();
    const focused = asked.filter(({ edit }) => edit?.hasFocus);
    const active = asked.filter(({ cells }) => activeCell && cells.has(activeCell));
    const [found, ...others] = [focused, active, asked].find(({ length }) => length > 0) ?? [];
    if (!found) return "";
    if (others.length > 0) return `Questions wait at ${this.placesOf([found, ...others])}. ${SELECT}`;
    const { box, edit } = found;
    const value = edit?.choice(kind);
    if (edit && value === undefined) return `The question at ${this.placesOf([found])} does not have that answer.`;
    if (edit && value !== undefined) edit.answer(value);
    else box?.dispatchEvent(new KeyboardEvent("keydown", { ...CHORDS[kind], altKey: true, bubbles: true }));
    return "";
  }

  /** All questions that wait in the notebook: reviews, and those of the agent's widgets in cells. */
  private asked(): Asked[] {
    const { widgets } = this.link.notebook.content;
    const asked = new Map<string, Asked>();
    for (const edit of this.edits)
      if (edit.review)
        asked.set(edit.review.id, { edit, cells: new Set(widgets.filter((cell) => edit.concerns(cell))) });
    for (const cell of widgets) {
      const box = dialogIn(cell.node);
      if (!box) continue;
      const id = questionOf(box) ?? "";
      const known = asked.get(id);
      if (known) known.cells.add(cell);
      else asked.set(id, { box, cells: new Set([cell]) });
    }
    return [...asked.values()];
  }

  private placesOf(asked: readonly Asked[]): string {
    const { widgets } = this.link.notebook.content;
    const indices = asked.map(({ edit, cells }) => edit?.index ?? widgets.findIndex((cell) => cells.has(cell)));
    return [...new Set(indices)].map((index) => nameOf(widgets, index)).join(" and at ");
  }

  /** What a review shows in the notebook, and where; `null` for one that shows no cells, or is over. */
  shown(id: string): ShownInPlace | null {
    return this.byReview(id)?.shown ?? null;
  }

  get reviews(): boolean {
    return [...this.edits].some((edit) => edit.review);
  }

  drop(edit: Edit): void {
    this.edits.delete(edit);
    this.mark();
  }

  mark(): void {
    this.link.notebook.content.toggleClass(REVIEWING, this.reviews);
  }

  private review(message: Review): void {
    const { content } = this.link.notebook;
    const known = this.byReview(message.id) ?? (message.request ? this.byRequest(message.request) : undefined);
    if (known) {
      known.show(message);
      known.followBox();
    } else if (message.cells.length > 0 && Drawing.fits(content, message.cells)) {
      const [first] = message.cells as [ShownCell];
      const cell = cellOf(content, first.cell ?? first.after);
      for (const edit of this.edits) edit.giveWay(cell);
      const made = cell && this.make(cell, first.cell === null ? "below" : "above");
      made?.show(message);
      if (takeMended(this.link, first.cell)) made?.bringIntoSight();
      else made?.followQuestion();
    }
    this.mark();
  }

  private make(cell: Cell, where: Where): Edit {
    const edit = new Edit(this, cell, where);
    this.edits.add(edit);
    return edit;
  }

  private byRequest(id: string): Edit | undefined {
    return [...this.edits].find((edit) => edit.request === id);
  }

  private byReview(id: string): Edit | undefined {
    return [...this.edits].find((edit) => edit.review?.id === id);
  }
}

/** A box at a cell, with what is drawn for it. */
class Edit {
  request: string | null = null;
  review: Review | null = null;
  private settled = false;
  /** Where the notebook was scrolled to when the user asked here last, in px. */
  private askedAt: number | null = null;
  private readonly drawing: Drawing;
  private box: EditBox;
  /** The ends of cells that were not in sight yet. */
  private readonly unseen = new Set<Element>();
  private readonly sights = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) this.unseen.delete(target);
  });

  constructor(
    private readonly owner: InPlace,
    private cell: Cell,
    private readonly where: Where,
  ) {
    this.drawing = new Drawing(this.notebook, () => this.touched());
    this.box = this.placed();
  }

  /** A new box at the cell. */
  private placed(): EditBox {
    const { cell, owner, where } = this;
    const { id } = cell.model;
    const title = where === "above" ? "Ask for a change of this cell" : "Ask for new cells below this one";
    const box = new EditBox(title, {
      send: (instruction) => this.send(instruction),
      answer: (value) => this.answer(value),
      leave: () => this.leave(),
      save: () => owner.link.notebook.context.save(),
      press: (event) => owner.commands.processKeydownEvent(event),
    });
    const layout = cell.layout as PanelLayout;
    layout.insertWidget(where === "above" ? 0 : layout.widgets.length, box);
    cell.disposed.connect(() => (this.notebook.isDisposed ? this.leave() : queueMicrotask(() => this.follow(id))));
    return box;
  }

  /** Go on where the cell is now, if it was moved: JupyterLab makes a new one of it. */
  private follow(id: string): void {
    const { request, review } = this;
    const cell = cellOf(this.notebook, id);
    if (!cell || (request === null && !review)) {
      this.leave();
      return;
    }
    this.cell = cell;
    this.box = this.placed();
    if (review) this.show(review);
    else this.box.wait("The agent writes …");
  }

  private get notebook() {
    return this.owner.link.notebook.content;
  }

  isAt(cell: Cell, where: Where): boolean {
    return this.cell === cell && (this.where === where || this.review !== null);
  }

  /** Go where it only says how something ended, and something else is proposed for its cell. */
  giveWay(cell: Cell | undefined): void {
    if (this.cell === cell && this.request === null && !this.review && this.box.isIdle) this.dispose();
  }

  /** Whether it is proposed at a cell, or for it. */
  concerns(cell: Cell): boolean {
    return this.cell === cell || this.review?.cells.some((each) => each.cell === cell.model.id) === true;
  }

  /** The index of the cell at which it stands. */
  get index(): number {
    return this.notebook.widgets.indexOf(this.cell);
  }

  get hasFocus(): boolean {
    return this.box.hasFocus;
  }

  focus(): void {
    if (this.review) this.box.askAgain();
    else if (this.request === null) this.box.write();
    else this.box.focus();
    this.box.node.scrollIntoView({ block: "nearest" });
  }

  get shown(): ShownInPlace | null {
    const { index } = this;
    if (!this.review?.cells.length || index < 0) return null;
    const show = async () => {
      const [end] = this.unseen; // of several that no window shows at once each in its turn
      await (end ? this.scrollToEnd(end) : this.scrollTo(index));
      this.box.focusAnswers();
    };
    const { ends } = this.drawing;
    return { cell: nameOf(this.notebook.widgets, index), box: this.box.node, ends, show };
  }

  /** Bring what is proposed into sight, unless the user writes in the notebook; the focus stays where it is. */
  async bringIntoSight(): Promise<void> {
    if (!isWritten(this.notebook)) await this.scrollTo(this.index);
  }

  /** Bring what is proposed into sight where the user has the question of the cell that asks in sight. */
  async followQuestion(): Promise<void> {
    const { id } = this.review ?? {};
    if (id === undefined) return;
    await this.scrollAlong(id, () => isAskedInSight(this.notebook, id));
  }

  /** Bring what is proposed into sight where the user has the box in sight and has not scrolled since asking in it. */
  async followBox(): Promise<void> {
    const { id } = this.review ?? {};
    if (id === undefined) return;
    await this.scrollAlong(id, () => {
      const { isVisible, outerNode } = this.notebook;
      const view = outerNode.getBoundingClientRect();
      const { top } = this.box.node.getBoundingClientRect();
      return isVisible && outerNode.scrollTop === this.askedAt && top >= view.top && top < view.bottom;
    });
  }

  private async scrollAlong(id: string, isInSight: () => boolean): Promise<void> {
    const proposed = () => (this.review?.id === id ? { beginning: this.box.node, ends: this.drawing.ends } : null);
    await scrollAlong(this.notebook, isInSight, proposed);
  }

  private async scrollTo(index: number): Promise<void> {
    await this.notebook.scrollToItem(index);
    this.box.node.scrollIntoView({ block: "nearest" });
    for (const end of this.drawing.ends) end.scrollIntoView({ block: "nearest" });
  }

  private async scrollToEnd(end: Element): Promise<void> {
    await this.notebook.scrollToItem(this.notebook.widgets.findIndex(({ node }) => node.contains(end)));
    end.scrollIntoView({ block: "nearest" });
  }

  choice(kind: Kind): string | undefined {
    return this.review?.choices.find((choice) => choice.kind === kind)?.value;
  }

  draft({ cells, done }: Draft): void {
    if (this.settled || this.review) return;
    this.drawing.draw(cells, done);
    this.box.wait("The agent writes …");
  }

  show(review: Review): void {
    const { content } = this.owner.link.notebook;
    if (Drawing.isOutdated(content, review.cells)) {
      this.review = review;
      this.touched();
      return;
    }
    this.review = review;
    this.settled = false;
    this.drawing.draw(review.cells, true);
    this.watchEnds();
    this.box.ask(review);
    this.owner.mark();
  }

  private watchEnds(): void {
    this.sights.disconnect();
    this.unseen.clear();
    for (const end of this.drawing.ends) {
      this.unseen.add(end);
      this.sights.observe(end);
    }
  }

  /** Answer the review, once all of it was in sight; what is drawn goes away before the kernel changes anything. */
  answer(value: string): void {
    const { review } = this;
    if (!review) return;
    const [end] = this.unseen;
    if (end && review.choices.find((choice) => choice.value === value)?.kind !== "no") {
      this.scrollToEnd(end);
      this.box.remind();
      return;
    }
    this.settle(value);
    if (this.request === null) this.dispose();
    else this.box.wait("One moment …");
  }

  over({ text, failed }: EditOver): void {
    const proposed = this.settled;
    this.end();
    if (failed || (text && !proposed)) this.box.say(text, failed);
    else this.dispose();
  }

  /** The review was answered elsewhere. */
  close(): void {
    this.review = null;
    this.settled = true;
    this.drawing.clear();
    this.owner.mark();
    if (this.request === null) this.dispose();
    else this.box.wait("One moment …");
  }

  /** The kernel does not answer any more. */
  lose(): void {
    if (this.request === null && !this.review) return;
    this.end();
    this.box.say(LOST, true);
  }

  private async send(instruction: string): Promise<void> {
    const { link } = this.owner;
    const no = this.review?.choices.find(({ kind }) => kind === "no");
    if (this.review && no) {
      this.settle(no.value, instruction);
      this.settled = false;
      this.askedAt = this.notebook.outerNode.scrollTop;
      if (this.request === null) this.dispose();
      else this.box.wait("The agent thinks …");
      return;
    }
    this.request = crypto.randomUUID();
    this.settled = false;
    this.box.wait("The agent thinks …");
    this.askedAt = this.notebook.outerNode.scrollTop;
    const isReady = await link.ensure();
    if (this.request === null) return;
    if (!isReady) {
      this.end();
      this.box.say(link.state.problem || "There is no agent in this kernel.", true);
      return;
    }
    const kind = this.where === "above" ? "edit" : "new_cells";
    link.send({ kind, id: this.request, cell: this.cell.model.id, instruction });
  }

  private settle(answer: string | null, reason: string | null = null): void {
    if (!this.review) return;
    const { id } = this.review;
    this.review = null;
    this.settled = true;
    this.drawing.clear();
    this.owner.mark();
    this.owner.link.send({ kind: "settle", id, answer, reason });
  }

  private touched(): void {
    this.withdraw();
    this.box.say(CHANGED, true);
  }

  private leave(): void {
    this.withdraw();
    this.dispose();
  }

  /** End what goes on in the kernel for this box. */
  private withdraw(): void {
    if (this.request !== null) this.owner.link.send({ kind: "drop", id: this.request });
    else this.settle(null);
    this.end();
  }

  private end(): void {
    this.request = null;
    this.review = null;
    this.drawing.clear();
    this.owner.mark();
  }

  private dispose(): void {
    this.sights.disconnect();
    this.drawing.clear();
    this.owner.drop(this);
    if (this.box.isDisposed) return;
    const had = this.box.hasFocus;
    this.box.dispose();
    if (had && !this.cell.isDisposed) this.notebook.activate();
  }
}
