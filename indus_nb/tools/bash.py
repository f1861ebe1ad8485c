"""The ``bash`` tool, and the ``Shell`` that runs a command for it or for the user."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field

from indus_nb.events import ToolOutput
from indus_nb.tools.description import Approval, CallDescription
from indus_nb.tools.process import Child
from indus_nb.tools.tool import Arguments, FunctionTool, ToolContext, ToolError, text_output
from indus_nb.tools.truncate import MAX_BYTES, MAX_LINES, GrowingTail, Truncation, size_text
from indus_nb.wire import JsonObject

_REPORT_EVERY = 0.1

# Sequences end within their line: an unfinished one, meant or not, must not swallow what follows.
_STRING_SEQUENCE = r"[\]PX^_][^\x07\x1b\n]*+"
_PARAMETERS = r"\[[0-?]*+[ -/]*+"
_JUNK = re.compile(
    rf"\x1b(?:{_STRING_SEQUENCE}(?:\x07|\x1b\\)|{_PARAMETERS}[@-~]|[ -/]*+[0-Z\\^-~])"
    r"|\x9b[0-?]*+[ -/]*+[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_UNFINISHED = re.compile(rf"(?:\x1b(?:{_STRING_SEQUENCE}\x1b?|{_PARAMETERS}|[ -/]*+)|\x9b[0-?]*+[ -/]*+)\Z")
_MAX_SEQUENCE_CHARACTERS = 4096


class PlainText:
    r"""Bytes of a terminal to plain text, chunk by chunk: UTF-8, without escape sequences and control characters.

    Carriage returns go too; bytes that are no UTF-8 become U+FFFD. Characters and sequences may be split anywhere.

    >>> plain = PlainText()
    >>> plain.feed(b"\x1b[3") + plain.feed(b"1mred\x1b[0m gr\xc3") + plain.feed(b"\xbcn\r\n")
    'red grün\n'
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """Decode a chunk.

        Args:
            data: The next bytes.
            final: Whether they are the last ones; otherwise what is not whole yet comes with the next chunk.

        Returns:
            The text that is whole by now.
        """
        text = self._rest + self._decoder.decode(data, final)
        self._rest = ""
        if not final and (rest := _UNFINISHED.search(text, max(len(text) - _MAX_SEQUENCE_CHARACTERS, 0))):
            self._rest = rest.group()
            text = text[: rest.start()]
        return _JUNK.sub("", text)


@dataclass(frozen=True, slots=True)
class ShellResult:
    """What a command printed (the end of it, see ``truncation``) and how it ended.

    ``exit_code`` is ``None`` while it runs and when it was killed, after ``timed_out`` or ``cancelled``; a signal from
    elsewhere counts as 128 plus its number. ``full_output_path`` names the file with everything when not all is shown;
    ``file_problem`` is the reason why that file is missing or not whole.
    """

    truncation: Truncation
    exit_code: int | None = None
    timed_out: bool = False
    cancelled: bool = False
    full_output_path: str | None = None
    file_problem: str | None = None

    @property
    def output(self) -> str:
        """The output, or as much of its end as is shown."""
        return self.truncation.content


@dataclass(frozen=True, slots=True)
class Shell:
    """Where commands run: the shell's ``path`` (found by itself if ``None``) and lines put before each command."""

    path: str | None = None
    prefix: str | None = None

    async def run(
        self,
        command: str,
        *,
        cwd: Path,
        timeout: float | None = None,  # noqa: ASYNC109, a command that is out of time has a result like any other
        on_output: Callable[[ShellResult], None] | None = None,
        on_text: Callable[[str], Awaitable[None]] | None = None,
    ) -> ShellResult:
        """Run a command to its end. Stdout and stderr come together.

        Cancelling the task kills the command and its process group and returns a result with ``cancelled`` set: the
        caller decides whether to go on.

        Args:
            command: What the shell runs.
            cwd: Where it runs.
            timeout: Seconds after which it is killed.
            on_output: Called at once, then with the output so far when there is more, at most every tenth of a second.
            on_text: Awaited with every new piece, which slows the command down (backpressure).

        Returns:
            The end of the output, and how the command ended.

        Raises:
            ToolError: The command cannot be started.
        """
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        plain = PlainText()
        tail = GrowingTail("bash")
        timed_out = cancelled = False

        def so_far(exit_code: int | None = None) -> ShellResult:
            shown = tail.shown()
            path = str(tail.path) if tail.path else None
            return ShellResult(shown, exit_code, timed_out, cancelled, path, tail.file_problem)

        async def on_data(data: bytes, *, final: bool = False) -> None:
            text = plain.feed(data, final=final)
            tail.append(text)
            if on_text is not None and text:
                await on_text(text)

        if on_output is not None:
            on_output(so_far())
        async with self._started(command, cwd) as child:
            with contextlib.closing(tail):
                try:
                    await _follow(child, on_data, so_far, on_output, until)
                    await on_data(b"", final=True)
                except TimeoutError:
                    timed_out = True
                except asyncio.CancelledError:
                    cancelled = True
                if timed_out or cancelled:
                    tail.append(plain.feed(child.kill(), final=True))
                code = None if timed_out or cancelled else child.exit_code
                return so_far(128 - code if code is not None and code < 0 else code)

    def _started(self, command: str, cwd: Path) -> Child:
        shell = self.path or _default_shell()
        try:
            return Child([shell, "-c", f"{self.prefix}\n{command}" if self.prefix else command], cwd=cwd)
        except (OSError, ValueError) as error:
            raise ToolError(
                f"The command could not be started with {shell} in {cwd}: {error}. Nothing was run; check that the "
                "folder exists, that the setting shellPath names a shell, and that the command is not too long."
            ) from error


