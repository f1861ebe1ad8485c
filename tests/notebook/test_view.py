"""Events of a run, as displays: what appears, when, and what that costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from indus_nb.base.events import (
    AgentEnd,
    AgentStart,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
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
from indus_nb.base.messages import (
    AssistantMessage,
    Cost,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from indus_nb.base.streaming import GrowingMessage
from indus_nb.base.wire import JsonObject
from indus_nb.front.notebook.page.widget import AgentWidget
from indus_nb.front.notebook.view.blocks import MimeBundle
from indus_nb.front.notebook.view.cell import CellView
from indus_nb.front.notebook.view.growing import LiveDrawing
from indus_nb.front.notebook.view.output import NOTHING, NotebookScreen, TerminalScreen
from indus_nb.front.notebook.view.parts import Line
from indus_nb.front.notebook.view.transcript import Renderer, Transcript
from indus_nb.kernel.run.outputs import Output, OutputBoard
from indus_nb.tools import CallDescription, FunctionTool, Tool
from indus_nb.tools.tool import Arguments, text_output


@dataclass
class Sheet:
    """A screen that remembers every bundle of every display."""

    displays: list[list[dict[str, str]]] = field(default_factory=list)
    bytes_sent: int = 0

    def show(self, bundle, *, final, own=None):
        self.displays.append([])
        return Place(self, self.displays[-1]).update(bundle, final=final)

    def texts(self) -> list[str]:
        return [display[-1]["text/plain"] for display in self.displays]


@dataclass
class Place:
    sheet: Sheet
    bundles: list[dict[str, str]]

    def update(self, bundle, *, final, own=None):
        self.bundles.append(bundle)
        self.sheet.bytes_sent += sum(map(len, bundle.values()))
        return self


class Run:
    """Feeds a view as a session does, with a clock that the test turns."""

    def __init__(self, renderer: Renderer = lambda _: None, tools: Mapping[str, Tool] = {}) -> None:
        self.now = 0.0
        self.sheet = Sheet()
        self.transcript = Transcript("Model M", lambda: self.now, renderer=renderer, tools=lambda: tools)
        self.view = CellView(self.transcript, self.sheet)
        self.feed(AgentStart(), TurnStart())
        self.begin()

    def begin(self) -> None:
        self.growing = GrowingMessage(api="a", provider="p", model="m-1")
        self.feed(MessageStart(message=self.growing.snapshot()))

    def feed(self, *events) -> None:
        for event in events:
            self.transcript.feed(event)

    def update(self, *events) -> int:
        for event in events:
            self.feed(MessageUpdate(assistant_message_event=event, growing=self.growing))
        return getattr(events[-1], "content_index", -1)

    def say(self, text: str, *, thinking: bool = False) -> None:
        index = self.update(self.growing.open_thinking() if thinking else self.growing.open_text())
        self.update(self.growing.append(index, text))
        self.update(self.growing.close(index))

    def call(self, call_id: str, name: str, arguments: str) -> None:
        index = self.update(self.growing.open_tool_call(call_id, name))
        self.update(self.growing.append(index, arguments))
        self.update(self.growing.close(index))

    def end(self, reason: str = "stop", *, error: str | None = None) -> None:
        last = self.growing.fail(error or "", reason) if reason in ("error", "aborted") else self.growing.finish(reason)
        self.update(last)
        message = last.error if reason in ("error", "aborted") else last.message
        self.feed(MessageEnd(message=message), TurnEnd(message=message, tool_results=[]))

    def tick(self, seconds: float = 0.25) -> list[str]:
        self.now += seconds
        self.view.draw()
        return self.sheet.texts()

    def close(self) -> None:
        self.transcript.close()
        self.view.close()


def test_a_cell_and_a_panel_say_the_same_seconds_of_a_run() -> None:
    run = Run()
    made, ended = run.now, AgentEnd(messages=[])
    cell = Transcript("Model M", lambda: run.now)
    run.now = made + 5  # for which the cell prepares
    panel = Transcript("Model M", lambda: run.now, whole=True)
    for view in (cell, panel):
        view.feed(AgentStart())
    run.now += 2
    for view in (cell, panel):
        view.feed(ended)
    cell.close()
    run.now += 4  # in which the session settles
    panel.close()
    assert (cell.beside, panel.beside) == ("2.0 s", "2.0 s")


def test_a_sign_of_life_is_shown_before_anything_has_come_and_gives_way_to_the_answer() -> None:
    run = Run()
    assert run.sheet.texts() == ["… waiting for Model M"]
    assert run.tick(3) == ["… waiting for Model M · 3 s"]
    run.say("Hello")
    assert run.tick() == ["Hello"]


def test_an_answer_grows_in_its_display_and_is_drawn_only_when_it_has_grown() -> None:
    run = Run()
    index = run.update(run.growing.open_text())
    for number in range(100):
        if number % 20 == 0:
            run.update(run.growing.append(index, f"{number} "))
        run.tick(0.001)
    assert len(run.sheet.displays) == 1
    assert len(run.sheet.displays[0]) == 1 + 5
    assert run.sheet.texts() == ["0 20 40 60 80 "]


def test_finished_blocks_are_not_touched_again() -> None:
    run = Run()
    run.say("First")
    run.tick()
    drawn = len(run.sheet.displays[0])
    run.say("Second")
    for _ in range(10):
        run.tick()
    assert run.sheet.texts() == ["First", "Second"]
    assert len(run.sheet.displays[0]) == drawn


def test_the_cost_of_a_long_answer_is_in_proportion_to_its_length() -> None:
    def sent(deltas: int) -> int:
        run = Run()
        index = run.update(run.growing.open_text())
        for number in range(deltas):
            run.update(run.growing.append(index, "word\n\n" if number % 50 == 0 else "word "))
            if number % 40 == 0:
                run.tick(0.2)
        run.close()
        assert "".join(run.sheet.texts()[:-1]).count("word") == deltas
        return run.sheet.bytes_sent

    assert sent(10_000) < 2.6 * sent(5_000)
    assert sent(10_000) < 4_000_000


def test_a_tool_call_is_one_card_from_the_first_letter_to_the_result() -> None:
    run = Run()
    index = run.update(run.growing.open_tool_call("c1", "bash"))
    run.update(run.growing.append(index, '{"command": '))
    assert run.tick() == ["… bash  (12 characters …)"]
    run.update(run.growing.append(index, '"make"}'), run.growing.close(index))
    assert run.tick() == ["… bash  make  (waiting)"]
    run.end("toolUse")
    run.feed(ToolExecutionStart(tool_call_id="c1", tool_name="bash", args={"command": "make"}))
    assert run.tick() == ["● bash  make"]
    run.feed(
        ToolExecutionUpdate(tool_call_id="c1", tool_name="bash", args={}, partial_result=text_output("compiling\n"))
    )
    assert run.tick() == ["● bash  make\n  compiling"]
    assert run.tick(2) == ["● bash  make  (2.0 s)\n  compiling"]
    run.feed(ToolExecutionEnd(tool_call_id="c1", tool_name="bash", result=text_output("built"), is_error=False))
    assert run.tick() == ["✓ bash  make\n  built"]
    assert len(run.sheet.displays) == 1


def test_a_running_tool_with_much_output_shows_its_end_only() -> None:
    run = Run()
    run.call("c1", "bash", "{}")
    run.feed(ToolExecutionStart(tool_call_id="c1", tool_name="bash", args={}))
    lines = "\n".join(map(str, range(100_000)))
    run.feed(ToolExecutionUpdate(tool_call_id="c1", tool_name="bash", args={}, partial_result=text_output(lines)))
    shown = run.tick()[0]
    assert shown.endswith("99999")
    assert len(shown) < 500


def test_calls_that_run_side_by_side_keep_their_places_and_end_in_any_order() -> None:
    run = Run()
    run.call("c1", "read", '{"path": "a"}')
    run.call("c2", "read", '{"path": "b"}')
    for call_id in ("c1", "c2"):
        run.feed(ToolExecutionStart(tool_call_id=call_id, tool_name="read", args={}))
    run.feed(ToolExecutionEnd(tool_call_id="c2", tool_name="read", result=text_output("B"), is_error=True))
    first, second = run.tick()
    assert first.startswith("● read  a")
    assert second.startswith("✗ read  b")
    run.feed(ToolExecutionEnd(tool_call_id="c1", tool_name="read", result=text_output("A"), is_error=False))
    assert run.tick()[0].startswith("✓ read  a")


def test_calls_that_never_ran_say_so() -> None:
    run = Run()
    run.call("c1", "bash", "{}")
    index = run.update(run.growing.open_tool_call("c2", "bash"))
    run.update(run.growing.append(index, '{"comm'))
    run.end("aborted")
    result = ToolResultMessage(tool_call_id="c1", tool_name="bash", content=[TextContent(text="Not run: aborted.")])
    run.feed(MessageEnd(message=result))
    run.close()
    assert run.sheet.texts()[0].startswith("2 steps · 2 not run\n\u2013 bash  (not run)")
    assert run.sheet.texts()[1].endswith("stopped")


def test_a_call_that_the_user_refused_is_no_failure() -> None:
    run = Run()
    run.call("c1", "bash", '{"command": "rm x"}')
    run.call("c2", "bash", '{"command": "rm y"}')
    for call_id, details in (("c1", {"refusedByUser": True}), ("c2", None)):
        run.feed(ToolExecutionStart(tool_call_id=call_id, tool_name="bash", args={}))
        result = text_output("The user did not allow this call.", details)
        run.feed(ToolExecutionEnd(tool_call_id=call_id, tool_name="bash", result=result, is_error=True))
    run.close()
    shown = run.sheet.texts()[0]
    assert shown.startswith("2 steps · 1 failed · 1 refused\n\u2013 bash  rm x  (refused)")
    assert "✗ bash  rm y" in shown


def test_a_call_whose_arguments_are_no_json_shows_what_came() -> None:
    run = Run()
    run.call("c1", "bash", "{nonsense")
    assert "{nonsense" in run.tick()[0]


def test_thinking_shows_its_end_while_it_grows_and_is_folded_when_whole() -> None:
    run = Run()
    index = run.update(run.growing.open_thinking())
    run.update(run.growing.append(index, "a" * 5_000 + " end"))
    run.tick()
    growing = run.sheet.displays[0][-1]["text/html"]
    assert "<details open" in growing
    assert len(growing) < 3_000
    run.update(run.growing.close(index))
    run.tick()
    whole = run.sheet.displays[0][-1]["text/html"]
    assert "<details>" in whole
    assert "a" * 5_000 in whole


def test_blocks_without_text_take_no_place() -> None:
    run = Run()
    run.say("", thinking=True)
    run.say(" \n")
    run.say("Answer")
    run.end()
    run.close()
    assert [text.split(" · ")[0] for text in run.sheet.texts()] == ["Answer", "m-1"]


def test_between_turns_the_model_is_waited_for_again() -> None:
    run = Run()
    run.call("c1", "ls", "{}")
    run.end("toolUse")
    run.feed(ToolExecutionStart(tool_call_id="c1", tool_name="ls", args={}))
    run.feed(ToolExecutionEnd(tool_call_id="c1", tool_name="ls", result=text_output("a"), is_error=False))
    run.feed(TurnStart())
    assert run.tick()[1] == "… waiting for m-1"
    run.begin()
    run.say("Done")
    run.end()
    run.close()
    assert [text.split("\n")[0].split(" · ")[0] for text in run.sheet.texts()] == ["✓ ls", "Done", "m-1"]


def test_tokens_cost_and_time_of_the_run_are_said_beside_the_closing_line_and_not_kept() -> None:
    run = Run()
    run.growing.usage = Usage(input=1000, output=20, cache_read=500, cost=Cost(total=0.0123))
    run.end("toolUse")
    run.begin()
    run.growing.usage = Usage(input=500, output=5, cost=Cost(total=0.01))
    run.end()
    run.now = 75
    run.close()
    assert run.sheet.texts()[-1] == "m-1"
    assert run.transcript.beside == "2,000 tokens in (500 from cache), 25 out · $0.0223 · 1 min 15 s"


def test_each_stored_prompt_has_its_own_cost_also_where_a_call_ended_its_turn() -> None:
    def answered(prompt: str, tokens: int, *, by_call: bool) -> list[Message]:
        usage = Usage(input=tokens, cost=Cost(total=tokens / 100))
        said = ToolCall(id=prompt, name="propose_cell", arguments={}) if by_call else TextContent(text="Done.")
        told: dict[str, Any] = {"api": "a", "provider": "p", "model": "m-1", "usage": usage}
        answer = AssistantMessage(content=[said], stop_reason="toolUse" if by_call else "stop", **told)
        refused = [TextContent(text="The user said no.")]
        result = ToolResultMessage(tool_call_id=prompt, tool_name="propose_cell", content=refused)
        return [UserMessage(content=prompt), answer, *([result] if by_call else [])]

    panel = Transcript("M", whole=True)
    panel.add_history(
        [
            *answered("at a cell", 10, by_call=True),
            *answered("and again", 20, by_call=True),
            *answered("why?", 30, by_call=False),
            *answered("once more", 40, by_call=True),
        ]
    )
    shown = [block.shown["text/plain"] for block in panel.blocks if isinstance(block, Line)]
    costs = [f"m-1 · {tokens} tokens in, 0 out · ${tokens / 100:.4f}" for tokens in (10, 20, 30, 40)]
    prompts = ["> at a cell", "> and again", "> why?", "> once more"]
    assert shown == [line for pair in zip(prompts, costs, strict=True) for line in pair]


def test_an_error_is_shown_in_a_box_below_what_was_said() -> None:
    run = Run()
    index = run.update(run.growing.open_text())
    run.update(run.growing.append(index, "Half an ans"))
    run.end("error", error="Overloaded")
    run.close()
    said, box, _ = run.sheet.texts()
    assert said == "Half an ans"
    assert box == "✗ Error\n  Overloaded"


@pytest.mark.parametrize(("reason", "failure"), [("error", "✗ Error\n  Overloaded"), ("aborted", "Stopped. What was")])
def test_what_a_cell_fails_with_is_left_to_that_cell(reason: str, failure: str) -> None:
    run = Run()
    run.end(reason, error="Overloaded")
    run.transcript.close(fails_cell=True)
    run.view.close()
    assert run.sheet.texts() == ["m-1"]
    assert run.transcript.failure is not None
    assert run.transcript.failure["text/plain"].startswith(failure)


def test_a_stopped_cell_says_in_one_sentence_what_stays_and_what_the_model_will_not_see() -> None:
    run = Run()
    run.say("Half an answer")
    run.end("aborted")
    run.transcript.close(fails_cell=True)
    run.view.close()
    assert run.sheet.texts() == ["Half an answer", "m-1"]
    assert run.transcript.failure is not None
    assert run.transcript.failure["text/plain"] == (
        "Stopped. What was said and done so far stays here, but the model will not see what it said last."
    )


def test_a_failure_that_is_tried_again_is_a_quiet_line() -> None:
    run = Run()
    run.end("error", error="Overloaded")
    run.feed(AutoRetryStart(attempt=1, max_attempts=3, delay_ms=2000, error_message="Overloaded"))
    run.feed(AgentStart(), TurnStart())
    run.begin()
    run.say("Now it works")
    run.end()
    run.close()
    assert run.sheet.texts()[0] == "The model failed (Overloaded). Trying again …"
    assert run.sheet.texts()[1] == "Now it works"
    assert not any("✗" in text for text in run.sheet.texts())


LONG_REASON = "The connection to the server was lost in the middle of the answer. " * 3


@pytest.mark.parametrize("drawn_before", [False, True])
def test_an_answer_that_breaks_off_and_is_begun_again_stands_there_once(*, drawn_before: bool) -> None:
    run = Run()
    for _ in range(2):
        run.say("There are two carriers.\n\n" * 40 + "The first one is")
        if drawn_before:
            run.view.draw()
        run.end("error", error=LONG_REASON)
        if drawn_before:
            run.view.draw()
        run.feed(AutoRetryStart(attempt=1, max_attempts=3, delay_ms=2000, error_message=LONG_REASON))
        run.feed(AgentStart(), TurnStart())
        run.begin()
    run.say("There are two carriers.")
    run.end()
    run.close()
    texts = [text for text in run.sheet.texts() if text]
    heads = [text.split("\n", 1)[0] for text in texts]
    assert all(re.fullmatch(r"Broken off \(.{1,81}\)", head) for head in heads[:2])
    assert LONG_REASON.strip() in texts[0]
    assert heads[2] == "There are two carriers."
    assert len(texts) == 4, "the closing line is the last"


def test_a_stop_while_another_attempt_is_waited_for_is_told_as_a_stop() -> None:
    run = Run()
    run.end("error", error="Overloaded")
    run.feed(AutoRetryStart(attempt=1, max_attempts=3, delay_ms=2000, error_message="Overloaded"))
    run.feed(AutoRetryEnd(success=False, attempt=1, final_error="Retry cancelled"))
    run.close()
    assert run.sheet.texts()[0] == "The model failed (Overloaded). Trying again …"
    assert "stopped" in run.sheet.texts()[-1]


def test_an_answer_that_was_too_long_shows_as_a_failure_only_when_the_summary_fails() -> None:
    for error, shown in ((None, False), ("The summary failed: Overloaded", True)):
        run = Run()
        run.end("error", error="prompt is too long")
        run.feed(CompactionStart(reason="overflow"))
        result = {"summary": "So far"} if error is None else None
        run.feed(CompactionEnd(reason="overflow", result=result, will_retry=error is None, error_message=error))
        if error is None:
            run.begin()
            run.say("Now it fits")
            run.end()
        run.close()
        assert any("✗" in text for text in run.sheet.texts()) is shown
        assert (error in run.sheet.texts()) is shown


def test_everything_is_drawn_at_the_end_even_when_the_last_time_was_just_now() -> None:
    run = Run()
    run.tick()
    run.say("Quick")
    run.end()
    run.close()
    assert run.sheet.texts()[0] == "Quick"


def test_images_of_tools_are_shown_below_their_card_and_those_that_browsers_do_not_know_are_named() -> None:
    run = Run()
    run.call("c1", "read", '{"path": "a.png"}')
    images = [{"type": "image", "data": "aGk=", "mimeType": kind} for kind in ("image/png", "image/tiff")]
    output = ToolOutput.from_wire({"content": images})
    run.feed(ToolExecutionEnd(tool_call_id="c1", tool_name="read", result=output, is_error=False))
    card, picture = run.tick()
    assert "[image: image/tiff, 3 bytes]" in card
    assert picture == "[image: image/png, 3 bytes]"
    assert run.sheet.displays[1][-1]["image/png"] == "aGk="


def test_ten_thousand_notices_at_once_take_few_displays_and_none_is_lost() -> None:
    run = Run()
    for number in range(10_000):
        run.transcript.add_notice(f"notice {number}.")
    texts = run.tick()
    assert len(texts) < 600
    assert run.sheet.bytes_sent < 10_000_000
    assert [word for text in texts for word in text.split() if word != "notice"] == [f"{n}." for n in range(10_000)]
    run.end()
    run.close()


def test_a_call_whose_id_was_there_before_has_a_card_of_its_own() -> None:
    run = Run()
    for output in ("first", "second"):
        run.feed(ToolExecutionStart(tool_call_id="1", tool_name="bash", args={"command": output}))
        run.feed(ToolExecutionEnd(tool_call_id="1", tool_name="bash", result=text_output(output), is_error=False))
    texts = run.tick()
    assert [text.split("\n")[-1].strip() for text in texts] == ["first", "second"]


def test_data_that_is_no_base64_is_never_in_an_image() -> None:
    run = Run()
    image = ImageContent(data='"><img src=x onerror=window.hacked=1>', mime_type="image/png")
    run.feed(ToolExecutionStart(tool_call_id="1", tool_name="shot", args={}))
    run.feed(ToolExecutionEnd(tool_call_id="1", tool_name="shot", result=ToolOutput(content=[image]), is_error=False))
    run.tick()
    assert all("image/png" not in display[-1] for display in run.sheet.displays)
    assert "[image: image/png, " in run.sheet.texts()[0]


@pytest.mark.parametrize(
    "drawn",
    [{"text/html": None}, {"text/html": b"\xff"}, {1: "x"}, {"image/png": object()}, ["text/plain"], "text", {}],
    ids=lambda drawn: re.sub(" at 0x.*", "", repr(drawn)),
)
def test_what_an_extension_draws_wrongly_is_told_in_words_and_ends_nothing(drawn: object) -> None:
    run = Run(renderer=lambda _: lambda _message: drawn)
    live = AgentWidget("panel", lambda _: None, lambda work: work())
    run.feed(MessageEnd(message=CustomMessage(custom_type="x", content="words \ud83d", display=True)))
    for block in run.transcript.blocks:
        LiveDrawing(live).draw(block)
    assert run.tick() == ["words \ufffd"]
    TerminalScreen().show(run.sheet.displays[0][-1], final=True)
    live.close()


def test_what_an_extension_draws_need_not_be_text(capsys) -> None:
    run = Run(renderer=lambda _: lambda _message: {"application/json": {"a": [1]}})
    run.feed(MessageEnd(message=CustomMessage(custom_type="x", content="in words", display=True)))
    run.tick()
    assert run.sheet.displays[0][-1] == {"application/json": {"a": [1]}, "text/plain": "in words"}


def test_a_terminal_prints_each_block_once(capsys) -> None:
    transcript = Transcript("Model M")
    view = CellView(transcript, TerminalScreen())
    growing = GrowingMessage(api="a", provider="p", model="m-1")
    events = [growing.start(), growing.open_text(), growing.append(0, "Hel"), growing.append(0, "lo"), growing.close(0)]
    for event in events:
        transcript.feed(MessageUpdate(assistant_message_event=event, growing=growing))
        view.draw()
    transcript.close()
    view.close()
    assert capsys.readouterr().out.split("\n")[0] == "Hello"


def code_run() -> Run:
    """A run with a tool that runs code."""

    class Code(Arguments):
        code: str

    async def execute(arguments: Code, context: object) -> ToolOutput:
        return ToolOutput(content=[])

    def describe(default: CallDescription, arguments: Code) -> CallDescription:
        return CallDescription("python", code=arguments.code, announces_start=True)

    return Run(tools={"python": FunctionTool("python", "", Code, execute, describe=describe)})


def test_what_a_dialog_is_about_is_not_shown_twice_and_the_time_until_its_answer_does_not_count() -> None:
    run, asking = code_run(), True
    run.view = CellView(run.transcript, run.sheet, is_held=lambda: asking)
    run.call("c1", "python", '{"code": "print(1)"}')
    run.feed(ToolExecutionStart(tool_call_id="c1", tool_name="python", args={"code": "print(1)"}))
    assert [run.tick(30)[-1] for _ in range(2)] == ["● python"] * 2
    asking = False
    report = ToolOutput(content=[])
    run.feed(ToolExecutionUpdate(tool_call_id="c1", tool_name="python", args={}, partial_result=report))
    assert run.tick()[-1] == "● python\n  print(1)"
    assert run.tick(3)[-1] == "● python  (3.0 s)\n  print(1)"


def test_a_call_that_was_tried_shows_its_code_and_output_but_not_while_it_is_asked_about() -> None:
    run, asking = code_run(), False
    run.view = CellView(run.transcript, run.sheet, is_held=lambda: asking)
    run.call("c1", "python", '{"code": "print(1)"}')
    run.feed(ToolExecutionStart(tool_call_id="c1", tool_name="python", args={"code": "print(1)"}))

    def report(text: str, details: JsonObject) -> None:
        partial = ToolOutput(content=[TextContent(text=text)], details=details)
        run.feed(ToolExecutionUpdate(tool_call_id="c1", tool_name="python", args={}, partial_result=partial))

    report("tried", {"ran": "copy"})
    assert run.tick(2)[-1] == "● python  (in a copy · 2.0 s)\n  print(1)\n  tried"
    asking = True
    assert [run.tick(30)[-1] for _ in range(2)] == ["● python  (preview, not run yet · 2.0 s)"] * 2
    asking = False
    report("done", {})
    assert run.tick(3)[-1] == "● python  (3.0 s)\n  print(1)\n  done"


def test_the_time_of_a_call_that_goes_on_while_it_is_asked_about_counts() -> None:
    run = code_run()
    run.view = CellView(run.transcript, run.sheet, is_held=lambda: True, goes_on=lambda: True)
    run.call("c1", "python", '{"code": "print(1)"}')
    run.feed(ToolExecutionStart(tool_call_id="c1", tool_name="python", args={"code": "print(1)"}))
    partial = ToolOutput(content=[TextContent(text="tried")], details={"ran": "copy"})
    run.feed(ToolExecutionUpdate(tool_call_id="c1", tool_name="python", args={}, partial_result=partial))
    assert run.tick(30)[-1] == "● python  (preview, not run yet · 30.0 s)"


def test_what_a_trial_has_shown_is_labelled_while_the_user_is_asked_and_what_ran_is_not() -> None:
    run, asking, board = code_run(), False, OutputBoard()
    run.transcript.outputs = board
    run.view = CellView(run.transcript, run.sheet, is_held=lambda: asking)
    run.call("c1", "python", '{"code": "table"}')
    run.feed(ToolExecutionStart(tool_call_id="c1", tool_name="python", args={"code": "table"}))
    shown, table = board.begin("c1", lambda value: value), {"text/html": "<table>1</table>", "text/plain": "1"}

    def report(details: JsonObject) -> str:
        partial = ToolOutput(content=[], details=details)
        run.feed(ToolExecutionUpdate(tool_call_id="c1", tool_name="python", args={}, partial_result=partial))
        run.tick()
        return run.sheet.displays[-1][-1]["text/html"]

    shown.show("", [Output(table, {}, "table", 1)])
    assert report({"ran": "copy"}) == table["text/html"]
    asking = True
    run.tick()
    labelled = run.sheet.displays[-1][-1]["text/html"]
    assert "Preview, not run yet:" in labelled
    assert labelled.endswith(table["text/html"])
    asking = False
    assert report({}) == table["text/html"]


def test_what_is_said_from_elsewhere_while_the_agent_works_is_part_of_the_cell() -> None:
    run = Run()
    run.feed(MessageEnd(message=UserMessage(content="the prompt, which the cell itself says")))
    run.say("I begin.")
    run.feed(MessageEnd(message=UserMessage(content="also this")))
    run.say("That too.")
    assert run.tick() == ["I begin.", "> also this", "That too."]


class Cell:
    """An output that counts what it is sent, and knows what each display shows."""

    def __init__(self) -> None:
        self.displays: dict[str, MimeBundle] = {}
        self.sent = 0

    def publish(self, bundle: MimeBundle, display_id: str, *, update: bool, metadata: object = None) -> None:
        assert metadata is None  # none of them is code's own
        assert update is (display_id in self.displays)
        self.displays[display_id] = bundle
        self.sent += 1


def test_thousands_of_displays_that_are_finished_late_move_together_at_once() -> None:
    cell = Cell()
    screen = NotebookScreen(cell)

    def line(number: int, state: str = "") -> MimeBundle:
        return dict.fromkeys(("text/html", "text/markdown", "text/plain"), f"{number}{state}")

    growing = [screen.show(line(number, "…"), final=False) for number in range(2000)]
    for number, display in enumerate(growing):
        display.update(line(number), final=True)
    for number in range(2000, 2500):
        screen.show(line(number), final=True)
    shown = [bundle["text/plain"] for bundle in cell.displays.values()]
    assert [word for text in shown for word in text.split()] == [str(number) for number in range(2500)]
    assert len([text for text in shown if text]) < 40
    assert cell.sent < 10_000


class Settled(Cell):
    """An output that forgets all displays when it is cleared."""

    is_alone = True

    def clear(self) -> None:
        self.displays.clear()


def shown_after(*, empties: int) -> list[str]:
    """What is kept of 40 lines, of which so many had folded into others before the next came."""
    cell = Settled()
    screen = NotebookScreen(cell)
    for _ in range(empties):
        screen.show(dict.fromkeys(("text/html", "text/markdown", "text/plain"), "folds"), final=False).update(
            NOTHING, final=False
        )
    for number in range(40):
        screen.show(dict.fromkeys(("text/html", "text/markdown", "text/plain"), str(number)), final=True)
    screen.settle()
    return [bundle["text/plain"] for bundle in cell.displays.values()]


def test_what_is_kept_of_a_run_does_not_depend_on_how_many_displays_were_emptied_meanwhile() -> None:
    plain = shown_after(empties=0)
    assert [word for text in plain for word in text.split()] == [str(number) for number in range(40)]
    assert shown_after(empties=1) == shown_after(empties=7) == plain
