"""A client of ``indus-nb --mode rpc``, which runs in a process of its own and takes the verbs of ``front.verbs``."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

from indus_nb.base.errors import ClientClosedError, CommandFailedError, RunFailedError
from indus_nb.base.messages import ImageContent
from indus_nb.base.own_imports import PROGRAM
from indus_nb.base.wire import JsonObject, dump, load_object
from indus_nb.front.console.stdio import LineSplitter, LineTooLongError
from indus_nb.front.verbs import Verb
from indus_nb.front.verbs.host_tools import HostToolDefinition
from indus_nb.front.verbs.program_verbs import SetHostTools
from indus_nb.front.verbs.prompt_verbs import Abort, FollowUp, Prompt, Steer
from indus_nb.front.verbs.setting_verbs import GetState
from indus_nb.front.verbs.tree_verbs import GetTree
from indus_nb.front.verbs.trees import nested_tree

Dialog: TypeAlias = Callable[[JsonObject], Awaitable[JsonObject]]
"""Answers an ``extension_ui_request``: returns ``{"value": …}``, ``{"confirmed": …}`` or ``{"cancelled": True}``."""
Report: TypeAlias = Callable[[str], Awaitable[None]]

_CHUNK = 1 << 16
_UNREAD_EVENTS = 1024
_GRACE = 1.0
_POLL = 0.1
_KEPT_ERRORS = 4096
_BEGINNING = 1024
_RESPONSE = re.compile(rb'\s*\{(?=[^{}\[\]]*?"type"\s*:\s*"response")[^{}\[\]]*?"id"\s*:\s*"(?P<id>[^"\\]*)"')
"""The beginning of a response, up to its id, before anything is nested."""
_TYPE = re.compile(rb'"type"\s*:\s*"response"')
_IDS = re.compile(rb'"id"\s*:\s*"([^"\\]*)"')
_log = logging.getLogger("indus_nb")


@dataclass(frozen=True, slots=True)
class HostTool:
    """A tool that the agent may call in this process; ``run`` is given its arguments and where to report progress."""

    definition: HostToolDefinition
    run: Callable[[JsonObject, Report], Awaitable[str]]


class RpcClient:
    """Client of an agent that runs in a process of its own.

    It is a context manager; the process ends with it::

        async with RpcClient("--provider", "offline", "--no-session") as client:
            print(await client.prompt_and_wait("compute 6 * 7"))

    ``arguments`` are those of the console program. Every call raises ``CommandFailedError`` when the agent rejects it,
    and ``ClientClosedError`` when the process has ended, so that no call waits forever.
    """

    def __init__(
        self,
        *arguments: str,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        program: Sequence[str] = PROGRAM,
        on_dialog: Dialog | None = None,
    ) -> None:
        self._command = [*program, "--mode", "rpc", "--wire", "delta", *arguments]
        self._cwd = cwd
        self._env = env
        self._on_dialog = on_dialog
        self._ids = itertools.count(1)
        self._answers: dict[str, tuple[asyncio.Future[JsonObject], Callable[[], None] | None]] = {}
        self._subscribers: list[asyncio.Queue[JsonObject | None]] = []
        self._room = asyncio.Event()
        self._host_tools: dict[str, HostTool] = {}
        self._host_calls: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._errors: deque[str] = deque(maxlen=64)
        self._process: asyncio.subprocess.Process | None = None
        self._closing = False
        self._has_read_frame = False
        self._closed: str | None = "the client was not started: use `async with RpcClient(...)`"

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            cwd=self._cwd,
            env=dict(self._env) if self._env is not None else {**os.environ},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self._closed = None
        self._reading = asyncio.create_task(self._read(self._process))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, seconds: float = 5) -> None:
        """End the process: by closing its input, after ``seconds`` by a signal, after as many again for sure."""
        process = self._process
        if process is None:
            return
        self._closing = True
        self._room.set()
        if process.stdin is not None:
            process.stdin.close()
        for end in (process.terminate, process.kill):
            try:
                await asyncio.wait_for(asyncio.shield(self._reading), seconds)
                break
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    end()
        await self._reading
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # Commands

    async def ask(self, command: Verb, *, on_success: Callable[[], None] | None = None) -> Any:
        """Send a command and wait for its response. A response that cannot be read fails this call alone.

        Args:
            command: What to ask for; an ``id`` is added.
            on_success: Called when the response arrives, before any frame behind it is handled.

        Returns:
            The ``data`` of the response, ``None`` without any.

        Raises:
            CommandFailedError: The agent rejected the command.
            ClientClosedError: The agent's process has ended.
        """
        if isinstance(command, GetTree) and not command.flat:
            data = await self._ask(command.replace(flat=True), on_success)
            # An agent that knows no flat form has sent the other one.
            return {**data, "tree": nested_tree(data.pop("nodes"))} if "nodes" in data else data
        return await self._ask(command, on_success)

    async def _ask(self, command: Verb, on_success: Callable[[], None] | None) -> Any:
        command_id = f"client-{next(self._ids)}"
        answer = asyncio.get_running_loop().create_future()
        self._answers[command_id] = (answer, on_success)
        self._room.set()  # an answer must not be blocked by backpressure of events that are not read
        try:
            await self._write({**command.as_command(), "id": command_id})
            response = await answer
        finally:
            del self._answers[command_id]
        if not response.get("success"):
            name = str(response.get("command", command.names[0]))
            raise CommandFailedError(name, str(response.get("error")))
        return response.get("data")

    async def prompt(self, text: str, images: Sequence[ImageContent] = ()) -> None:
        """Send a user message and return once it is accepted; the answer comes as events.

        Args:
            text: The message.
            images: Images that belong to it.

        Raises:
            CommandFailedError: The agent rejected it, for a run is going on for example.
            ClientClosedError: The agent's process has ended.
        """
        await self.ask(Prompt(message=text, images=list(images)))

    async def prompt_and_wait(self, text: str, images: Sequence[ImageContent] = ()) -> str:
        """Send a user message and wait until the session is idle.

        Args:
            text: The message.
            images: Images that belong to it.

        Returns:
            The text of the last answer.

        Raises:
            RunFailedError: The last answer failed or was aborted.
            CommandFailedError: The agent rejected the message.
            ClientClosedError: The agent's process has ended.
        """
        ended: JsonObject = {}
        async for event in self.events(text, images):
            match event:
                case {"type": "message_end", "message": {"role": "assistant"} as message}:
                    ended = message
                case _:
                    pass
        if ended.get("stopReason") in ("error", "aborted"):
            raise RunFailedError(str(ended.get("errorMessage") or "The answer failed."), ended["stopReason"])
        return "".join(block["text"] for block in ended.get("content", ()) if block["type"] == "text")

    async def events(self, text: str, images: Sequence[ImageContent] = ()) -> AsyncGenerator[JsonObject]:
        """Send a user message and yield every event until the session is idle. Leaving early aborts the run.

        Args:
            text: The message.
            images: Images that belong to it.

        Yields:
            The event frames, the last of them ``agent_settled``.

        Raises:
            CommandFailedError: The agent rejected the message.
            ClientClosedError: The agent's process has ended.
        """
        queue = self._subscribe()
        accepted = settled = False
        try:
            prompt = Prompt(message=text, images=list(images))
            await self.ask(prompt, on_success=lambda: _drain(queue))  # what came before belongs to another run
            accepted = True
            while (event := await queue.get()) is not None:
                self._room.set()
                yield event
                if settled := event["type"] == "agent_settled":
                    return
            self._raise_if_closed()
        finally:
            self._subscribers.remove(queue)
            self._room.set()
            if accepted and not settled and self._closed is None:
                with contextlib.suppress(ClientClosedError, CommandFailedError):
                    await self.ask(Abort())

    async def steer(self, text: str) -> None:
        """Queue a message for after the tool call at hand."""
        await self.ask(Steer(message=text))

    async def follow_up(self, text: str) -> None:
        """Queue a message for when the agent has finished."""
        await self.ask(FollowUp(message=text))

    async def abort(self) -> None:
        """End the run; returns when the session is idle."""
        await self.ask(Abort())

    async def get_state(self) -> JsonObject:
        """Return the state of the session, see the command ``get_state``."""
        return await self.ask(GetState())

    async def set_host_tools(self, tools: Sequence[HostTool]) -> None:
        """Offer tools of this process to the agent; they replace those offered before."""
        self._host_tools = {tool.definition.name: tool for tool in tools}
        await self.ask(SetHostTools(tools=[tool.definition for tool in tools]))

    # Frames

    def _subscribe(self) -> asyncio.Queue[JsonObject | None]:
        self._raise_if_closed()
        queue: asyncio.Queue[JsonObject | None] = asyncio.Queue()
        self._subscribers.append(queue)
        return queue

    def _raise_if_closed(self) -> None:
        if self._closed is not None:
            raise ClientClosedError(self._closed)

    async def _write(self, frame: JsonObject) -> None:
        self._raise_if_closed()
        assert self._process is not None and self._process.stdin is not None  # noqa: S101, PT018 - it is not closed
        with contextlib.suppress(ConnectionError):  # the reader notices the end, and ends every call
            self._process.stdin.write(dump(frame) + b"\n")
            await self._process.stdin.drain()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        complaints = asyncio.create_task(self._read_errors(process))
        gone = asyncio.create_task(_exit_status(process))
        broken = ""
        try:
            await self._read_frames(process.stdout, gone)
        except ValueError as error:
            broken = f"; before, it wrote what is no frame: {error}"
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        finally:
            status = await gone
            # A descendant may keep the pipe open without end.
            await asyncio.wait([complaints], timeout=_GRACE)
            complaints.cancel()
            transport: Any = vars(process).get("_transport")
            transport.close()  # or it would wait for that descendant
            stderr = "".join(self._errors)[-_KEPT_ERRORS:].strip()
            ending = f"; its standard error ends with: {stderr}" if stderr else "."
            self._end(f"The agent's process has ended with status {status}{broken}{ending}")

    def _end(self, reason: str) -> None:
        self._closed = reason
        for answer, _ in self._answers.values():
            if not answer.done():
                answer.set_exception(ClientClosedError(reason))
        for queue in self._subscribers:
            queue.put_nowait(None)

    async def _read_frames(self, stdout: asyncio.StreamReader, gone: asyncio.Task[int]) -> None:
        """Handle frames until there are no more; raises ``ValueError`` for a line that is none."""
        splitter = LineSplitter()
        while chunk := await self._chunk(stdout, gone):
            for line in splitter.feed(chunk):
                self._take_line(line)
            while (
                not self._answers
                and not self._closing
                and any(queue.qsize() > _UNREAD_EVENTS for queue in self._subscribers)
            ):
                self._room.clear()
                await self._room.wait()

    async def _chunk(self, stdout: asyncio.StreamReader, gone: asyncio.Task[int]) -> bytes:
        """Return the next bytes; empty at the end, also if a descendant of the process holds its pipe."""
        reading = asyncio.ensure_future(stdout.read(_CHUNK))
        await asyncio.wait([reading, gone], return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            await asyncio.wait([reading], timeout=_GRACE)
        if not reading.done():
            reading.cancel()
            return b""
        return reading.result()

    async def _read_errors(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None  # noqa: S101 - it was asked for
        while chunk := await process.stderr.read(_KEPT_ERRORS):
            self._errors.append(chunk.decode(errors="replace"))

    def _take_line(self, line: bytes | LineTooLongError) -> None:
        """Handle a frame. One that cannot be read fails the call that it answers, and nothing else.

        Raises:
            ValueError: It is no frame, and neither was one before: the program is no agent.
        """
        try:
            if isinstance(line, LineTooLongError):
                raise line
            frame = load_object(line)
            self._has_read_frame = True
        except ValueError as error:
            beginning = line.beginning if isinstance(line, LineTooLongError) else line
            if not self._has_read_frame and not beginning.lstrip().startswith(b"{"):
                raise
            failed = _failed_response(beginning, self._answers, error)
            if failed is None:
                _log.warning("A frame of the agent cannot be read and was left out: %s", error)
                return
            frame = failed
        try:
            self._take(frame)
        except (KeyError, TypeError) as error:
            _log.warning("A frame of the agent lacks what belongs to it and was left out: %r", error)

    def _take(self, frame: JsonObject) -> None:
        match frame.get("type"):
            case "response":
                answer, on_success = self._answers.get(str(frame.get("id")), (None, None))
                if answer is not None and not answer.done():
                    answer.set_result(frame)
                    if on_success is not None and frame.get("success"):
                        on_success()
            case "host_tool_call":
                self._host_calls[frame["id"]] = self._start(
                    self._run_host_tool(frame["id"], frame["toolName"], frame["arguments"])
                )
            case "host_tool_cancel":
                if call := self._host_calls.get(frame["targetId"]):
                    call.cancel()
            case "extension_ui_request" if self._on_dialog is not None:
                self._start(self._answer_dialog(frame["id"], frame, self._on_dialog))
            case str():
                for queue in self._subscribers:
                    queue.put_nowait(frame)
            case kind:
                raise KeyError("type", kind)

    def _start(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run_host_tool(self, call_id: str, name: str, arguments: JsonObject) -> None:
        async def report(text: str) -> None:
            await self._write({"type": "host_tool_update", "id": call_id, "partialResult": _content(text)})

        try:
            text, failed = await self._host_tools[name].run(arguments, report), False
        except Exception as error:  # noqa: BLE001 - a tool's failure, whatever it is, is a result that the model reads
            text, failed = f"{type(error).__name__}: {error}", True
        finally:
            self._host_calls.pop(call_id, None)
        with contextlib.suppress(ClientClosedError):
            await self._write({"type": "host_tool_result", "id": call_id, "result": _content(text), "isError": failed})

    async def _answer_dialog(self, dialog_id: str, frame: JsonObject, on_dialog: Dialog) -> None:
        try:
            answer = await on_dialog(frame)
        except Exception:  # noqa: BLE001 - a dialog that failed here counts as cancelled
            answer = {"cancelled": True}
        with contextlib.suppress(ClientClosedError):
            await self._write({"type": "extension_ui_response", "id": dialog_id, **answer})


def _failed_response(line: bytes, waiting: Collection[str], error: ValueError) -> JsonObject | None:
    """Return a response to use in place of an unreadable one; ``None`` if no call waits for it.

    ``line`` is its beginning, if it is too long. There the id comes first; in a whole line it may stand anywhere.
    """
    found = _RESPONSE.match(line, 0, _BEGINNING)
    ids = [found["id"]] if found is not None else _IDS.findall(line) if _TYPE.search(line) else []
    known = next((each for each in (id_.decode(errors="replace") for id_ in ids) if each in waiting), None)
    if known is None:
        return None
    problem = f"the response cannot be read: {error}"
    return {"type": "response", "id": known, "success": False, "error": problem}


async def _exit_status(process: asyncio.subprocess.Process) -> int:
    """Return the exit status soon after the end: some versions of ``wait`` also wait until pipes are closed."""
    while process.returncode is None:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(_POLL)
    return process.returncode


def _drain(queue: asyncio.Queue[JsonObject | None]) -> None:
    while not queue.empty():
        queue.get_nowait()


def _content(text: str) -> JsonObject:
    return {"content": [{"type": "text", "text": text}]}
