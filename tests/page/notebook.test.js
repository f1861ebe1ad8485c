import assert from "node:assert/strict";
import { test } from "node:test";
import {
  answerRequest,
  isOfAgent,
  nameNotebook,
  showWhole,
} from "../../indus_nb/front/notebook/page/static/src/notebook.js";
import {
  noteWidget,
  replaceWidget,
  shownWidgets,
} from "../../indus_nb/front/notebook/page/static/src/saved_widgets.js";

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
    insertCells: (index, added) => {
      const made = added.map(({ id, cell_type: type, source, metadata, outputs = [] }) => {
        return { ...make(source, type), id, metadata, outputs: { toJSON: () => outputs } };
      });
      cells.splice(index, 0, ...made);
    },
    deleteCell: (index) => cells.splice(index, 1),
  };
  return { cells, sharedModel, sources: () => cells.map((cell) => cell.sharedModel.getSource()) };
}

const insert = (fields) => ({
  what: "change_cells",
  edits: [{ cell: "new", type: "code", old: null, source: "new", after: null, outputs: [], ...fields }],
});

test("without a notebook that can be changed nothing is available", () => {
  assert.deepEqual(answerRequest(undefined, { what: "cells" }, 0), { error: "unavailable" });
  assert.deepEqual(answerRequest({}, { what: "cells" }, 0), { error: "unavailable" });
});

test("cells are described, also those that never ran", () => {
  assert.deepEqual(answerRequest(notebookOf("1 + 1"), { what: "cells" }, 0), {
    cells: [{ id: "c0", type: "code", source: "1 + 1", executionCount: null }],
  });
});

test("cells are described with their tags, if they are tags", () => {
  const notebook = notebookOf("a", "b");
  notebook.cells[0].getMetadata = (key) => (key === "tags" ? ["raises-exception"] : undefined);
  notebook.cells[1].getMetadata = () => "none";
  const [first, second] = answerRequest(notebook, { what: "cells" }, 0).cells;
  assert.deepEqual(first.tags, ["raises-exception"]);
  assert.equal(second.tags, undefined);
});

test("a cell that the agent has written, and so has run, is described as that", () => {
  const notebook = notebookOf("a", "b");
  const agent = { run: "1", call: "2" };
  notebook.cells[0].getMetadata = (key) => (key === "indus_nb" ? agent : undefined);
  const [first, second] = answerRequest(notebook, { what: "cells" }, 0).cells;
  assert.deepEqual(first.agent, agent);
  assert.equal("agent" in second, false);
});

test("a cell is inserted behind the one that is named, or at the top, else behind the widget's, else at the end", () => {
  for (const [fields, ownIndex, sources] of [
    [{ after: "" }, 1, ["new", "a", "b", "c"]],
    [{ after: "c0" }, 1, ["a", "new", "b", "c"]],
    [{}, 1, ["a", "b", "new", "c"]],
    [{}, -1, ["a", "b", "c", "new"]],
  ]) {
    const notebook = notebookOf("a", "b", "c");
    assert.deepEqual(answerRequest(notebook, insert(fields), ownIndex), {
      numbers: [sources.indexOf("new") + 1],
      removed: [],
    });
    assert.deepEqual(notebook.sources(), sources);
  }
});

test("a cell is not inserted behind one that is gone", () => {
  const notebook = notebookOf("a");
  assert.deepEqual(answerRequest(notebook, insert({ after: "gone" }), 0), { error: "There is no such cell." });
  assert.deepEqual(notebook.sources(), ["a"]);
});

test("code cells are trusted, as cells are that the user adds", () => {
  const notebook = notebookOf();
  answerRequest(notebook, insert({ type: "markdown" }), -1);
  answerRequest(notebook, insert({ cell: "code" }), -1);
  const made = notebook.cells.map(({ type, metadata }) => [type, metadata]);
  assert.deepEqual(made, [
    ["markdown", {}],
    ["code", { trusted: true }],
  ]);
});

