"""What the card of a call says of what it changed, and of a call that goes on as a job."""

from __future__ import annotations

from indus_nb.base.events import AgentStart, ToolExecutionEnd, ToolExecutionStart, ToolOutput
from indus_nb.base.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage
from indus_nb.front.notebook.view.parts import Card, Line
from indus_nb.front.notebook.view.transcript import Transcript
from indus_nb.render.cards import Call

FOR_THE_MODEL = [TextContent(text="It still runs, and goes on as job-3. Its last lines:\nready\n\n[You are told …]")]
GOES_ON = {"job": {"id": "job-3", "tool": "bash", "state": "running", "seconds": 1.0, "lastLines": "ready"}}


def test_an_edit_is_told_by_its_difference_alone_but_not_that_it_cannot_be_undone() -> None:
    details = {"changed": "a.py edited", "diff": "-1 x\n+1 y"}
    for reported, words in (
        (details, ""),
        ({**details, "notUndoable": "files: OSError"}, "This call cannot be undone (files: OSError)"),
        ({"changed": "a.py edited"}, "Changed: a.py edited (%agent undo)"),
    ):
        card = Card("b1", call=Call("edit", {}, state="done"))
        card.show_result([], reported, stored=False)
        assert card.call.changed == words


def test_what_a_call_changed_stands_apart_from_what_it_printed() -> None:
    card = Card("b1", call=Call("bash", {"command": "rm x"}, state="done"))
    card.show_result([TextContent(text="Changed: nothing at all")], {"changed": "x deleted"}, stored=False)
    shown = card.bundle()
    assert shown["text/html"].count("Changed: ") == 2
    assert "</pre>" in shown["text/html"].partition("nothing at all")[2].partition("Changed: x deleted")[0]
    assert "*Changed: x deleted (%agent undo)*" in shown["text/markdown"]
    assert shown["text/plain"].endswith("  Changed: x deleted (%agent undo)")


def test_the_card_says_where_a_call_ran_that_could_not_do_anything() -> None:
    for ran, words in (("copy", "in a copy"), ("read-only", "read-only"), ("held", "")):
        card = Card("b1", call=Call("bash", {"command": "ls"}, state="done", seconds=2.0))
        card.show_result([TextContent(text="clean.py")], {"ran": ran}, stored=False)
        head = card.bundle()["text/plain"].partition("\n")[0]
        assert head == f"✓ bash  ls  ({f'{words} · ' if words else ''}2.0 s)"
        assert (f"{words} · 2.0 s</span>" if words else ">2.0 s</span>") in card.bundle()["text/html"]


def test_the_card_of_a_call_whose_variables_stay_says_that_they_were_taken_over_and_all_that_changed() -> None:
    changed = ", ".join(f"a_name_of_some_length_{number} new" for number in range(8))
    card = Card("b1", call=Call("python", {"code": "x = 1"}, state="done", folded=True))
    card.show_result([TextContent(text="word " * 50)], {"ran": "copy", "changed": changed}, stored=False)
    head = card.bundle()["text/html"].partition("</summary>")[0]
    assert "tried in a copy, taken over" in head
    assert f"Changed: {changed}" in head
    assert head.count("word") < 25


def test_what_the_preview_had_not_named_is_a_warning_on_the_card_open_or_folded() -> None:
    unseen = "total changed too, which the preview had not named."
    for folded in (False, True):
        card = Card("b1", call=Call("python", {"code": "x = 1"}, state="done", folded=folded))
        card.show_result([], {"changed": "x new, total 1 → 2", "notInPreview": unseen}, stored=False)
        shown = card.bundle()
        assert f"  ⚠ {unseen}\n  Changed: x new, total 1 → 2" in shown["text/plain"]
        assert (f"⚠ {unseen}" in shown["text/html"].partition("</summary>")[0]) == folded


