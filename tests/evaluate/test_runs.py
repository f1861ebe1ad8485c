"""An evaluation from its first trial to its card: what is confined, gone on with, paid for and compared."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import evaluated_model
import jsonschema
import pytest
from messages_api import HttpError, MessagesApi, Recorded, Reply, ToolUse

from indus_nb.base.errors import UsageError
from indus_nb.base.textcut import counted
from indus_nb.evaluate import Attempt, Series
from indus_nb.evaluate.card import card, card_html
from indus_nb.evaluate.sandboxed_kernel import KernelFailedError, sandboxed_kernel
from indus_nb.evaluate.suites import notebook_tasks
from indus_nb.safety.sandbox import machine

EVAL = [sys.executable, "-m", "indus_nb", "eval"]
FEW = "alcohol-gap,paid,bars,method-that-is-gone"
ATIF = json.loads(Path(__file__).with_name("atif-1.8.schema.json").read_text())
pytestmark = pytest.mark.skipif(machine().backend != "bwrap", reason="kernels of trials are confined by bubblewrap")


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``indusagi eval`` to its end."""
    return subprocess.run([*EVAL, *arguments], check=False, cwd=home / "work", capture_output=True, text=True)


def lines(place: Path) -> list[dict[str, Any]]:
    """The lines of a file of results."""
    return [json.loads(line) for line in (place / "results.jsonl").read_text().splitlines()]


async def test_code_of_a_trial_reaches_neither_a_network_nor_the_suite_nor_other_results(tmp_path: Path) -> None:
    hidden = tmp_path / "results"
    hidden.mkdir()
    (hidden / "results.jsonl").write_text("the answer")
    (tmp_path / "work").mkdir()
    tries = [
        "import socket; socket.create_connection(('127.0.0.1', 9), 1)",
        "import indus_nb.evaluate.suites",
        f"print(open({str(hidden / 'results.jsonl')!r}).read())",
        f"open({str(tmp_path / 'left')!r}, 'w')",
        "import glob; print(glob.glob('/tmp/indus-e-*'))",
        "answer = 7",
    ]
    async with sandboxed_kernel(tmp_path / "work", hidden=[hidden]) as kernel:
        results = await kernel.run(tries, 120)
        assert [bool(result.error) for result in results] == [True, True, True, False, False, False]
        assert not (tmp_path / "left").exists()  # it was written into a directory of the kernel's own
        assert results[4].text == "[]\n"
        assert await kernel.collect(["answer", "figure"]) == {"answer": 7}


async def test_code_that_does_not_end_is_interrupted_and_a_kernel_that_ends_is_reported(tmp_path: Path) -> None:
    async with sandboxed_kernel(tmp_path) as kernel:
        results = await kernel.run(["print('a')", "while True: pass", "print('b')"], 3)
        assert [result.ended for result in results] == [True, False]
        assert (await kernel.run(["print('c')"], 60))[0].text == "c\n"
        with pytest.raises(KernelFailedError, match="has ended"):
            await kernel.run(["import os; os._exit(0)"], 60)


async def test_what_a_kernel_holds_arrives_as_values_whatever_the_code_did(tmp_path: Path) -> None:
    code = """
import numpy as np, pandas as pd
json = None
frame = pd.DataFrame({"day": pd.to_datetime(["2024-01-01"]), "n": [np.int64(2)]}).set_index("day")
series = pd.Series([1.5, float("nan")], index=["a", "b"])
names = {"b", "b"}
class Odd:
    def __repr__(self): raise RuntimeError
odd = [Odd]
"""
    async with sandboxed_kernel(tmp_path) as kernel:
        await kernel.run([code], 120)
        assert await kernel.collect(["frame", "series", "names"]) == {
            "frame": {"frame": {"columns": ["day", "n"], "rows": [["2024-01-01T00:00:00", 2]]}},
            "series": {"a": 1.5, "b": None},
            "names": ["b"],
        }
        await kernel.run(["answer = 'x' * 10**8; class_ = Odd(); Odd.__str__ = Odd.__repr__"], 60)
        assert await kernel.collect(["class_"]) == {}
        assert len((await kernel.collect(["answer"]))["answer"]) == 4000