function editable(...sources) {
  const notebook = notebookOf(...sources);
  const edits = (...list) => ({
    what: "change_cells",
    edits: list.map((edit) => ({ type: "code", old: null, source: null, after: "", outputs: [], ...edit })),
  });
  const shown = () => notebook.cells.map((cell) => [cell.id, cell.sharedModel.getSource()]);
  return { notebook, shown, change: (...list) => answerRequest(notebook, edits(...list), 0) };
}

test("cells are changed in order, also one that has just come, and removed ones give back what they showed", () => {
  const { notebook, shown, change } = editable("a", "b");
  const printed = [{ output_type: "stream", name: "stdout", text: "1" }];
  const mark = { run: "1", call: "2" };
  notebook.cells[1].outputs = { toJSON: () => printed };
  const done = change(
    { cell: "c1", old: "b" },
    { cell: "x", source: "1", after: "c0", outputs: printed },
    { cell: "x", old: "1", source: "2" },
    { cell: "top", type: "markdown", source: "# Title" },
    { cell: "c0", old: "a", source: "A" },
  );
  assert.deepEqual(done, { numbers: [0, 3, 3, 1, 2], removed: [{ id: "c1", outputs: printed }] });
  assert.deepEqual(shown(), [
    ["top", "# Title"],
    ["c0", "A"],
    ["x", "2"],
  ]);
  assert.deepEqual(notebook.cells[2].outputs.toJSON(), printed);
  notebook.cells[2].getMetadata = () => mark;
  const [removed] = change({ cell: "x", old: "2" }).removed;
  assert.deepEqual(removed, { id: "x", outputs: printed, agent: mark });
  change({ cell: "x", source: "2", after: "c0", agent: removed.agent });
  assert.deepEqual(notebook.cells[2].metadata, { trusted: true, indus_nb: mark });
  assert.deepEqual(change({ cell: "top", old: "# Title", type: "markdown" }).removed, [{ id: "top", outputs: [] }]);
});

test("new cells that are there already, for they are asked for twice, stay as they are", () => {
  const { shown, change } = editable("a");
  const edits = [
    { cell: "x", source: "1", after: "c0" },
    { cell: "y", source: "2", after: "x" },
  ];
  const done = change(...edits);
  assert.deepEqual(change(...edits), done);
  assert.equal(shown().length, 3);
});

test("cells are changed all of them or none", () => {
  const { notebook, shown, change } = editable("a", "b");
  const before = shown();
  const first = { cell: "x", source: "1", after: "c0" };
  for (const [edit, error] of [
    [{ cell: "c1", old: "other", source: "2" }, "The cell was changed meanwhile."],
    [{ cell: "c1", source: "2" }, "The cell was changed meanwhile."], // it is there, with another source
    [{ cell: "gone", old: "b" }, "There is no such cell."],
    [{ cell: "y", source: "2", after: "gone" }, "There is no such cell."],
  ]) {
    assert.deepEqual(change(first, edit), { error });
    assert.deepEqual(shown(), before);
  }
  notebook.cells[1].sharedModel.setSource = () => {
    throw new Error("read-only");
  };
  assert.throws(() => change(first, { cell: "c0", old: "a" }, { cell: "c1", old: "b", source: "2" }), /read-only/);
  assert.deepEqual(shown(), before);
  delete notebook.sharedModel.deleteCell;
  assert.deepEqual(change(first), { error: "unavailable" });
});

test("new cells that follow each other are inserted at once, for they are one step of the front end's undo", () => {
  const { notebook, shown, change } = editable("a", "b");
  const { insertCells } = notebook.sharedModel;
  const counts = [];
  notebook.sharedModel.insertCells = (index, added) => {
    counts.push(added.length);
    insertCells(index, added);
  };
  change(
    { cell: "x", source: "1", after: "c0" },
    { cell: "y", source: "2", after: "x" },
    { cell: "c0", old: "a", source: "A" },
    { cell: "z", source: "3", after: "c0" },
  );
  assert.deepEqual(counts, [2, 1]);
  assert.deepEqual(
    shown().map(([id]) => id),
    ["c0", "z", "x", "y", "c1"],
  );
});

