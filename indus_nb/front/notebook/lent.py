"""The tools of this kernel for attached programs: ``--kernel``, over the kernel's control channel.

What this module promises:

- **The notebook's own tools.** A program's calls go through a session in this kernel, as those of ``%agent serve``; but
  its user is asked over there (`RemoteGate`), and it decides what goes on as a job.
- **A program that is gone ends its code**, and nothing else: it holds a file locked as long as it lives, where it is on
  this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from indus_nb.base.errors import IndusError, UsageError
from indus_nb.base.events import SessionEvent, ToolExecutionUpdate
from indus_nb.base.wire import JsonObject, encodable
from indus_nb.core.session.session import AgentSession
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.events import ToolCallAnswer, ToolCallEvent
from indus_nb.front.notebook.magic.options import COMMANDS
from indus_nb.front.notebook.taking_back import TakingBack, steps_wanted
from indus_nb.kernel.cell_ids import ORIGIN, Origin
from indus_nb.kernel.document import NotebookTools
from indus_nb.kernel.run.agent_thread import AgentThread
from indus_nb.kernel.run.control_channel import Reply
from indus_nb.kernel.toolset.long_code import Elsewhere, elsewhere
from indus_nb.kernel.toolset.remote_gate import RemoteGate
from indus_nb.kernel.toolset.user_kernel import UserKernel
from indus_nb.safety.effects import Effect
from indus_nb.start import SessionOptions, open_session
from indus_nb.tools import ToolError

_LOOK_SECONDS = 0.1
_IDLE_LOOK_SECONDS = 1.0
_MAX_CLIENTS = 16


class Lender:
    """The attached programs of one kernel; used on the agent's thread, but for making it and ``receive``."""

    def __init__(
        self, thread: AgentThread, kernel: UserKernel, notebook: NotebookTools, taking_back: TakingBack
    ) -> None:
        """Lend the tools of a kernel, which no program uses yet."""
        self.kernel = kernel
        self.taking_back = taking_back
        self.extensions: tuple[UserKernel, NotebookTools] = (kernel, notebook)
        self.names: tuple[str, ...] = (*kernel.tools, "notebook")
        self._thread = thread
        self._clients: dict[str, _Client] = {}

    def receive(self, content: JsonObject, reply: Reply) -> None:
        """Take a request, on any thread."""
        self._thread.call(partial(self._received, content, reply))

    def _received(self, content: JsonObject, reply: Reply) -> None:
        own_id = str(content.get("client"))
        client = self._clients.get(own_id)
        lease = str(content.get("lease", ""))
        if client is None and (content.get("do") in ("answer", "cancel") or (lease and not Path(lease).exists())):
            return  # about a call that is over, or of a program that is gone
        if client is None:
            for other in sorted(self._clients.values(), key=lambda other: other.is_busy)[: 1 - _MAX_CLIENTS]:
                other.leave()
            client = self._clients[own_id] = _Client(self, lambda: self._clients.pop(own_id, None))
            client.follow(lease)
        client.received(content, lambda answer: reply(cast("JsonObject", encodable(answer))))

    async def close(self) -> None:
        """End the calls of all programs."""
        for client in [*self._clients.values()]:
            client.leave()


@dataclass(slots=True)
class _Call:
    """A call that goes on."""

    reply: Reply
    gate: RemoteGate | None
    place: Elsewhere
    task: asyncio.Task[None] | None = field(default=None)


