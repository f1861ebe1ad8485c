import assert from "node:assert/strict";
import { test } from "node:test";
import { isOwn, markOwn, markQuestion, morph, questionOf } from "../../indus_nb/front/notebook/page/static/src/dom.js";
import { element } from "./fake_dom.js";

test("what grows keeps its nodes, and its text is appended to", () => {
  const text = element("p", {}, "The ans");
  const before = element("div", {}, text);
  morph(before, element("div", {}, element("p", {}, "The answer"), element("p", {}, "is 42.")));
  assert.equal(String(before), "<div><p>The answer</p><p>is 42.</p></div>");
  assert.equal(before.firstChild, text);
  assert.deepEqual(text.firstChild.appended, ["wer"], "which leaves a selection alone");
});

test("a text that is another one is replaced", () => {
  const before = element("p", {}, "one");
  morph(before, element("p", {}, "two"));
  assert.equal(String(before), "<p>two</p>");
});

test("attributes are added, changed and removed", () => {
  const before = element("div", {}, element("a", { href: "old", title: "gone", class: "same" }));
  morph(before, element("div", {}, element("a", { href: "new", class: "same", id: "added" })));
  assert.equal(String(before), '<div><a href="new" class="same" id="added"></a></div>');
});

test("elements of another kind are replaced, and those that are too many removed", () => {
  const before = element("div", {}, element("p", {}, "a"), element("p", {}, "b"), element("p", {}, "c"));
  const last = before.children[1];
  morph(before, element("div", {}, element("pre", {}, "code"), element("p", {}, "b")));
  assert.equal(String(before), "<div><pre>code</pre><p>b</p></div>");
  assert.equal(before.children[1], last);
  morph(before, element("div"));
  assert.equal(String(before), "<div></div>");
});

test("an element of ours stays between nodes that come and go", () => {
  const button = element("button", {}, "To cell");
  const before = element("div", {}, element("p", {}, "a"), button, element("p", {}, "b"));
  markOwn(button);
  assert.ok(isOwn(button) && !isOwn(before.firstChild) && !isOwn(null));
  morph(before, element("div", {}, element("p", {}, "A"), element("p", {}, "B"), element("p", {}, "C")));
  assert.equal(String(before), "<div><p>A</p><button>To cell</button><p>B</p><p>C</p></div>");
  morph(before, element("div", {}, element("p", {}, "A")));
  assert.equal(String(before), "<div><p>A</p><button>To cell</button></div>");
  morph(before, element("div", {}, element("pre", {}, "A")));
  assert.equal(String(before), "<div><pre>A</pre><button>To cell</button></div>");
});

test("no HTML is taken for an element that shows a question", () => {
  const ours = element("div", { class: "ia-dialog" });
  markQuestion(ours, "q1");
  assert.equal(questionOf(ours), "q1");
  assert.equal(questionOf(element("div", { class: "ia-dialog", "data-question": "q1" })), undefined);
});