test("outputs that no message can carry are left out", () => {
  const { notebook, change } = editable("a");
  notebook.cells[0].outputs = { toJSON: () => [{ output_type: "stream", text: "x".repeat(5_000_000) }] };
  assert.deepEqual(change({ cell: "c0", old: "a" }).removed, [{ id: "c0", outputs: [] }]);
});

test("a code cell may be inserted with its outputs, a text may not", () => {
  const notebook = notebookOf();
  const outputs = [{ output_type: "stream", name: "stdout", text: "1\n" }];
  answerRequest(notebook, insert({ outputs }), -1);
  answerRequest(notebook, insert({ cell: "text", type: "markdown", outputs }), -1);
  assert.deepEqual(
    notebook.cells.map((cell) => cell.outputs.toJSON()),
    [outputs, []],
  );
});

test("cells are described with their outputs in short, if that is asked for", () => {
  const notebook = notebookOf("plot()");
  const shown = [
    { output_type: "stream", name: "stdout", text: ["a\n", "b\n"] },
    { output_type: "display_data", data: { "image/png": "iVBOR", "text/plain": "<Figure>" }, metadata: {} },
    { output_type: "error", ename: "E", evalue: "why", traceback: ["long"] },
    {
      output_type: "display_data",
      data: { "text/html": ["<progress value", "='1'>"], "text/plain": "1" },
      metadata: {},
    },
    { output_type: "display_data", data: { "text/html": "<p>1</p>", "text/plain": "1" }, metadata: {} },
  ];
  notebook.cells[0].outputs = { toJSON: () => shown };
  assert.deepEqual(answerRequest(notebook, { what: "cells", outputs: true }, 0).cells[0].outputs, [
    { output_type: "stream", name: "stdout", text: "a\nb\n" },
    { output_type: "display_data", data: { "image/png": "", "text/plain": "<Figure>" } },
    { output_type: "error", ename: "E", evalue: "why" },
    { output_type: "display_data", data: { "text/html": "<progress", "text/plain": "1" } },
    { output_type: "display_data", data: { "text/html": "", "text/plain": "1" } },
  ]);
  assert.equal(answerRequest(notebook, { what: "cells" }, 0).cells[0].outputs, undefined);
});

test("the outputs of one cell come whole, but for those that are too large for a message", () => {
  const notebook = notebookOf("plot()", "plot()");
  const figure = (image) => ({ output_type: "display_data", data: { "image/png": image }, metadata: {} });
  const shown = [figure("iVBOR"), figure("x".repeat(5_000_000)), figure("R0lGOD")];
  for (const cell of notebook.cells) cell.outputs = { toJSON: () => shown };
  const [first, second] = notebook.cells;
  const { cells } = answerRequest(notebook, { what: "cells", outputs: true, whole: first.id }, 0);
  const images = cells.map(({ outputs }) => outputs.map(({ data }) => data["image/png"]));
  assert.deepEqual(images, [
    ["iVBOR", "", "R0lGOD"],
    ["", "", ""],
  ]);
  assert.notEqual(first.id, second.id);
});

/** A cell with outputs, and a kernel that notes what it is asked to run. */
function runnable() {
  const notebook = notebookOf("1 / 0", "print(1)");
  for (const cell of notebook.cells) {
    const shown = ["old"];
    cell.executionState = "idle";
    cell.outputs = {
      shown,
      get length() {
        return shown.length;
      },
      add: (output) => shown.push(output),
      set: (index, output) => shown.splice(index, 1, output),
      clear: () => shown.splice(0),
    };
  }
  const asked = [];
  const requestExecute = (content, disposes, metadata) => {
    const future = {};
    future.done = new Promise((resolve, reject) => Object.assign(future, { resolve, reject }));
    asked.push({ content, disposes, metadata, future });
    return future;
  };
  return { notebook, asked, kernel: { requestExecute } };
}

