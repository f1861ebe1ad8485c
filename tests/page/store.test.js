import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Store } from "../../indus_nb/front/notebook/page/static/src/store.js";

let sent = [];
let deliver = () => {};
let store;

/** A store of a widget of this kind, in a page that is `sent[0].page`. */
function open(kind, rest = {}) {
  sent = [];
  store = new Store({
    get: (name) => (name === "kind" ? kind : ""),
    on: (event, handler) => {
      if (event === "msg:custom") deliver = handler;
    },
    send: (message) => sent.push(message),
    ...rest,
  });
}

beforeEach((context) => {
  context.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1_700_000_000_000 });
  open("panel");
});

const withoutPage = (messages) => messages.map(({ page: _, ...message }) => message);
const full = (...ops) => deliver({ kind: "full", n: 1, ops });

test("a widget begins with a handshake, and each message says which page sent it", () => {
  const [first] = sent;
  assert.equal(first.kind, "ready");
  assert.match(first.page, /^\w+$/);
  store.send({ kind: "stop" });
  open("cell");
  assert.equal(sent[0].page, first.page, "one page for all its widgets");
});

test("the kernel is told each time the cell of a run is another one, if it was run from this page", () => {
  for (const [client, told] of [
    ["page", 2],
    ["other", 0],
  ]) {
    const traits = { kind: "cell", cell: "c", client };
    const cell = () => ({ id: "c", type: "code", sharedModel: { getSource: () => "" }, outputs: {} });
    const context = { model: { cells: [cell()] }, sessionContext: { session: { kernel: { clientId: "page" } } } };
    open("cell", { get: (name) => traits[name], widget_manager: { context } });
    store.cell.watch();
    for (const cells of [[cell()], [], [cell()]]) {
      context.model.cells = cells;
      store.cell.watch();
      store.cell.watch();
    }
    assert.equal(sent.filter(({ kind }) => kind === "moved").length, told);
    assert.equal(store.cell.isMoved, told > 0);
  }
});

test("what is written to a dialog is one text for all widgets that show it, and the next question comes where one answered", () => {
  const frame = { type: "extension_ui_request", id: "1", method: "editor", title: "Steps", prefill: null };
  const opened = ["cell", "panel"].map((kind) => {
    open(kind);
    full(["set", { session: { name: null, id: "s" }, busy: true }], ["ask", frame, null]);
    return store;
  });
  const [cell, panel] = opened;
  panel.answers.set("1", "half");
  assert.equal(cell.answers.get("1"), "half");
  cell.answers.set("1", "whole");
  assert.equal(panel.answers.get("1"), "whole");
  cell.answers.noteRead("1");
  assert.deepEqual([panel.answers.isRead("1"), panel.answers.isRead("2")], [true, false]);
  cell.answers.note();
  assert.deepEqual([cell.answers.isElsewhere, panel.answers.isElsewhere], [false, true]);
  cell.close();
  assert.equal(panel.answers.isElsewhere, false);
});

test("of two notebooks on one kernel only the one with the cell answers for its widget", () => {
  const traits = { kind: "cell", cell: "cell-b", client: "page-b" };
  const place = (client, ...ids) => {
    const cells = ids.map((id) => ({ id, type: "code", sharedModel: { getSource: () => "" } }));
    const context = {
      path: `sub/${client}.ipynb`,
      model: { cells },
      sessionContext: { session: { kernel: { clientId: client } } },
    };
    open("cell", { get: (name) => traits[name], widget_manager: { context } });
  };
  place("page-a", "cell-a");
  full(["set", { session: { name: null, id: "1" }, saved: true }]);
  assert.deepEqual(sent, [], "another notebook says and does nothing");
  place("page-new", "cell-a", "cell-b");
  assert.equal(sent[0].kind, "ready", "a page that is loaded again has the cell");
  place("page-b");
  assert.equal(sent[0].kind, "ready", "the page that ran it need not look for it");
  const { page } = sent[0];
  deliver({ kind: "request", id: "1", what: "cells", page, origin: { cell: "cell-b", client: "page-b" } });
  deliver({ kind: "request", id: "2", what: "cells", page, origin: { cell: "cell-x", client: "page-x" } });
  assert.equal(sent[1].value.path, "sub/page-b.ipynb");
  assert.deepEqual(sent[2].value, { error: "elsewhere" });
});

