import assert from "node:assert/strict";
import { test } from "node:test";
import {
  beginsMention,
  completeCommand,
  completed,
  diffLines,
  formatDuration,
  formatMoment,
  isCompletable,
  lengthOfSentences,
  markWords,
  mention,
  oneLine,
  splitTitle,
} from "../../indus_nb/front/notebook/page/static/src/text.js";

test("a duration gets minutes and hours as it needs them", () => {
  const shown = [-5, 0, 999, 59_999, 60_000, 3_599_000, 3_600_000, 36_061_000].map(formatDuration);
  assert.deepEqual(shown, ["0 s", "0 s", "0 s", "59 s", "1:00", "59:59", "1:00:00", "10:01:01"]);
});

test("a moment of today is a time, another one a date, and nonsense nothing", () => {
  const now = new Date(2026, 4, 2, 15, 30);
  assert.equal(formatMoment(now.getTime(), now), now.toLocaleTimeString([], { timeStyle: "short" }));
  const earlier = new Date(2026, 4, 1, 15, 30);
  assert.equal(formatMoment(earlier.getTime(), now), earlier.toLocaleDateString([], { dateStyle: "medium" }));
  assert.equal(formatMoment(Number.NaN, now), "");
});

test("lines are joined to one", () => {
  assert.equal(oneLine("a\n\n  b\tc"), "a b c");
});

test("a dialog's title is its first line, and the rest stands below without the empty lines around it", () => {
  assert.deepEqual(splitTitle("\n\nRun this?\n\n  import os\nprint(1)\n\n"), {
    heading: "Run this?",
    body: "  import os\nprint(1)",
  });
  assert.deepEqual(splitTitle(""), { heading: "", body: "" });
});

test("only a text with the header of a hunk is a diff", () => {
  assert.equal(diffLines("- one\n+ two"), null);
  assert.deepEqual(
    diffLines("@@ -1 +1 @@\n-a\n+b\n c")?.map(({ kind }) => kind),
    ["", "removed", "added", ""],
  );
});

test("of a growing answer only whole sentences and lines are read out", () => {
  for (const [whole, rest] of [
    ["One. Two?", " Thre"],
    ["A list:", " a"],
    ["First line\n", "second"],
    ["", "3.14"],
    ["", "No end."], // what follows may belong to it
    ["", ""],
  ])
    assert.equal(lengthOfSentences(`${whole}${rest}`), whole.length, JSON.stringify(whole + rest));
});

test("completions are asked for commands, their arguments, paths and mentions", () => {
  for (const text of ["/", "/comp", "/model son", "see src/ma", "@not", 'see @"my da', "mean({sa", "{"])
    assert.ok(isCompletable(text), text);
  for (const text of ["", "word", "see src/main.py ", '@"my data.csv"', "/model ", "{{sa", "{a.b"])
    assert.ok(!isCompletable(text), text);
});

test("Enter waits for the list of a mention or a variable alone", () => {
  for (const text of ["@not", 'see @"my da', "what is #sa", "f(#sa", "mean({sa", "$sa"])
    assert.ok(beginsMention(text), text);
  for (const text of ["/name My analysis", "and/or", "me@example.org", "see src/ma", "{a.b", ""])
    assert.ok(!beginsMention(text), text);
});

test("a mention of a path with blanks is in quotation marks, unless it has some itself", () => {
  assert.deepEqual(["a.csv", "a b.csv", 'a "b".csv'].map(mention), ["@a.csv", '@"a b.csv"', '@a "b".csv']);
});

test("a completion replaces everything that was asked for if it begins like it, else the last word", () => {
  assert.equal(completed("/mod", "/model "), "/model ");
  assert.equal(completed("/model son", "/model sonnet"), "/model sonnet");
  assert.equal(completed("look at src/ma", "src/main.py"), "look at src/main.py");
  assert.equal(completed("is mean({sa", "{sales}"), "is mean({sales}");
  assert.equal(completed('look at @"my da', '@"my data.csv"'), 'look at @"my data.csv"');
});

test("a command's name is completed whatever its case, and its arguments are not", () => {
  const commands = [{ name: "Compact", description: "Summarise", whole: true }, { name: "model" }];
  assert.deepEqual(completeCommand("/c", commands), [
    { text: "/Compact ", label: "/Compact", detail: "Summarise", whole: true },
  ]);
  assert.deepEqual(
    completeCommand("/", commands)?.map(({ label }) => label),
    ["/Compact", "/model"],
  );
  assert.deepEqual(completeCommand("/zzz", commands), []);
  assert.equal(completeCommand("/model s", commands), null);
  assert.equal(completeCommand("model", commands), null);
});

test("words that are code are marked where they stand alone", () => {
  const marked = (text, words) =>
    markWords(text, words)
      .filter((part) => part.marked)
      .map((part) => part.text);
  assert.deepEqual(marked("This deletes x and sales.units, not xs.", ["x", "sales", "sales.units"]), [
    "x",
    "sales.units",
  ]);
  assert.deepEqual(marked("größe und öx", ["x"]), []);
  assert.deepEqual(markWords("none", []), [{ text: "none", marked: false }]);
});

test("long runs of blanks, line ends or letters of hostile text hold nothing up", () => {
  const many = 300_000; // what took a time that grows with the square of that took minutes
  assert.equal(lengthOfSentences(`Code.${"\n".repeat(many)}`), 0);
  assert.equal(lengthOfSentences(`Code.\n${" ".repeat(many)}`), 0);
  assert.equal(lengthOfSentences(`Code.${"\n".repeat(many)}x`), 5 + many);
  assert.equal(splitTitle(`Title\na${" ".repeat(many)}b `).body.length, many + 2);
  assert.equal(isCompletable(`${"x".repeat(many)} @`), true);
});