test("cells are run in the order asked for, and show what the kernel sends", async () => {
  const { notebook, asked, kernel } = runnable();
  const request = { what: "run_cells", cells: ["c1", "c0"] };
  assert.deepEqual(answerRequest(notebook, request, 0, kernel), { ids: ["c1", "c0"] });
  assert.deepEqual(
    asked.map(({ content, metadata }) => [content.code, metadata.cellId, content.allow_stdin]),
    [
      ["print(1)", "c1", false],
      ["1 / 0", "c0", false],
    ],
  );
  const [first] = asked;
  const cell = notebook.cells[1];
  assert.equal(cell.executionState, "running");
  const send = (type, content) => first.future.onIOPub({ header: { msg_type: type }, content });
  send("status", { execution_state: "busy" });
  send("stream", { name: "stdout", text: "1\n" });
  send("display_data", { data: { "text/plain": "0 %" }, metadata: {}, transient: { display_id: "bar" } });
  send("update_display_data", { data: { "text/plain": "9 %" }, metadata: {}, transient: { display_id: "bar" } });
  assert.deepEqual(cell.outputs.shown, [
    { output_type: "stream", name: "stdout", text: "1\n" },
    { output_type: "display_data", data: { "text/plain": "9 %" }, metadata: {} },
  ]);
  send("clear_output", { wait: false });
  assert.deepEqual(cell.outputs.shown, []);
  first.future.resolve({ header: {}, content: { execution_count: 7 } });
  await first.future.done;
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(cell.executionCount, 7);
  assert.equal(cell.executionState, "idle");
});

test("a kernel that is gone leaves the cell idle", async () => {
  const { notebook, asked, kernel } = runnable();
  answerRequest(notebook, { what: "run_cells", cells: ["c0"] }, 0, kernel);
  asked[0].future.reject(new Error("gone"));
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(notebook.cells[0].executionState, "idle");
});

test("without a kernel, or with a cell that is none, nothing is run", () => {
  const { notebook, asked, kernel } = runnable();
  notebook.cells[1].type = "markdown";
  const run = (cells, by = kernel) => answerRequest(notebook, { what: "run_cells", cells }, 0, by);
  assert.deepEqual(run([]), { ids: [] });
  assert.deepEqual(run([], null), { error: "unavailable" });
  assert.deepEqual(run(["c0", "c1"]), { error: "There is no such cell." });
  assert.deepEqual(run(["c0", "gone"]), { error: "There is no such cell." });
  assert.equal(asked.length, 0);
});

test("where the notebook that shows the widget is not known, as in VS Code, no cell is offered to be run", () => {
  const { notebook, kernel } = runnable();
  notebook.cells = [];
  assert.deepEqual(answerRequest(notebook, { what: "run_cells", cells: [] }, -1, kernel), { error: "unavailable" });
});

test("what the page does not know is answered with an error", () => {
  assert.deepEqual(answerRequest(notebookOf(), { what: "eval" }, 0), { error: "The page cannot do that: eval" });
});

const VIEW = "application/vnd.jupyter.widget-view+json";
const STATE = "application/vnd.jupyter.widget-state+json";

/** Outputs of a cell, as JupyterLab's model of them. */
function outputsOf(...list) {
  return {
    toJSON: () => list,
    set: (index, output) => {
      list[index] = output;
    },
  };
}

test("a widget gives its place to text, and other outputs stay as they are", () => {
  const notebook = notebookOf("a", "b");
  const printed = { output_type: "stream", text: "printed" };
  const view = (model_id) => ({ output_type: "display_data", data: { [VIEW]: { model_id } } });
  notebook.cells[1].outputs = outputsOf(printed, view("other"), view("mine"));
  replaceWidget(notebook, "mine", "<p>said</p>", "said");
  replaceWidget(notebook, "gone", "never", "shown");
  replaceWidget(undefined, "mine", "never", "shown");
  assert.deepEqual(notebook.cells[1].outputs.toJSON(), [
    printed,
    view("other"),
    { output_type: "display_data", data: { "text/html": "<p>said</p>", "text/plain": "said" }, metadata: {} },
  ]);
});

