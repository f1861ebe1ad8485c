"""The agent that a client starts: its methods, and the sessions that are open."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from weakref import WeakValueDictionary

from indus_nb.base.errors import SessionNotFoundError, UsageError
from indus_nb.base.wire import JsonObject
from indus_nb.core.resources.settings import agent_directory, model_registry, own_settings
from indus_nb.core.storage import find_session, list_sessions, session_directory
from indus_nb.core.storage.file import SessionFile, read_header
from indus_nb.core.storage.listing import SessionInfo
from indus_nb.front.console.acp import requests
from indus_nb.front.console.acp.client_tools import AcpTools
from indus_nb.front.console.acp.conversation import APPROVE_MODES, AcpSession
from indus_nb.front.console.acp.peer import AUTHENTICATION_REQUIRED, INVALID_PARAMS, NOT_FOUND, Method, Peer, RpcError
from indus_nb.front.console.acp.updates import title_of
from indus_nb.front.console.intake import carry_out
from indus_nb.front.console.stdio import FrameWriter, complain, on_signals
from indus_nb.start import SessionOptions, open_session
from indus_nb.start.stores import chosen_directory
from indus_nb.version import __version__

PROTOCOL_VERSION = 1
_SESSIONS_ON_A_PAGE = 50
_SHUTDOWN_SECONDS = 3.0
_SIGNALLED = 128
"""The lowest exit status that a signal asks for."""
_KEYS = "keys"


class AcpAgent:
    """All sessions of one client.

    Args:
        options: The options of the command line, which apply to each session.
        kernel: The running kernel that each session works in, as on the command line.
    """

    def __init__(self, options: SessionOptions, writer: FrameWriter, kernel: str | None = None) -> None:
        self._options = replace(options, usual_approve="writes")
        self._kernel = kernel
        self._writer = writer
        self._client = requests.ClientCapabilities()
        self._sessions: dict[str, AcpSession] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.peer: Peer = Peer(
            writer.send_line,
            {
                "initialize": Method(requests.Initialize, self._initialize),
                "authenticate": Method(requests.Authenticate, self._authenticate),
                "session/new": Method(requests.NewSession, self._new),
                "session/load": Method(requests.OldSession, self._load),
                "session/resume": Method(requests.OldSession, self._resume),
                "session/list": Method(requests.ListSessions, self._list),
                "session/close": Method(requests.OfSession, self._close),
                "session/delete": Method(requests.OfSession, self._delete),
                "session/prompt": Method(requests.Prompt, self._prompt),
                "session/set_mode": Method(requests.SetMode, self._set_mode),
                "session/set_config_option": Method(requests.SetConfigOption, self._set_option),
            },
            {"session/cancel": Method(requests.OfSession, self._cancel)},
        )

    def _initialize(self, params: requests.Initialize) -> JsonObject:
        self._client = params.client_capabilities
        about = {"id": _KEYS, "name": "API key", "description": "Set ANTHROPIC_API_KEY, or put keys into auth.json"}
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": "indusagi", "title": "Indus", "version": __version__},
            "authMethods": [about],
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": False},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
            },
        }

    def _authenticate(self, params: requests.Authenticate) -> JsonObject:
        if params.method_id != _KEYS:
            raise RpcError(INVALID_PARAMS, f"There is no way to sign in that is called {params.method_id!r}.")
        if model_registry(agent_directory()).first_available() is None:
            raise RpcError(AUTHENTICATION_REQUIRED, "No provider has a key yet: set ANTHROPIC_API_KEY and start again.")
        return {}

    # Sessions

    async def _new(self, params: requests.NewSession) -> JsonObject:
        return {"sessionId": (opened := await self._open(params, None)).id, **self._offered(opened)}

    async def _load(self, params: requests.OldSession) -> JsonObject:
        async with self._turn(params.session_id):
            opened = self._sessions.get(params.session_id) or await self._open(params, self._path_of(params))
            opened.replay()
            await self._writer.wait_for_reader()  # the answer comes behind all that was replayed
            return self._offered(opened)

    async def _resume(self, params: requests.OldSession) -> JsonObject:
        async with self._turn(params.session_id):
            return self._offered(
                self._sessions.get(params.session_id) or await self._open(params, self._path_of(params))
            )

    def _turn(self, session_id: str) -> asyncio.Lock:
        """Return the lock for opening, closing or deleting a session: the one before may still write the file."""
        return self._turns.setdefault(session_id, asyncio.Lock())

    async def _open(self, params: requests.NewSession, path: Path | None) -> AcpSession:
        configs = requests.mcp_configs(params.mcp_servers)
        cwd = Path(params.cwd)
        if not await asyncio.to_thread(os.path.isdir, cwd):  # false also for a name that the system does not take
            raise RpcError(INVALID_PARAMS, f"`cwd`: there is no directory {params.cwd}. Nothing was opened.")
        tools = AcpTools(self.peer, self._client)
        options = replace(self._options, cwd=cwd, session=None if path is None else str(path), client=tools)
        options = replace(options, mcp_servers=configs)
        if self._kernel is not None:
            from indus_nb.kernel.attached import working_in

            try:
                options = await asyncio.to_thread(working_in, self._kernel, options)
            except UsageError as error:
                raise RpcError(INVALID_PARAMS, f"--kernel: {error}") from error
        session = open_session(options, definable=False)
        if options.flags:
            try:
                await session.load()
                session.hooks.check_flags()
            except BaseException:
                session.close()
                raise
        opened = AcpSession(session, self.peer, self._writer, self._client, tools)
        self._sessions[opened.id] = opened
        opened.begin()
        return opened

    def _offered(self, opened: AcpSession) -> JsonObject:
        return {"modes": opened.modes(), "configOptions": opened.options()}

    def _path_of(self, params: requests.OldSession) -> Path:
        """Return the file of a session; first among those of its directory."""
        for directory in self._directories(Path(params.cwd)):
            with contextlib.suppress(SessionNotFoundError, UsageError):
                path = find_session(params.session_id, directory)  # whose id may only begin so
                if read_header(path)["id"] == params.session_id:
                    return path
        raise RpcError(NOT_FOUND, f"No session has the id {params.session_id!r}. `session/list` lists them.")

    def _directories(self, cwd: Path | None) -> Iterator[Path]:
        agent_dir = agent_directory()
        options = SessionOptions(session_dir=self._options.session_dir)
        if (chosen := chosen_directory(options, own_settings(agent_dir))) is not None:
            yield chosen
            return
        if cwd is not None:
            yield session_directory(cwd, agent_dir)
        with contextlib.suppress(OSError):
            yield from sorted(path for path in (agent_dir / "sessions").iterdir() if path.is_dir())

    async def _list(self, params: requests.ListSessions) -> JsonObject:
        first = int(params.cursor or 0)
        found = await asyncio.to_thread(self._found, params.cwd)
        page = found[first : first + _SESSIONS_ON_A_PAGE]
        answer: JsonObject = {"sessions": [_described(info) for info in page]}
        if first + len(page) < len(found):
            answer["nextCursor"] = str(first + len(page))
        return answer

    def _found(self, cwd: str | None) -> list[SessionInfo]:
        wanted = None if cwd is None else os.path.realpath(cwd)
        directories = self._directories(None if wanted is None else Path(wanted))
        listed = {info.id: info for directory in dict.fromkeys(directories) for info in list_sessions(directory)}
        here = [info for info in listed.values() if wanted is None or os.path.realpath(info.cwd) == wanted]
        return sorted((info for info in here if info.message_count), key=lambda info: info.modified, reverse=True)

    async def _close(self, params: requests.OfSession) -> JsonObject:
        async with self._turn(params.session_id):
            opened = self._of(params)
            del self._sessions[opened.id]
            await opened.end()
        return {}

    async def _delete(self, params: requests.OfSession) -> JsonObject:
        async with self._turn(params.session_id):
            if (opened := self._sessions.pop(params.session_id, None)) is not None:
                await opened.end()
            await asyncio.to_thread(self._remove, params.session_id)
        return {}

    def _remove(self, session_id: str) -> None:
        found = next((info for info in self._found(None) if info.id == session_id), None)
        if found is not None:
            with contextlib.closing(SessionFile.open(found.path)):  # none that another program writes
                found.path.unlink(missing_ok=True)

    def _of(self, params: requests.OfSession) -> AcpSession:
        opened = self._sessions.get(params.session_id)
        if opened is None:
            raise RpcError(NOT_FOUND, f"No session {params.session_id!r} is open. Open it with `session/load`.")
        return opened

    # What is asked of one

    async def _prompt(self, params: requests.Prompt) -> JsonObject:
        return await self._of(params).prompt(params.prompt)

    def _cancel(self, params: requests.OfSession) -> None:
        opened = self._sessions.get(params.session_id)
        if opened is not None:
            opened.cancel()

    async def _set_mode(self, params: requests.SetMode) -> JsonObject:
        opened = self._of(params)
        if params.mode_id not in APPROVE_MODES:
            raise RpcError(
                INVALID_PARAMS, f"There is no mode {params.mode_id!r}: choose one of {', '.join(APPROVE_MODES)}."
            )
        await opened.choose("approve", params.mode_id)
        opened.update({"sessionUpdate": "config_option_update", "configOptions": opened.options()})
        return {}

    async def _set_option(self, params: requests.SetConfigOption) -> JsonObject:
        opened = self._of(params)
        await opened.choose(params.config_id, params.value)
        return {"configOptions": opened.options()}

    async def end(self) -> None:
        """End all sessions."""
        await asyncio.gather(*(opened.end() for opened in self._sessions.values()), return_exceptions=True)


def _described(info: SessionInfo) -> JsonObject:
    changed = datetime.fromtimestamp(info.modified / 1000, UTC).isoformat()
    title = title_of(info.name or info.first_message)
    return {"sessionId": info.id, "cwd": info.cwd, "updatedAt": changed, **({"title": title} if title else {})}


async def serve(options: SessionOptions, descriptor_in: int, descriptor_out: int, *, kernel: str | None = None) -> int:
    """Serve a client until standard input closes or a signal ends the process.

    Args:
        descriptor_in: The descriptor that messages are read from, see ``stdio.claim``.
        descriptor_out: The descriptor that they are written to.
        kernel: The running kernel that each session works in, as on the command line.

    Returns:
        The exit status: 0, or 128 and more after a signal.
    """
    over = asyncio.Event()
    asked_for: list[int] = []

    def end(code: int) -> None:
        asked_for.append(code)
        over.set()

    writer = FrameWriter(descriptor_out, "delta", on_broken=lambda: end(0))
    agent = AcpAgent(options, writer, kernel)

    async def read() -> None:
        end(await carry_out(agent.peer, writer, descriptor_in))

    on_signals(end)
    reading = asyncio.create_task(read())
    await over.wait()
    writer.stop_blocking()
    agent.peer.ending = True
    if asked_for[0] < _SIGNALLED:
        agent.peer.close()  # after a signal the client still answers, and ends what it runs for us
    try:
        async with asyncio.timeout(_SHUTDOWN_SECONDS):
            await agent.end()
            if agent.peer.tasks:
                await asyncio.wait(tuple(agent.peer.tasks))
    except TimeoutError:
        complain("a run did not end in time and was left")
    await agent.peer.give_up()
    agent.peer.close()
    reading.cancel()
    await writer.close(1.0)
    return max(asked_for)