def test_what_was_not_kept_of_a_copy_is_named_below_what_changed() -> None:
    card = Card("b1", call=Call("python", {"code": "fig, ax = plt.subplots()"}, state="done"))
    card.show_result([], {"ran": "copy", "changed": "p new", "notKept": "ax, fig"}, stored=False)
    assert "  Changed: p new" in card.bundle()["text/plain"]
    assert "\n  Not kept: ax, fig. Run the code as a cell of yours to have these" in card.bundle()["text/plain"]


def test_what_code_beside_the_user_did_not_bring_back_is_named_without_the_advice_to_run_all_of_it_again() -> None:
    card = Card("b1", call=Call("python", {"code": "rows.append(2)"}, state="done"))
    card.show_result([], {"ran": "copy", "changed": "rows 1 → 2 items", "notBrought": "model"}, stored=False)
    shown = card.bundle()["text/plain"]
    assert shown.endswith("\n  Not brought back: model")
    assert "Run the code" not in shown


def test_a_panel_names_its_own_command_that_takes_a_change_back() -> None:
    panel = Transcript("M", whole=True)
    panel.feed(AgentStart())
    for count in (1, 2):
        call, ended = f"call-{count}", ToolOutput(content=[], details={"changed": "x deleted"})
        panel.feed(ToolExecutionStart(tool_call_id=call, tool_name="bash", args={"command": "rm x"}))
        panel.feed(ToolExecutionEnd(tool_call_id=call, tool_name="bash", result=ended, is_error=False))
    panel.end_run()
    shown = "\n".join(each.bundle()["text/plain"] for each in panel.blocks if isinstance(each, Card))
    assert shown.count("Changed: x deleted (/undo)") == 2
    lines = [each.shown["text/plain"] for each in panel.blocks if isinstance(each, Line)]
    assert any("/undo prompt takes it back." in line for line in lines)


def test_a_call_that_goes_on_shows_its_last_lines_and_how_to_stop_it() -> None:
    card = Card("b1", call=Call("bash", {"command": "serve"}, state="done"))
    card.show_result(FOR_THE_MODEL, GOES_ON, stored=False)
    assert card.bundle()["text/plain"].endswith("  ready\n  It goes on as job-3. %agent jobs stop 3 stops it.")
    card.show_result(FOR_THE_MODEL, GOES_ON, stored=True)
    assert card.bundle()["text/plain"].endswith("  ready\n  It went on as job-3.")


def test_the_card_of_a_call_that_went_on_does_not_look_as_if_it_still_ran_or_were_done() -> None:
    for stored in (False, True):
        transcript = Transcript("M")
        if stored:
            call = ToolCall(id="call-1", name="bash", arguments={"command": "serve"})
            answer = AssistantMessage(api="a", provider="p", model="m", content=[call], stop_reason="toolUse")
            result = ToolResultMessage(
                tool_call_id="call-1", tool_name="bash", content=[*FOR_THE_MODEL], details=GOES_ON, is_error=False
            )
            transcript.add_history([answer, result])
        else:
            transcript.feed(ToolExecutionStart(tool_call_id="call-1", tool_name="bash", args={"command": "serve"}))
            ended = ToolOutput(content=[*FOR_THE_MODEL], details=GOES_ON)
            transcript.feed(ToolExecutionEnd(tool_call_id="call-1", tool_name="bash", result=ended, is_error=False))
        (card,) = [each for each in transcript.blocks if isinstance(each, Card)]
        assert card.bundle()["text/plain"].startswith("→ bash  serve  (went on)")
        assert "indus-runs" not in card.bundle()["text/html"]


def test_a_result_of_an_older_job_is_shown_as_it_was_told() -> None:
    card = Card("b1", call=Call("bash", {"command": "serve"}, state="done"))
    card.show_result(FOR_THE_MODEL, {"job": {"id": "job-3", "state": "running"}}, stored=True)
    assert "It still runs, and goes on as job-3." in card.bundle()["text/plain"]
