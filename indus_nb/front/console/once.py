"""JSON and text mode: the prompts of the command line, one after another, and then the end.

JSON mode writes the session's header and then every event, one a line. Text mode writes the last answer's text alone.
With a typed answer text mode writes its value as JSON, and JSON mode ends with a line
``{"type": "answer", "value": …}``, or with ``error`` and ``attempts`` in the place of the value.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from indus_nb.base.errors import IndusError, RunFailedError, UsageError
from indus_nb.base.events import (
    AutoRetryStart,
    CompactionStart,
    ExtensionError,
    SessionEvent,
    SessionSaveFailed,
    SubagentLifecycle,
)
from indus_nb.base.messages import ImageContent
from indus_nb.base.terminal import plain
from indus_nb.base.wire import JsonObject, dump
from indus_nb.core.session.session import AgentSession
from indus_nb.front.console.frames import Wire, dialect_of
from indus_nb.front.console.stdio import UNREAD, UNREAD_STATUS, FrameWriter, complain, in_words, on_signals
from indus_nb.tools import ToolError
from indus_nb.tools.files.read import read_image

if TYPE_CHECKING:
    from indus_nb.core.answers import FinalAnswer

_CLOSE_SECONDS = 30.0
_HINT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class PromptInput:
    """A prompt of the command line."""

    text: str
    images: Sequence[ImageContent] = ()


async def answer_all(
    session: AgentSession,
    prompts: Sequence[PromptInput],
    mode: Literal["json", "text"],
    descriptor_out: int,
    wire: Wire = "snapshot",
    answer: FinalAnswer | None = None,
) -> int:
    """Answer the prompts of the command line, one after another, and end the session.

    Args:
        mode: ``json`` writes the session's header and every event, ``text`` the last answer's text.
        wire: The shape of events in JSON mode.
        answer: The typed answer that the last prompt asks for; it is written in the place of the text, and in JSON
            mode in a line of its own behind the events.

    Returns:
        The exit status: 0, 1 when the last answer failed, was not of the type that was asked for, or something was
        lost, 2 for wrong usage, 128 and more after a signal.
    """
    ended: list[int] = []

    def end(code: int) -> None:
        ended.append(code)
        running.cancel()

    writer = FrameWriter(descriptor_out, wire, on_broken=lambda: end(1))
    if mode == "json":
        header, dialect = session.store.header, dialect_of(wire)
        writer.send_line(dump(header) if dialect is None else dialect.json(header, dialect.events["session"]))
        session.subscribe(writer.send)
    else:
        session.subscribe(_report_wait)
    session.models.preload()

    async def run() -> int:
        await session.start()
        status = 0
        for number, prompt in enumerate(prompts, 1):
            asked = answer if number == len(prompts) else None
            await session.prompt(prompt.text, prompt.images, answer=asked)
            status = _status(session, asked)
        if answer is not None:
            return _write_value(answer, mode, writer, status)
        text = session.last_answer.text if session.last_answer is not None else ""
        if mode == "text" and (text or status == 0):
            writer.send_line(plain(text).encode())
        return status

    running = asyncio.create_task(run())
    on_signals(end)
    try:
        status = await running
    except asyncio.CancelledError:
        status = max(ended)
        if status > 1:
            complain("Request was aborted.")
    except IndusError as error:
        status = 2 if isinstance(error, UsageError) else 1
        complain(in_words(error))
    return await _end(session, writer, status)


async def _end(session: AgentSession, writer: FrameWriter, status: int) -> int:
    """End the session and the output; returns the exit status, which is an error when something was lost."""
    await session.end()
    if session.save_problem:
        status = status or 1
    if (lost := await writer.close(_CLOSE_SECONDS)) == UNREAD:
        return UNREAD_STATUS if status <= 1 else status  # the reader has seen enough, as `head` has
    if lost:
        complain(f"The output could not be written: {lost}.")
        status = status or 1
    return status


def _write_value(answer: FinalAnswer, mode: str, writer: FrameWriter, status: int) -> int:
    """Write a typed answer, or in JSON mode why there is none; returns the exit status."""
    try:
        value: object = answer.kind.to_json(answer.value())
    except IndusError as error:
        status = status or _complain(error)
        attempts = [{"given": each.given, "problems": [*each.problems]} for each in answer.attempts]
        line: JsonObject = {"type": "answer", "error": str(error), "attempts": attempts}
        if mode == "json":
            writer.send_line(dump(line))
        return status
    if mode == "json":
        writer.send_line(dump({"type": "answer", "value": value}))
    elif status == 0:
        writer.send_line(dump(value))
    return status


def _complain(error: IndusError) -> int:
    complain(str(error))
    return 1


def _status(session: AgentSession, asked: FinalAnswer | None = None) -> int:
    try:
        answer = session.answer_or_raise()
    except RunFailedError as error:
        return _complain(error)
    if asked is not None:
        return 0
    if answer.stop_reason == "length":
        complain("The answer was cut off at the model's limit of output.")
    elif not answer.text.strip():
        complain("The model gave an empty answer.")
    return 0


def _report_wait(event: SessionEvent) -> None:
    """Report on standard error what the user waits for."""
    if isinstance(event, AutoRetryStart):
        seconds = event.delay_ms / 1000
        complain(
            f"The model failed ({event.error_message}). Trying again in {seconds:g} s "
            f"({event.attempt} of {event.max_attempts})."
        )
    elif isinstance(event, ExtensionError):
        complain(f"An extension failed on {event.event} ({event.extension_path}): {event.error}")
    elif isinstance(event, SubagentLifecycle):
        agent = event.payload
        state = "begins" if agent.status == "started" else agent.status
        complain(f"Sub-agent {agent.index + 1} {state}: {agent.description}")
    elif isinstance(event, SessionSaveFailed):
        complain(event.error)
    elif isinstance(event, CompactionStart):
        complain("The conversation has grown too long: its older part is summarised.")


def read_prompts(arguments: Sequence[str], flags: Iterable[str] = ()) -> list[PromptInput]:
    """Return the prompts of the command line, ``@path`` files and piped input before the first of them.

    Args:
        flags: The names of options that only an extension could know.

    Returns:
        The prompts, at least one.

    Raises:
        UsageError: There is nothing to ask, a prompt is empty, or a file cannot be read.
    """
    attached: list[str] = []
    images: list[ImageContent] = []
    texts = [argument for argument in arguments if not argument.startswith("@")]
    for argument in arguments:
        if argument.startswith("@"):
            content = _attachment(argument[1:])
            if isinstance(content, ImageContent):
                images.append(content)
            else:
                attached.append(content)
    if piped := _piped_input():
        attached.append(piped)
    if any(not text.strip() for text in texts):
        raise UsageError("A prompt on the command line is empty.")
    if not (texts or attached or images):
        if unknown := [f"--{name}" for name in flags]:
            raise UsageError(
                f"Nothing to do: there is no prompt, and {', '.join(unknown)} is no option of `indus-nb` (an "
                "extension could know it). `indus-nb --help` shows all options."
            )
        raise UsageError('Nothing to do: give a prompt, such as `indus-nb "List the files here"`, or use --mode rpc.')
    first = "\n\n".join([*attached, *texts[:1]])
    return [PromptInput(first, images), *(PromptInput(text) for text in texts[1:])]


def _attachment(name: str) -> str | ImageContent:
    path = Path(name).expanduser()
    try:
        if not (path.is_file() or path.is_dir()) and path.exists():
            raise UsageError(f"@{name}: it is no file that could be read to its end.")
        if (shown := read_image(path, name)) is not None:
            return next(block for block in shown.content if isinstance(block, ImageContent))
        return f'<file name="{path.absolute()}">\n{path.read_text(encoding="utf-8")}\n</file>'
    except OSError as error:
        hint = f' The file is an argument of its own: indus-nb @{name.split(maxsplit=1)[0]} "…"' if " " in name else ""
        raise UsageError(f"@{name}: the file cannot be read ({error.strerror}).{hint}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"@{name}: the file is neither text in UTF-8 nor an image.") from error
    except ToolError as error:
        raise UsageError(f"@{name}: {error}") from error


def _piped_input() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    hint = threading.Timer(
        _HINT_SECONDS, complain, ["Waiting for standard input to end. Add `< /dev/null` to go without."]
    )
    hint.daemon = True
    hint.start()
    try:
        return sys.stdin.buffer.read().decode(errors="replace").strip()
    finally:
        hint.cancel()
