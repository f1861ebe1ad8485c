"""The ``bash`` tool and the shell behind it, with real processes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from living import lives
from waiting import until

from indus_nb.base.events import ToolOutput
from indus_nb.tools import Shell, ShellResult, ToolContext, ToolError, builtin_tools
from indus_nb.tools.commands.shell import PlainText


@pytest.fixture(autouse=True)
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


async def bash(
    cwd: Path, command: str, *, report: Callable[[ToolOutput], None] = lambda _: None, **arguments: Any
) -> ToolOutput:
    tool = builtin_tools(cwd)["bash"]
    return await tool.execute(tool.check({"command": command, **arguments}), ToolContext("1", report))


async def failure(cwd: Path, command: str, **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        await bash(cwd, command, **arguments)
    return caught.value.output.content[0].text


async def text(cwd: Path, command: str, **arguments: Any) -> str:
    return (await bash(cwd, command, **arguments)).content[0].text


def pids(folder: Path, count: int) -> list[int]:
    found = [int(line) for name in folder.glob("*.pid") if (line := name.read_text()).endswith("\n")]
    return found if len(found) == count else []


async def test_stdout_and_stderr_come_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    assert await text(tmp_path, "echo out; echo err >&2; echo out again") == "out\nerr\nout again\n"


async def test_commands_run_in_the_working_directory_with_bash_and_without_input(tmp_path: Path) -> None:
    assert await text(tmp_path, "pwd; cat; echo ${BASH_VERSION:+bash}") == f"{tmp_path}\nbash\n"


async def test_a_progress_bar_is_its_last_state(tmp_path: Path) -> None:
    assert await text(tmp_path, r"for i in 1 2 3; do printf '\r%d of 3' $i; done; printf '\r\033[Kdone\n'") == "done\n"
    assert await text(tmp_path, r"printf 'a\r\nb\r\n'; printf '50%%\r'") == "a\nb\n50%"


async def test_silence_is_said_to_be_silence(tmp_path: Path) -> None:
    output = await bash(tmp_path, "true")
    assert output.content[0].text == "(no output)"
    assert output.details is None


async def test_an_exit_code_other_than_0_is_a_failure_after_a_blank_line(tmp_path: Path) -> None:
    assert await failure(tmp_path, "printf out; exit 3") == "out\n\nCommand exited with code 3"
    assert await failure(tmp_path, "exit 4") == "Command exited with code 4"


async def test_a_shell_that_was_killed_by_a_signal_exits_like_in_a_shell(tmp_path: Path) -> None:
    assert await failure(tmp_path, "kill -TERM $$") == f"Command exited with code {128 + signal.SIGTERM}"


async def test_a_command_out_of_time_keeps_its_output(tmp_path: Path) -> None:
    assert (
        await failure(tmp_path, "printf begin; sleep 50", timeout=0.3) == "begin\n\nCommand timed out after 0.3 seconds"
    )


async def test_whole_seconds_are_written_as_such(tmp_path: Path) -> None:
    assert await failure(tmp_path, "sleep 50", timeout=1) == "Command timed out after 1 seconds"


async def test_a_timed_out_command_leaves_no_process_behind(tmp_path: Path) -> None:
    command = "echo $$ > a.pid; (echo $BASHPID > b.pid; exec sleep 50) & sleep 50 & echo $! > c.pid; wait"
    await failure(tmp_path, command, timeout=0.5)
    found = pids(tmp_path, 3)
    assert found
    await until(lambda: not any(map(lives, found)))


async def test_a_cancelled_command_leaves_no_process_behind_and_says_what_it_had_printed(tmp_path: Path) -> None:
    command = "trap '' TERM INT HUP; echo $$ > a.pid; sleep 50 & echo $! > b.pid; printf begin; sleep 50"
    reports: list[ToolOutput] = []
    task = asyncio.create_task(failure(tmp_path, command, report=reports.append))
    await until(lambda: reports and reports[-1].content)
    found = pids(tmp_path, 2)
    assert found
    task.cancel()
    assert await task == "begin\n\nCommand aborted"
    await until(lambda: not any(map(lives, found)))


async def test_a_command_cancelled_in_its_flood_ends_at_once(tmp_path: Path, temporary_files: Path) -> None:
    task = asyncio.create_task(failure(tmp_path, "echo $$ > a.pid; yes"))
    await until(lambda: list(temporary_files.iterdir()))
    task.cancel()
    assert (await task).endswith("\n\nCommand aborted")
    await until(lambda: not any(map(lives, pids(tmp_path, 1))))


async def test_an_exception_while_reporting_kills_the_command(tmp_path: Path) -> None:
    class UnpluggedError(Exception):
        pass

    def unplugged(result: ShellResult) -> None:
        if result.output:
            raise UnpluggedError

    with pytest.raises(UnpluggedError):
        await Shell().run("echo $$ > a.pid; echo x; sleep 50", cwd=tmp_path, on_output=unplugged)
    found = pids(tmp_path, 1)
    assert found
    assert not lives(found[0])


async def test_a_background_process_that_holds_the_pipe_does_not_hold_up_the_result(tmp_path: Path) -> None:
    shown = await text(tmp_path, "sleep 1000 & echo $! > a.pid; echo done")
    background = pids(tmp_path, 1)[0]
    try:
        assert shown == "done\n"
        assert lives(background)
    finally:
        os.kill(background, signal.SIGKILL)


async def test_a_background_process_that_floods_the_pipe_does_not_hold_up_the_result(tmp_path: Path) -> None:
    async with asyncio.timeout(120):
        result = await Shell().run("yes & echo $! > a.pid", cwd=tmp_path)
    assert result.exit_code == 0
    # Its pipe is closed now, which ends it.
    await until(lambda: not lives(pids(tmp_path, 1)[0]))


async def test_output_written_just_before_the_end_is_never_lost(tmp_path: Path) -> None:
    for _ in range(20):
        result = await Shell().run("sleep 0 & head -c 60000 /dev/zero | tr '\\0' x", cwd=tmp_path)
        assert result.truncation.total_bytes == 60_000


async def test_no_descriptors_and_no_threads_stay_open(tmp_path: Path) -> None:
    process = psutil.Process()
    await Shell().run("sleep 50", cwd=tmp_path, timeout=0.01)  # the event loop keeps the thread that looked for others
    descriptors, threads = process.num_fds(), process.num_threads()
    for _ in range(5):
        await Shell().run("echo x", cwd=tmp_path)
        await Shell().run("sleep 50", cwd=tmp_path, timeout=0.01)
    with pytest.raises(ToolError):
        await Shell(path="/no/shell").run("true", cwd=tmp_path)
    await until(lambda: process.num_fds() <= descriptors)
    await until(lambda: process.num_threads() <= threads)


async def test_the_first_report_is_empty_and_the_others_accumulate(tmp_path: Path) -> None:
    reports: list[ToolOutput] = []
    await bash(tmp_path, "echo one; sleep 0.25; echo two; sleep 0.25", report=reports.append)
    assert reports[0].content == []
    assert [report.content[0].text for report in reports[1:]] == ["one\n", "one\ntwo\n"]


async def test_reports_come_at_most_every_tenth_of_a_second(tmp_path: Path) -> None:
    times: list[float] = []
    await bash(
        tmp_path, "for i in {1..60}; do echo $i; sleep 0.01; done", report=lambda _: times.append(time.monotonic())
    )
    gaps = [later - earlier for earlier, later in pairwise(times[1:])]
    assert gaps
    assert min(gaps) >= 0.099


async def test_long_output_shows_its_last_2000_lines_and_is_kept_whole(tmp_path: Path, temporary_files: Path) -> None:
    output = await bash(tmp_path, "seq 1 30000")
    (kept,) = temporary_files.iterdir()
    assert re.fullmatch(r"indusagi-bash-[0-9a-f]{16}\.log", kept.name)
    assert kept.read_text() == "".join(f"{number}\n" for number in range(1, 30_001))
    assert kept.stat().st_mode & 0o777 == 0o600
    shown, notice = output.content[0].text.split("\n\n\n")
    assert shown.split("\n") == [str(number) for number in range(28_001, 30_001)]
    assert "lines 28001-30000 of 30000" in notice
    assert str(kept) in notice
    details = output.details
    assert details["fullOutputPath"] == str(kept)
    assert details["truncation"] == {
        "content": shown + "\n",
        "truncated": True,
        "truncatedBy": "lines",
        "totalLines": 30_000,
        "totalBytes": 168_894,
        "outputLines": 2000,
        "outputBytes": 12_000,
        "lastLinePartial": False,
        "firstLineExceedsLimit": False,
        "maxLines": 2000,
        "maxBytes": 51_200,
    }


async def test_one_long_line_shows_its_end_from_a_whole_character_on(tmp_path: Path) -> None:
    output = await bash(tmp_path, "for i in {1..30000}; do printf ä; done; printf x")
    truncation = output.details["truncation"]
    assert truncation["content"] == "ä" * 25_599 + "x"
    assert truncation["lastLinePartial"] is True
    assert "the last 50.0 KB of line 1" in output.content[0].text


async def test_the_file_is_complete_whenever_it_is_named(tmp_path: Path) -> None:
    named: list[tuple[int, int]] = []

    def look(result: ShellResult) -> None:
        if result.full_output_path:
            named.append((Path(result.full_output_path).stat().st_size, result.truncation.total_bytes))

    await Shell().run("seq 1 3000; for i in 1 2 3; do sleep 0.12; echo $i; done", cwd=tmp_path, on_output=look)
    assert len(named) >= 3
    assert all(on_disk == total for on_disk, total in named)


async def test_a_failed_command_with_long_output_names_the_file_before_its_status(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        await bash(tmp_path, "seq 1 3000; exit 5")
    output = caught.value.output
    assert re.search(r"Full output: \S+\.log\]\n\nCommand exited with code 5$", output.content[0].text)
    assert Path(output.details["fullOutputPath"]).exists()


async def test_a_folder_without_room_for_the_file_does_not_stop_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    output = await bash(tmp_path, "seq 1 3000")
    assert "The full output could not be kept: " in output.content[0].text
    assert "fullOutputPath" not in output.details


async def test_a_flood_is_held_in_bounded_memory(tmp_path: Path) -> None:
    process = psutil.Process()
    await Shell().run("yes | head -c 5000000", cwd=tmp_path)
    before = process.memory_info().rss
    result = await Shell().run("yes | head -c 60000000", cwd=tmp_path)
    assert result.truncation.total_bytes == 60_000_000
    assert result.truncation.total_lines == 30_000_000
    assert process.memory_info().rss - before < 20_000_000


async def test_the_settings_choose_the_shell_and_what_stands_before_each_command(tmp_path: Path) -> None:
    result = await Shell(path="/bin/sh", prefix="greeting=hello").run("echo $greeting", cwd=tmp_path)
    assert result.output == "hello\n"


async def test_what_cannot_be_started_is_explained(tmp_path: Path) -> None:
    assert "could not be started with /no/shell" in await failure_of(Shell(path="/no/shell"), tmp_path)
    assert "missing" in await failure(tmp_path / "missing", "true")
    assert "null byte" in await failure(tmp_path, "echo \0")


async def failure_of(shell: Shell, cwd: Path) -> str:
    with pytest.raises(ToolError) as caught:
        await shell.run("true", cwd=cwd)
    return str(caught.value)


@pytest.mark.parametrize("arguments", [{}, {"command": 17}, {"command": "true", "timeout": 0}, {"command": None}])
def test_wrong_arguments_are_named(tmp_path: Path, arguments: dict[str, Any]) -> None:
    field = "timeout" if "timeout" in arguments else "command"
    with pytest.raises(ToolError, match=f"^Nothing was done. Invalid arguments for bash:\n- {field}: [^\n]+$"):
        builtin_tools(tmp_path)["bash"].check(arguments)


NOISE: list[tuple[bytes, str]] = [
    (b"\x1b[31mred\x1b[0m\r\n", "red\n"),
    (b"bin\x00\x07\x7f\xff\n", "bin\ufffd\n"),
    (b"\x1b]0;title\x07after", "after"),
    (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    (b"\x1b(B\x1b=\x1b7text\x1b8", "text"),
    (b"\x1bPdata\x1b\\text", "text"),
    ("\x9b1mgrün\x9d".encode(), "grün"),
    (b"tab\tstays", "tab\tstays"),
    (b"\xe2\x82", "\ufffd"),
    (b"10%\r20%\r\n", "10%20%\n"),
    (b"\x1b]never ended\nnext line\n", "]never ended\nnext line\n"),
    (b"\x1b[38;5;", "[38;5;"),
    ("😀 e\u0301".encode(), "😀 e\u0301"),
]


@pytest.mark.parametrize(("data", "expected"), NOISE, ids=range(len(NOISE)))
def test_noise_is_removed_wherever_the_chunks_are_cut(data: bytes, expected: str) -> None:
    def cleaned(*chunks: bytes) -> str:
        plain = PlainText()
        return "".join(map(plain.feed, chunks)) + plain.feed(b"", final=True)

    assert cleaned(data) == expected
    assert cleaned(*(data[i : i + 1] for i in range(len(data)))) == expected
    for cut in range(len(data)):
        assert cleaned(data[:cut], data[cut:]) == expected


def test_a_sequence_without_end_swallows_nothing_and_is_not_kept_for_ever() -> None:
    plain = PlainText()
    fed = shown = 0
    for _ in range(300):
        fed += 10_000
        shown += len(plain.feed(b"\x1b]" + b"x" * 10_000))
        assert fed - shown < 100_000  # what is kept is looked at again with each feed
    assert shown + len(plain.feed(b"", final=True)) > 2_900_000


def test_a_command_may_hold_letters_that_the_locale_lacks(tmp_path: Path) -> None:
    program = (
        "import asyncio, pathlib; from indus_nb.tools import Shell; "
        "print(ascii(asyncio.run(Shell().run('printf %s gr\\xfc\\xdfe', cwd=pathlib.Path.cwd())).output))"
    )
    posix = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    world = {**os.environ, **posix, "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    # Without site, which reads paths in the locale's letters, and ours may have others.
    done = subprocess.run([sys.executable, "-S", "-c", program], env=world, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("'gr\\xfc\\xdfe'\n", "")
