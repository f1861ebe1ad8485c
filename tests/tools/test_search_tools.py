"""``grep`` and ``find``, with ripgrep and fd and without them."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from hostile import IGNORE_LINES

from indus_nb.tools import ToolContext, ToolError, builtin_tools
from indus_nb.tools.files import walk
from indus_nb.tools.files.search import find_tool, grep_tool
from indus_nb.tools.files.walk import Glob

TREE = {
    ".gitignore": "*.log\nbuild/\n!kept.log\n",
    ".hidden/deep.txt": "needle in a hidden folder\n",
    ".git/config": "needle of git\n",
    "a.txt": "one\nneedle two\nthree\nfour needle\nfive\n",
    "B.txt": "Needle in capitals\n",
    "build/out.txt": "needle that was built\n",
    "crlf.txt": "windows needle\r\nend\r\n",
    "kept.log": "needle kept\n",
    "noise.log": "needle in noise\n",
    "src/.ignore": "secret.*\n",
    "src/.fdignore": "only_fd.txt\n",
    "src/.gitignore": "/anchored.txt\n!build/\n",
    "src/anchored.txt": "needle anchored\n",
    "src/build/out.txt": "needle in src/build\n",
    "src/inner/anchored.txt": "needle not anchored\n",
    "src/only_fd.txt": "needle for grep alone\n",
    "src/secret.txt": "needle secret\n",
    "src/main.py": "import needle\n",
    "src/main.pyi": "needle: int\n",
    "src/umlaut ü.txt": "grüne needle\n",
    "z.txt": "b(a)r needle.\n",
}
BACKENDS = ["with the programs", "without them"]


@pytest.fixture
def use_backend(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    path = os.environ["PATH"]

    def choose(name: str) -> None:
        if name == "without them":
            monkeypatch.setenv("PATH", "/nowhere")
        else:
            monkeypatch.setenv("PATH", path)

    return choose


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, use_backend: Callable[[str], None]) -> None:
    use_backend(request.param)


@pytest.fixture(params=["in a repository", "outside"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    for name, text in TREE.items():
        if request.param == "outside" and name.startswith(".git/"):
            continue
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    (tmp_path / "binary.bin").write_bytes(b"needle\0needle\n")
    (tmp_path / "link.txt").symlink_to("a.txt")
    (tmp_path / "linked").symlink_to("src")
    return tmp_path


async def call(cwd: Path, tool: str, **arguments: Any) -> str:
    chosen = builtin_tools(cwd)[tool]
    output = await chosen.execute(chosen.check(arguments), ToolContext("1", lambda _: None))
    return output.content[0].text


GREPS: list[dict[str, Any]] = [
    {"pattern": "needle"},
    {"pattern": "NEEDLE", "ignoreCase": True},
    {"pattern": "^needle \\w+$"},
    {"pattern": "needle$"},
    {"pattern": "b(a)r needle.", "literal": True},
    {"pattern": "needle", "context": 1},
    {"pattern": "needle", "path": "a.txt", "context": 2},
    {"pattern": "needle", "path": "src"},
    {"pattern": "needle", "path": "build"},
    {"pattern": "needle", "glob": "*.py"},
    {"pattern": "needle", "glob": "src/*.{py,pyi}"},
    {"pattern": "needle", "glob": "**/inner/*"},
    {"pattern": "needle", "glob": "!*.txt"},
    {"pattern": "needle", "glob": "noise.log"},
    {"pattern": "needle", "limit": 3},
    {"pattern": "needle", "limit": 1, "context": 1},
    {"pattern": "-needle"},
    {"pattern": "grüne"},
]
FINDS: list[dict[str, Any]] = [
    {"pattern": "*"},
    {"pattern": "*.txt"},
    {"pattern": "b.*"},
    {"pattern": "B.*"},
    {"pattern": "src/*.py"},
    {"pattern": "src/**/*.txt"},
    {"pattern": "**/inner"},
    {"pattern": "*.{py,pyi}"},
    {"pattern": "[a-b].txt"},
    {"pattern": "main.py?"},
    {"pattern": "*", "path": "src"},
    {"pattern": "*", "path": "build"},
    {"pattern": "linked"},
    {"pattern": "nothing"},
]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("grep", arguments) for arguments in GREPS] + [("find", arguments) for arguments in FINDS],
    ids=str,
)
async def test_both_backends_give_the_same(
    tree: Path, use_backend: Callable[[str], None], tool: str, arguments: dict[str, Any]
) -> None:
    answers: list[str] = []
    for name in BACKENDS:
        use_backend(name)
        answers.append(await call(tree, tool, **arguments))
    assert answers[0] == answers[1]


async def test_grep_shows_path_line_and_text_in_order(tree: Path, backend: None) -> None:
    assert (await call(tree, "grep", pattern="needle")).split("\n") == [
        ".hidden/deep.txt:1: needle in a hidden folder",
        "a.txt:2: needle two",
        "a.txt:4: four needle",
        "crlf.txt:1: windows needle",
        "kept.log:1: needle kept",
        "src/build/out.txt:1: needle in src/build",
        "src/inner/anchored.txt:1: needle not anchored",
        "src/main.py:1: import needle",
        "src/main.pyi:1: needle: int",
        "src/only_fd.txt:1: needle for grep alone",
        "src/umlaut ü.txt:1: grüne needle",
        "z.txt:1: b(a)r needle.",
    ]


async def test_grep_shows_context_with_dashes_and_each_line_once(tree: Path, backend: None) -> None:
    assert (await call(tree, "grep", pattern="needle", path="a.txt", context=1)).split("\n") == [
        "a.txt-1- one",
        "a.txt:2: needle two",
        "a.txt-3- three",
        "a.txt:4: four needle",
        "a.txt-5- five",
    ]


async def test_grep_says_when_nothing_matches(tree: Path, backend: None) -> None:
    assert await call(tree, "grep", pattern="haystack") == "No matches found"


async def test_grep_stops_at_its_limit_and_says_so(tree: Path, backend: None) -> None:
    lines = (await call(tree, "grep", pattern="needle", limit=2)).split("\n")
    assert lines[:2] == [".hidden/deep.txt:1: needle in a hidden folder", "a.txt:2: needle two"]
    assert lines[2] == ""
    assert "2 matches are shown and there are more" in lines[3]
    exact = await call(tree, "grep", pattern="needle", path="a.txt", limit=2)
    assert "more" not in exact


async def test_grep_shows_no_context_of_a_match_beyond_the_limit(tmp_path: Path, backend: None) -> None:
    (tmp_path / "a.txt").write_text("needle\nx\ny\nz\nneedle\n")
    shown = (await call(tmp_path, "grep", pattern="needle", limit=1, context=1)).split("\n\n")[0]
    assert shown == "a.txt:1: needle\na.txt-2- x"


async def test_grep_cuts_long_lines_and_says_so(tmp_path: Path, backend: None) -> None:
    (tmp_path / "long.txt").write_text("needle" + "ä" * 10_000 + "\n")
    first, *_, notice = (await call(tmp_path, "grep", pattern="needle")).split("\n")
    assert first == "long.txt:1: " + ("needle" + "ä" * 494) + "... [cut]"
    assert "Lines cut at 500 characters" in notice


async def test_grep_shows_at_most_50_kb_of_whole_lines(tmp_path: Path, backend: None) -> None:
    (tmp_path / "many.txt").write_text(("needle " + "x" * 400 + "\n") * 500)
    tool = builtin_tools(tmp_path)["grep"]
    output = await tool.execute(tool.check({"pattern": "needle", "limit": 10_000}), ToolContext("1", lambda _: None))
    assert output.details["truncation"]["truncatedBy"] == "bytes"
    shown, notice = output.content[0].text.rsplit("\n\n", 1)
    assert 50_000 < len(shown) <= 51_200
    assert all(line.endswith("x" * 400) for line in shown.split("\n"))
    assert "Cut at 50.0 KB" in notice


async def test_grep_reports_a_pattern_that_is_none(tree: Path, backend: None) -> None:
    with pytest.raises(ToolError, match=r"The search for '\(' failed"):
        await call(tree, "grep", pattern="(")


async def test_grep_reports_a_path_that_does_not_exist(tree: Path, backend: None) -> None:
    with pytest.raises(ToolError, match="Could not search nowhere: No such file"):
        await call(tree, "grep", pattern="x", path="nowhere")


async def test_a_search_without_the_programs_can_be_cancelled_in_a_hopeless_expression(
    tmp_path: Path, use_backend: Callable[[str], None]
) -> None:
    use_backend("without them")
    (tmp_path / "a.txt").write_text("a" * 60 + "!\n")
    before = set(psutil.Process().children())
    task = asyncio.create_task(call(tmp_path, "grep", pattern="(a+)+$"))
    async with asyncio.timeout(120):
        while not (children := set(psutil.Process().children()) - before):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not any(child.is_running() for child in children)


async def test_find_lists_by_name_with_hidden_files_and_a_slash_after_folders(tree: Path, backend: None) -> None:
    assert (await call(tree, "find", pattern="*")).split("\n") == [
        ".gitignore",
        ".hidden/",
        ".hidden/deep.txt",
        "B.txt",
        "a.txt",
        "binary.bin",
        "crlf.txt",
        "kept.log",
        "link.txt",
        "linked",
        "src/",
        "src/.fdignore",
        "src/.gitignore",
        "src/.ignore",
        "src/build/",
        "src/build/out.txt",
        "src/inner/",
        "src/inner/anchored.txt",
        "src/main.py",
        "src/main.pyi",
        "src/umlaut ü.txt",
        "z.txt",
    ]


async def test_find_says_when_nothing_matches(tree: Path, backend: None) -> None:
    assert await call(tree, "find", pattern="*.rs") == "No files found matching pattern"


async def test_find_stops_at_its_limit_and_says_so(tmp_path: Path, backend: None) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").touch()
    shown, notice = (await call(tmp_path, "find", pattern="*.txt", limit=20)).split("\n\n")
    assert len(shown.split("\n")) == 20
    assert "20 results are shown and there are more" in notice
    assert "more" not in await call(tmp_path, "find", pattern="*.txt", limit=30)


async def test_find_reports_a_folder_that_does_not_exist(tree: Path, backend: None) -> None:
    with pytest.raises(ToolError, match="Could not search nowhere"):
        await call(tree, "find", pattern="*", path="nowhere")


async def test_names_with_line_ends_and_strange_bytes_do_no_harm(tmp_path: Path, backend: None) -> None:
    (tmp_path / "two\nlines.txt").write_text("needle\n")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/latin-\xe4.txt")).write_text("needle\n")
    found = await call(tmp_path, "find", pattern="*.txt")
    assert found == "latin-\ufffd.txt\ntwo\nlines.txt"
    assert "latin-\ufffd.txt:1: needle" in await call(tmp_path, "grep", pattern="needle")


async def test_broken_lines_in_ignore_files_leave_the_others_in_force(tmp_path: Path, backend: None) -> None:
    (tmp_path / ".ignore").write_bytes(b"!\n***\\\n[\n\xff\xfe\n*.tmp\r\n# comment\n")
    (tmp_path / "a.tmp").touch()
    (tmp_path / "a.txt").touch()
    assert await call(tmp_path, "find", pattern="a.*") == "a.txt"


async def test_git_ignore_files_above_a_repository_do_not_count(tmp_path: Path, backend: None) -> None:
    (tmp_path / ".gitignore").write_text("*.txt\n")
    (tmp_path / "inner" / ".git").mkdir(parents=True)
    (tmp_path / "inner" / "a.txt").write_text("needle\n")
    assert await call(tmp_path, "find", pattern="*.txt", path="inner") == "a.txt"
    assert await call(tmp_path, "grep", pattern="needle", path="inner") == "a.txt:1: needle"


@pytest.mark.parametrize(
    ("glob", "matches", "fails"),
    [
        ("a**", "ab", "ab/c"),
        ("a/**/b", "a/x/y/b", "a/xb"),
        ("a/**/b", "a/b", "ab"),
        ("**/a", "a", "ba"),
        ("a/**", "a/b/c", "a"),
        ("[!a]x", "bx", "ax"),
        ("[]]", "]", "["),
        ("[a-c]?", "b1", "d1"),
        ("x{a,{b,c}}", "xc", "x"),
        (r"\*", "*", "a"),
        ("a?c", "abc", "a/c"),
        ("a,b}", "a,b}", "a"),
    ],
)
def test_globs_mean_what_they_mean_to_fd(glob: str, matches: str, fails: str) -> None:
    assert Glob(glob).fits(matches)
    assert not Glob(glob).fits(fails)


@pytest.mark.parametrize("glob", ["{a", "a{b,{c}", "[a", "{a,b}" * 12])
def test_a_glob_that_is_none_is_refused(glob: str) -> None:
    with pytest.raises(ValueError, match=r"not closed|more than 1000"):
        Glob(glob)


@pytest.mark.parametrize("line", IGNORE_LINES)
async def test_no_ignore_line_however_hostile_holds_up_a_search(tmp_path: Path, backend: None, line: str) -> None:
    folder = tmp_path.joinpath(*["a"] * 20)
    folder.mkdir(parents=True)
    (folder / ("a" * 250)).write_text("needle\n")
    (tmp_path / ".gitignore").write_text(f"{line}\n" * 50)
    path = f"{folder.relative_to(tmp_path)}/{'a' * 250}"
    assert await call(tmp_path, "grep", pattern="needle") == f"{path}:1: needle"
    assert await call(tmp_path, "find", pattern="a" * 250) == path
    assert await call(tmp_path, "find", pattern="*a" * 100 + "b") == "No files found matching pattern"
    assert await call(tmp_path, "grep", pattern="needle", glob="*a" * 100 + "b") == "No matches found"


async def execute(tool: Any, **arguments: Any) -> str:
    output = await tool.execute(tool.check(arguments), ToolContext("1", lambda _: None))
    return output.content[0].text


async def test_a_hopeless_line_is_given_up_and_the_other_files_are_searched(
    tmp_path: Path, use_backend: Callable[[str], None]
) -> None:
    use_backend("without them")
    for name, text in {"a.txt": "aaa\n", "b.txt": "a" * 60 + "!\naaa\n", "c.txt": "aaa\n"}.items():
        (tmp_path / name).write_text(text)
    shown = await execute(grep_tool(tmp_path), pattern="(a+)+$")
    assert shown.startswith("a.txt:1: aaa\nc.txt:1: aaa\n\n[The pattern took too long on b.txt: the rest there was not")


async def test_a_search_that_takes_too_long_ends_and_says_what_was_not_searched(
    tmp_path: Path, use_backend: Callable[[str], None]
) -> None:
    use_backend("without them")
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("a" * 60 + "!\n")
    (tmp_path / "a.md").write_text("aaa\n")
    shown = await execute(grep_tool(tmp_path, seconds=3), pattern="(a+)+$")
    assert shown.startswith("a.md:1: aaa\n\n[")
    assert re.search(r"The search was stopped after 3 s at [abc].txt: nothing behind it, by name, was searched", shown)


@pytest.fixture
def slow_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that print one thing and then go on for ever."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, printed in {"rg": "a.txt\\0001:needle\\n", "fd": "a.txt\\000"}.items():
        (folder / name).write_text(f"#!/bin/sh\nprintf '{printed}'\nexec sleep 1000\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


async def test_a_program_that_does_not_end_is_ended_and_what_it_found_is_shown(
    tmp_path: Path, slow_programs: None
) -> None:
    before = set(psutil.Process().children())
    (tmp_path / "a.txt").touch()
    shown = await execute(grep_tool(tmp_path, seconds=0.1), pattern="needle")
    assert shown.startswith("a.txt:1: needle\n\n[The search was stopped after 0.1 s at a.txt: nothing behind it")
    shown = await execute(find_tool(tmp_path, seconds=0.1), pattern="*")
    assert shown.startswith("a.txt\n\n[The search was stopped after 0.1 s. Search in a folder")
    assert not any(child.is_running() for child in set(psutil.Process().children()) - before)


async def test_an_ignore_file_that_is_a_pipe_holds_nothing_up(
    tmp_path: Path, use_backend: Callable[[str], None]
) -> None:
    use_backend("without them")
    os.mkfifo(tmp_path / ".gitignore")
    (tmp_path / "a.txt").write_text("needle\n")
    assert await call(tmp_path, "grep", pattern="needle") == "a.txt:1: needle"


def test_the_stand_in_starts_without_the_package(tmp_path: Path) -> None:
    code = (
        "import runpy, sys; sys.argv = ['walk.py', 'find', '30', '*', 'name']\n"
        f"try: runpy.run_path({walk.__file__!r}, run_name='__main__')\n"
        "except SystemExit as end: print(end.code, 'indus_nb' in sys.modules, 'pydantic' in sys.modules)"
    )
    command = [sys.executable, "-P", "-c", code]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert printed == "0 False False\n"
