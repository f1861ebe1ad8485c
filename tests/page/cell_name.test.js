import assert from "node:assert/strict";
import { test } from "node:test";
import { nameOfCell } from "../../indus_nb/front/notebook/page/static/src/cell_name.js";

test("a cell is called by its number in brackets if no other one has that, else by its place", () => {
  assert.equal(nameOfCell([1, 7, null], 1), "cell [7]");
  assert.equal(nameOfCell([7, 7, null], 1), "the 2nd cell");
  assert.equal(nameOfCell([1, 7, null], 2), "the 3rd cell");
  assert.equal(nameOfCell(Array(12).fill(null), 10), "the 11th cell");
});
