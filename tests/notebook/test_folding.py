"""Calls that fold: each when something follows it, and those in a row into one line, with nothing lost on the way."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest
from fake_page import FakePage

from indus_nb.base.events import (
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolOutput,
    TurnEnd,
    TurnStart,
)
from indus_nb.base.messages import ImageContent
from indus_nb.base.streaming import GrowingMessage
from indus_nb.front.notebook.page.widget import AgentWidget
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.blocks import Call
from indus_nb.front.notebook.view.cell import CellView
from indus_nb.front.notebook.view.parts import Card
from indus_nb.front.notebook.view.transcript import Transcript
from indus_nb.kernel.run.outputs import CallOutputs, Output, OutputBoard
from indus_nb.tools import CallDescription
from indus_nb.tools.jobs import Job
from indus_nb.tools.tool import text_output

DOT = "R0lGODlhAQABAIAAAP8AAP///yH5BAAAAAAALAAAAAABAAEAAAICRAEAOw=="
WIDGET = "application/vnd.jupyter.widget-view+json"


@dataclass
class Sheet:
    """A screen that knows what each display shows now, and checks after each change that nothing is missing."""

    displays: list[dict] = field(default_factory=list)
    outputs: set[str] = field(default_factory=set)
    characters_sent: int = 0

    def show(self, bundle, *, final, own=None):
        self.displays.append({})
        place = Place(self, len(self.displays) - 1)
        place.update(bundle, final=final)
        return place

    def lines(self) -> list[str]:
        """What is shown, from the top, each by its first line."""
        return [
            "widget" if WIDGET in bundle else bundle["text/plain"].split("\n")[0]
            for bundle in self.displays
            if WIDGET in bundle or bundle["text/plain"] or "image/gif" in bundle
        ]

    def check(self) -> None:
        shown = "\n".join(str(bundle.get("text/plain")) for bundle in self.displays)
        assert [output for output in self.outputs if output not in shown] == []
        assert [WIDGET in bundle for bundle in self.displays].count(True) <= 1


@dataclass
class Place:
    sheet: Sheet
    number: int

    def update(self, bundle, *, final, own=None):
        self.sheet.displays[self.number] = bundle
        self.sheet.characters_sent += sum(len(str(data)) for data in bundle.values())


class Run:
    """Feeds a view as a session does; ``live`` is whether a page shows a widget."""

    def __init__(self, *, live: bool = True) -> None:
        self.now = 0.0
        self.held = False
        self.widget = AgentWidget("cell", lambda message: None, lambda work: work()) if live else None
        self.sheet = Sheet()
        self.transcript = Transcript("M", lambda: self.now)
        self.transcript.outputs = self.board = OutputBoard()
        page = FakePage.of(self.widget) if self.widget else None
        self.view = CellView(self.transcript, self.sheet, self.widget, is_held=lambda: self.held)
        if page is not None:
            page.tell("ready", page="one")
        self.calls = 0
        self.feed(AgentStart(), TurnStart())

    def feed(self, *events) -> None:
        for event in events:
            self.transcript.feed(event)

    def tick(self, seconds: float = 0) -> list[str]:
        self.now += seconds
        self.view.draw()
        self.sheet.check()
        return self.sheet.lines()

    def say(self, text: str, *, thinking: bool = False) -> None:
        growing = GrowingMessage(api="a", provider="p", model="m-1")
        self.feed(MessageStart(message=growing.snapshot()))
        opened = growing.open_thinking() if thinking else growing.open_text()
        for event in (opened, growing.append(0, text)):
            self.feed(MessageUpdate(assistant_message_event=event, growing=growing))
        self.tick()
        self.feed(MessageUpdate(assistant_message_event=growing.close(0), growing=growing))
        self.finish(growing)

    def finish(self, growing: GrowingMessage, reason: str = "stop") -> None:
        last = growing.finish(reason)
        self.feed(MessageUpdate(assistant_message_event=last, growing=growing))
        self.feed(MessageEnd(message=last.message), TurnEnd(message=last.message, tool_results=[]))

    def begin(self, *commands: str) -> list[str]:
        """Have the model call a tool, several times at once perhaps; returns the ids of the calls."""
        growing = GrowingMessage(api="a", provider="p", model="m-1")
        self.feed(MessageStart(message=growing.snapshot()))
        ids = []
        for command in commands:
            self.calls += 1
            ids.append(f"c{self.calls}")
            opened = growing.open_tool_call(ids[-1], "bash")
            index = opened.content_index
            for event in (opened, growing.append(index, f'{{"command": "{command}"}}'), growing.close(index)):
                self.feed(MessageUpdate(assistant_message_event=event, growing=growing))
        self.finish(growing, "toolUse")
        self.tick()
        return ids

    def end(
        self,
        call_id: str,
        output: str,
        *,
        seconds: float = 1,
        failed: bool = False,
        shows: str = "",
        changed: str = "",
    ) -> None:
        self.feed(ToolExecutionStart(tool_call_id=call_id, tool_name="bash", args={}))
        self.tick()
        if shows:
            shown = self.board.begin(call_id, lambda value: value)
            shown.show(f"{output}\n↓ {shows}", [Output({"text/plain": shows, "image/gif": DOT}, {}, shows, size=9)])
            partial = text_output(output)
            self.feed(ToolExecutionUpdate(tool_call_id=call_id, tool_name="bash", args={}, partial_result=partial))
            self.tick()
        self.now += seconds
        result = text_output(output, {"changed": changed} if changed else None)
        self.feed(ToolExecutionEnd(tool_call_id=call_id, tool_name="bash", result=result, is_error=failed))
        self.tick()
        self.sheet.outputs.add(output)

    def call(self, command: str, output: str, **more) -> None:
        self.end(*self.begin(command), output, **more)

    def close(self) -> list[str]:
        self.transcript.close()
        self.view.close()
        self.sheet.check()
        return self.sheet.lines()


def html(run: Run, number: int) -> str:
    shown = [bundle["text/html"] for bundle in run.sheet.displays if bundle.get("text/html")]
    return shown[number]


@pytest.mark.parametrize("live", [True, False])
def test_a_call_stays_open_until_the_next_one_begins(live: bool) -> None:
    run = Run(live=live)
    run.call("one", "first")
    assert "<details open" in html(run, 0)
    assert "· first" not in html(run, 0)
    (second,) = run.begin("two")
    assert "<details open" not in html(run, 0)
    assert "· first" in html(run, 0)
    run.end(second, "second")
    assert "<details open" in html(run, 1)
    assert run.close()[0] == "2 steps"


@pytest.mark.parametrize("live", [True, False])
def test_a_row_folds_into_one_line_above_the_answer_and_leaves_the_rest_where_it_is(live: bool) -> None:
    run = Run(live=live)
    run.say("I begin.")
    run.call("one", "1st")
    run.say("Now the second.")
    run.call("two", "2nd", failed=True)
    run.say("It failed because it does not know better.", thinking=True)
    run.call("three", "3rd")
    run.say("This is the answer.\n\nIt has two paragraphs.")
    assert run.tick()[:3] == ["I begin.", "3 steps · 1 failed", "This is the answer."]
    assert run.close()[:-1] == ["I begin.", "3 steps · 1 failed", "This is the answer."]
    group = html(run, 1)
    assert group.index("1st") < group.index("Now the second.") < group.index("2nd") < group.index("Thinking")
    assert "<details open" not in group
    assert group.count("<details>") == 5  # the line, three cards and the reasoning: no script is needed


@pytest.mark.parametrize("live", [True, False])
def test_the_change_of_one_call_is_told_below_a_row_that_its_card_is_folded_into(live: bool) -> None:
    run = Run(live=live)
    run.call("one", "1st")
    run.call("two", "2nd", changed="sales 3194 → 2868 rows")
    run.say("Done.")
    told = "Changed: sales 3194 → 2868 rows. %agent undo takes it back."
    assert run.close()[:-1] == ["2 steps", "Done.", told]


@pytest.mark.parametrize("live", [True, False])
def test_the_change_of_one_call_is_not_told_twice_where_its_card_is_in_sight(live: bool) -> None:
    run = Run(live=live)
    run.call("one", "1st")
    run.say("A long word between the two.\n\nIt has two paragraphs.")
    run.call("two", "2nd", changed="x new")
    run.say("Done.")
    run.close()
    shown = "".join(bundle["text/html"] for bundle in run.sheet.displays)
    assert shown.count("%agent undo") == 1


@pytest.mark.parametrize("live", [True, False])
def test_a_short_answer_is_no_part_of_the_row(live: bool) -> None:
    run = Run(live=live)
    run.call("one", "1st")
    run.call("two", "2nd")
    run.say("Done.")
    assert run.close()[:2] == ["2 steps", "Done."]
    assert "Done." not in html(run, 0)


@pytest.mark.parametrize("live", [True, False])
def test_what_a_call_shows_stands_below_it_and_outside_of_any_line(live: bool) -> None:
    run = Run(live=live)
    run.call("one", "1st")
    run.call("two", "2nd", shows="figure A")
    run.call("three", "3rd")
    run.call("four", "4th")
    run.call("five", "5th", shows="figure B")
    run.say("So it is.")
    lines = run.close()
    assert lines[:5] == ["2 steps", "figure A", "3 steps", "figure B", "So it is."]
    assert lines[-1] == "m-1"


def test_one_call_is_one_line_and_no_row() -> None:
    run = Run()
    run.call("wc -l clean.py", "12 clean.py")
    run.say("Twelve lines.")
    lines = run.close()
    assert lines[0].startswith("✓ bash  wc -l clean.py")
    assert "· 12 clean.py" in html(run, 0)
    assert "<details>" in html(run, 0)


def test_nothing_moves_while_a_question_is_open() -> None:
    run = Run()
    run.call("one", "1st")
    before = [dict(bundle) for bundle in run.sheet.displays]
    run.held = True
    run.begin("two")
    assert run.sheet.displays == before
    run.held = False
    run.tick()
    assert "<details open" not in html(run, 0)


@pytest.mark.parametrize("live", [True, False])
def test_hundreds_of_calls_take_few_displays_and_are_sent_a_few_times_each(live: bool) -> None:
    def of(count: int) -> Run:
        run = Run(live=live)
        for number in range(count):
            run.call(f"echo {number}", f"output {number} of many" * 10)
        *lines, _ = run.close()
        assert sum(int(line.partition(" steps")[0]) for line in lines) == count
        return run

    run = of(300)
    assert len(run.sheet.displays) < 20
    assert run.sheet.characters_sent < 2.2 * of(150).sheet.characters_sent + 300_000


def test_calls_side_by_side_fold_as_they_end() -> None:
    run = Run()
    ids = run.begin("one", "two", "three")
    for call_id, output in zip(ids, ("1st", "2nd", "3rd"), strict=True):
        run.end(call_id, output)
    assert ["<details open" in html(run, number) for number in range(3)] == [False, False, True]
    assert run.close()[0] == "3 steps"


@pytest.mark.parametrize("ends", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_calls_side_by_side_keep_the_order_of_the_answer_whichever_ends_first(ends: tuple[int, ...]) -> None:
    run = Run(live=False)
    for _ in range(4):
        ids = run.begin("one", "two", "three")
        for number in ends:
            run.end(ids[number], f"{ids[number]} out")
    run.close()
    shown = "\n".join(bundle["text/plain"] for bundle in run.sheet.displays)
    assert re.findall(r"one|two|three", shown) == ["one", "two", "three"] * 4


def test_the_widget_keeps_its_place_when_there_is_room_above_it() -> None:
    run = Run()
    for number in range(11):
        run.call(f"echo {number}", f"number {number};")
    (place,) = [number for number, bundle in enumerate(run.sheet.displays) if WIDGET in bundle]
    run.call("echo more", "one more")
    assert WIDGET in run.sheet.displays[place]


def brief(call: Call) -> str:
    call.folded = True
    text = blocks.call(call)["text/html"].split("</summary>")[0]
    for tag in ("<b>", "</b>", "<code", "</code>"):
        text = text.replace(tag, " " + tag)
    return " ".join("".join(part.partition(">")[2] for part in text.split("<")).split())


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (Call("read", {"path": "clean.py"}, state="done", output="x\n" * 12), "✓ read clean.py · 12 lines"),
        (Call("bash", {"command": "wc -l a"}, state="done", output="3 a\n"), "✓ bash wc -l a · 3 a"),
        (Call("bash", {"command": "true"}, state="done"), "✓ bash true"),
        (
            Call("edit", {"path": "a.py"}, state="done", output="ok", diff="-1 a\n+1 b\n+2 c"),
            "✓ edit a.py · +2 \u22121",
        ),
        (
            Call(
                "python",
                {},
                described=CallDescription("python", code="import pandas\nsales.head(2)\n"),
                state="done",
                output="↓ DataFrame 2 x 6",
                shows=["DataFrame 2 x 6"],
            ),
            "✓ python sales.head(2) · DataFrame 2 x 6",
        ),
        (
            Call(
                "python",
                {},
                described=CallDescription("python", code="sales['nope']"),
                state="failed",
                output="Traceback (most recent call last)\n  …\nKeyError: 'nope'\n",
            ),
            "✗ python sales['nope'] · KeyError: &#x27;nope&#x27;",
        ),
        (
            Call(
                "python",
                {},
                described=CallDescription("python", code="train()"),
                state="failed",
                output="step 1\nstep 2\n\nThe run was aborted: the code was interrupted.",
                interrupted="stopped",
            ),
            "✗ python train() · step 2 · stopped",
        ),
        (
            Call(
                "python",
                {},
                described=CallDescription("python", code="train()"),
                state="failed",
                output="The run was aborted: the code was interrupted.",
                interrupted="stopped",
                changed="Changed: df 9 → 8 rows (%agent undo)",
            ),
            "✗ python train() · stopped · Changed: df 9 → 8 rows (%agent undo)",
        ),
        (
            Call("bash", {"command": "rm x"}, state="done", changed="Changed: x deleted (%agent undo)"),
            "✓ bash rm x · Changed: x deleted",
        ),
    ],
)
def test_a_folded_call_says_what_came_of_it(call: Call, told: str) -> None:
    assert brief(call).replace("&#x27;", "'") == told.replace("&#x27;", "'")


def test_an_image_of_a_tool_ends_the_row_for_it_stands_below() -> None:
    run = Run()
    run.call("one", "1st")
    (second,) = run.begin("two")
    run.feed(ToolExecutionStart(tool_call_id=second, tool_name="bash", args={}))
    result = text_output("2nd")
    result.content.append(ImageContent(data=DOT, mime_type="image/gif"))
    run.feed(ToolExecutionEnd(tool_call_id=second, tool_name="bash", result=result, is_error=False))
    run.tick()
    run.call("three", "3rd")
    lines = run.close()
    assert lines[0].startswith("2 steps")
    assert lines[1].startswith("[image: image/gif")
    assert lines[2].startswith("✓ bash  three")


def test_the_card_of_a_job_says_where_its_code_runs_by_now() -> None:
    job = Job("job-1", "python", "train()", output=ToolOutput(content=[], details={"ran": "copy"}))
    shown = CallOutputs("cell", lambda value: value)
    shown.job, card = job, Card("call", shows=shown)
    card.call.report(job.output.details)
    assert card.call.ran == "in a copy"
    job.output = ToolOutput(content=[], details={})  # the user said that it is to run in the kernel
    assert card.follow_job()
    assert card.call.ran == ""