def test_an_evaluation_that_was_stopped_goes_on_where_it_was(home: Path, messages_api: MessagesApi) -> None:
    tasks, asked = notebook_tasks(), []
    oracle = evaluated_model.oracle(tasks)

    def fails_later(request: Recorded) -> Reply | HttpError:
        asked.append(request)
        return oracle(request) if len(asked) <= 4 else HttpError(401, "authentication_error", "the key is gone")

    messages_api.default = fails_later  # type: ignore[assignment]
    chosen = ("notebook", "--tasks", FEW, "--harness", "bare", "--out", "out", "--model", "claude-haiku-4-5")
    first = run(home, *chosen, "--parallel", "1")
    assert first.returncode == 1
    assert "the key is gone" in first.stderr
    done = lines(home / "work" / "out")
    assert [line.get("ending") for line in done][:3] == [None, "solved", "solved"]
    assert "2 trials of 4 are missing" in (home / "work" / "out" / "card.md").read_text()

    with (home / "work" / "out" / "results.jsonl").open("a") as file:
        file.write('{"task": "bars-of-me')  # the program was killed while it wrote
    messages_api.default = oracle  # type: ignore[assignment]
    count = len(messages_api.requests)
    second = run(home, *chosen)
    assert (second.returncode, second.stdout) == (0, f"{home / 'work' / 'out' / 'card.html'}\n")
    assert lines(home / "work" / "out")[: len(done)] == done
    assert [line["ending"] for line in lines(home / "work" / "out")[1:] if "ending" in line] == ["solved"] * 4
    assert len(messages_api.requests) == count + 4
    assert run(home, *chosen).returncode == 0
    assert len(messages_api.requests) == count + 4
    other = run(home, *chosen, "--seed", "2")
    assert (other.returncode, "its seed differs." in other.stderr) == (2, True)
    others = run(home, *chosen, "--max-turns", "7", "--timeout", "60")
    assert (others.returncode, "its max-turns and timeout differ." in others.stderr) == (2, True)
    written = (home / "work" / "out" / "card.md").read_text()
    assert f"; tasks {FEW}; for a prompt at most 50 answers and 900 seconds." in written


def test_no_more_is_spent_than_allowed_and_what_was_spent_before_counts(home: Path, messages_api: MessagesApi) -> None:
    usage = {"input_tokens": 100_000, "output_tokens": 1}
    code = ToolUse("python", {"code": "answer = 1"})
    messages_api.default = lambda request: (  # type: ignore[assignment]
        Reply(code, usage=usage) if len(request.body["messages"]) == 1 else Reply("Done.", usage=usage)
    )
    chosen = ("notebook", "--tasks", "facts", "--harness", "bare", "--out", "out", "--model", "claude-haiku-4-5")
    first = run(home, *chosen, "--parallel", "1", "--max-cost", "0.55")
    assert first.returncode == 1
    assert "budget" in first.stderr
    assert "The same command with a higher --max-cost goes on from here." in first.stderr
    spent = sum(line.get("cost", 0) + line.get("lost", 0) for line in lines(home / "work" / "out")[1:])
    assert 0.19 < spent <= 0.55
    count = len(messages_api.requests)
    assert run(home, *chosen, "--parallel", "1", "--max-cost", "0.55").returncode == 1
    assert len(messages_api.requests) <= count + 1


def test_two_harnesses_are_compared_on_the_same_data(home: Path, messages_api: MessagesApi) -> None:
    messages_api.default = evaluated_model.oracle(notebook_tasks())  # type: ignore[assignment]
    model = ("--model", "claude-haiku-4-5", "--tasks", FEW)
    assert run(home, "notebook", "--harness", "ours", "--out", "a", *model).returncode == 0
    messages_api.default = Reply("I cannot do that.")
    assert run(home, "notebook", "--harness", "bare", "--out", "b", *model).returncode == 0
    done = run(home, "compare", "a", "b", "--out", "c.html")
    assert (done.returncode, done.stdout) == (0, f"{home / 'work' / 'c.html'}\n")
    page = (home / "work" / "c.md").read_text()
    assert "4 trials of the same data. 4 solved by one alone: p = 0.1250" in page
    assert "| solved | 100.0% | 0.0% | -100.0% | -100.0% to -100.0% |" in page
    assert "<table" in (home / "work" / "c.html").read_text()
    card = (home / "work" / "a" / "card.md").read_text()
    assert "4 of 4 trials solved (51% to 100%)" in card

    named = {path.stem: json.loads(path.read_text()) for path in (home / "work" / "a" / "trajectories").iterdir()}
    assert {name.rpartition("-")[0] for name in named} == {line["task"] for line in lines(home / "work" / "a")[1:]}
    for found in named.values():
        jsonschema.validate(found, ATIF)
        assert [step["step_id"] for step in found["steps"]] == [*range(1, len(found["steps"]) + 1)]
        call = next(step for step in found["steps"] if "tool_calls" in step)
        results = call["observation"]["results"]
        assert [result["source_call_id"] for result in results] == [each["tool_call_id"] for each in call["tool_calls"]]
        assert found["final_metrics"]["total_cost_usd"] > 0


