import assert from "node:assert/strict";
import { test } from "node:test";
import { answerRequest } from "../../indus_nb/notebook/page/static/src/notebook.js";

/** What JupyterLab's notebook model offers of itself, with these sources in its cells. */
function notebookOf(...sources) {
  const make = (text, type, index) => {
    let source = text;
    const setSource = (changed) => {
      source = changed;
    };
    return { id: `c${index}`, type, executionCount: undefined, sharedModel: { getSource: () => source, setSource } };
  };
  const cells = sources.map((source, index) => make(source, "code", index));
  cells.get = (index) => cells[index];
  const sharedModel = {
    insertCell: (index, { cell_type: type, source, metadata }) =>
      cells.splice(index, 0, { ...make(source, type, `new-${cells.length}`), metadata }),
  };
  return { cells, sharedModel, sources: () => cells.map((cell) => cell.sharedModel.getSource()) };
}

const insert = (fields) => ({ what: "insert_cell", type: "code", source: "new", ...fields });

test("without a notebook that can be changed nothing is available", () => {
  assert.deepEqual(answerRequest(undefined, { what: "cells" }, 0), { error: "unavailable" });
  assert.deepEqual(answerRequest({}, { what: "cells" }, 0), { error: "unavailable" });
});

test("cells are described, also those that never ran", () => {
  assert.deepEqual(answerRequest(notebookOf("1 + 1"), { what: "cells" }, 0), {
    cells: [{ id: "c0", type: "code", source: "1 + 1", executionCount: null }],
  });
});

test("a cell is inserted behind the one that is named, else behind the widget's, else at the end", () => {
  for (const [fields, ownIndex, sources] of [
    [{ after: "c0" }, 1, ["a", "new", "b", "c"]],
    [{}, 1, ["a", "b", "new", "c"]],
    [{}, -1, ["a", "b", "c", "new"]],
  ]) {
    const notebook = notebookOf("a", "b", "c");
    assert.deepEqual(answerRequest(notebook, insert(fields), ownIndex), { id: "cnew-3" });
    assert.deepEqual(notebook.sources(), sources);
  }
});

test("a cell is not inserted behind one that is gone", () => {
  const notebook = notebookOf("a");
  assert.deepEqual(answerRequest(notebook, insert({ after: "gone" }), 0), { error: "There is no such cell." });
  assert.deepEqual(notebook.sources(), ["a"]);
});

test("code cells are trusted, as cells are that the user adds, and others are Markdown or code", () => {
  const notebook = notebookOf();
  answerRequest(notebook, insert({ type: "markdown" }), -1);
  answerRequest(notebook, insert({ type: "raw" }), -1);
  const made = notebook.cells.map(({ type, metadata }) => [type, metadata]);
  assert.deepEqual(made, [
    ["markdown", {}],
    ["code", { trusted: true }],
  ]);
});

test("a source is replaced only if it is the one that was shown", () => {
  const notebook = notebookOf("old");
  const replace = (fields) => ({ what: "replace_cell", cell: "c0", old: "old", source: "new", ...fields });
  assert.deepEqual(answerRequest(notebook, replace({ old: "older" }), 0), { error: "The cell was changed meanwhile." });
  assert.deepEqual(answerRequest(notebook, replace({ cell: "gone" }), 0), { error: "There is no such cell." });
  assert.deepEqual(notebook.sources(), ["old"]);
  assert.deepEqual(answerRequest(notebook, replace({}), 0), { id: "c0" });
  assert.deepEqual(notebook.sources(), ["new"]);
});

test("what the page does not know is answered with an error", () => {
  assert.deepEqual(answerRequest(notebookOf(), { what: "eval" }, 0), { error: "The page cannot do that: eval" });
});
