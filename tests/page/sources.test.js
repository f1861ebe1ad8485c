import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const SOURCES = new URL("../../indus_nb/front/notebook/page/static/src/", import.meta.url);
const PARSERS = /innerHTML|outerHTML|insertAdjacentHTML|DOMParser|createContextualFragment|document\.write|setHTML/;
const RUNNERS = /\beval\(|new Function|javascript:|\.srcdoc|"script"|"iframe"/;

const modules = readdirSync(SOURCES)
  .filter((name) => name.endsWith(".js"))
  .map((name) => ({ name, text: readFileSync(new URL(name, SOURCES), "utf8") }));

test("HTML is parsed at one place only, and nothing runs code from text", () => {
  const parsing = modules.flatMap(({ name, text }) => (text.match(new RegExp(PARSERS, "g")) ?? []).map(() => name));
  assert.deepEqual(parsing, ["blocks.js"]);
  assert.deepEqual(
    modules.filter(({ text }) => RUNNERS.test(text)).map(({ name }) => name),
    [],
  );
});

test("each module begins with what it is for, and stays below 400 lines", () => {
  for (const { name, text } of modules) {
    assert.match(text, /^\/\*\*\n \* [A-Z]/, name);
    assert.ok(text.split("\n").length < 400, name);
  }
});

test("what has the focus is asked at one place only, which sees into shadow trees", () => {
  const asking = modules.filter(({ text }) => text.includes("document.activeElement"));
  assert.deepEqual(
    asking.map(({ name }) => name),
    ["focus.js"],
  );
});
