"""Suites that others have made, read from directories that the user has fetched: KramaBench and DataAgentBench.

What this module promises: files are read as their repositories have them, and copied for each trial. Their data are
what they are, so code is not run again on other data.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject, dump, from_json
from indus_nb.evaluate.benchmark_task import BenchmarkTask, Make
from indus_nb.evaluate.graders import Grader, NamesGrader, NumberGrader, WordGrader
from indus_nb.safety.sandbox import Sandbox, SandboxError, make_policy

if TYPE_CHECKING:
    from numpy.random import Generator

_FILE_DATABASES = ("sqlite", "duckdb")
_VALIDATE_SECONDS = 60
_VALIDATE = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("validate", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
found = module.validate(json.loads(sys.stdin.read()))
print(json.dumps([bool(found[0]), str(found[1])[:300]] if isinstance(found, tuple) else [bool(found), ""]))
"""


def kramabench_tasks(root: Path) -> list[BenchmarkTask]:
    """Return KramaBench's tasks: questions on a domain's files, with one value as the answer.

    Args:
        root: A copy of its repository, with ``workload/*.json`` and ``data/DOMAIN/input``.

    Raises:
        UsageError: There is nothing of that form.
    """
    tasks: list[BenchmarkTask] = []
    for path in sorted((root / "workload").glob("*.json")):
        files = root / "data" / path.stem / "input"
        if files.is_dir():
            listed = cast("list[JsonObject]", _read(path))
            tasks += [_kramabench_task(path.stem, files, each) for each in listed]
    return _some(tasks, root, "KramaBench: workload/DOMAIN.json beside data/DOMAIN/input")


def _kramabench_task(domain: str, files: Path, given: JsonObject) -> BenchmarkTask:
    sources: Any = given.get("data_sources") or []
    named = ", ".join(map(str, cast("list[Any]", sources))) if isinstance(sources, list) else str(sources)
    return BenchmarkTask(
        id=re.sub(r"[^\w.-]", "-", str(given["id"])),
        category=domain,
        prompts=(f"{given['query']}\n\nThe files lie in the directory input; needed are: {named}.",),
        make=_copies({"input": files}, given["answer"]),
        grader=_grader_of(str(given["answer_type"]), given["answer"]),
        has_twin=False,
    )


def _grader_of(kind: str, answer: Any) -> Grader:
    """Return what grades an answer of a kind; where texts or numbers may be approximate, closely and no more."""
    if kind.startswith("list") or isinstance(answer, list):
        return NamesGrader()
    if kind.startswith("numeric"):
        return NumberGrader(1e-2 if kind.endswith("approximate") else 1e-6)
    return WordGrader()


def dataagentbench_tasks(root: Path) -> list[BenchmarkTask]:
    """Return DataAgentBench's tasks whose databases are files, graded by its own programs, confined.

    Args:
        root: A copy of its repository, with ``query_DATASET/queryN``.

    Raises:
        UsageError: There is nothing of that form.
    """
    tasks: list[BenchmarkTask] = []
    for directory in sorted(root.glob("query_*")):
        databases = _databases(directory / "db_config.yaml")
        if databases:
            described = (directory / "db_description.txt").read_text("utf-8").strip()
            queries = sorted(directory.glob("query*/query.json"))
            tasks += [_dataagentbench_task(directory, query.parent, described, databases) for query in queries]
    return _some(tasks, root, "DataAgentBench: query_DATASET/db_config.yaml with databases of SQLite or DuckDB")


def _databases(path: Path) -> dict[str, Path]:
    """Return the files of a set's databases by the paths that its description uses; none if one needs a server."""
    import yaml

    if not path.is_file():
        return {}
    known: Any = yaml.safe_load(path.read_text("utf-8"))
    listed = [cast("JsonObject", each) for each in known["db_clients"].values()]
    if not all(each.get("db_type") in _FILE_DATABASES for each in listed):
        return {}
    found = {str(each["db_path"]): path.parent / str(each["db_path"]) for each in listed}
    return found if all(file.is_file() for file in found.values()) else {}


def _dataagentbench_task(directory: Path, query: Path, described: str, databases: dict[str, Path]) -> BenchmarkTask:
    given: Any = _read(query / "query.json")
    asked = cast("JsonObject", given)["query"] if isinstance(given, dict) else given
    return BenchmarkTask(
        id=f"{directory.name.removeprefix('query_')}-{query.name.removeprefix('query')}",
        category=directory.name.removeprefix("query_"),
        prompts=(f"{asked}\n\n{described}\n\nLeave the answer as text.",),
        make=_copies(databases, ""),
        grader=ProgramGrader(query / "validate.py"),
        has_twin=False,
    )


@dataclass(frozen=True, slots=True)
class ProgramGrader:
    """Grades by a suite's own ``validate(text)``, run confined, without a network and with nothing to write to."""

    program: Path

    def problem(self, given: Any, expected: Any) -> str | None:  # noqa: ARG002 - the program knows it
        """Return what the program says against a value."""
        text = given if isinstance(given, str) else dump(given).decode()
        try:
            sandbox = Sandbox(make_policy("read-only", self.program.parent))
            with sandbox.confine([sys.executable, "-I", "-c", _VALIDATE, str(self.program)]) as confined:
                done = subprocess.run(
                    confined.arguments,
                    input=dump(text),
                    capture_output=True,
                    check=False,
                    pass_fds=confined.pass_fds,
                    timeout=_VALIDATE_SECONDS,
                )
            sandbox.close()
            right, why = cast("list[Any]", from_json(done.stdout))
        except (OSError, ValueError, SandboxError, subprocess.SubprocessError) as error:
            raise UsageError(f"{self.program} cannot be run: {error}.") from error
        return None if right is True else str(why) or "the suite's program says no"

    def forgery(self, expected: Any) -> str:
        """Return code that gives a value."""
        return f"answer = {expected!r}"


def _copies(files: dict[str, Path], answer: Any) -> Make:
    """Return a function that copies what a task is about, for what an agent writes must not reach the user's files."""

    def make(_random: Generator, place: Path) -> Any:
        for name, path in files.items():
            target = place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, target, dirs_exist_ok=True)
            else:
                shutil.copyfile(path, target)
        return answer

    return make


def _read(path: Path) -> Any:
    try:
        return from_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error


def _some(tasks: list[BenchmarkTask], root: Path, form: str) -> list[BenchmarkTask]:
    if not tasks:
        raise UsageError(f"{root} holds nothing of the form of {form}.")
    return tasks
