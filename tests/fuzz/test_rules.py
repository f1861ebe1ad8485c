"""The rules of the fuzzer see what breaks them, and nothing in a round that is in order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fuzz.check import check
from fuzz.files import Files
from fuzz.grammar import Grammar
from fuzz.log import Log
from fuzz.promises import Promises
from fuzz.scenario import Scenario, make_scenario
from fuzz.shrink import shrink

Item = dict[str, Any]
START, SETTLED = {"type": "agent_start"}, {"type": "agent_settled"}
END = {"type": "agent_end", "messages": []}
TURN = {"type": "turn_start"}
RETRY = {"type": "auto_retry_start", "attempt": 1}
RETRIED = {"type": "auto_retry_end", "attempt": 1}
COMPACTION = {"type": "compaction_start", "reason": "threshold"}
COMPACTED = {"type": "compaction_end", "reason": "threshold", "willRetry": False}
MADE_ROOM = {**COMPACTED, "reason": "overflow", "willRetry": True}


def sent(name: str, kind: str, **fields: Any) -> Item:
    return {"type": "sent", "command": {"id": name, "type": kind, **fields}}


def answered(name: str, kind: str, data: Any = None, *, success: bool = True) -> Item:
    return {"type": "response", "id": name, "command": kind, "success": success, "data": data}


def prompt(name: str) -> list[Item]:
    return [sent(name, "prompt", message=name), answered(name, "prompt")]


def message(role: str, **fields: Any) -> list[Item]:
    whole = {"role": role, **fields}
    return [{"type": "message_start", "message": whole}, {"type": "message_end", "message": whole}]


def user(text: str) -> list[Item]:
    return message("user", content=[{"type": "text", "text": text}])


def update(kind: str, **fields: Any) -> Item:
    return {"type": "message_update", "assistantMessageEvent": {"type": kind, **fields}}


def answer(*calls: str, text: str = "fine", stop: str = "stop") -> list[Item]:
    content = [{"type": "text", "text": text}, *({"type": "toolCall", "id": call} for call in calls)]
    start, end = message("assistant", content=content, stopReason=stop)
    return [start, update("start"), update("text_delta", contentIndex=0, delta="fine"), update("done"), end]


def tool(call: str) -> list[Item]:
    return [{"type": f"tool_execution_{what}", "toolCallId": call} for what in ("start", "update", "end")]


def result(call: str) -> list[Item]:
    return message("toolResult", toolCallId=call, content=[])


def turn_end(*calls: str, said: list[Item] | None = None) -> Item:
    """The end of a turn whose answer was ``said``, by default one that calls as many tools as there are results."""
    whole = (said or answer(*calls))[-1]["message"]
    return {"type": "turn_end", "message": whole, "toolResults": [{"toolCallId": call} for call in calls]}


def ended(items: Sequence[Item], **fields: Any) -> list[Item]:
    """A run with its ``agent_end``."""
    said = [item["message"] for item in items if item["type"] == "message_end"]
    return [*items, {**END, "messages": said, **fields}]


def run(name: str) -> list[Item]:
    """A run of one prompt with two calls and, behind them, an answer."""
    calls = "one", "two"
    first = [TURN, *user(name), *answer(*calls), *tool("one"), *tool("two"), *result("one"), *result("two")]
    return ended([START, *first, turn_end(*calls), TURN, *answer(), turn_end()])


def state(name: str, *, streaming: bool = False) -> list[Item]:
    data = {"isStreaming": streaming, "isCompacting": False, "sessionFile": "here", "pendingMessageCount": 0}
    return [sent(name, "get_state"), answered(name, "get_state", data)]


ABORT = [sent("a", "abort"), answered("a", "abort")]
NEW = [sent("n", "new_session"), answered("n", "new_session", {"cancelled": False})]
WRONG = answer(stop="error")
FAILED = ended([START, TURN, *user("p"), *WRONG, turn_end(said=WRONG)], willRetry=True)
AGAIN = ended([START, TURN, *answer(), turn_end()])

IN_ORDER: dict[str, list[Item]] = {
    "a run": [*prompt("p"), *run("p"), SETTLED],
    "two runs": [*prompt("p"), *run("p"), SETTLED, *prompt("q"), *run("q"), SETTLED],
    "a retry": [*prompt("p"), *FAILED, RETRY, *AGAIN[:-2], RETRIED, *AGAIN[-2:], SETTLED],
    "an overflow": [*prompt("p"), *FAILED[:-1], *ended(FAILED[:-1])[-1:], COMPACTION, MADE_ROOM, *AGAIN, SETTLED],
    "a retry that is given up": [*prompt("p"), *FAILED, RETRY, *ABORT[:1], RETRIED, SETTLED, *ABORT[1:]],
    "a compaction before a run": [*prompt("p"), COMPACTION, COMPACTED, *run("p"), SETTLED],
    "a steered message": [
        *prompt("p"),
        *[sent("s", "steer", message="s"), answered("s", "steer")],
        *ended([START, TURN, *user("p"), *answer(), turn_end(), TURN, *user("s"), *answer(), turn_end()]),
        SETTLED,
    ],
    "a queue that goes with its session": [sent("s", "steer", message="s"), answered("s", "steer"), *NEW],
    "a queue that is taken back": [
        *[sent("s", "steer", message="s"), answered("s", "steer"), sent("c", "clear_queue")],
        answered("c", "clear_queue", {"steering": ["s"], "followUp": []}),
    ],
    "a run after an abort": [*ABORT, *prompt("p"), *run("p"), SETTLED],
    "a run that was asked for behind the abort": [ABORT[0], *prompt("p"), START, ABORT[1], *run("p")[1:], SETTLED],
    "a compaction before a run that was asked for behind the abort": [
        *[ABORT[0], *prompt("p"), COMPACTION, ABORT[1], COMPACTED, *run("p"), SETTLED],
    ],
    "a message of an extension": message("custom", content="hello"),
}


@pytest.mark.parametrize("items", IN_ORDER.values(), ids=IN_ORDER)
def test_what_is_in_order_is_not_complained_of(items: list[Item]) -> None:
    log = Log("delta", has_extension=False, items=items)
    assert [*Grammar(log).check(), *Promises(log).check()] == []


def without(items: Sequence[Item], *kinds: str) -> list[Item]:
    return [item for item in items if item["type"] not in kinds]


RUN = [*prompt("p"), *run("p"), SETTLED]
CALLED = [START, TURN, *user("p"), *answer("one")]

BROKEN: list[tuple[str, list[Item]]] = [
    ("two_runs", [*RUN[:4], START, *RUN[4:]]),
    ("end_without_run", [*RUN[:-1], END, SETTLED]),
    ("unclosed_run", without(RUN, "agent_end", "agent_settled")),
    ("unclosed_turn", [*prompt("p"), START, TURN, END, SETTLED]),
    ("unclosed_message", [*prompt("p"), START, TURN, user("p")[0], END, SETTLED]),
    ("turn_outside_run", [*RUN, TURN]),
    ("two_turns", [*prompt("p"), START, TURN, TURN, turn_end(), END, SETTLED]),
    ("end_without_turn", [*RUN[:-2], turn_end(), END, SETTLED]),
    ("settled_in_run", [*prompt("p"), START, SETTLED, END, SETTLED]),
    ("settled_twice", [*RUN, SETTLED]),
    ("unsettled", RUN[:-1]),
    ("settled_in_compaction", [*RUN[:-1], COMPACTION, SETTLED, COMPACTED]),
    ("two_messages", [*prompt("p"), START, TURN, user("p")[0], *user("p"), turn_end(), END, SETTLED]),
    ("message_outside_turn", [*prompt("p"), START, *user("p"), TURN, turn_end(), END, SETTLED]),
    ("end_without_message", [*prompt("p"), START, TURN, user("p")[1], turn_end(), END, SETTLED]),
    ("message_in_compaction", [*prompt("p"), START, TURN, COMPACTION, *user("p"), COMPACTED, turn_end(), END, SETTLED]),
    ("update_outside_message", [*RUN, update("text_delta", contentIndex=0, delta="late")]),
    ("stream_start", [*RUN[:2], START, TURN, answer()[0], update("done"), answer()[-1], turn_end(), END, SETTLED]),
    ("stream_end", [*RUN[:2], START, TURN, *answer()[:-2], answer()[-1], turn_end(), END, SETTLED]),
    ("deltas", [*RUN[:2], START, TURN, *user("p"), *answer(text="other"), turn_end(), END, SETTLED]),
    ("two_answers", [*RUN[:2], START, TURN, *user("p"), *answer(), *answer(), turn_end(), END, SETTLED]),
    ("tool_results", [*RUN[:2], *CALLED, *tool("one"), turn_end(), END, SETTLED]),
    ("tool_results", [*RUN[:2], *CALLED, *tool("one"), *result("two"), turn_end("two"), END, SETTLED]),
    ("tool_outside_turn", [*RUN[:2], *CALLED, *tool("two"), *result("one"), turn_end("one"), END, SETTLED]),
    ("tool_twice", [*RUN[:2], *CALLED, *tool("one"), *tool("one"), *result("one"), turn_end("one"), END, SETTLED]),
    ("tool_not_running", [*RUN[:2], *CALLED, *tool("one")[1:], *result("one"), turn_end("one"), END, SETTLED]),
    ("unclosed_tool", [*RUN[:2], *CALLED, tool("one")[0], *result("one"), turn_end("one"), END, SETTLED]),
    (
        "early_result",
        [*RUN[:2], *CALLED, tool("one")[0], *result("one"), tool("one")[2], turn_end("one"), END, SETTLED],
    ),
    ("message_in_tool", [*RUN[:2], *CALLED, tool("one")[0], *user("p"), tool("one")[2], turn_end(), END, SETTLED]),
    ("no_retry", [*prompt("p"), *FAILED, SETTLED]),
    ("no_retry", [*prompt("p"), *run("p"), COMPACTION, MADE_ROOM, SETTLED]),
    ("unannounced_run", [*prompt("p"), *FAILED[:-1], END, *AGAIN, SETTLED]),
    ("retry_unannounced", [*prompt("p"), *FAILED[:-1], END, RETRY, *AGAIN, RETRIED, SETTLED]),
    ("unclosed_retry", [*prompt("p"), *FAILED, RETRY, *AGAIN, SETTLED]),
    ("retry_in_run", [*RUN[:2], START, RETRY, RETRIED, END, SETTLED]),
    ("retry_count", [*prompt("p"), *FAILED, {**RETRY, "attempt": 2}, *AGAIN, RETRIED, SETTLED]),
    ("retry_end_without_start", [*prompt("p"), *run("p"), RETRIED, SETTLED]),
    ("end_messages", [*prompt("p"), *run("p")[:-1], END, SETTLED]),
    ("turn_message", [*RUN[:2], START, TURN, *user("p"), *answer(), turn_end(said=answer(text="no")), END, SETTLED]),
    ("queue_untold", [{"type": "queue_update", "steering": ["s"], "followUp": []}, *state("final get_state")]),
    ("two_compactions", [COMPACTION, COMPACTION, COMPACTED]),
    ("compaction_in_run", [*RUN[:2], START, COMPACTION, COMPACTED, END, SETTLED]),
    ("run_in_compaction", [*RUN[:2], COMPACTION, START, COMPACTED, END, SETTLED]),
    ("compaction_in_message", [*RUN[:2], START, TURN, user("p")[0], COMPACTION, COMPACTED]),
    ("compaction_end_without_start", [COMPACTED]),
    ("unclosed_compaction", [COMPACTION]),
    ("answer_to_nobody", [answered("x", "abort")]),
    ("answered_twice", [*ABORT, ABORT[1]]),
    ("answer_name", [sent("x", "abort"), answered("x", "abort_bash")]),
    ("unanswered", [sent("x", "abort")]),
    ("internal_error", [sent("x", "bash"), {**answered("x", "bash", success=False), "error": "Internal error: x"}]),
    ("answered_late", [RUN[0], *run("p"), RUN[1], SETTLED]),
    ("refused_but_said", [RUN[0], answered("p", "prompt", success=False), *run("p"), SETTLED]),
    ("said_twice", [*RUN, START, TURN, *user("p"), turn_end(), END, SETTLED]),
    ("said_and_lost", [sent("s", "steer", message="s"), answered("s", "steer")]),
    ("run_without_prompt", [*run("p"), SETTLED]),
    ("bad_lines", [{"type": "sent", "command": {"id": "x", "type": "raw", "line": "{"}}]),
    ("abort_missed", [*RUN[:8], *ABORT, *RUN[8:]]),
    ("abort_missed", [RUN[0], *ABORT, RUN[1], *run("p"), SETTLED]),
    ("abort_late", [ABORT[0], *RUN, ABORT[1]]),
    ("abort_missed_compaction", [sent("c", "compact"), COMPACTION, *ABORT, COMPACTED, answered("c", "compact")]),
    ("abort_missed_compaction", [*prompt("p"), COMPACTION, *ABORT, COMPACTED, *run("p"), SETTLED]),
    ("abort_missed_compaction", [COMPACTION, ABORT[0], *prompt("p"), ABORT[1], COMPACTED, *run("p"), SETTLED]),
    ("run_survived", [*RUN[:8], *NEW, *RUN[8:]]),
    ("state_idle_in_run", [*RUN[:8], *state("x"), *RUN[8:]]),
    ("state_idle_in_compaction", [COMPACTION, *state("x"), COMPACTED]),
    ("state_busy_at_the_end", state("final get_state", streaming=True)),
    ("event_when_idle", [RUN[0], *state("final get_state"), *RUN[1:]]),
    ("not_a_frame", [{"type": "not a frame", "line": b"hello"}]),
]


@pytest.mark.parametrize(("kind", "items"), BROKEN, ids=[kind for kind, _ in BROKEN])
def test_what_is_out_of_order_is_found(kind: str, items: list[Item], tmp_path: Path) -> None:
    assert kind in {found.kind for found in check(Log("delta", has_extension=False, items=items, directory=tmp_path))}


def test_every_rule_about_frames_is_broken_by_some_example() -> None:
    source = "".join((Path(__file__).parent / name).read_text() for name in ("grammar.py", "promises.py"))
    kinds = {line.split('"')[1] for line in source.split("_wrong(")[1:] if line.lstrip().startswith('"')}
    assert kinds <= {kind for kind, _ in BROKEN}


@pytest.mark.parametrize(
    ("kind", "log"),
    [
        ("traceback", {"stderr": "Traceback (most recent call last):\n"}),
        ("task_destroyed", {"stderr": "Task was destroyed but it is pending!\n"}),
        ("frame_unwritten", {"stderr": "An event could not be written\n"}),
        ("never_awaited", {"stderr": "coroutine 'x' was never awaited\n"}),
        ("never_retrieved", {"stderr": "Task exception was never retrieved\n"}),
        ("exit_status", {"status": 1}),
        ("leftovers", {"leftovers": ["17 bash"]}),
    ],
)
def test_how_a_process_behaves_and_ends_is_looked_at(kind: str, log: dict[str, Any], tmp_path: Path) -> None:
    found = check(Log("delta", has_extension=False, directory=tmp_path, **log))
    assert [violation.kind for violation in found] == [kind]


# Session files

HELLO = {"role": "user", "content": "hello"}
CALL = {"role": "assistant", "content": [{"type": "toolCall", "id": "one"}], "stopReason": "toolUse"}
RESULT = {"role": "toolResult", "toolCallId": "one", "content": []}


def entry(name: str, parent: str | None, said: dict[str, Any], **fields: Any) -> Item:
    return {"type": "message", "id": name, "parentId": parent, "message": said, **fields}


def summary(name: str, parent: str, kept: str) -> Item:
    return {"type": "compaction", "id": name, "parentId": parent, "summary": "short", "firstKeptEntryId": kept}


def found_in(directory: Path, entries: list[Item], items: Sequence[Item] = (), *, end: str = "\n") -> set[str]:
    (directory / "sessions").mkdir()
    lines = [json.dumps(data) for data in [{"type": "session", "id": "s"}, *entries]]
    (directory / "sessions" / "one.jsonl").write_text("\n".join(lines) + end)
    log = Log("delta", has_extension=False, items=[*items], directory=directory)
    return {violation.kind for violation in Files(log).check()}


def remembered(directory: Path, entries: list[Item], messages: list[Any], leaf: str) -> list[Item]:
    data = {
        "get_state": {"sessionFile": str(directory / "sessions" / "one.jsonl")},
        "get_messages": {"messages": messages},
        "get_entries": {"entries": entries, "leafId": leaf},
    }
    return [answered(f"final {name}", name, each) for name, each in data.items()]


CONVERSATION = [entry("a", None, HELLO), entry("b", "a", CALL), entry("c", "b", RESULT), summary("d", "c", "b")]


def test_a_sound_file_is_not_complained_of(tmp_path: Path) -> None:
    told = [{"type": "message_end", "message": said} for said in (HELLO, CALL, RESULT)]
    shown = [{"role": "compactionSummary", "summary": "short", "tokensBefore": 9}, CALL, RESULT]
    assert not found_in(tmp_path, CONVERSATION, [*told, *remembered(tmp_path, CONVERSATION, shown, "d")])


@pytest.mark.parametrize(
    ("kind", "entries"),
    [
        ("no_parent", [entry("a", "gone", HELLO)]),
        ("double_entry", [entry("a", None, HELLO), entry("a", None, HELLO)]),
        ("no_result", [entry("a", None, CALL), entry("b", "a", HELLO)]),
        ("stray_result", [entry("a", None, HELLO), entry("b", "a", RESULT)]),
    ],
)
def test_an_unsound_file_is_found(kind: str, entries: list[Item], tmp_path: Path) -> None:
    assert kind in found_in(tmp_path, entries)


def test_a_torn_file_is_found(tmp_path: Path) -> None:
    assert found_in(tmp_path, CONVERSATION, end='\n{"type": "mess') == {"torn_file", "torn_line"}


def test_messages_that_were_told_and_not_saved_are_found(tmp_path: Path) -> None:
    told = [{"type": "message_end", "message": said} for said in (CALL, HELLO)]
    assert "told_not_saved" in found_in(tmp_path, CONVERSATION, told)


def test_messages_that_were_saved_in_another_session_are_found(tmp_path: Path) -> None:
    elsewhere = answered("x", "get_state", {"sessionFile": "elsewhere"})
    assert "told_not_saved" in found_in(tmp_path, CONVERSATION, [elsewhere, {"type": "message_end", "message": HELLO}])


def test_a_memory_that_is_not_the_file_is_found(tmp_path: Path) -> None:
    items = remembered(tmp_path, CONVERSATION[:2], [HELLO], "b")
    assert found_in(tmp_path, CONVERSATION, items) == {"memory_not_disk", "messages_not_branch"}


# Scenarios


def test_a_seed_makes_the_same_scenario_again_and_json_keeps_it() -> None:
    scenario = make_scenario(7)
    assert scenario == make_scenario(7) == Scenario.from_json(scenario.to_json()) != make_scenario(8)


def test_a_scenario_is_shrunk_to_what_makes_it_fail() -> None:
    scenario = make_scenario(3)
    kinds = [command["type"] for step in scenario.steps for command in step.commands]
    wanted = {kinds[2], kinds[-1]}

    def fails(candidate: Scenario) -> bool:
        return wanted <= {command["type"] for step in candidate.steps for command in step.commands}

    small = shrink(scenario, fails, tries=1000)
    assert small.size == len(wanted)
    assert not small.answers
    assert small.extension is None
    assert not any(step.wait or (step.look and "$" not in str(step.commands)) for step in small.steps)
