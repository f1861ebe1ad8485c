"""How an answer with expressions is drawn while it grows, when it is whole, and when it never is."""

from __future__ import annotations

import pytest
from fake_page import FakePage

from indus_nb.base.events import AgentStart, MessageEnd, MessageStart, MessageUpdate, TurnStart
from indus_nb.base.streaming import GrowingMessage
from indus_nb.front.notebook.page.widget import AgentWidget
from indus_nb.front.notebook.view.cell import CellView
from indus_nb.front.notebook.view.growing import LiveDrawing
from indus_nb.front.notebook.view.output import NotebookScreen
from indus_nb.front.notebook.view.transcript import Transcript
from indus_nb.kernel.claims.live_answers import source_of
from indus_nb.render.live import LiveValue, in_source
from indus_nb.render.markup import markdown_tokens

LONG = "Words before it, and more of them.\n\n" * 200


class Recorder(NotebookScreen):
    """The displays of a cell that no front end shows."""

    def __init__(self) -> None:
        super().__init__(self)

    def publish(self, bundle, display_id, *, update, metadata=None) -> None:
        """Send nothing: it is looked at from within."""


class Answer:
    """An answer that is streamed, with values that are known at its end."""

    def __init__(self) -> None:
        self.transcript = Transcript("Model M")
        self.transcript.values_of = lambda _: {"n": LiveValue("7")}.get
        self.growing = GrowingMessage(api="a", provider="p", model="m-1")
        for event in (AgentStart(), TurnStart(), MessageStart(message=self.growing.snapshot())):
            self.transcript.feed(event)
        opened = self.growing.open_text()
        self.index = opened.content_index
        self.update(opened)

    def update(self, event) -> None:
        self.transcript.feed(MessageUpdate(assistant_message_event=event, growing=self.growing))

    def write(self, text: str) -> None:
        self.update(self.growing.append(self.index, text))

    def end(self) -> None:
        self.update(self.growing.close(self.index))
        self.transcript.feed(MessageEnd(message=self.growing.finish("stop").message))


@pytest.mark.parametrize("before", ["", LONG])
def test_values_take_the_place_of_marks_in_displays(before: str) -> None:
    answer, screen = Answer(), Recorder()
    view = CellView(answer.transcript, screen)
    answer.write(f"{before}It is `{{python}} n`")
    view.draw()
    answer.write(f".\n\n{before}")
    view.draw()
    shown = "".join(output["data"]["text/plain"] for output in screen.outputs())
    assert "It is …" in shown
    answer.end()
    view.draw()
    outputs = screen.outputs()
    shown = "".join(output["data"]["text/plain"] for output in outputs)
    assert "It is 7." in shown
    assert "…" not in shown
    kept = [output["metadata"]["indus_nb"] for output in outputs if output["metadata"]]
    assert kept == [{"values": [{"expression": "n", "value": "7", "reads": []}]}]


def test_values_take_the_place_of_marks_in_a_panel() -> None:
    answer = Answer()
    widget = AgentWidget("panel", lambda message: None, lambda work: work())
    page = FakePage.of(widget)
    page.tell("ready", page="one")
    drawing = LiveDrawing(widget)
    answer.write("One `{python} n`.\n\nMore.\n\nTwo `{python} n`")
    drawing.draw(answer.transcript.blocks[-1])
    widget.send()
    assert "".join(page.blocks.values()).count(">…<") == 2
    answer.end()
    drawing.draw(answer.transcript.blocks[-1])
    widget.send()
    assert "".join(page.blocks.values()).count(">7<") == 2


def test_an_answer_that_was_stopped_shows_its_expressions() -> None:
    answer, screen = Answer(), Recorder()
    view = CellView(answer.transcript, screen)
    answer.write("It is `{python} n` and")
    answer.transcript.feed(MessageEnd(message=answer.growing.fail("stopped", "aborted").error))
    answer.transcript.close()
    view.close()
    assert screen.outputs()[0]["data"]["text/plain"] == "It is `{python} n` and"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`{python} n` `` {python} n `` `n`", "7 7 `n`"),
        ("``{python} `n` ``", "``{python} `n` ``"),
        ("`{python}n` `{python}` `{r} n`", "`{python}n` `{python}` `{r} n`"),
        ("```\n`{python} n`\n```\n`{python} n`", "```\n`{python} n`\n```\n7"),
        ("> - `{python} n`\n\n    `{python} n`", "> - 7\n\n    `{python} n`"),
        ("\\`{python} n\\` [`{python} n`](https://e.com)", "\\`{python} n\\` [7](https://e.com)"),
        ("<b title='`{python} n`'>", "<b title='7'>"),
        ("`{python} n +\n1` `{python}\nn`", "8 7"),
        ("> so `{python} n +\n> 1`", "> so 8"),
        (f"`{{python}} {'n' * 1001}`", f"`{{python}} {'n' * 1001}`"),
    ],
)
def test_only_inline_code_that_begins_with_the_mark_has_a_value(text: str, expected: str) -> None:
    values = {"n": LiveValue("7"), "`n`": LiveValue("8"), "n + 1": LiveValue("8")}
    assert in_source(text, markdown_tokens(text), values.get) == expected.replace("``{python} `n` ``", "8")


@pytest.mark.parametrize("text", ["", "1)", "n; m", "(yield)", "[(a := 1)]", "n\nm", "*n", "(" * 500, "\0"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expression"):
        source_of(text)