def test_a_program_that_prints_its_events_is_a_harness_and_its_script_is_run_again(
    home: Path, messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = notebook_tasks()

    def writes(request: Recorded) -> Reply:
        if evaluated_model.has_result(request):
            return Reply("Is that what you want?")
        said = evaluated_model.prompts_of_request(request)
        task = next(task for task in tasks if task.prompts[0] in said[0])
        code = "\n".join(task.solution[: len(said)])
        if task.result == "notebook":
            return Reply(ToolUse("bash", {"command": f"python - <<'END'\n{code}\nEND"}))
        return Reply(ToolUse("write", {"path": "solution.py", "content": code}))

    messages_api.default = writes  # type: ignore[assignment]
    bin_ = home / "bin"
    bin_.mkdir()
    (bin_ / "pi").write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m indus_nb --wire pi --approve never "$@"\n'
    )
    (bin_ / "pi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    chosen = ("notebook", "--tasks", "alcohol-gap,filter-taken,bars,method-that", "--harness", "pi")
    # Unconfined: what lies in a directory for temporary files is not seen in a sandbox.
    done = run(home, *chosen, "--out", "out", "--model", "claude-haiku-4-5", "--unconfined")
    assert done.returncode == 0, done.stderr
    assert "Kernels were not confined" in (home / "work" / "out" / "card.md").read_text()
    found = {each["task"]: each for each in lines(home / "work" / "out")[1:]}
    assert {name: each["ending"] for name, each in found.items()} == dict.fromkeys(found, "solved")
    assert {name: each["requests"] for name, each in found.items()} == {
        "alcohol-gap": 2,
        "bars-of-means": 2,
        "method-that-is-gone": 2,
        "filter-taken-back": 6,
    }
    assert found["filter-taken-back"]["questions"] == 3
    assert all(each["cost"] > 0 and each["tokens"]["input"] > 0 for each in found.values())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--harness", "omp"), "The program omp is not installed"),
        (("--harness", "ours", "--model", "claude-haiku-4-5"), "No API key for anthropic"),
        (("--model", "google/gemini-3.6-flash", "--api-key", "k", "--max-cost", "1"), "The price of google/gemini"),
        (("--harness", "oracle", "--max-cost", "0"), "A budget is an amount of US dollars above zero"),
    ],
)
def test_what_no_trial_could_go_without_is_said_once_before_a_directory_is_made(
    home: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    done = run(home, "notebook", "--out", "out", *arguments)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert sentence in done.stderr
    assert not (home / "work" / "out").exists()


def test_a_machine_that_cannot_confine_kernels_is_known_before_a_directory_is_made(home: Path) -> None:
    bwrap = machine().bwrap
    assert bwrap is not None
    without = [bwrap.path, "--dev-bind", "/", "/", "--ro-bind", "/dev/null", bwrap.path]
    command = [*without, *EVAL, "notebook", "--harness", "oracle", "--out", "out"]
    done = subprocess.run(command, check=False, cwd=home / "work", capture_output=True, text=True)
    assert (done.returncode, "is confined with bubblewrap" in done.stderr) == (2, True), done.stderr
    assert not (home / "work" / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nothing",), "There is no suite 'nothing'"),
        (("notebook", "--harness", "magic"), "There is no harness 'magic'"),
        (("notebook", "--harness", "idle", "--tasks", "nothing"), "No task and no category of the suite begins with"),
        (("notebook", "--trials", "0"), "--trials is a number above zero"),
        (("compare", "a", "b"), "a cannot be read (No such file or directory)"),
        (("notebook", "--harness", "idle", "--out", "/proc/x"), "--out /proc/x cannot be"),
        (("notebook", "--harness", "idle", "--out", "/dev/null"), "--out /dev/null cannot be"),
    ],
)
def test_wrong_usage_is_said_before_anything_is_asked(home: Path, arguments: tuple[str, ...], sentence: str) -> None:
    done = run(home, *arguments)
    assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr


