import assert from "node:assert/strict";
import { test } from "node:test";
import { Draft } from "../../indus_nb/front/notebook/page/static/src/draft.js";

function sent(...texts) {
  const draft = new Draft();
  for (const text of texts) {
    draft.text = text;
    draft.clear();
  }
  return draft;
}

test("what was sent is recalled from the newest to the oldest, and back to an empty text", () => {
  const draft = sent("one", "two");
  const seen = [-1, -1, -1, 1, 1, 1].map((step) => {
    draft.recall(step);
    return draft.text;
  });
  assert.deepEqual(seen, ["two", "one", "one", "two", "", ""]);
  assert.equal(draft.recalled, null);
});

test("the same text twice in a row is kept once, and an empty one not at all", () => {
  assert.deepEqual(sent("one", " one ", "", "two", "one").history, ["one", "two", "one"]);
});

test("a hundred texts are kept", () => {
  const draft = sent(...Array.from({ length: 120 }, (_, index) => `text ${index}`));
  assert.deepEqual([draft.history.length, draft.history[0]], [100, "text 20"]);
});

test("the kernel's text replaces what was written, which can be recalled", () => {
  const draft = new Draft();
  draft.text = "half-writ";
  draft.receive({ text: "from the kernel", n: 1 });
  assert.equal(draft.text, "from the kernel");
  draft.recall(-1);
  assert.equal(draft.text, "half-writ");
});

test("each text from the kernel comes once", () => {
  const draft = new Draft();
  draft.receive({ text: "first", n: 1 });
  draft.text = "changed";
  draft.receive({ text: "first", n: 1 });
  draft.receive(undefined);
  assert.equal(draft.text, "changed");
});

test("a message that is taken back from the queue is put above what is written", () => {
  const draft = new Draft();
  draft.text = "half-writ";
  draft.expectsTakenBack = true;
  draft.receive({ text: "queued", n: 1 });
  assert.equal(draft.text, "queued\n\nhalf-writ");
  draft.receive({ text: "another", n: 2 });
  assert.equal(draft.text, "another", "only the one that was taken back");
});

test("an image alone is something to send, and blanks are not", () => {
  const draft = new Draft();
  draft.text = " \n";
  assert.ok(draft.isEmpty);
  draft.images.push({ id: 1, name: "a.png", mimeType: "image/png", data: "" });
  assert.ok(!draft.isEmpty);
});

test("what was pasted still counts as pasted when it is recalled, and what was typed does not", () => {
  const draft = new Draft();
  draft.text = "a log\n{password}";
  draft.isPasted = true;
  draft.clear();
  assert.ok(!draft.isPasted);
  draft.text = "typed {mean}";
  draft.clear();
  draft.recall(-1);
  assert.deepEqual([draft.text, draft.isPasted], ["typed {mean}", false]);
  draft.recall(-1);
  assert.deepEqual([draft.text, draft.isPasted], ["a log\n{password}", true]);
  draft.recall(1);
  draft.recall(1);
  assert.deepEqual([draft.text, draft.isPasted], ["", false]);
});

test("a pasted text that the kernel's replaces still counts as pasted when it is recalled", () => {
  const draft = new Draft();
  draft.text = "a log\n{password}";
  draft.isPasted = true;
  draft.receive({ text: "", n: 1 });
  assert.ok(!draft.isPasted);
  draft.recall(-1);
  assert.ok(draft.isPasted);
});

test("a text that was refused counts as pasted only if it was", () => {
  for (const isPasted of [true, false]) {
    const draft = new Draft();
    draft.text = "sent";
    draft.isPasted = isPasted;
    draft.clear();
    draft.receive({ text: "sent", n: 1 });
    assert.deepEqual([draft.text, draft.isPasted], ["sent", isPasted]);
  }
});

test("of texts that are forgotten nothing is kept", () => {
  const draft = new Draft();
  for (let number = 0; number < 120; number++) {
    draft.text = `text ${number}`;
    draft.isPasted = true;
    draft.clear();
  }
  assert.deepEqual([...draft.pasted], draft.history);
});

test("a text that is chosen replaces what is written, which can be recalled", () => {
  const draft = new Draft();
  draft.text = "half-writ\nten";
  draft.isPasted = true;
  draft.replace("What is odd in $frame?");
  assert.deepEqual([draft.text, draft.isPasted], ["What is odd in $frame?", false]);
  draft.recall(-1);
  assert.deepEqual([draft.text, draft.isPasted], ["half-writ\nten", true]);
});

test("what is attached stands behind what is written, a quotation in lines of its own", () => {
  const draft = new Draft();
  const quotation = "```\ndf.head()\n```\n";
  draft.insert({ text: quotation, n: 1 });
  assert.equal(draft.text, quotation);
  draft.text += "Why?";
  draft.insert({ text: "$df", n: 2 });
  draft.insert({ text: quotation, n: 3 });
  assert.equal(draft.text, `${quotation}Why? $df \n${quotation}`);
});
