"""JSON and text mode: the prompts of the command line, one after another, and then the end.

JSON mode writes the session's header and then every event, one a line. Text mode writes the last answer's text alone.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from indus_nb.console.frames import Wire
from indus_nb.console.stdio import FrameWriter, complain, on_signals
from indus_nb.console.strict import EVENTS, strict_json
from indus_nb.errors import IndusError, RunFailedError, UsageError
from indus_nb.events import AutoRetryStart, CompactionStart, ExtensionError, SessionEvent, SessionSaveFailed
from indus_nb.messages import ImageContent
from indus_nb.render.markup import plain
from indus_nb.session.session import AgentSession
from indus_nb.tools import ToolError
from indus_nb.tools.read import read_image
from indus_nb.wire import clean_text, dump

_CLOSE_SECONDS = 30.0
_HINT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class PromptInput:
    """One prompt of the command line."""

    text: str
    images: Sequence[ImageContent] = ()


async def answer_all(
    session: AgentSession,
    prompts: Sequence[PromptInput],
    mode: Literal["json", "text"],
    descriptor_out: int,
    wire: Wire = "snapshot",
) -> int:
    """Answer the prompts of the command line, one after another, and end the session.

    Args:
        session: The session; it is ended here.
        prompts: What to ask.
        mode: ``json`` writes the session's header and every event, ``text`` the last answer's text.
        descriptor_out: Where to write.
        wire: The shape of events in JSON mode.

    Returns:
        The exit status: 0, 1 when the last answer failed or something was lost, 2 for wrong usage, 128 and more after a
        signal.
    """
    ended: list[int] = []

    def end(code: int) -> None:
        ended.append(code)
        running.cancel()

    writer = FrameWriter(descriptor_out, wire, on_broken=lambda: end(1))
    if mode == "json":
        header = session.store.header
        writer.send_line(strict_json(header, EVENTS["session"]) if wire == "strict" else dump(header))
        session.subscribe(writer.send)
    else:
        session.subscribe(_report_wait)
    session.models.preload()

    async def run() -> int:
        await session.start()
        session.hooks.check_flags()
        status = 0
        for prompt in prompts:
            await session.prompt(prompt.text, prompt.images)
            status = _status(session)
        text = session.last_answer.text if session.last_answer is not None else ""
        if mode == "text" and (text or status == 0):
            writer.send_line(clean_text(plain(text) if os.isatty(descriptor_out) else text).encode())
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
        complain(str(error))
    return await _end(session, writer, status)


async def _end(session: AgentSession, writer: FrameWriter, status: int) -> int:
    """End the session and the output; returns the exit status, which is no success when something was lost."""
    await session.end()
    if session.save_problem:
        status = status or 1
    if lost := await writer.close(_CLOSE_SECONDS):
        complain(f"The output could not be written: {lost}.")
        status = status or 1
    return status


def _status(session: AgentSession) -> int:
    try:
        answer = session.answer_or_raise()
    except RunFailedError as error:
        complain(str(error))
        return 1
    if answer.stop_reason == "length":
        complain("The answer was cut off at the model's limit of output.")
    elif not answer.text.strip():
        complain("The model gave an empty answer.")
    return 0


def _report_wait(event: SessionEvent) -> None:
    """Write to standard error what keeps the user waiting."""
    if isinstance(event, AutoRetryStart):
        seconds = event.delay_ms / 1000
        complain(
            f"The model failed ({event.error_message}). Trying again in {seconds:g} s "
            f"({event.attempt} of {event.max_attempts})."
        )
    elif isinstance(event, ExtensionError):
        complain(f"An extension failed on {event.event} ({event.extension_path}): {event.error}")
    elif isinstance(event, SessionSaveFailed):
        complain(event.error)
    elif isinstance(event, CompactionStart):
        complain("The conversation has grown too long: its older part is summarised.")


def read_prompts(arguments: Sequence[str]) -> list[PromptInput]:
    """The prompts of the command line, with files named ``@path`` and piped input before the first of them.

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
        raise UsageError('Nothing to do: give a prompt, such as `indusagi "List the files here"`, or use --mode rpc.')
    first = "\n\n".join([*attached, *texts[:1]])
    return [PromptInput(first, images), *(PromptInput(text) for text in texts[1:])]


def _attachment(name: str) -> str | ImageContent:
    path = Path(name).expanduser()
    try:
        if (shown := read_image(path, name)) is not None:
            return next(block for block in shown.content if isinstance(block, ImageContent))
        return f'<file name="{path.absolute()}">\n{path.read_text(encoding="utf-8")}\n</file>'
    except OSError as error:
        hint = f' The file is an argument of its own: indusagi @{name.split(maxsplit=1)[0]} "…"' if " " in name else ""
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