async def _follow(
    child: Child,
    on_data: Callable[[bytes], Awaitable[None]],
    so_far: Callable[[], ShellResult],
    on_output: Callable[[ShellResult], None] | None,
    until: float | None,
) -> None:
    loop = asyncio.get_running_loop()
    next_report = loop.time()
    news = False
    while True:
        report_due = on_output is not None and news
        soonest = next_report if until is None or next_report < until else until
        try:
            data = await child.read(soonest if report_due else until)
        except TimeoutError:
            if until is not None and loop.time() >= until:
                raise
            data = None
        if data == b"":
            return
        if data:
            await on_data(data)
            news = True
        if on_output is not None and news and loop.time() >= next_report:
            on_output(so_far())
            news = False
            next_report = loop.time() + _REPORT_EVERY


def _default_shell() -> str:
    if Path("/bin/bash").exists():
        return "/bin/bash"
    from shutil import which

    return which("bash") or "sh"


class BashArguments(Arguments):
    """What the model gives."""

    command: str = Field(description="The command, for bash")
    timeout: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Seconds after which it is killed; no limit by default"
    )


def bash_tool(cwd: Path, shell: Shell) -> FunctionTool[BashArguments]:
    """The ``bash`` tool.

    Args:
        cwd: Where commands run.
        shell: What runs them.

    Returns:
        The tool.
    """

    async def run(arguments: BashArguments, context: ToolContext) -> ToolOutput:
        def report(result: ShellResult) -> None:
            content = text_output(result.output).content if result.output else []
            # The protocol's documents print both keys in updates, null while nothing is left out.
            details = {"truncation": None, "fullOutputPath": None, **(_details(result) or {})}
            context.report(ToolOutput(content=content, details=details))

        result = await shell.run(arguments.command, cwd=cwd, timeout=arguments.timeout, on_output=report)
        text = result.output + _notice(result)
        if result.cancelled:
            status = "Command aborted"
        elif result.timed_out:
            status = f"Command timed out after {arguments.timeout:.10g} seconds"
        elif result.exit_code:
            status = f"Command exited with code {result.exit_code}"
        else:
            return text_output(text or "(no output)", _details(result))
        raise ToolError(f"{text}\n\n{status}" if text else status, _details(result))

    return FunctionTool(
        name="bash",
        description=(
            "Run a command with bash in the working directory and get what it prints on stdout and stderr. Only the "
            f"end of long output is shown (the last {MAX_LINES} lines or {MAX_BYTES // 1024} KB, whichever is less); "
            "all of it is kept in a file that is named then. The command gets no input."
        ),
        arguments=BashArguments,
        run=run,
        snippet="Run shell commands",
        describe=_describe,
    )


def _describe(default: CallDescription, arguments: BashArguments) -> CallDescription:
    from indus_nb.tools.previews import command_rule  # with modules that only a question needs

    rule = f"bash: {command_rule(arguments.command)}"
    return replace(default, approval=lambda: Approval("Run this command?", arguments.command, rule))


def _details(result: ShellResult) -> JsonObject | None:
    details = result.truncation.details()
    if details is not None and result.full_output_path:
        details["fullOutputPath"] = result.full_output_path
    return details


def _notice(result: ShellResult) -> str:
    shown = result.truncation
    if not shown.truncated:
        return ""
    if shown.last_line_partial:
        what = f"only the last {size_text(shown.output_bytes)} of line {shown.total_lines} are shown"
    else:
        what = (
            f"lines {shown.total_lines - shown.output_lines + 1}-{shown.total_lines} of {shown.total_lines} are shown"
        )
    limit = f"{shown.max_lines} lines" if shown.truncated_by == "lines" else size_text(shown.max_bytes)
    if result.full_output_path is None:
        where = f"The full output could not be kept: {result.file_problem}"
    elif result.file_problem:
        where = f"Output until a failure ({result.file_problem}): {result.full_output_path}"
    else:
        where = f"Full output: {result.full_output_path}"
    return f"\n\n[Long output: {what} (limit: {limit}). {where}]"
