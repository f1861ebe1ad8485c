"""The ``Shell`` that runs a command for the tool ``bash`` or for the user, and the parsing of its output."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from indus_nb.safety.key_variables import child_environment
from indus_nb.safety.vault import Vault
from indus_nb.tools.processes.process import Child
from indus_nb.tools.tool import ToolError
from indus_nb.tools.truncate import GrowingTail, Truncation

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

    from indus_nb.safety.sandbox import Confined, Sandbox

_REPORT_EVERY = 0.1

# Sequences end within their line: an unfinished one, meant or not, must not swallow what follows.
_STRING_SEQUENCE = r"[\]PX^_][^\x07\x1b\n]*+"
_PARAMETERS = r"\[[0-?]*+[ -/]*+"
# Texts, which ``re`` compiles when they are first used and keeps: a session without a command needs none of them.
_JUNK = (
    rf"\x1b(?:{_STRING_SEQUENCE}(?:\x07|\x1b\\)|{_PARAMETERS}[@-~]|[ -/]*+[0-Z\\^-~])"
    r"|\x9b[0-?]*+[ -/]*+[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_UNFINISHED = rf"(?:\x1b(?:{_STRING_SEQUENCE}\x1b?|{_PARAMETERS}|[ -/]*+)|\x9b[0-?]*+[ -/]*+)\Z"
_MAX_SEQUENCE_CHARACTERS = 4096
_ERASING = r"(?:\x1b\[|\x9b)([02]?)K"
_JUNK_BUT_CURSOR = _JUNK.replace(r"\x00-\x08\x0b-\x1f", r"\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f")


class PlainText:
    r"""Bytes of a terminal to plain text, chunk by chunk: UTF-8, without escape sequences and control characters.

    Carriage returns go too, unless it ``keeps_cursor``: then what acts on the current line stays, see ``overwriting``.
    Bytes that are no UTF-8 become U+FFFD. Characters and sequences may be split anywhere.

    >>> plain = PlainText()
    >>> plain.feed(b"\x1b[3") + plain.feed(b"1mred\x1b[0m gr\xc3") + plain.feed(b"\xbcn\r\n")
    'red grün\n'
    """

    def __init__(self, *, keeps_cursor: bool = False) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._keeps_cursor = keeps_cursor
        self._rest = ""

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """Decode a chunk.

        Args:
            final: True for the last bytes; otherwise incomplete sequences come with the next chunk.

        Returns:
            The text that is whole by now.
        """
        text = self._rest + self._decoder.decode(data, final)
        self._rest = ""
        if not final and (rest := re.compile(_UNFINISHED).search(text, max(len(text) - _MAX_SEQUENCE_CHARACTERS, 0))):
            self._rest = rest.group()
            text = text[: rest.start()]
        return re.sub(_JUNK, "", text) if not self._keeps_cursor else _with_cursor(text)


def _with_cursor(text: str) -> str:
    """Reduce a text to what acts on the current line, in the characters of ``overwriting``."""
    erased = [re.sub(_JUNK_BUT_CURSOR, "", part).replace("\x1b", "") for part in re.split(_ERASING, text)]
    for number in range(1, len(erased), 2):
        erased[number] = "\r\x1b" if erased[number] == "2" else "\x1b"
    return "".join(erased)


def printed_text(text: str) -> str:
    r"""Return a program's output as a terminal shows it.

    >>> printed_text("\x1b[32m 10%\r 20%\r\nend")
    ' 20%\nend'
    """
    from indus_nb.tools.overwriting import FoldedStream

    plain = PlainText(keeps_cursor=True).feed(text.encode(errors="replace"), final=True)
    return FoldedStream().feed(plain, final=True)


@dataclass(frozen=True, slots=True)
class ShellResult:
    """Output of a command (the end of it, see ``truncation``) and how it ended.

    ``exit_code`` is ``None`` while it runs and when it was killed, after ``timed_out`` or ``cancelled``; a signal from
    elsewhere counts as 128 plus its number. ``full_output_path`` names the file with everything when not all is shown;
    ``file_problem`` is the reason why that file is missing or not whole. ``sandbox_notes`` are what a sandbox has to do
    with the end. ``ran`` is how it was confined in a trial, if its result is that of one.
    """

    truncation: Truncation
    exit_code: int | None = None
    timed_out: bool = False
    cancelled: bool = False
    full_output_path: str | None = None
    file_problem: str | None = None
    sandbox_notes: tuple[str, ...] = ()
    ran: str | None = None

    @property
    def output(self) -> str:
        """Return the output, or as much of its end as is shown."""
        return self.truncation.content


@dataclass(frozen=True, slots=True)
class Shell:
    """Settings for commands: the shell's ``path`` (found by itself if ``None``) and lines put before each command.

    ``environment`` returns the variables of a command; without it they are those of this process but for the keys of
    models' providers. ``vault`` keeps secrets out of what a command prints. With a ``sandbox`` commands run
    confined, or not at all. With a ``trial``, which is for one command, that is run by it.
    """

    path: str | None = None
    prefix: str | None = None
    environment: Callable[[], Mapping[str, str]] = child_environment
    vault: Vault | None = field(default=None, compare=False, repr=False)
    sandbox: Sandbox | None = None
    trial: Confined | None = field(default=None, compare=False, repr=False)

    @property
    def is_here(self) -> bool:
        """Return whether commands run as children of this process, so that they can be tried here."""
        return True

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        """Return a schema that accepts an instance as it is: the classes of its fields are imported late."""
        from pydantic_core.core_schema import is_instance_schema

        return is_instance_schema(cls)

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
        plain = PlainText(keeps_cursor=True)
        from indus_nb.safety.vault.stream import HiddenStream
        from indus_nb.tools.overwriting import FoldedStream  # with what only output needs

        hidden = None if self.vault is None else HiddenStream(self.vault)
        tail = GrowingTail("bash", folds=True)
        folded = FoldedStream()
        timed_out = cancelled = False

        def so_far(exit_code: int | None = None) -> ShellResult:
            shown = tail.shown()
            path = str(tail.path) if tail.path else None
            return ShellResult(shown, exit_code, timed_out, cancelled, path, tail.file_problem)

        def readable(data: bytes, *, final: bool = False) -> str:
            text = plain.feed(data, final=final)
            return text if hidden is None else hidden.feed(text, final=final)

        async def on_data(data: bytes, *, final: bool = False) -> None:
            text = readable(data, final=final)
            tail.append(text)
            if on_text is not None and (shown := folded.feed(text, final=final)):
                await on_text(shown)

        if on_output is not None:
            on_output(so_far())
        confined = await self._confined(command)
        try:
            async with self._started(command, cwd, confined) as child:
                with contextlib.closing(tail):
                    try:
                        await _follow(child, on_data, so_far, on_output, until)
                        await on_data(b"", final=True)
                    except TimeoutError:
                        timed_out = True
                    except asyncio.CancelledError:
                        cancelled = True
                    if timed_out or cancelled:
                        tail.append(readable(child.kill(), final=True))
                    code = None if timed_out or cancelled else child.exit_code
                    result = so_far(128 - code if code is not None and code < 0 else code)
        finally:
            stopped = confined is not None and await _closed(confined)
        result = replace(result, cancelled=cancelled or stopped)
        return result if confined is None else replace(result, sandbox_notes=self._notes(confined, result))

    async def _confined(self, command: str) -> Confined | None:
        if self.sandbox is None or self.trial is not None:
            return self.trial
        from indus_nb.safety.sandbox import SandboxError

        try:
            return await self.sandbox.confined(self.arguments(command), unset=())
        except (SandboxError, OSError) as error:
            raise ToolError(f"{error} Nothing was run.") from error

    def _notes(self, confined: Confined, result: ShellResult) -> tuple[str, ...]:
        hint = self.sandbox.hint(result.output) if self.sandbox is not None and result.exit_code else None
        return (*confined.said, *([hint] if hint else []))

    def arguments(self, command: str) -> list[str]:
        """Return the program that runs a command, and its arguments."""
        return [self.path or _default_shell(), "-c", f"{self.prefix}\n{command}" if self.prefix else command]

    def _started(self, command: str, cwd: Path, confined: Confined | None) -> Child:
        arguments = self.arguments(command)
        shell = arguments[0]
        try:
            environment = self.environment()
            if confined is None:
                return Child(arguments, cwd=cwd, environment=environment)
            child = Child(confined.arguments, cwd=cwd, environment=environment, pass_fds=confined.pass_fds)
            confined.release()
            return child  # noqa: TRY300 - earlier failures become one sentence
        except (OSError, ValueError) as error:
            raise ToolError(
                f"The command could not be started with {shell} in {cwd}: {error}. Nothing was run; check that the "
                "folder exists, that the setting shellPath names a shell, and that the command is not too long."
            ) from error


async def _closed(confined: Confined) -> bool:
    """Clean up after a program; return whether this was cancelled meanwhile, where its result counts all the same."""
    closing = asyncio.ensure_future(confined.closed())
    try:
        await asyncio.shield(closing)
    except asyncio.CancelledError:
        await closing
        return True
    return False


async def _follow(
    child: Child,
    on_data: Callable[[bytes], Awaitable[None]],
    so_far: Callable[[], ShellResult],
    on_output: Callable[[ShellResult], None] | None,
    until: float | None,
) -> None:
    loop = asyncio.get_running_loop()
    next_report = loop.time()
    has_output = False
    while True:
        report_due = on_output is not None and has_output
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
            has_output = True
        if on_output is not None and has_output and loop.time() >= next_report:
            on_output(so_far())
            has_output = False
            next_report = loop.time() + _REPORT_EVERY


def _default_shell() -> str:
    if Path("/bin/bash").exists():
        return "/bin/bash"
    from shutil import which

    return which("bash") or "sh"
