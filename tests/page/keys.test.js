import assert from "node:assert/strict";
import { test } from "node:test";
import {
  belongsToFrontEnd,
  composerAction,
  dialogAction,
  kindOfChord,
  listTarget,
} from "../../indus_nb/front/notebook/page/static/src/keys.js";

/** A key event from words like "ctrl+shift+Enter". */
function press(words) {
  const parts = words.split("+");
  const has = (name) => parts.slice(0, -1).includes(name);
  return {
    key: parts.at(-1),
    ctrlKey: has("ctrl"),
    metaKey: has("meta"),
    altKey: has("alt"),
    shiftKey: has("shift"),
  };
}

test("saving, opening, function keys and chords with Shift are the front end's, editing keys are not", () => {
  for (const words of ["ctrl+s", "meta+S", "ctrl+p", "F1", "ctrl+shift+c", "meta+shift+p"])
    assert.ok(belongsToFrontEnd(press(words), false), words);
  for (const words of ["d", "Escape", "ctrl+c", "ctrl+z", "ctrl+shift+z", "ctrl+shift+V", "ctrl+alt+s", "ctrl+Enter"])
    assert.ok(!belongsToFrontEnd(press(words), false), words);
});

test("Shift+Enter runs the cell only where nothing of ours but the view itself has the focus", () => {
  assert.ok(belongsToFrontEnd(press("shift+Enter"), true));
  assert.ok(!belongsToFrontEnd(press("shift+Enter"), false));
  assert.ok(!belongsToFrontEnd(press("Enter"), true));
});

const NOWHERE = { typing: false, scrolling: false, atBox: true };
const TYPING = { typing: true, scrolling: false, atBox: false };

const CONFIRM = {
  method: "confirm",
  choices: [
    { value: true, kind: "yes", key: "y" },
    { value: false, kind: "no", key: "n" },
  ],
  byEnter: null,
  isOfParts: false,
};
const LIST = {
  method: "select",
  choices: [
    { value: "a", kind: "yes", key: "1" },
    { value: "No", kind: "no", key: "2" },
  ],
  byEnter: null,
  isOfParts: false,
};
const APPROVAL = {
  method: "select",
  choices: [
    { value: "once", kind: "yes", key: "1" },
    { value: "rule", kind: "again", key: "2" },
    { value: "none", kind: "no", key: "3" },
  ],
  byEnter: "once",
  isOfParts: true,
};
const FIELD = { method: "input", choices: [], byEnter: null, isOfParts: false };

test("Escape closes every dialog, also while somebody types", () => {
  for (const dialog of [CONFIRM, LIST, APPROVAL, FIELD])
    for (const at of [NOWHERE, TYPING]) assert.deepEqual(dialogAction(press("Escape"), dialog, at), { type: "close" });
});

test("y and n choose an answer, but not with Ctrl and not while somebody types", () => {
  const answer = (words, at = NOWHERE) => dialogAction(press(words), CONFIRM, at);
  assert.deepEqual(answer("y"), { type: "choose", value: true });
  assert.deepEqual(answer("shift+Y"), { type: "choose", value: true });
  assert.deepEqual(answer("n"), { type: "choose", value: false });
  assert.equal(answer("ctrl+y"), null);
  assert.equal(answer("y", TYPING), null);
  assert.deepEqual(answer("1"), { type: "absent" });
});

test("an approval is given by y, its number or Enter, and refused by n or its number", () => {
  const answer = (words, at = NOWHERE) => dialogAction(press(words), APPROVAL, at);
  for (const words of ["y", "1", "Enter"]) assert.deepEqual(answer(words), { type: "choose", value: "once" }, words);
  for (const words of ["n", "3"]) assert.deepEqual(answer(words), { type: "choose", value: "none" }, words);
  assert.deepEqual(answer("2"), { type: "choose", value: "rule" });
  assert.equal(answer("Enter", { ...NOWHERE, atBox: false }), null, "it presses the button that has the focus");
  assert.deepEqual(answer("shift+Enter"), { type: "ignore" });
});

test("a digit that no button has gives no answer", () => {
  for (const words of ["4", "9"])
    assert.deepEqual(dialogAction(press(words), APPROVAL, NOWHERE), { type: "absent" }, words);
  assert.equal(dialogAction(press("4"), APPROVAL, TYPING), null);
});

test("where a yes cannot be taken back Enter gives a no, and y and its number the yes", () => {
  const answer = (words) => dialogAction(press(words), { ...APPROVAL, byEnter: "none" }, NOWHERE);
  assert.deepEqual(answer("Enter"), { type: "choose", value: "none" });
  for (const words of ["y", "1"]) assert.deepEqual(answer(words), { type: "choose", value: "once" }, words);
});

test("a no that is the first answer is given by n as well", () => {
  const choices = [
    { value: "none", kind: "no", key: "1" },
    { value: "save", kind: "no", key: "2" },
  ];
  const dialog = { ...APPROVAL, choices, byEnter: null };
  assert.deepEqual(dialogAction(press("n"), dialog, NOWHERE), { type: "choose", value: "none" });
  assert.deepEqual(dialogAction(press("2"), dialog, NOWHERE), { type: "choose", value: "save" });
  for (const words of ["y", "Enter"]) assert.equal(dialogAction(press(words), dialog, NOWHERE), null, words);
});

test("a number chooses the option with it, if there is one", () => {
  const choose = (words) => dialogAction(press(words), LIST, NOWHERE);
  assert.deepEqual(choose("2"), { type: "choose", value: "No" });
  assert.deepEqual(choose("3"), { type: "absent" });
  for (const words of ["0", "alt+1", "y", "n", "Enter"]) assert.equal(choose(words), null, words);
});