test("a cell is busy until the kernel says that it is not, and a panel is not", () => {
  assert.equal(store.busy, false);
  open("cell");
  assert.equal(store.busy, true);
  full(["set", { busy: false }]);
  assert.equal(store.busy, false);
});

test("a panel that was closed says so, and sends nothing more", () => {
  full(["set", { busy: true, session: { name: null, id: "1" } }]);
  deliver({ kind: "patch", n: 2, ops: [["set", { closed: true }]] });
  assert.match(store.ended, /^This panel was closed/);
  assert.equal(store.busy, false);
  const before = sent.length;
  store.stop();
  assert.equal(sent.length, before);
});

test("images are sent one by one before their prompt", () => {
  store.draft.text = " look ";
  store.draft.images = ["x", "y"].map((data) => ({ id: data, name: data, mimeType: "image/png", data }));
  store.prompt("steer");
  store.prompt("steer"); // nothing is left
  assert.deepEqual(withoutPage(sent.slice(1)), [
    { kind: "image", data: "x", mimeType: "image/png" },
    { kind: "image", data: "y", mimeType: "image/png" },
    { kind: "prompt", text: "look", how: "steer", literal: false },
  ]);
});

test("while no run is there whose question it could be, a question comes before the next prompt", () => {
  full(["ask", { id: "1", method: "select" }, null]);
  store.draft.text = "go on";
  store.prompt("send");
  assert.equal(sent.length, 1);
  assert.equal(store.draft.text, "go on");
  assert.match(store.draft.problem, /^Not sent: a question/);
  store.answer("1", "No");
  deliver({ kind: "patch", n: 2, ops: [["unask", "1"]] });
  assert.equal(store.draft.problem, "");
  store.prompt("send");
  assert.deepEqual(withoutPage(sent.slice(2)), [{ kind: "prompt", text: "go on", how: "send", literal: false }]);
});

test("a dialog is answered once, and what was half-written in it is forgotten", () => {
  full(["ask", { id: "1", method: "input" }, null]);
  store.answers.set("1", "half");
  store.answer("1", "whole");
  store.answer("1", "twice");
  assert.deepEqual(withoutPage(sent.slice(1)), [{ kind: "answer", id: "1", value: "whole" }]);
  assert.equal(store.answers.texts.size, 0);
});

test("what is half-written in a dialog survives everything but the dialog's end", () => {
  full(["ask", { id: "1", method: "input" }, null]);
  store.answers.set("1", "half");
  full(["ask", { id: "1", method: "input" }, null]);
  assert.equal(store.answers.get("1"), "half");
  deliver({ kind: "patch", n: 2, ops: [["unask", "1"]] });
  assert.equal(store.answers.texts.size, 0);
});

test("a request is carried out by the page that was used last only", () => {
  const [{ page }] = sent;
  deliver({ kind: "request", id: "1", what: "cells", page: "another" });
  deliver({ kind: "request", id: "2", what: "cells", page });
  assert.deepEqual(withoutPage(sent.slice(1)), [{ kind: "reply", id: "2", value: { error: "unavailable" } }]);
});

test("a request that fails is answered with its error", () => {
  const cells = {
    [Symbol.iterator]() {
      throw new Error("disposed");
    },
  };
  open("panel", { widget_manager: { context: { model: { cells } } } });
  deliver({ kind: "request", id: "1", what: "cells", page: sent[0].page });
  assert.deepEqual(sent[1].value, { error: "disposed" });
});

test("stop is sent once until the kernel has answered it", () => {
  full(["set", { busy: true }]);
  store.stop();
  store.stop();
  deliver({ kind: "patch", n: 2, ops: [["set", { busy: true }]] });
  store.stop();
  assert.deepEqual(
    sent.slice(1).map(({ kind }) => kind),
    ["stop", "stop"],
  );
});

test("what was there before this page is not announced, and what comes later is", () => {
  full(["put", "a", "x"]);
  deliver({ kind: "patch", n: 2, ops: [["put", "b", "y"]] });
  full(["put", "a", "x"], ["put", "c", "z"]);
  assert.deepEqual([...store.announced.keys()], ["a"]);
});

test("a toast of information goes by itself, and an error stays", (context) => {
  full(["toast", { n: 1, text: "Saved.", type: "info" }], ["toast", { n: 2, text: "Failed.", type: "error" }]);
  context.mock.timers.tick(8000);
  assert.deepEqual([...store.mirror.toasts.keys()], [2]);
});

