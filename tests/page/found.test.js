import assert from "node:assert/strict";
import { test } from "node:test";
import { placesOf } from "../../indus_nb/front/notebook/page/static/src/found.js";

/** The numbers where they were found, each in its text between brackets. */
function marked(texts, found) {
  const shown = [...texts];
  for (const { index, begin, end } of placesOf(texts, found).reverse()) {
    const text = shown[index];
    shown[index] = `${text.slice(0, begin)}[${text.slice(begin, end)}]${text.slice(end)}`;
  }
  return shown;
}

test("numbers are found in their order, in one text or in several", () => {
  const found = [
    ["5", 0],
    ["1,234.6", 0, 2],
    ["5", 1],
  ];
  assert.deepEqual(marked(["5 of 1,234.6", " and ", "5"], found), ["[5] of [1,234.6]", " and ", "[5]"]);
  assert.deepEqual(
    placesOf(["a 5"], [["5", 0, 2]]).map(({ cards }) => cards),
    [[0, 2]],
  );
});

test("no part of another number or of a name is one", () => {
  assert.deepEqual(marked(["Q5, 15, 5.5, 2,5 and 5,000; v_5, 5.", "5%"], [["5", 0]]), [
    "Q5, 15, 5.5, 2,5 and 5,000; v_5, [5].",
    "5%",
  ]);
  assert.deepEqual(marked(["5ms, $12.3k"], [["5"], ["12.3"]]), ["[5]ms, $[12.3]k"]);
});

test("one that is not there is left out, and those behind it are found", () => {
  assert.deepEqual(marked(["1 and 2"], [["9"], ["1"], ["2"], ["1"]]), ["[1] and [2]"]);
});

test("what is no number as it is written changes nothing", () => {
  for (const each of [null, 5, "5", [], [5], [null, 0], [["5"], 0], ["", 0], ["<b>", 0], ["and", 0], { 0: "5" }]) {
    assert.deepEqual(marked(["5 <b>and</b>"], [each]), ["5 <b>and</b>"]);
  }
  assert.equal(placesOf(["5 ".repeat(1000)], Array(1000).fill(["5"])).length, 200);
});