test("arrows go through answers, except in a text that scrolls", () => {
  for (const dialog of [LIST, CONFIRM, APPROVAL]) {
    assert.deepEqual(dialogAction(press("ArrowDown"), dialog, NOWHERE), { type: "move", step: 1 });
    assert.deepEqual(dialogAction(press("ArrowLeft"), dialog, NOWHERE), { type: "move", step: -1 });
    assert.equal(dialogAction(press("ArrowUp"), dialog, { ...NOWHERE, scrolling: true }), null);
  }
  assert.equal(dialogAction(press("ArrowDown"), FIELD, NOWHERE), null);
});

test("Enter sends a line and a reason, and an editor's text only with Ctrl or Cmd", () => {
  const enter = (words, method) => dialogAction(press(words), { ...FIELD, method }, TYPING);
  for (const method of ["input", "select"]) {
    assert.deepEqual(enter("Enter", method), { type: "submit" });
    assert.equal(enter("ctrl+Enter", method), null);
  }
  assert.equal(enter("Enter", "editor"), null);
  assert.deepEqual(enter("ctrl+Enter", "editor"), { type: "submit" });
  assert.deepEqual(enter("meta+Enter", "editor"), { type: "submit" });
});

test("Shift+Enter presses no button of a dialog", () => {
  assert.deepEqual(dialogAction(press("shift+Enter"), CONFIRM, NOWHERE), { type: "ignore" });
  assert.equal(dialogAction(press("Enter"), CONFIRM, NOWHERE), null, "plain Enter presses it");
});

const IDLE = { open: false, busy: false, recalling: false, empty: false, complete: false };

test("Enter sends, steers a run, and with Alt follows it up", () => {
  assert.equal(composerAction(press("Enter"), IDLE), "send");
  assert.equal(composerAction(press("alt+Enter"), IDLE), "send");
  assert.equal(composerAction(press("Enter"), { ...IDLE, busy: true }), "steer");
  assert.equal(composerAction(press("alt+Enter"), { ...IDLE, busy: true }), "followUp");
  for (const words of ["shift+Enter", "ctrl+Enter", "meta+Enter"])
    assert.equal(composerAction(press(words), IDLE), null, words);
});

test("open completions get arrows, Tab, Enter and Escape", () => {
  const open = { ...IDLE, open: true };
  const actions = ["ArrowDown", "ArrowUp", "Tab", "Enter", "Escape"].map((key) => composerAction(press(key), open));
  assert.deepEqual(actions, ["next", "previous", "accept", "accept", "close"]);
  assert.equal(composerAction(press("shift+Tab"), open), null);
});

test("Enter sends what is complete although completions are open", () => {
  assert.equal(composerAction(press("Enter"), { ...IDLE, open: true, complete: true }), "send");
  assert.equal(composerAction(press("Tab"), { ...IDLE, open: true, complete: true }), "accept");
});

test("ArrowUp recalls earlier texts only where there is nothing to move through", () => {
  assert.equal(composerAction(press("ArrowUp"), IDLE), null);
  assert.equal(composerAction(press("ArrowUp"), { ...IDLE, empty: true }), "older");
  assert.equal(composerAction(press("ArrowUp"), { ...IDLE, recalling: true }), "older");
  assert.equal(composerAction(press("ArrowDown"), { ...IDLE, recalling: true }), "newer");
  assert.equal(composerAction(press("ArrowDown"), { ...IDLE, empty: true }), null);
  for (const key of ["Tab", "Escape", "a"])
    assert.equal(composerAction(press(key), { ...IDLE, empty: true }), null, key);
});

test("arrows move between a list and the filter above it", () => {
  const list = { at: 0, length: 3, inRow: true };
  assert.equal(listTarget("ArrowUp", list), -1, "the filter");
  assert.equal(listTarget("ArrowDown", list), 1);
  assert.equal(listTarget("End", list), 2);
  assert.equal(listTarget("Home", { ...list, at: 2 }), 0);
  const filter = { at: -1, length: 3, inRow: false };
  assert.equal(listTarget("ArrowDown", filter), 0);
  assert.equal(listTarget("ArrowUp", filter), -1);
  assert.equal(listTarget("Home", filter), null, "which moves the caret");
  assert.equal(listTarget("a", filter), null);
});

test("Alt with Y or N means an answer on every keyboard, and nothing beside Ctrl", () => {
  const chord = (words, code) => kindOfChord({ ...press(words), code }, false);
  for (const [words, code, kind] of [
    ["alt+y", "KeyY", "yes"],
    ["alt+y", "KeyZ", "yes"], // where Y and Z are swapped
    ["alt+\u00a5", "KeyY", "yes"], // on a Mac
    ["alt+shift+Y", "KeyY", "more"],
    ["alt+N", "KeyN", "no"], // caps lock
    ["alt+shift+N", "KeyN", ""],
    ["ctrl+alt+y", "KeyY", ""],
    ["y", "KeyY", ""],
    ["alt+1", "Digit1", ""],
  ])
    assert.equal(chord(words, code), kind, words);
});

test("what a chord writes into a field, or into a word that is composed, answers nothing", () => {
  const typed = (words, code, more = {}) => kindOfChord({ ...press(words), code, ...more }, true);
  for (const [words, code] of [
    ["alt+\u00a5", "KeyY"],
    ["alt+Dead", "KeyN"],
    ["alt+shift+\u00c1", "KeyY"],
  ])
    assert.equal(typed(words, code), "", words);
  assert.equal(typed("alt+n", "KeyN"), "no", "where it writes nothing");
  assert.equal(typed("alt+n", "KeyN", { isComposing: true }), "");
});
