/**
 * The box at a cell in which the user asks, watches, and answers what is proposed.
 *
 * Contract: it takes the focus only when it is opened to be written in, and passes it on within itself; a user who
 * types elsewhere is never interrupted. All text of the agent's is shown as text.
 */

import type { Message } from "@lumino/messaging";
import { Widget } from "@lumino/widgets";
import { isChord } from "../../front/notebook/page/static/src/keys.js";
import type { ReviewChoice } from "./door.ts";

export interface BoxActions {
  /** The user asks, or asks again. */
  send(instruction: string): void;
  /** The user answers with the value of a choice. */
  answer(value: string): void;
  /** The user ends what goes on, or closes the box. */
  leave(): void;
  /** The user saves the notebook. */
  save(): void;
  /** Run the command whose shortcut is for the box, if it is one. */
  press(event: KeyboardEvent): void;
}

export interface Question {
  readonly heading: string;
  readonly text: string;
  readonly choices: readonly ReviewChoice[];
  readonly default: string | null;
  readonly reason: boolean;
}

const UNSEEN = "Not all of it was in sight yet: look, and answer once more.";
const MAX_ROWS = 8;
const DEFAULT = "indus_nb-mod-default";

export class EditBox extends Widget {
  private readonly field = document.createElement("textarea");
  private readonly line = element("div", "indus_nb-box-line");
  private readonly text = element("pre", "indus_nb-box-text");
  private readonly buttons = element("div", "indus_nb-box-buttons");
  private question: Question | null = null;
  /** What the user asked last, which comes back where it was not carried out. */
  private asked = "";

  constructor(
    private readonly purpose: string,
    private readonly actions: BoxActions,
  ) {
    super();
    this.addClass("indus_nb-box");
    this.node.setAttribute("role", "group");
    this.node.setAttribute("aria-label", purpose);
    this.node.tabIndex = -1;
    // The notebook's shortcuts would take letters that are meant for the box.
    this.node.setAttribute("data-lm-suppress-shortcuts", "true");
    this.field.className = "indus_nb-box-field";
    this.field.rows = 1;
    this.field.hidden = true;
    this.field.addEventListener("input", () => this.grow());
    this.line.setAttribute("role", "status");
    this.node.append(this.line, this.text, this.field, this.buttons);
  }

  /** Let the user write, below what is said there already. */
  write(placeholder = this.purpose): void {
    if (this.field.hidden) this.open(placeholder);
    this.field.focus();
  }

  /** Say what goes on, with a button that ends it. */
  wait(line: string): void {
    const had = this.hasFocus;
    this.lay({ line, busy: true });
    this.addButton("Stop", "Escape", () => this.actions.leave());
    if (had) this.focus(); // the space bar of who writes on would press the button, and end it
  }

  /** Ask a question. */
  ask(question: Question): void {
    const had = this.hasFocus;
    this.lay({ line: question.heading, text: question.text });
    this.question = question;
    for (const { key, label, value } of question.choices) {
      const button = this.addButton(label, "", () => this.actions.answer(value));
      const mark = element("span", "indus_nb-box-key");
      mark.setAttribute("aria-hidden", "true");
      mark.textContent = `(${key})`;
      button.append(mark);
      button.classList.toggle(DEFAULT, value === question.default);
    }
    if (question.reason) this.addButton("Ask again", "", () => this.askAgain());
    if (had) this.focusAnswers();
  }

  /** Say why no answer was taken. */
  remind(): void {
    this.line.textContent = `${this.question?.heading ?? ""} ${UNSEEN}`;
    this.line.hidden = false;
  }

  /** Keep from the notebook what the user types while nothing can be written. */
  focus(): void {
    this.node.focus();
  }

  /** Focus the first answer, or a no where what a yes does cannot be taken back. */
  focusAnswers(): void {
    const [first] = this.buttons.children;
    const button = this.buttons.querySelector(`.${DEFAULT}`) ?? first;
    if (button instanceof HTMLElement) button.focus({ preventScroll: true });
  }

