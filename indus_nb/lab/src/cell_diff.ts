/**
 * A proposed source, drawn as a difference in the cell's own editor.
 *
 * Contract: the document stays what it was until the user accepts, so that saving, reloading and other people's pages
 * never meet a draft. Drawing is decorations alone; as soon as the document changes they are gone, and `touched` is called.
 */

import { highlightingFor, language } from "@codemirror/language";
import { Chunk } from "@codemirror/merge";
import { type EditorState, type Range, StateEffect, StateField, Text } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, WidgetType } from "@codemirror/view";
import { highlightTree } from "@lezer/highlight";

export interface Draft {
  readonly source: string;
  /** Whether it is whole; else what the model has not come to yet is not shown as removed. */
  readonly done: boolean;
  /** Called when the document was changed under it. */
  readonly touched: () => void;
}

interface Drawn {
  readonly draft: Draft | null;
  readonly marks: DecorationSet;
}

const NOTHING: Drawn = { draft: null, marks: Decoration.none };
const REMOVED = Decoration.line({ class: "indus_nb-removed" });
const REMOVED_TEXT = Decoration.mark({ class: "indus_nb-removed-text" });
const setDraft = StateEffect.define<Draft | null>();

const drawn = StateField.define<Drawn>({
  create: () => NOTHING,
  update(before, transaction) {
    const effect = transaction.effects.find((each) => each.is(setDraft));
    if (effect)
      return effect.value ? { draft: effect.value, marks: marksOf(transaction.state, effect.value) } : NOTHING;
    return transaction.docChanged ? NOTHING : before;
  },
  provide: (field) => EditorView.decorations.from(field, ({ marks }) => marks),
});

const watching = EditorView.updateListener.of(({ docChanged, startState, state }) => {
  const before = startState.field(drawn, false)?.draft;
  if (docChanged && before && !state.field(drawn).draft) before.touched();
});

/** Draw a draft in an editor in the place of the one before; `null` removes it. */
export function drawDraft(view: EditorView, draft: Draft | null): void {
  const effects: StateEffect<unknown>[] = [setDraft.of(draft)];
  if (!view.state.field(drawn, false)) {
    if (!draft) return;
    view.dispatch({ effects: StateEffect.appendConfig.of([drawn, watching]) });
  }
  view.dispatch({ effects });
}

/** Return lines of code as an element, highlighted as that editor does. */
export function codeBlock(source: string, className: string, state: EditorState | null): HTMLElement {
  const block = document.createElement("div");
  block.className = className;
  const parser = state?.facet(language)?.parser;
  let at = 0;
  const put = (to: number, style: string) => {
    if (to <= at) return;
    const text = source.slice(at, to);
    if (style) block.append(Object.assign(document.createElement("span"), { className: style, textContent: text }));
    else block.append(text);
    at = to;
  };
  if (parser && state) {
    const style = { style: (tags: Parameters<typeof highlightingFor>[1]) => highlightingFor(state, tags) };
    highlightTree(parser.parse(source), style, (from, to, classes) => {
      put(from, "");
      put(to, classes);
    });
  }
  put(source.length, "");
  return block;
}

function marksOf(state: EditorState, { source, done }: Draft): DecorationSet {
  const then = Text.of(source.split("\n"));
  const chunks = Chunk.build(state.doc, then);
  const marks: Range<Decoration>[] = [];
  for (const chunk of chunks) {
    const isUnwritten = !done && chunk === chunks.at(-1) && chunk.toB > then.length;
    const removes = chunk.toA > chunk.fromA && !isUnwritten && state.doc.length > 0;
    if (removes) marks.push(...removal(state, chunk));
    if (chunk.toB > chunk.fromB) marks.push(insertion(state, chunk, then, removes));
  }
  return Decoration.set(marks, true);
}

function removal(state: EditorState, chunk: Chunk): Range<Decoration>[] {
  const marks: Range<Decoration>[] = [];
  for (let at = chunk.fromA; at <= chunk.endA; at = state.doc.lineAt(at).to + 1) marks.push(REMOVED.range(at));
  for (const { fromA, toA } of chunk.changes) {
    const to = Math.min(chunk.fromA + toA, chunk.endA);
    if (to > chunk.fromA + fromA) marks.push(REMOVED_TEXT.range(chunk.fromA + fromA, to));
  }
  return marks;
}

/** New lines stand below those that they replace, else above the line before which they come. */
function insertion(state: EditorState, chunk: Chunk, then: Text, removes: boolean): Range<Decoration> {
  const isBelow = removes || chunk.fromA > state.doc.length;
  const at = isBelow ? Math.min(removes ? chunk.endA : chunk.fromA, state.doc.length) : chunk.fromA;
  const widget = new Inserted(then.sliceString(chunk.fromB, chunk.endB), state);
  return Decoration.widget({ widget, block: true, side: isBelow ? 1 : -1 }).range(at);
}

class Inserted extends WidgetType {
  constructor(
    readonly source: string,
    readonly state: EditorState,
  ) {
    super();
  }

  override eq(other: Inserted): boolean {
    return other.source === this.source;
  }

  override toDOM(): HTMLElement {
    return codeBlock(this.source, "indus_nb-inserted", this.state);
  }
}