class _Client:
    """One attached program, an extension of the session of its calls."""

    def __init__(self, lender: Lender, on_left: Callable[[], object]) -> None:
        self._lender = lender
        self._on_left = on_left
        self._session: AgentSession | None = None
        self._calls: dict[str, _Call] = {}
        self._prompt: object = None
        self._following: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether a call of it goes on."""
        return bool(self._calls)

    def __call__(self, api: ExtensionApi) -> None:
        """Have the program asked about its calls."""
        api.on("tool_call", self._gate_of)

    # Requests

    def received(self, content: JsonObject, reply: Reply) -> None:
        own_id = str(content.get("call"))
        call = self._calls.get(own_id)
        match content.get("do"):
            case "answer":
                if call is not None and call.gate is not None:
                    call.gate.answered(content)
            case "cancel":
                if call is not None and call.task is not None:
                    call.place.is_job = content.get("job") is True
                    call.task.cancel()
            case _:
                readable: object = content.get("gate")
                paths = cast("list[str]", readable) if isinstance(readable, list) else None
                looks = content.get("looks") is True
                gate = None if paths is None else RemoteGate(paths, reply, looks_only=looks)
                call = self._calls[own_id] = _Call(reply, gate, Elsewhere())
                call.task = asyncio.get_running_loop().create_task(self._carry_out(own_id, call, content))

    async def _carry_out(self, own_id: str, call: _Call, content: JsonObject) -> None:
        answer: JsonObject = {"cancelled": True}
        try:
            answer = await self._answer(own_id, call, content)
        except (IndusError, ToolError) as error:
            answer = {"error": str(error)}
        except Exception as error:  # noqa: BLE001 - the program waits for an answer, whatever it is
            answer = {"error": f"{type(error).__name__}: {error}"}
        finally:
            self._calls.pop(own_id, None)
            call.reply({"do": "end", **answer})

    async def _answer(self, own_id: str, call: _Call, content: JsonObject) -> JsonObject:
        kernel, code = self._lender.kernel, str(content.get("code", ""))
        match content.get("do"):
            case "outlook":
                asked = await asyncio.to_thread(kernel.approval, code)
                return {"warning": asked.warning, "also": [*asked.also]}
            case "keep":
                kernel.steps.keep_large(code)
                return {}
            case "undo" | "redo" as verb:
                return {"value": await self._move(verb, str(content.get("argument", "")))}
            case _:
                elsewhere.set(call.place)
                notebook: object = content.get("notebook")
                ORIGIN.set(Origin(notebook=notebook if isinstance(notebook, str) else None))
                session = await self._opened(content.get("prompt"))
                output, is_error = await session.outside.call(
                    str(content.get("tool")),
                    cast("JsonObject", content.get("arguments")),
                    caller=str(content.get("caller", "")),
                    offered=self._lender.names,
                    call_id=own_id,
                )
                return {"output": output.to_wire(), "isError": is_error}

    async def _opened(self, prompt: object) -> AgentSession:
        """Return the session; the calls of each prompt are steps that can be taken back together."""
        if self._session is None:
            self._session = open_session(
                SessionOptions(
                    no_session=True,
                    approve="never",
                    jobs_after=0,
                    sandbox="off",
                    use_extensions=False,
                    builtin_tools=False,
                    use_context_files=False,
                    use_skills=False,
                    use_prompt_templates=False,
                    extensions=(*self._lender.extensions, self),
                    more_tools=self._lender.names,
                )
            )
            self._session.subscribe(self._on_event)
            await self._session.start()
        if prompt != self._prompt:
            self._prompt = prompt
            await self._lender.kernel.steps.begin_run(self._session.store.session_id)
        return self._session

    async def _move(self, verb: Literal["undo", "redo"], argument: str) -> str:
        wanted = COMMANDS[verb].argument(argument.strip())
        if wanted is None:
            raise UsageError(f"`/{verb}` takes a number or `prompt`, and `keep`, `over` or `both` behind it.")
        session, desk = await self._opened(self._prompt), self._lender.taking_back
        try:
            return await desk.move(session, desk.meant(session, steps_wanted(verb, wanted)))
        except UsageError as error:
            raise UsageError(str(error).replace(f"`%agent {verb}", f"`/{verb}")) from None

    # Calls of the session

    def _on_event(self, event: SessionEvent) -> None:
        if isinstance(event, ToolExecutionUpdate) and (call := self._calls.get(event.tool_call_id)) is not None:
            call.reply({"do": "report", "output": event.partial_result.to_wire()})

    async def _gate_of(self, event: ToolCallEvent, ctx: Context) -> ToolCallAnswer | None:
        """Leave the call to the program's gate, if it has one; one with secrets of this kernel is asked about first."""
        call = self._calls.get(event.tool_call_id)
        if call is None or call.gate is None:
            return None
        if not ctx.settings.vault.meant(event.input):
            event.gate = call.gate
            return None
        try:
            await call.gate.ask([Effect("unknown", "", "uses secrets that the kernel knows")])
        except ToolError as error:
            return ToolCallAnswer(block=True, reason=str(error), details=error.output.details)
        return None

    # The end

    def follow(self, lease: str) -> None:
        """Leave once the program is gone, if it is on this machine."""
        with contextlib.suppress(OSError):
            file = os.open(lease, os.O_RDWR | os.O_CLOEXEC)
            self._following = asyncio.get_running_loop().create_task(self._follow(file))

    async def _follow(self, file: int) -> None:
        try:
            while _is_held(file):  # noqa: ASYNC110 - nothing tells us of the end of another process
                await asyncio.sleep(_LOOK_SECONDS if self._calls else _IDLE_LOOK_SECONDS)
        finally:
            os.close(file)
        self.leave()

    def leave(self) -> None:
        """End the calls and the session."""
        self._on_left()
        tasks = [call.task for call in self._calls.values() if call.task is not None]
        for task in (*tasks, *([self._following] if self._following is not None else [])):
            task.cancel()
        session, self._session = self._session, None
        if session is not None:
            ending = asyncio.get_running_loop().create_task(_end(session, tasks))
            _endings.add(ending)
            ending.add_done_callback(_endings.discard)


_endings: set[asyncio.Task[Any]] = set()


async def _end(session: AgentSession, tasks: list[asyncio.Task[None]]) -> None:
    if tasks:
        await asyncio.wait(tasks)
    await session.end()


def _is_held(file: int) -> bool:
    """Return whether another process holds the lock of a file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False