  /** Write what is wanted in the place of what is proposed. */
  askAgain(): void {
    if (this.question?.reason) this.write("What should be different?");
    else this.focus();
  }

  /** Say how it ended, and let the user write what comes next: after a problem, what was asked stands there again. */
  say(line: string, isProblem: boolean): void {
    const had = this.hasFocus;
    this.question = null;
    if (isProblem) this.field.value ||= this.asked;
    this.asked = "";
    this.open(this.purpose, { line, isProblem });
    if (had) this.field.focus();
  }

  /** Whether nobody writes in it. */
  get isIdle(): boolean {
    return !this.hasFocus && this.field.value === "";
  }

  get hasFocus(): boolean {
    return this.node.contains(document.activeElement);
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.node.addEventListener("keydown", this);
    this.node.addEventListener("mousedown", this);
  }

  protected override onBeforeDetach(message: Message): void {
    this.node.removeEventListener("keydown", this);
    this.node.removeEventListener("mousedown", this);
    super.onBeforeDetach(message);
  }

  handleEvent(event: Event): void {
    event.stopPropagation(); // else the notebook selects the cell, and takes the focus
    if (!(event instanceof KeyboardEvent) || event.isComposing) return;
    if (event.key === "Escape") {
      event.preventDefault();
      this.escape();
    } else if (event.key === "s" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.actions.save();
    } else if (event.key === "Enter" && !event.shiftKey && event.target === this.field) {
      event.preventDefault();
      this.send();
    } else if (!this.answerBy(event)) {
      this.actions.press(event);
    }
  }

  /** Give the answer whose key is pressed at a button; returns whether there is one. */
  private answerBy(event: KeyboardEvent): boolean {
    const atButton = event.target instanceof HTMLButtonElement && !isChord(event) && !event.repeat;
    const choice = atButton ? this.question?.choices.find(({ key }) => key === event.key) : undefined;
    if (choice) this.actions.answer(choice.value);
    return choice !== undefined;
  }

  private escape(): void {
    const no = this.field.hidden ? this.question?.choices.find(({ kind }) => kind === "no") : undefined;
    if (no) this.actions.answer(no.value);
    else this.back();
  }

  /** Go back to the question that the user was about to answer with words, else leave. */
  private back(): void {
    if (this.question && !this.field.hidden) this.ask(this.question);
    else this.actions.leave();
  }

  private send(): void {
    const instruction = this.field.value.trim();
    if (!instruction) return;
    this.asked = instruction;
    this.field.value = "";
    this.question = null;
    this.actions.send(instruction);
  }

  private open(placeholder: string, said: { line?: string; isProblem?: boolean } = {}): void {
    this.field.placeholder = placeholder;
    this.field.setAttribute("aria-label", placeholder);
    this.lay({ ...said, writes: true });
    this.addButton("Ask", "Enter", () => this.send());
    this.addButton("Close", "Escape", () => this.back());
  }

  private lay({ line = "", text = "", writes = false, busy = false, isProblem = false }): void {
    this.field.hidden = !writes;
    this.line.textContent = line;
    this.line.hidden = !line;
    this.text.textContent = text;
    this.text.hidden = !text;
    this.toggleClass("indus_nb-mod-busy", busy);
    this.toggleClass("indus_nb-mod-problem", isProblem);
    this.buttons.replaceChildren();
    this.grow();
  }

  private grow(): void {
    this.field.rows = Math.min(MAX_ROWS, this.field.value.split("\n").length);
  }

  private addButton(label: string, key: string, act: () => void): HTMLButtonElement {
    const button = element("button", "indus_nb-box-button jp-mod-styled");
    button.type = "button";
    button.textContent = label;
    if (key) button.title = `${label} (${key})`;
    button.addEventListener("click", act);
    this.buttons.append(button);
    return button;
  }
}

function element<K extends keyof HTMLElementTagNameMap>(tag: K, className: string): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  made.className = className;
  return made;
}
