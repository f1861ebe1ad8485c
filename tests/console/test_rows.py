"""``indusagi map``: rows of a file in, the same with answers out, and an exit status that tells how it went."""

from __future__ import annotations

import base64
import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest
from fanout_calls import asked
from messages_api import Gate, HttpError, MessagesApi, Recorded, Reply, Text, ToolUse
from notebook_files import png

from indus_nb.front.console.rows import table_in, write_table

MAP = [sys.executable, "-m", "indus_nb", "map"]


@pytest.fixture
def work(home: Path) -> Path:
    """The directory of the project, with rows."""
    (home / "work" / "rows.csv").write_text('name,age\nAda,36\n"Grace, H.",85\n', encoding="utf-8")
    return home / "work"


def run(work: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``indusagi map`` to its end."""
    return subprocess.run([*MAP, *arguments], check=False, cwd=work, capture_output=True, text=True)


def test_a_csv_file_gets_columns_for_the_answers(work: Path, messages_api: MessagesApi) -> None:
    messages_api.default = lambda request: Reply(f"of {asked(request)}, \u00fc")  # type: ignore[assignment]
    done = run(work, "rows.csv", "--prompt", "{name} {age}", "--out", "out.csv", "--model", "claude-haiku-4-5")
    assert (done.returncode, done.stdout) == (0, "")
    assert "2 of 2 rows" in done.stderr
    with (work / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["answer"] for row in rows] == ["of Ada 36, \u00fc", "of Grace, H. 85, \u00fc"]
    assert rows[1]["name"] == "Grace, H."
    assert Path(rows[0]["session"]).exists()


def test_answers_that_cannot_be_written_at_the_end_are_printed(work: Path, messages_api: MessagesApi) -> None:
    messages_api.default = Reply("yes")
    (work / "full.csv").symlink_to("/dev/full")
    done = run(work, "rows.csv", "--prompt", "{name}", "--out", "full.csv", "--model", "claude-haiku-4-5")
    assert done.returncode == 1
    assert "The answers cannot be written to full.csv (No space left on device): they are on standard" in done.stderr
    assert [row["answer"] for row in csv.DictReader(done.stdout.splitlines())] == ["yes", "yes"]


def test_a_sample_is_written_and_is_no_failure(work: Path, messages_api: MessagesApi) -> None:
    messages_api.default = Reply("yes")
    chosen = ("--prompt", "{name}", "--out", "out.jsonl", "--model", "claude-haiku-4-5", "--sample", "1")
    done = run(work, "rows.csv", *chosen)
    assert (done.returncode, len(messages_api.requests)) == (0, 1)
    assert "A sample: 2 rows, 1 answered, 1 not asked, $" in done.stderr
    messages_api.default = HttpError(400, "invalid_request_error", "not this")
    assert run(work, "rows.csv", *chosen).returncode == 1
    failed = run(work, "rows.csv", *chosen[:-2])
    assert "not this. With --journal FILE the next call would ask only for what is missing." in failed.stderr


def test_columns_of_files_are_read_and_others_are_texts(work: Path, messages_api: MessagesApi) -> None:
    image = base64.b64decode(png())
    (work / "a.png").write_bytes(image)
    (work / "rows.jsonl").write_text('{"photo": "a.png", "name": "a.png"}\n{"photo": "../x.png", "name": "x"}\n')
    messages_api.default = Reply("red")
    options = ("--prompt", "{name}: {photo}", "--files", "photo", "--model", "claude-haiku-4-5")
    done = run(work, "rows.jsonl", *options, "--out", "out.csv")
    assert done.returncode == 1
    assert "../x.png in the column 'photo' cannot be read (No such file or directory)" in done.stderr
    (request,) = messages_api.requests
    text, shown = request.body["messages"][0]["content"]
    assert text["text"] == "a.png: [image 1]"
    assert base64.b64decode(shown["source"]["data"]) == image
    with (work / "out.csv").open(encoding="utf-8", newline="") as file:
        assert [(row["photo"], row["answer"]) for row in csv.DictReader(file)] == [("a.png", "red"), ("../x.png", "")]
    counted = run(work, "rows.jsonl", *options, "--out", "out.csv", "--estimate")
    assert "1 row with 1 image to ask, about" in counted.stderr


def test_a_cheap_model_is_asked_first_and_the_other_where_it_is_not_sure(work: Path, messages_api: MessagesApi) -> None:
    def answer(request: Recorded) -> Reply:
        if request.body["model"] == "claude-haiku-4-5":
            sure = 0.9 if asked(request) == "Ada" else 0.1
            return Reply(ToolUse("answer", {"answer": "cheap", "probability": sure}))
        return Reply("usual")

    messages_api.default = answer  # type: ignore[assignment]
    models = ("--model", "claude-sonnet-4-5", "--cheap", "claude-haiku-4-5", "--sure", "0.8")
    done = run(work, "rows.csv", "--prompt", "{name}", "--out", "out.csv", *models)
    assert done.returncode == 0
    assert "Claude Haiku 4.5, then Claude Sonnet 4.5" in done.stderr
    assert "1 of 2 by Claude Haiku 4.5 ($" in done.stderr
    with (work / "out.csv").open(encoding="utf-8", newline="") as file:
        assert [row["answer"] for row in csv.DictReader(file)] == ["cheap", "usual"]
    wrong = run(work, "rows.csv", "--prompt", "{name}", "--out", "out.csv", *models[:-1], "surely")
    assert wrong.returncode == 2
    assert "give a number from 0 to 1, or twice" in wrong.stderr


def test_what_a_model_says_is_no_formula_of_a_table_and_nothing_that_a_terminal_obeys(
    work: Path, messages_api: MessagesApi
) -> None:
    said = {"Ada": '=HYPERLINK("http://x")\x1b[2J', "Grace, H.": "-12.5"}
    messages_api.default = lambda request: Reply(said[asked(request)])  # type: ignore[assignment]
    done = run(work, "rows.csv", "--prompt", "{name}", "--out", "out.csv", "--model", "claude-haiku-4-5")
    assert done.returncode == 0
    with (work / "out.csv").open(encoding="utf-8", newline="") as file:
        assert [row["answer"] for row in csv.DictReader(file)] == ['\'=HYPERLINK("http://x")', "-12.5"]
    done = run(work, "rows.csv", "--prompt", "{name}", "--out", "out.jsonl", "--model", "claude-haiku-4-5")
    lines = [json.loads(line) for line in (work / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["answer"] for line in lines] == [*said.values()]


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("\t=1+1", "'\t=1+1"),
        ("\n =1+1", "'\n =1+1"),
        ("\u00a0@SUM(1)", "'\u00a0@SUM(1)"),
        ("\u200b=1", "'\u200b=1"),
        ("\ufeff+1+1", "'\ufeff+1+1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("a;=1+1;-2", "a;'=1+1;-2"),
        ("- a list\n- of two", "'- a list\n- of two"),
        ("1=1", "1=1"),
        ("(-5)", "(-5)"),
    ],
)
def test_formulas_are_found_behind_what_cannot_be_seen_and_in_the_names_of_columns(
    tmp_path: Path, said: str, written: str
) -> None:
    write_table(tmp_path / "out.csv", ["name"], [said], [{"name": "=mine", said: said}])
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [["name", written], ["=mine", written]]


def test_tens_of_thousands_of_columns_are_read_in_time_that_grows_with_their_number(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text(",".join(map(str, range(50_000))) + "\n")
    assert len(table_in(tmp_path / "wide.csv").columns) == 50_000


@pytest.mark.parametrize(("approve", "runs"), [((), False), (("--approve", "never"), True)])
def test_tools_of_rows_that_change_something_are_refused_unless_that_is_allowed(
    work: Path, messages_api: MessagesApi, approve: tuple[str, ...], runs: bool
) -> None:
    def answer(request: Recorded) -> Reply:
        called = len(request.body["messages"]) > 1
        return Reply("done") if called else Reply(ToolUse("bash", {"command": "touch made"}))

    messages_api.default = answer  # type: ignore[assignment]
    command = ["rows.csv", "--prompt", "{name}", "--out", "out.csv", "--model", "claude-haiku-4-5", "--tools", "bash"]
    done = run(work, *command, *approve)
    assert done.returncode == 0
    assert (work / "made").exists() is runs
    mode = "no call is refused" if runs else "calls with effects are refused"
    assert f"Rows may use bash: {mode}" in done.stderr
    assert "commands are not confined" in done.stderr


def test_typed_answers_go_into_json_lines_and_failed_rows_are_said(work: Path, messages_api: MessagesApi) -> None:
    (work / "rows.jsonl").write_text('{"n": 1}\n\n{"n": 2}\n')
    (work / "kind.py").write_text("from dataclasses import dataclass\n@dataclass\nclass Kind:\n    twice: int\n")

    def answer(request: Recorded) -> Reply | HttpError:
        if asked(request) == "2":
            return HttpError(400, "invalid_request_error", "not two")
        return Reply(ToolUse("answer", {"twice": 2}))

    messages_api.default = answer  # type: ignore[assignment]
    command = ["rows.jsonl", "--prompt", "{n}", "--out", "out.jsonl", "--schema", "kind.py:Kind", "--journal", "j"]
    done = run(work, *command)
    assert done.returncode == 1
    assert "1 of 2 rows have no answer" in done.stderr
    assert "not two" in done.stderr
    rows = [json.loads(line) for line in (work / "out.jsonl").read_text().splitlines()]
    assert [(row["n"], row["twice"], row["error"] is None) for row in rows] == [(1, 2, True), (2, None, False)]
    messages_api.default = Reply(ToolUse("answer", {"twice": 4}))
    asked_before = len(messages_api.requests)
    assert run(work, *command).returncode == 0
    assert len(messages_api.requests) == asked_before + 1


def test_a_signal_keeps_what_was_answered(work: Path, messages_api: MessagesApi) -> None:
    gate = Gate()
    (work / "many.jsonl").write_text("".join(f"{number}\n" for number in range(50)))

    def answer(request: Recorded) -> Reply:
        return Reply(Text("late", gate)) if asked(request) == "3" else Reply("ok", at_once=True)

    messages_api.default = answer  # type: ignore[assignment]
    command = [*MAP, "many.jsonl", "--prompt", "{item}", "--out", "out.jsonl", "--parallel", "1"]
    running = subprocess.Popen(command, cwd=work, stderr=subprocess.PIPE, text=True)
    assert gate.reached.wait()
    os.kill(running.pid, signal.SIGTERM)
    gate.open()
    _, errors = running.communicate()
    assert (running.returncode, "have no answer" in errors) == (128 + signal.SIGTERM, True)
    answers = [json.loads(line)["answer"] for line in (work / "out.jsonl").read_text().splitlines()]
    assert answers[:4] == ["ok", "ok", "ok", "late"]
    assert (len(answers), answers[-1]) == (50, None)


def test_on_a_terminal_a_bar_stays_within_one_line_whatever_it_says(
    work: Path, messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("BAR_FORMAT", "{foo}"), ("WRITE_BYTES", "1"), ("GUI", "1")):
        monkeypatch.setenv(f"TQDM_{name}", value)  # options for other bars
    gate, columns = Gate(), 70
    (work / "two.jsonl").write_text("1\n2\n")
    busy = HttpError(529, "overloaded_error", "very busy, and said at length so that it fills the line of a terminal")
    replies = iter([Reply("one"), busy, Reply(Text("two", gate))])
    messages_api.default = lambda _: next(replies)  # type: ignore[assignment]
    running = pexpect.spawn(
        MAP[0],
        [*MAP[1:], "two.jsonl", "--prompt", "{item}", "--out", "out.jsonl", "--parallel", "1"],
        cwd=str(work),
        encoding="utf-8",
        dimensions=(24, columns),
    )
    running.expect("1/2.*?asking a")
    drawn = running.before + running.after
    gate.open()
    running.expect(pexpect.EOF)
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[A|\x1b\[K", "", drawn + running.before))
    assert all(len(line) <= columns for line in lines if "/2 [" in line)
    assert any("/2 [" in line for line in lines)
    assert lines[-2].strip().startswith("2 of 2 rows, $0.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rows.csv", "--prompt", "{naem}", "--out", "o.csv"], "Its columns are: name, age"),
        (["rows.csv", "--prompt", "{name}"], "required: --out"),
        (["rows.csv", "--prompt", "{name}", "--out", "o.xlsx"], "--out o.xlsx"),
        (["rows.csv", "--prompt", "{name}", "--out", "nowhere/o.csv"], "no directory"),
        (["rows.csv", "--prompt", "{name}", "--out", "/proc/o.csv"], "--out /proc/o.csv: "),
        (["none.csv", "--prompt", "{name}", "--out", "o.csv"], "cannot be read"),
        (["empty.csv", "--prompt", "{name}", "--out", "o.csv"], "empty.csv: the first line names the columns"),
        (["header.csv", "--prompt", "{naem}", "--out", "o.csv"], "Its columns are: name, age"),
        (["bad.csv", "--prompt", "{a}", "--out", "o.csv"], "line 2 has 2 values for 1 columns"),
        (["bad.jsonl", "--prompt", "{a}", "--out", "o.csv"], "line 1 is no JSON"),
        (["rows.csv", "--prompt", "{name}", "--out", "o.csv", "--parallel", "0"], "parallel"),
        (["rows.csv", "--prompt", "{name}", "--out", "o.csv", "--sure", "0.9"], "name one with cheap"),
    ],
)
def test_what_cannot_be_asked_is_wrong_usage(work: Path, arguments: list[str], said: str) -> None:
    (work / "empty.csv").touch()
    (work / "header.csv").write_text("name,age\n")
    (work / "bad.csv").write_text("a\n1,2\n")
    (work / "bad.jsonl").write_text("{\n")
    done = run(work, *arguments)
    assert (done.returncode, said in done.stderr, list(work.glob("o.*"))) == (2, True, [])


def test_what_a_row_lacks_is_said_of_that_row(work: Path) -> None:
    (work / "short.csv").write_text("id,text\n1,one\n2\n3,\n")
    done = run(work, "short.csv", "--prompt", "{text}", "--out", "o.jsonl", "--provider", "offline")
    assert "2 of 3 rows have no answer. The first reason, of row 2: This row has no {text}" in done.stderr
    errors = [json.loads(line)["error"] for line in (work / "o.jsonl").read_text().splitlines()]
    assert errors[1] == "This row has no {text}, which the prompt names. It has: id."
    assert errors[2] == "The prompt of this row is empty: it has no value where the prompt names a column."
    (work / "header.csv").write_text("id,text\n")
    nothing = run(work, "header.csv", "--prompt", "{text}", "--out", "o.csv", "--provider", "offline")
    assert (nothing.returncode, "header.csv has no rows, so nothing is asked." in nothing.stderr) == (0, True)


def test_the_offline_assistant_answers_rows_too(work: Path) -> None:
    done = run(work, "rows.csv", "--prompt", "{age}", "--out", "o.tsv", "--schema", "int", "--provider", "offline")
    assert (done.returncode, (work / "o.tsv").read_text().split("\n")[0]) == (0, "name\tage\tanswer\terror\tsession")