test("a file is held once, as one that a browser only saves, and leaves the state", async () => {
  full(["set", { download: { name: "session.html", html: "<script>1</script>", n: 1 } }]);
  assert.equal(store.state.download, undefined);
  const { name, href } = store.download.offered;
  assert.equal(name, "session.html");
  assert.equal((await (await fetch(href)).blob()).type, "application/octet-stream");
  store.forgetDownload();
  assert.equal(store.download.offered, null);
});

test("every view is shown each change once", () => {
  const shown = [];
  for (const name of ["first", "second"])
    store.views.add({ show: (changes) => shown.push([name, changes.has("note")]) });
  full(["set", { note: "n" }]);
  deliver({ kind: "patch", n: 2, ops: [["set", { cost: "$1" }]] });
  assert.deepEqual(shown, [
    ["first", true],
    ["second", true],
    ["first", false],
    ["second", false],
  ]);
});

test("a kernel that is gone takes the run with it, and nothing more is sent", () => {
  let tell = () => {};
  const statusChanged = { connect: (slot) => (tell = (status) => slot(null, status)), disconnect: () => {} };
  const sessionContext = { statusChanged };
  open("panel", { widget_manager: { context: { sessionContext } } });
  const card = (sign) => `<summary><span${sign}</span> <b>agents</b></summary>● said`;
  const runs = card(' class="indus-runs" style="color:var(--jp-brand-color1,#3b82c4);">●');
  full(["set", { busy: true, saved: false }], ["ask", { id: "1", method: "input" }, null], ["put", "b1", runs]);
  for (const status of ["idle", "busy", "unknown", "starting"]) tell(status);
  assert.equal(store.ended, "");
  tell("autorestarting");
  tell("dead");
  assert.match(store.ended, /^The kernel was restarted\..* The conversation was not saved\.$/);
  assert.equal(store.busy, false);
  assert.equal(store.mirror.blocks.get("b1"), card(">–"));
  assert.equal(store.dialogs.size, 0);
  store.draft.text = "lost?";
  store.prompt("send");
  assert.equal(store.draft.text, "lost?");
  assert.equal(sent.length, 1);
});

test("a run that ended at a question keeps what it asked about, which will not run", () => {
  const handlers = {};
  const model = { get: () => "cell", on: (event, handler) => (handlers[event] = handler), send: () => {} };
  store = new Store(model);
  const aside = (words) => `<summary><span style="float:right;">${words} · 2.0 s</span><b>python</b></summary>`;
  const question = [{ id: "1", method: "select" }, null, { html: "<pre>del x</pre>", choices: [] }];
  handlers["msg:custom"]({
    kind: "full",
    n: 1,
    ops: [
      ["put", "b1", aside("preview, not run yet")],
      ["ask", ...question],
    ],
  });
  handlers.comm_live_update();
  assert.deepEqual([...store.mirror.blocks.values()], [aside("preview, not run"), "<pre>del x</pre>"]);
});

test("a connection that the front end gives up is the end of a run", () => {
  const handlers = {};
  const model = { get: () => "cell", on: (event, handler) => (handlers[event] = handler), send: () => {} };
  store = new Store(model);
  handlers.comm_live_update();
  assert.match(store.ended, /^The kernel was restarted: this run ended\./);
  assert.equal(store.busy, false);
});

test("a widget that is closed is held neither by its kernel's status nor by a file", () => {
  const slots = new Set();
  const statusChanged = { connect: (slot) => slots.add(slot), disconnect: (slot) => slots.delete(slot) };
  open("panel", { widget_manager: { context: { sessionContext: { statusChanged } } } });
  full(["set", { download: { name: "session.html", html: "", n: 1 } }]);
  assert.equal(slots.size, 1);
  store.close();
  assert.equal(slots.size, 0);
  assert.equal(store.download.offered, null);
});

test("an answer is copied by the page whose user asked for it, and by no other", () => {
  const looked = [];
  store.views.add({ show: () => {}, root: { querySelectorAll: () => looked.push("looked") && [] } });
  full(["set", { copied: { block: "a.0", text: "of another page" } }]);
  assert.deepEqual(looked, []);
  store.copy("a.0");
  assert.deepEqual(withoutPage(sent.slice(1)), [{ kind: "copy", block: "a.0" }]);
  full(["set", { copied: { block: "a.0", text: "of this page" } }]);
  full(["set", { copied: { block: "a.0", text: "of another page" } }]);
  assert.deepEqual(looked, ["looked"]);
});