def test_a_signal_ends_an_evaluation_and_leaves_whole_lines(home: Path, messages_api: MessagesApi) -> None:
    messages_api.default = evaluated_model.oracle(notebook_tasks())  # type: ignore[assignment]
    out = home / "work" / "out"

    def has_ended() -> bool:
        return (out / "results.jsonl").exists() and '"ending"' in (out / "results.jsonl").read_text()

    async def stopped() -> tuple[int, str]:
        chosen = ["notebook", "--tasks", "facts", "--harness", "oracle", "--out", "out"]
        process = await asyncio.create_subprocess_exec(
            *EVAL, *chosen, cwd=home / "work", stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
        )
        assert process.stderr is not None
        while await process.stderr.readline() and not has_ended():
            pass
        process.terminate()
        said = (await process.stderr.read()).decode()
        return await process.wait(), said

    status, said = asyncio.run(stopped())
    assert status == 128 + 15
    count = len([line for line in lines(out)[1:] if "ending" in line])
    assert 1 <= count < 8
    assert f"Stopped after {count} of 8 trials." in said
    assert "The same command again goes on from here." in said
    assert f"of {counted(count, 'trial')} solved" in (out / "card.md").read_text()


HEADER = {"suite": "notebook", "harness": "idle", "model": "", "seed": 1}
RESULT = {"task": "paid", "category": "facts", "trial": 1, "ending": "solved"}


def test_lines_that_are_no_results_are_left_out_with_a_word(home: Path) -> None:
    bad = [{"ending": 5}, {"cost": "x"}, {"tokens": {"input": "x"}}, {"trial": None}, {"cost": -(10**400)}]
    given = [HEADER, RESULT, *(RESULT | each for each in bad), {"lost": "x"}]
    for name in ("a.jsonl", "b.jsonl"):
        (home / "work" / name).write_text("".join(f"{json.dumps(each)}\n" for each in given) + "no JSON\n")
    done = run(home, "compare", "a.jsonl", "b.jsonl", "--out", "c.html")
    assert done.returncode == 0, done.stderr
    assert "a.jsonl: what is no result of a trial is left out (7 lines)." in done.stderr
    assert "1 trial of the same data." in (home / "work" / "c.md").read_text()
    blocked = run(home, "compare", "a.jsonl", "b.jsonl", "--out", "/proc/c.html")
    assert (blocked.returncode, "--out /proc/c.html cannot be written" in blocked.stderr) == (2, True)


def test_a_file_of_results_without_any_blocks_no_other_evaluation(home: Path) -> None:
    place = home / "work" / "out" / "results.jsonl"
    place.parent.mkdir()
    place.write_text(f"{json.dumps(HEADER | {'model': 'another'})}\n")
    chosen = ("notebook", "--tasks", "paid", "--harness", "idle", "--out", "out")
    assert run(home, *chosen).returncode == 0
    assert [line.get("ending") for line in lines(place.parent)] == [None, "nothing"]
    assert "begun" in lines(place.parent)[0]


def test_a_card_says_what_is_missing_and_its_page_is_read_on_a_narrow_screen() -> None:
    about = HEADER | {"version": "1", "begun": "2026-01-02", "max_turns": 5, "timeout": 60.0}
    empty = card(Series(about), 1)
    assert "no trial has a result yet." in empty
    assert "1 trial of 1 is missing, and counts nowhere." in empty
    assert "%" not in empty
    assert "Version 1, begun on 2026-01-02; all tasks; for a prompt at most 5 answers and 60 seconds." in empty
    full = card_html(card(Series(about, [Attempt.from_json(RESULT)]), 1, "facts"))
    assert "; tasks facts; " in full
    assert 'text-align:right">1/1</td>' in full
    assert "padding:0 1em" in full
    assert "overflow-x:auto" in full


def test_a_plain_install_says_how_the_packages_of_the_suite_are_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    with pytest.raises(UsageError, match=r'needs statsmodels: pip install "\.\[eval\]" in the clone'):
        notebook_tasks()
