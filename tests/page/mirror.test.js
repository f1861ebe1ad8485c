import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Mirror } from "../../indus_nb/front/notebook/page/static/src/mirror.js";

const START = 1_700_000_000_000;
let resyncs = 0;
let mirror = new Mirror(() => {});

beforeEach((context) => {
  context.mock.timers.enable({ apis: ["Date"], now: START });
  resyncs = 0;
  mirror = new Mirror(() => {
    resyncs += 1;
  });
});

const full = (n, ...ops) => mirror.receive({ kind: "full", n, ops });
const patch = (n, ...ops) => mirror.receive({ kind: "patch", n, ops });
const blocks = () => [...mirror.blocks];

test("patches are applied in order, each once", () => {
  full(3, ["put", "a", "<p>one</p>"]);
  patch(4, ["put", "b", "two"]);
  assert.equal(patch(4, ["put", "b", "again"]), null);
  assert.equal(patch(2, ["put", "b", "long ago"]), null);
  patch(5, ["drop", "a"]);
  assert.deepEqual(blocks(), [["b", "two"]]);
  assert.equal(resyncs, 0);
});

test("a block's end is replaced behind the length that stays, counted in UTF-16", () => {
  full(1, ["put", "a", "<p>😀 one</p>"]);
  patch(2, ["tail", "a", 9, "two</p>"], ["tail", "unknown", 0, "all of it"]);
  assert.deepEqual(blocks(), [
    ["a", "<p>😀 onetwo</p>"],
    ["unknown", "all of it"],
  ]);
});

test("behind a gap nothing is applied, and everything is asked for once in a while", (context) => {
  full(1);
  assert.equal(patch(3, ["put", "a", "x"]), null);
  assert.equal(patch(4, ["put", "a", "y"]), null);
  assert.equal(resyncs, 1);
  context.mock.timers.tick(5001);
  patch(5, ["put", "a", "z"]);
  assert.equal(resyncs, 2);
  assert.deepEqual(blocks(), []);
  full(5, ["put", "a", "z"]);
  patch(6, ["put", "b", "on it goes"]);
  assert.equal(mirror.blocks.size, 2);
  patch(8);
  assert.equal(resyncs, 3, "a second gap need not wait");
});

test("a new page has asked for everything already", (context) => {
  patch(7, ["put", "a", "x"]);
  assert.equal(resyncs, 0);
  context.mock.timers.tick(5001);
  patch(8, ["put", "a", "x"]);
  assert.equal(resyncs, 1);
});

test("a full message replaces blocks, state and dialogs, and changes everything", () => {
  full(1, ["put", "a", "x"], ["set", { title: "old", busy: true }], ["ask", { id: "1", method: "confirm" }, null]);
  const changes = full(9, ["put", "b", "y"], ["set", { note: "new" }]);
  assert.ok(changes?.has("title"));
  assert.deepEqual(blocks(), [["b", "y"]]);
  assert.deepEqual(mirror.state, { note: "new" });
  assert.equal(mirror.dialogs.size, 0);
});

test("changes name the parts and the blocks that a patch touched", () => {
  full(1, ["put", "a", "x"]);
  const changes = patch(2, ["set", { note: "n", cost: "$1" }], ["drop", "a"], ["put", "a", "again"]);
  assert.ok(changes?.has("cost", "else"));
  assert.ok(!changes.has("title", "dialogs"));
  assert.deepEqual([[...changes.blocks], [...changes.dropped]], [["a"], ["a"]]);
});

test("whatever a newer kernel sends that is not known changes nothing", () => {
  full(1, ["put", "a", "x"]);
  assert.equal(mirror.receive({ kind: "confetti", n: 2, ops: [["drop", "a"]] }), null);
  patch(2, ["explode", "a"], ["put", "b", "y"]);
  assert.deepEqual(blocks(), [
    ["a", "x"],
    ["b", "y"],
  ]);
});

test("a run's beginning is kept as a moment, and forgotten when it is over", () => {
  full(1, ["set", { started_ms_ago: 65_000 }]);
  assert.equal(mirror.startedAt, START - 65_000);
  patch(2, ["set", { note: "no word of it" }]);
  assert.equal(mirror.startedAt, START - 65_000);
  patch(3, ["set", { started_ms_ago: null }]);
  assert.equal(mirror.startedAt, null);
});

test("whether it is busy ends a stop that came too late", () => {
  full(1, ["set", { busy: true }]);
  mirror.state.stopping = true;
  patch(2, ["set", { note: "still stopping" }]);
  assert.equal(mirror.state.stopping, true);
  patch(3, ["set", { busy: false }]);
  assert.equal(mirror.state.stopping, false);
  patch(4, ["set", { busy: true, stopping: true }]);
  assert.equal(mirror.state.stopping, true, "the kernel says so itself");
});

test("dialogs keep their order and the moment at which they end", () => {
  full(1, ["ask", { id: "1", method: "confirm" }, null], ["ask", { id: "2", method: "confirm" }, 30_000]);
  assert.deepEqual(
    [...mirror.dialogs].map(([id, { until }]) => [id, until]),
    [
      ["1", null],
      ["2", START + 30_000],
    ],
  );
  patch(2, ["unask", "1"]);
  assert.deepEqual([...mirror.dialogs.keys()], ["2"]);
});

test("a dialog that was answered here does not come back with what was already under way", (context) => {
  full(1, ["ask", { id: "1", method: "confirm" }, null]);
  assert.ok(mirror.closeDialog("1"));
  assert.ok(!mirror.closeDialog("1"), "it is answered once");
  full(1, ["ask", { id: "1", method: "confirm" }, null]);
  assert.equal(mirror.dialogs.size, 0);
  context.mock.timers.tick(5001);
  full(1, ["ask", { id: "1", method: "confirm" }, null]);
  assert.equal(mirror.dialogs.size, 1, "the answer was lost, so it is asked again");
});

test("a toast comes once, and of many the last five stay", () => {
  const toast = (n) => ["toast", { n, text: `toast ${n}`, type: "info" }];
  full(1, toast(1), toast(2));
  mirror.toasts.delete(1); // the user closed it
  const changes = full(2, toast(1), toast(2), toast(3));
  assert.deepEqual(
    changes?.newToasts.map(({ n }) => n),
    [3],
  );
  patch(3, ...[4, 5, 6, 7].map(toast));
  assert.deepEqual([...mirror.toasts.keys()], [3, 4, 5, 6, 7]);
});

test("a toast stays until the next run begins, and one that comes with that stays", () => {
  const warning = (n) => ["toast", { n, text: `warning ${n}`, type: "warning" }];
  full(1, ["set", { busy: true }], warning(1));
  patch(2, ["set", { busy: false }]);
  assert.deepEqual([...mirror.toasts.keys()], [1]);
  const changes = patch(3, ["set", { busy: true }], warning(2));
  assert.deepEqual([...mirror.toasts.keys()], [2]);
  assert.ok(changes?.has("toasts"));
});
