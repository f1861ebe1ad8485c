"""Suites of others, read from directories in the form that their repositories have."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import evaluated_model
import pytest
from messages_api import MessagesApi, Reply, ToolUse

from indus_nb.base.errors import UsageError
from indus_nb.evaluate.suites import open_suite
from indus_nb.safety.sandbox import machine

EVAL = [sys.executable, "-m", "indus_nb", "eval"]
confined = pytest.mark.skipif(machine().backend != "bwrap", reason="kernels of trials are confined by bubblewrap")


@pytest.fixture
def kramabench(tmp_path: Path) -> Path:
    """Two questions on the files of one domain, and a workload whose files were not fetched."""
    root = tmp_path / "Kramabench"
    (root / "workload").mkdir(parents=True)
    (root / "data" / "rivers" / "input" / "old").mkdir(parents=True)
    (root / "data" / "rivers" / "input" / "rivers.csv").write_text("river,km\nRhine,1233\nElbe,1094\n")
    given = {"runtime": 1, "data_sources": ["rivers.csv"], "subtasks": [{"id": "x", "answer": 1}]}
    tasks = [
        {"id": "rivers-easy-1", "query": "How long are they?", "answer": 2327, "answer_type": "numeric_exact", **given},
        {"id": "rivers-easy-2", "query": "Which is longer?", "answer": "Rhine", "answer_type": "string_exact", **given},
        {"id": "rivers/3", "query": "Which?", "answer": ["Rhine", "Elbe"], "answer_type": "list_exact", **given},
    ]
    (root / "workload" / "rivers.json").write_text(json.dumps(tasks))
    (root / "workload" / "absent.json").write_text(json.dumps(tasks))
    return root


@pytest.fixture
def dataagentbench(tmp_path: Path) -> Path:
    """A set whose database is a file, and one that needs a server."""
    root = tmp_path / "DataAgentBench"
    query = root / "query_books" / "query1"
    query.mkdir(parents=True)
    (root / "query_books" / "query_dataset").mkdir()
    with sqlite3.connect(root / "query_books" / "query_dataset" / "books.db") as database:
        database.execute("create table books (title text, year int)")
        database.execute("insert into books values ('Emma', 1815)")
    database.close()
    client = "db_clients:\n  books:\n    db_type: {}\n    db_path: query_dataset/books.db\n"
    (root / "query_books" / "db_config.yaml").write_text(client.format("sqlite"))
    (root / "query_books" / "db_description.txt").write_text("books.db holds books.")
    (query / "query.json").write_text('"Which book is of 1815?"')
    (query / "validate.py").write_text(
        "def validate(llm_output):\n    if 'emma' in llm_output.lower():\n        return True, 'found'\n"
        f"    open({str(query / 'written')!r}, 'w')\n"
    )
    (query / "ground_truth.csv").write_text("Emma\n")
    (root / "query_other" / "query1").mkdir(parents=True)
    (root / "query_other" / "db_config.yaml").write_text(client.format("postgres"))
    (root / "query_other" / "query1" / "query.json").write_text('"?"')
    return root


def run(home: Path, *arguments: str) -> list[dict]:
    """Evaluate, and return the trials."""
    chosen = ["--harness", "bare", "--model", "claude-haiku-4-5", "--out", "out"]
    done = subprocess.run([*EVAL, *arguments, *chosen], check=False, cwd=home / "work", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in (home / "work" / "out" / "results.jsonl").read_text().splitlines()[1:]]


@confined
def test_questions_of_kramabench_are_asked_beside_their_files(
    home: Path, messages_api: MessagesApi, kramabench: Path
) -> None:
    codes = {
        "How long are they?": "answer = sum(int(line.split(',')[1]) for line in [*open('input/rivers.csv')][1:])",
        "Which is longer?": f"answer = open({str(kramabench / 'workload' / 'rivers.json')!r}).read()",
        "Which?": "answer = ['Elbe', 'Rhine']",
    }

    def answer(request: object) -> Reply:
        said = evaluated_model.prompts_of_request(request)  # type: ignore[arg-type]
        if evaluated_model.has_result(request):  # type: ignore[arg-type]
            return Reply("Done.")
        return Reply(ToolUse("python", {"code": next(code for asked, code in codes.items() if asked in said[0])}))

    messages_api.default = answer  # type: ignore[assignment]
    found = run(home, "kramabench", "--data", str(kramabench))
    assert {each["task"]: each["ending"] for each in found} == {
        "rivers-easy-1": "solved",
        "rivers-easy-2": "nothing",  # the file with the answers is hidden
        "rivers-3": "solved",
    }


@confined
def test_questions_of_dataagentbench_are_graded_by_its_own_programs(
    home: Path, messages_api: MessagesApi, dataagentbench: Path
) -> None:
    code = """
import sqlite3
answer = sqlite3.connect("query_dataset/books.db").execute("select title from books where year = 1815").fetchone()[0]
"""
    messages_api.default = lambda request: (  # type: ignore[assignment]
        Reply("Done.") if evaluated_model.has_result(request) else Reply(ToolUse("python", {"code": code}))
    )
    found = run(home, "dataagentbench", "--data", str(dataagentbench))
    assert [(each["task"], each["ending"]) for each in found] == [("books-1", "solved")]


@confined
def test_a_grading_program_can_write_nothing(dataagentbench: Path) -> None:
    task = open_suite("dataagentbench", dataagentbench).tasks[0]
    assert task.grader.problem("It is Emma.", "") is None
    with pytest.raises(UsageError, match=r"validate\.py cannot be run"):
        task.grader.problem("I do not know", "")
    assert list(dataagentbench.rglob("written")) == []


def test_a_directory_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    for name in ("kramabench", "dataagentbench"):
        with pytest.raises(UsageError, match="holds nothing of the form"):
            open_suite(name, tmp_path)
        with pytest.raises(UsageError, match="say where it lies with --data"):
            open_suite(name)
