"""How an answer with expressions is drawn while it grows, when it is whole, and when it never is."""

from __future__ import annotations

import pytest
from fake_page import FakePage

from indus_nb.base.events import AgentStart, MessageEnd, MessageStart, MessageUpdate, TurnStart
from indus_nb.base.messages import AssistantMessage, CustomMessage, TextContent, Usage, UserMessage
from indus_nb.base.streaming import GrowingMessage
from indus_nb.front.notebook.page.widget import AgentWidget
from indus_nb.front.notebook.view.cell import CellView
from indus_nb.front.notebook.view.growing import LiveDrawing
from indus_nb.front.notebook.view.output import NotebookScreen
from indus_nb.front.notebook.view.parts import Prose
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

    def __init__(self, *, whole: bool = False) -> None:
        self.transcript = Transcript("Model M", whole=whole)
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


class Rewritten(Answer):
    """An answer with an expression that has no value, which the model is asked to write anew."""

    def __init__(self, *, whole: bool = False) -> None:
        super().__init__(whole=whole)
        self.transcript.values_of = lambda _: {"n": LiveValue("7"), "m": LiveValue(problem="NameError")}.get

    def send_back(self, *, asks: bool = True) -> None:
        """Have what the session sends come, and another answer begin."""
        self.end()
        details = {"rewrites": "1 value could not be computed"} if asks else None
        note = CustomMessage(custom_type="live_values", content="m: no value", display=False, details=details)
        self.transcript.feed(TurnStart())
        self.transcript.feed(MessageStart(message=note))
        self.transcript.feed(MessageEnd(message=note))
        self.growing = GrowingMessage(api="a", provider="p", model="m-1")
        self.transcript.feed(MessageStart(message=self.growing.snapshot()))

    def begin(self) -> None:
        opened = self.growing.open_text()
        self.index = opened.content_index
        self.update(opened)


def test_an_answer_that_is_not_sent_back_stands_beside_the_next_one() -> None:
    answer, screen = Rewritten(), Recorder()
    view = CellView(answer.transcript, screen)
    answer.write("First `{python} m`.")
    answer.send_back(asks=False)
    answer.begin()
    answer.write("Then `{python} n`.")
    answer.end()
    answer.transcript.close()
    view.close()
    shown = "".join(each["data"]["text/plain"] for each in screen.outputs())
    assert "First" in shown
    assert "Then" in shown


@pytest.mark.parametrize("before", ["", LONG])
def test_of_an_answer_that_is_written_anew_a_cell_keeps_the_new_one_alone(before: str) -> None:
    answer, screen = Rewritten(), Recorder()
    view = CellView(answer.transcript, screen)
    answer.write(f"{before}First `{{python}} m`.")
    answer.send_back()
    view.draw()
    assert "First `m` (no value)." in "".join(each["data"]["text/plain"] for each in screen.outputs())
    answer.begin()
    answer.write("Then `{python} n`.")
    view.draw()
    answer.end()
    answer.transcript.close()
    view.close()
    first, _ = (each["data"]["text/plain"] for each in screen.outputs())
    assert first == "Then 7."
    assert answer.transcript.beside.endswith("rewritten: 1 value could not be computed")


def test_an_answer_whose_new_form_ends_badly_is_shown_again() -> None:
    answer, screen = Rewritten(), Recorder()
    view = CellView(answer.transcript, screen)
    answer.write("First `{python} m`.")
    answer.send_back()
    answer.begin()
    answer.write("Then")
    view.draw()
    answer.transcript.feed(MessageEnd(message=answer.growing.fail("stopped", "aborted").error))
    answer.transcript.close()
    view.close()
    shown = [each["data"]["text/plain"] for each in screen.outputs()]
    assert shown[:2] == ["Then", "First `m` (no value)."]
    assert "rewritten" not in answer.transcript.beside


def test_a_panel_shows_the_first_form_again_if_the_new_one_ends_badly_and_leaves_it_then() -> None:
    answer = Rewritten(whole=True)
    answer.write("First `{python} m`.")
    answer.send_back()
    answer.begin()
    answer.write("Then")
    answer.transcript.feed(MessageEnd(message=answer.growing.fail("stopped", "aborted").error))
    answer.transcript.end_run()
    assert all(block.instead is None for block in answer.transcript.blocks if isinstance(block, Prose))
    answer.growing = GrowingMessage(api="a", provider="p", model="m-1")
    answer.transcript.feed(MessageStart(message=answer.growing.snapshot()))
    answer.begin()
    answer.write("Another.")
    answer.end()
    answer.transcript.end_run()
    assert all(block.instead is None for block in answer.transcript.blocks if isinstance(block, Prose))


def test_what_is_not_sent_back_after_all_stays_where_it_is() -> None:
    answer, screen = Rewritten(), Recorder()
    view = CellView(answer.transcript, screen)
    answer.write("First `{python} m`.")
    answer.end()
    answer.transcript.close()
    view.close()
    assert screen.outputs()[0]["data"]["text/plain"] == "First `m` (no value)."


def test_a_panel_folds_the_first_form_of_an_answer_now_and_when_it_is_opened_again() -> None:
    answer = Rewritten(whole=True)
    answer.write("First `{python} m`.")
    answer.send_back()
    answer.begin()
    answer.write("Then `{python} n`.")
    answer.end()
    answer.transcript.end_run()
    again = Transcript("Model M", whole=True)
    again.values_of = answer.transcript.values_of
    details = {"rewrites": "1 value could not be computed"}
    note = CustomMessage(custom_type="live_values", content="m: no value", display=False, details=details)
    first, then = (
        AssistantMessage(
            content=[TextContent(text=text)],
            api="a",
            provider="p",
            model="m-1",
            stop_reason="stop",
            timestamp=1,
            usage=Usage(),
        )
        for text in ("First `{python} m`.", "Then `{python} n`.")
    )
    again.add_history([UserMessage(content="so", timestamp=1), first, note, then])
    for transcript in (answer.transcript, again):
        widget = AgentWidget("panel", lambda message: None, lambda work: work())
        page = FakePage.of(widget)
        page.tell("ready", page="one")
        drawing = LiveDrawing(widget)
        for block in transcript.blocks:
            drawing.draw(block)
        widget.send()
        shown = "".join(page.blocks.values())
        folded, _, rest = shown.partition("</details>")
        assert "rewritten: 1 value could not be computed</summary>" in folded
        assert "(no value)" in folded
        assert ">7<" in rest
        assert "First" not in rest
        assert rest.count("m-1") == 1, "one closing line"


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