test("what stands for a widget is saved beside what others have saved, and leaves nothing behind", () => {
  const metadata = {};
  let written = 0;
  const notebook = {
    getMetadata: (key) => metadata[key],
    setMetadata: (key, value) => {
      written += 1;
      metadata[key] = value;
    },
    deleteMetadata: (key) => delete metadata[key],
  };
  noteWidget(notebook, "mine", "<p>said</p>");
  noteWidget(notebook, "mine", "<p>said</p>");
  assert.equal(written, 1, "a notebook keeps its id");
  assert.ok(metadata.widgets[STATE].state.mine.state.value.startsWith("<p>said</p><style>"));
  assert.equal(metadata.widgets[STATE].version_major, 2);
  metadata.widgets[STATE].state.other = { model_name: "IntSlider" };
  noteWidget(notebook, "mine", null);
  assert.deepEqual(metadata.widgets[STATE].state, { other: { model_name: "IntSlider" } });
  delete metadata.widgets[STATE].state.other;
  noteWidget(notebook, "mine", "<p>said</p>");
  noteWidget(notebook, "mine", null);
  assert.deepEqual(metadata, {});
  noteWidget({}, "mine", "<p>said</p>"); // a front end that gives no access
});

test("what stands for widgets that no output shows any more goes when the next one is noted", () => {
  const metadata = {};
  const notebook = notebookOf("a");
  const view = (model_id) => ({ output_type: "display_data", data: { [VIEW]: { model_id } } });
  notebook.getMetadata = (key) => metadata[key];
  notebook.setMetadata = (key, value) => {
    metadata[key] = value;
  };
  notebook.cells[0].outputs = outputsOf(view("shown"), view("before"));
  for (const id of ["shown", "before"]) noteWidget(notebook, id, "<p>said</p>");
  metadata.widgets[STATE].state.other = { model_name: "HTMLModel", state: { value: "theirs" } };
  notebook.cells[0].outputs = outputsOf(view("shown"), view("now"));
  noteWidget(notebook, "now", "<p>said</p>");
  const left = ["shown", "shown-layout", "other", "now", "now-layout"];
  assert.deepEqual(Object.keys(metadata.widgets[STATE].state), left);
});

test("the notebook is given an id, whatever stood there", () => {
  for (const before of [undefined, null, "text", ["list"], { id: "" }, { other: 1 }]) {
    let held = before;
    let written = 0;
    const notebook = {
      getMetadata: (key) => (key === "indus_nb" ? held : undefined),
      setMetadata: (_key, value) => {
        held = value;
        written += 1;
      },
    };
    nameNotebook(notebook, "an-id");
    nameNotebook(notebook, "another");
    assert.equal(written, 1, "a notebook is not changed twice by the same");
    assert.deepEqual(held, before?.other ? { other: 1, id: "an-id" } : { id: "an-id" });
  }
  nameNotebook({}, "an-id"); // a front end that gives no access
});

test("the widgets that a notebook shows are known by their ids, each once", () => {
  const view = { output_type: "display_data", data: { [VIEW]: { model_id: "w" } } };
  const notebook = notebookOf("a", "b", "c");
  notebook.cells[0].outputs = outputsOf({ output_type: "stream", text: "printed" }, view, view);
  notebook.cells[1].outputs = outputsOf({ output_type: "display_data", data: { [VIEW]: "nonsense" } });
  assert.deepEqual(shownWidgets(notebook), ["w"]);
  assert.deepEqual(shownWidgets(undefined), []);
});

