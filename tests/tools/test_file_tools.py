"""``write``, ``edit`` and ``ls`` on a real disk, the names that paths may have, and what all tools have in common."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import threading
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from indus_nb.base.events import ToolOutput
from indus_nb.tools import DEFAULT_TOOLS, ToolContext, ToolError, builtin_tools
from indus_nb.tools.files.paths import resolve
from indus_nb.tools.tool import in_thread


async def call(cwd: Path, tool: str, **arguments: Any) -> ToolOutput:
    chosen = builtin_tools(cwd)[tool]
    return await chosen.execute(chosen.check(arguments), ToolContext("1", lambda _: None))


async def text(cwd: Path, tool: str, **arguments: Any) -> str:
    return (await call(cwd, tool, **arguments)).content[0].text


async def failure(cwd: Path, tool: str, **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        await call(cwd, tool, **arguments)
    return str(caught.value)


def test_the_tools_come_in_a_fixed_order_and_tell_the_model_what_they_take(tmp_path: Path) -> None:
    tools = builtin_tools(tmp_path)
    assert list(tools) == ["read", "bash", "edit", "write", "grep", "find", "ls"]
    assert set(DEFAULT_TOOLS) <= set(tools)
    assert [name for name, tool in tools.items() if tool.read_only] == ["read", "grep", "find", "ls"]
    for name, tool in tools.items():
        assert tool.spec.name == name
        assert tool.spec.parameters["type"] == "object"
        assert tool.spec.description.endswith(".")
    assert list(tools["grep"].spec.parameters["properties"]) == [
        "pattern", "path", "glob", "ignoreCase", "literal", "context", "limit",
    ]  # fmt: skip
    assert json.dumps(tools["edit"].spec.parameters).count("oldText") >= 2


async def test_write_makes_folders_replaces_the_file_and_counts_bytes(tmp_path: Path) -> None:
    assert await text(tmp_path, "write", path="a/b/c.txt", content="ä\r\n") == "Wrote 4 bytes to a/b/c.txt"
    assert (tmp_path / "a/b/c.txt").read_bytes() == "ä\r\n".encode()
    await call(tmp_path, "write", path="a/b/c.txt", content="")
    assert (tmp_path / "a/b/c.txt").read_bytes() == b""


async def test_write_keeps_mode_and_links(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("old")
    script.chmod(0o755)
    (tmp_path / "link").symlink_to(script)
    await call(tmp_path, "write", path="link", content="new")
    assert script.read_text() == "new"
    assert script.stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("tool", ["write", "edit"])
async def test_a_change_that_does_not_fit_on_the_disk_leaves_the_file_as_it_was(tmp_path: Path, tool: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    long = "x" * 10_000
    arguments = {"content": long} if tool == "write" else {"edits": [{"oldText": "old", "newText": long}]}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        problem = await failure(tmp_path, tool, path="a.txt", **arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert problem.startswith(f"Could not {tool} a.txt: File too large")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


async def test_what_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "Could not write .: Is a directory" in await failure(tmp_path, "write", path=".", content="x")
    assert "Could not write file/x: " in await failure(tmp_path, "write", path="file/x", content="x")
    assert "NUL" in await failure(tmp_path, "write", path="a\0b", content="x")
    assert "half a character" in await failure(tmp_path, "write", path="a\ud83d", content="x")


async def test_edit_changes_the_file_and_describes_the_change(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    edits = [{"oldText": "one", "newText": "1"}, {"oldText": "two", "newText": "2"}]
    output = await call(tmp_path, "edit", path="a.txt", edits=edits)
    assert output.content[0].text == "Replaced 2 blocks in a.txt"
    assert output.details == {"diff": "-1 one\n+1 1\n-2 two\n+2 2", "firstChangedLine": 1}
    assert (tmp_path / "a.txt").read_bytes() == b"1\r\n2\r\n"


@pytest.mark.parametrize(
    "arguments",
    [
        {"oldText": "one", "newText": "1"},
        {"edits": '[{"oldText": "one", "newText": "1"}]'},
        {"edits": [], "oldText": "one", "newText": "1"},
        {"edits": [{"old_text": "one", "new_text": "1"}]},
    ],
    ids=["beside path", "JSON in a string", "both", "snake case"],
)
async def test_edit_takes_the_forms_that_models_send(tmp_path: Path, arguments: dict[str, Any]) -> None:
    (tmp_path / "a.txt").write_text("one")
    assert await text(tmp_path, "edit", path="a.txt", **arguments) == "Replaced 1 block in a.txt"
    assert (tmp_path / "a.txt").read_text() == "1"


@pytest.mark.parametrize("edits", [[], "no JSON", [{"oldText": "one"}], "[1]", None, 5])
async def test_edit_refuses_arguments_that_make_no_sense(tmp_path: Path, edits: Any) -> None:
    assert "Invalid arguments for edit:\n- " in await failure(tmp_path, "edit", path="a.txt", edits=edits)


async def test_a_refused_edit_leaves_the_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    before = file.stat().st_mtime_ns
    edits = [{"oldText": "one", "newText": "1"}, {"oldText": "two", "newText": "2"}]
    assert "edits[1]: oldText does not occur" in await failure(tmp_path, "edit", path="a.txt", edits=edits)
    assert file.read_text() == "one"
    assert file.stat().st_mtime_ns == before


async def test_what_cannot_be_edited_is_explained(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(65 << 20)
    change = {"oldText": "a", "newText": "b"}
    assert "Check the path with ls or find." in await failure(tmp_path, "edit", path="no.txt", **change)
    assert "It is a folder" in await failure(tmp_path, "edit", path=".", **change)
    assert "no regular file of at most 64.0 MB" in await failure(tmp_path, "edit", path="pipe", **change)
    assert "no regular file of at most 64.0 MB" in await failure(tmp_path, "edit", path="huge", **change)


async def test_changes_of_one_file_wait_for_each_other_under_all_its_names(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"<{number}>" for number in range(40)))
    (tmp_path / "link.txt").symlink_to("a.txt")
    edit = builtin_tools(tmp_path)["edit"]

    async def change(number: int) -> None:
        path = ["a.txt", "link.txt", "./a.txt"][number % 3]
        arguments = edit.check({"path": path, "oldText": f"<{number}>", "newText": f"[{number}]"})
        await edit.execute(arguments, ToolContext(str(number), lambda _: None))

    await asyncio.gather(*map(change, range(40)))
    assert (tmp_path / "a.txt").read_text() == "".join(f"[{number}]" for number in range(40))


async def test_writes_to_one_file_happen_in_the_order_of_the_calls(tmp_path: Path) -> None:
    write = builtin_tools(tmp_path)["write"]
    calls = [
        write.execute(write.check({"path": "a.txt", "content": str(number)}), ToolContext("1", lambda _: None))
        for number in range(30)
    ]
    await asyncio.gather(*calls)
    assert (tmp_path / "a.txt").read_text() == "29"


async def test_a_cancelled_caller_leaves_only_after_the_work_has_ended() -> None:
    started = threading.Event()
    ended: list[bool] = []

    def work(stop: threading.Event) -> None:
        started.set()
        ended.append(stop.wait(10))

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(started.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_ls_sorts_without_case_and_marks_folders(tmp_path: Path) -> None:
    for name in ("b.txt", "A.txt", ".dot", "Z"):
        (tmp_path / name).touch()
    (tmp_path / "c").mkdir()
    (tmp_path / "to-c").symlink_to("c")
    (tmp_path / "to-nowhere").symlink_to("nowhere")
    (tmp_path / "to-itself").symlink_to("to-itself")
    assert (await text(tmp_path, "ls")).split("\n") == [
        ".dot", "A.txt", "b.txt", "c/", "to-c/", "to-itself", "to-nowhere", "Z",
    ]  # fmt: skip
    assert await text(tmp_path, "ls", path="c") == "(empty directory)"


async def test_ls_shows_at_most_500_entries_and_says_how_many_there_are(tmp_path: Path) -> None:
    for number in range(510):
        (tmp_path / f"{number:03}").touch()
    shown, notice = (await text(tmp_path, "ls")).split("\n\n")
    assert shown.split("\n") == [f"{number:03}" for number in range(500)]
    assert notice == "[500 of 510 entries are shown; raise limit to see more]"
    assert "[2 of 510 entries" in await text(tmp_path, "ls", limit=2)
    assert "[" not in await text(tmp_path, "ls", limit=510)


async def test_ls_shows_at_most_50_kb(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number:03}{'x' * 197}").touch()
    output = await call(tmp_path, "ls")
    assert output.details["truncation"]["truncatedBy"] == "bytes"
    assert output.details["truncation"]["outputLines"] == 254
    assert "254 of 300 entries are shown" in output.content[0].text


async def test_ls_explains_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "Could not list file: Not a directory" in await failure(tmp_path, "ls", path="file")
    assert "Could not list gone: No such file" in await failure(tmp_path, "ls", path="gone")


def test_paths_are_relative_to_the_working_directory(tmp_path: Path) -> None:
    assert resolve("a/b.txt", tmp_path) == tmp_path / "a/b.txt"
    assert resolve("/x/y", tmp_path) == Path("/x/y")
    assert resolve("~/x", tmp_path) == Path.home() / "x"


def test_an_at_sign_and_unusual_spaces_are_forgiven(tmp_path: Path) -> None:
    (tmp_path / "my file.txt").touch()
    assert resolve("@my\u00a0file.txt", tmp_path) == tmp_path / "my file.txt"
    assert resolve("@new\u202ffile.txt", tmp_path) == tmp_path / "new file.txt"


def test_a_file_of_exactly_that_name_comes_first(tmp_path: Path) -> None:
    for name in ("@a", "a", "x\u00a0y", "x y"):
        (tmp_path / name).touch()
    assert resolve("@a", tmp_path) == tmp_path / "@a"
    assert resolve("x\u00a0y", tmp_path) == tmp_path / "x\u00a0y"


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ("Screenshot 2024-01-01 at 9.41.00\u202fAM.png", "Screenshot 2024-01-01 at 9.41.00 AM.png"),
        (unicodedata.normalize("NFD", "café.txt"), "café.txt"),
        ("Tom\u2019s notes.txt", "Tom's notes.txt"),
        (unicodedata.normalize("NFD", "l\u2019été.txt"), "l'été.txt"),
    ],
)
def test_spellings_of_macos_are_tried(tmp_path: Path, there: str, asked: str) -> None:
    (tmp_path / there).touch()
    assert resolve(asked, tmp_path) == tmp_path / there
