"""A run that is drawn into its cell and a widget: what is where, what moves, and what it costs."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field

import pytest
from fake_page import FakePage

from indus_nb.base.events import (
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolOutput,
    TurnStart,
)
from indus_nb.base.messages import Cost, Usage
from indus_nb.base.streaming import GrowingMessage
from indus_nb.front.notebook.page.widget import AgentWidget
from indus_nb.front.notebook.view.cell import CellView
from indus_nb.front.notebook.view.growing import LiveDrawing
from indus_nb.front.notebook.view.output import NotebookScreen
from indus_nb.front.notebook.view.transcript import Transcript
from indus_nb.kernel.run.outputs import Output, OutputBoard

WIDGET = "application/vnd.jupyter.widget-view+json"


@dataclass
class Sheet:
    """A screen that remembers what each display shows now."""

    displays: list[dict] = field(default_factory=list)

    def show(self, bundle, *, final, own=None):
        self.displays.append(bundle)
        return Place(self, len(self.displays) - 1)

    def kinds(self) -> list[str]:
        return ["widget" if WIDGET in bundle else bundle["text/plain"] for bundle in self.displays]


class LateSheet(NotebookScreen):
    """A screen of VS Code, which draws a widget late, over what took its place meanwhile."""

    def __init__(self) -> None:
        super().__init__(self, has_beside=False)

    def publish(self, bundle, display_id, *, update, metadata=None) -> None:
        """Send nothing: it is looked at from within."""

    def kinds(self) -> list[str]:
        shown = [output["data"] for output in self.outputs()]
        return ["widget" if WIDGET in bundle else bundle["text/plain"] for bundle in shown]


@dataclass
class Place:
    sheet: Sheet
    number: int

    def update(self, bundle, *, final, own=None):
        self.sheet.displays[self.number] = bundle


class Run:
    """Feeds a view as a session does, and keeps what a page would be sent."""

    def __init__(self, sheet=None) -> None:
        self.now = 0.0
        self.held = False
        self.live = AgentWidget("cell", lambda message: None, lambda work: work())
        self.page = FakePage.of(self.live)
        self.sheet = sheet or Sheet()
        self.transcript = Transcript("Model M", lambda: self.now)
        self.view = CellView(self.transcript, self.sheet, self.live, is_held=lambda: self.held)
        self.feed(AgentStart(), TurnStart())
        self.growing = GrowingMessage(api="a", provider="p", model="m-1")
        self.feed(MessageStart(message=self.growing.snapshot()))

    def feed(self, *events) -> None:
        for event in events:
            self.transcript.feed(event)

    def update(self, event) -> int:
        self.feed(MessageUpdate(assistant_message_event=event, growing=self.growing))
        return event.content_index

    def end(self, index: int) -> None:
        self.update(self.growing.close(index))
        self.feed(MessageEnd(message=self.growing.finish("stop").message))

    def tick(self, seconds: float = 0.1) -> list[str]:
        self.now += seconds
        self.view.draw()
        return self.sheet.kinds()

    def ready(self, page: str = "one") -> None:
        self.page.tell("ready", page=page)

    def close(self) -> list[str]:
        self.transcript.close()
        self.view.close()
        return self.sheet.kinds()


def test_what_grows_is_in_the_widget_and_what_is_finished_stands_above_it() -> None:
    run = Run()
    run.ready()
    assert run.sheet.kinds() == ["widget"]
    index = run.update(run.growing.open_text())
    run.update(run.growing.append(index, "Hello"))
    assert run.tick() == ["widget"]
    assert "Hello" in "".join(run.page.blocks.values())
    run.end(index)
    assert run.tick() == ["Hello", "widget"]
    assert run.page.blocks == {}
    assert [text.split(" · ")[0] for text in run.close()] == ["Hello", "m-1"]


def test_nothing_moves_while_a_question_is_open() -> None:
    run = Run()
    run.ready()
    index = run.update(run.growing.open_text())
    run.update(run.growing.append(index, "Hello"))
    run.end(index)
    run.held = True
    assert run.tick() == ["widget"]
    run.held = False
    assert run.tick() == ["Hello", "widget"]


def test_where_a_widget_is_drawn_late_nothing_takes_its_place_before() -> None:
    run = Run(LateSheet())
    index = run.update(run.growing.open_text())
    run.update(run.growing.append(index, "Hello"))
    run.end(index)
    assert run.tick() == ["widget"]
    waiting = asyncio.wait_for(run.view.drawn(), 0.5)
    with pytest.raises(TimeoutError):
        asyncio.run(waiting)
    run.ready()
    asyncio.run(run.view.drawn())
    assert run.tick() == ["Hello", "widget"]
    assert [text.split(" · ")[0] for text in run.close()] == ["Hello", "m-1"]


def test_a_widget_that_nobody_draws_is_not_waited_for_longer_than_three_seconds() -> None:
    run = Run(LateSheet())
    index = run.update(run.growing.open_text())
    run.update(run.growing.append(index, "Hello"))
    run.end(index)
    run.now = 3.1
    asyncio.run(run.view.drawn())
    assert run.view.is_given_up
    assert run.sheet.kinds() == ["Hello"]


def test_what_a_trial_has_shown_below_the_widget_is_labelled_while_a_question_is_open() -> None:
    run, board = Run(), OutputBoard()
    run.ready()
    run.transcript.outputs = board
    run.feed(ToolExecutionStart(tool_call_id="c1", tool_name="python", args={}))
    shown = board.begin("c1", lambda value: value)
    shown.show("", [Output({"text/html": "<table>1</table>", "text/plain": "1"}, {}, "table", 1)])
    tried = ToolOutput(content=[], details={"ran": "copy"})
    run.feed(ToolExecutionUpdate(tool_call_id="c1", tool_name="python", args={}, partial_result=tried))
    assert run.tick() == ["widget", "1"]
    run.held = True
    assert run.tick() == ["widget", "Preview, not run yet:\n1"]
    run.held = False
    assert run.tick() == ["widget", "1"]


def test_without_a_page_that_is_ready_the_widget_gives_way_to_displays() -> None:
    run = Run()
    index = run.update(run.growing.open_text())
    run.update(run.growing.append(index, "Hello"))
    assert run.tick(2.9) == ["widget"]
    assert run.tick(0.2) == ["Hello"]
    run.update(run.growing.append(index, " you"))
    assert run.tick() == ["Hello you"]


def test_a_page_that_was_loaded_again_keeps_the_widget_with_all_that_came_since() -> None:
    run = Run()
    run.ready("one")
    index = run.update(run.growing.open_text())
    run.update(run.growing.append(index, "Before"))
    run.tick()
    run.ready("two")
    run.update(run.growing.close(index))
    run.tick()
    assert run.sheet.kinds() == ["widget"]
    run.close()
    shown = "".join(run.page.blocks.values())
    assert "Before" in shown
    assert "indus-usage" in shown
    assert run.live._widget.comm is not None


@pytest.mark.parametrize(
    "word",
    ["word ", "word\n\n", "- word\n", "| word | word |\n", "word\n"],
    ids=["line", "blocks", "list", "rows", "lines"],
)
def test_the_cost_of_watching_is_in_proportion_to_the_length(word: str) -> None:
    def sent(deltas: int) -> int:
        run = Run()
        run.ready()
        index = run.update(run.growing.open_text())
        if word.startswith("|"):
            run.update(run.growing.append(index, "| a | b |\n|---|---|\n"))
        for number in range(deltas):
            run.update(run.growing.append(index, word))
            if number % 16 == 0:
                run.tick()
        run.close()
        text = "".join(bundle["text/plain"] for bundle in run.sheet.displays)
        assert text.count("word") == deltas * word.count("word")
        return sum(len(json.dumps(message)) for message in run.page.messages)

    assert sent(4_000) < 2.6 * sent(2_000)


def test_a_paragraph_is_in_one_piece_while_it_grows_if_it_is_when_it_is_finished() -> None:
    run = Run()
    run.ready()
    answer = run.update(run.growing.open_text())
    sentence = "One of very many sentences, in which **two** words are bold. "
    for count in range(190):
        run.update(run.growing.append(answer, sentence))
        if count % 10 == 0:
            run.tick()
            assert len(run.page.blocks) == 1
    run.update(run.growing.append(answer, sentence * 100))
    run.tick()
    pieces = [*run.page.blocks.values()]
    assert len(pieces) == 2
    assert all(re.search(r"<p>One .*</strong> words are bold\.\s*</p>", piece, re.DOTALL) for piece in pieces)
    run.end(answer)
    shown = [text for text in run.tick() if text.startswith("One ")]
    assert [text.count("One ") for text in shown] == [piece.count("One ") for piece in pieces]


def test_a_text_is_drawn_less_often_the_longer_it_is() -> None:
    run = Run()
    run.ready()
    drawing = LiveDrawing(run.live)

    def pace_after(characters: int) -> float:
        run.update(run.growing.append(index, "x" * characters))
        for block in run.transcript.blocks:
            drawing.draw(block)
        return drawing.pace

    index = run.update(run.growing.open_text())
    paces = [pace_after(characters) for characters in (10, 5_000, 50_000)]
    assert paces == sorted(set(paces))
    run.update(run.growing.close(index))
    index = run.update(run.growing.open_text())
    assert pace_after(10) == paces[0]


def test_the_footer_tells_tokens_and_cost_of_the_run() -> None:
    run = Run()
    run.ready()
    run.growing.usage = Usage(input=1000, output=20, cost=Cost(total=0.0123))
    message = run.growing.finish("stop").message
    run.feed(MessageEnd(message=message))
    run.tick()
    assert run.page.state["tokens"] == "1,000 in · 20 out"
    assert run.page.state["cost"] == "$0.0123"
    assert run.page.state["busy"] is True