test("outputs of a run are written where a page does not get them", () => {
  const printed = { output_type: "stream", text: "printed" };
  const failed = { output_type: "error", ename: "E" };
  const view = { output_type: "display_data", data: { [VIEW]: { model_id: "w" } } };
  const old = { output_type: "display_data", data: { "text/plain": "old" } };
  const given = { data: { "text/plain": "new" }, metadata: {} };
  const written = { output_type: "display_data", ...given };
  const asked = { data: { "text/html": "Answer to: a" }, metadata: {} };
  const prompt = { output_type: "display_data", ...asked };
  const ask = (shown, fields = {}, { client = "me", isMoved = false, ...rest } = {}) => {
    const notebook = Object.assign(notebookOf("a"), rest);
    const outputs = outputsOf(...shown);
    outputs.fromJSON = (list) => outputs.toJSON().splice(0, Number.POSITIVE_INFINITY, ...list);
    notebook.cells[0].outputs = outputs;
    const place = { cell: "c0", client: "other", widget: "w", source: "a", asked };
    const request = { what: "show_run", ...place, outputs: [given], ...fields };
    return [answerRequest(notebook, request, 0, { clientId: client }, isMoved), outputs.toJSON()];
  };
  assert.deepEqual(ask([view], { client: "me" }), [{ gets: "displays" }, [view]]);
  assert.deepEqual(ask([view], { cell: "gone" }), [{ error: "There is no such cell." }, [view]]);
  assert.deepEqual(ask([view]), [{ gets: "nothing" }, [view]], "it shows what comes");
  assert.deepEqual(ask([printed, old, view, failed], { over: true }), [{ gets: "writes" }, [printed, written, failed]]);
  assert.deepEqual(ask([printed, old]), [{ gets: "writes" }, [written]], "they are of an earlier run of the cell");
  assert.deepEqual(ask([printed, written]), [{ gets: "writes" }, [printed, written]], "it was asked twice");
  const shared = { collaborative: true };
  assert.deepEqual(ask([view], {}, shared), [{ gets: "nothing" }, [view]]);
  assert.deepEqual(ask([printed], {}, shared), [{ gets: "nothing" }, [printed]], "whoever ran it writes that");
  assert.deepEqual(ask([view], { over: true }, shared), [{ gets: "nothing" }, [view]]);
  assert.deepEqual(ask([view], { over: true, missed: true }, shared), [{ gets: "writes" }, [written]]);
  const moved = { client: "other", isMoved: true };
  for (const rest of [moved, { ...moved, collaborative: true }])
    assert.deepEqual(ask([printed, old, view], {}, rest), [{ gets: "writes" }, [printed, written]], "a moved cell");
  assert.deepEqual(ask([old], {}, moved), [{ gets: "displays" }, [old]], "it was run again");
  const other = { over: true, source: "b" };
  for (const [before, after] of [
    [[old], [old, prompt, written]],
    [
      [old, prompt, view],
      [old, prompt, written],
    ],
    [
      [printed, old, view, failed],
      [printed, prompt, written, failed],
    ],
  ])
    assert.deepEqual(
      ask(before, other),
      [{ gets: "writes" }, after],
      "the cell holds another text than the one that ran",
    );
});

test("a cell says that its outputs are shown at their height, unless it says something of that already", () => {
  for (const [scrolled, noted] of [
    [undefined, true],
    [true, false],
    [false, false],
  ]) {
    const metadata = new Map([["scrolled", scrolled]]);
    const notebook = notebookOf("1", "2");
    Object.assign(notebook.cells[1], {
      getMetadata: (key) => metadata.get(key),
      setMetadata: (key, value) => metadata.set(key, value),
    });
    assert.equal(showWhole(notebook, 1), noted);
    assert.equal(metadata.get("scrolled"), scrolled ?? false);
  }
});

test("a notebook that gives no access to its cells' metadata is left as it is", () => {
  assert.equal(showWhole(undefined, 0), false);
  assert.equal(showWhole(notebookOf("1"), 0), false);
  assert.equal(showWhole(notebookOf("1"), 7), false);
  assert.equal(showWhole(notebookOf("1"), Number.NaN), false);
});

test("a cell of the agent's says so in its metadata, and others are not taken for one", () => {
  const notebook = notebookOf("a");
  const agent = { run: "r1", call: "t1" };
  answerRequest(notebook, insert({ outputs: [], agent }), 0);
  assert.deepEqual(notebook.cells[1].metadata, { trusted: true, indus_nb: agent });
  const cell = (mark) => ({ getMetadata: (key) => (key === "indus_nb" ? mark : undefined) });
  assert.deepEqual(
    [agent, "yes", { session: "s" }, null].map((mark) => isOfAgent(cell(mark))),
    [true, false, false, false],
  );
  assert.equal(isOfAgent(undefined), false);
});
