"""The built-in tools on what the client offers: files as its editor has them, and its terminals.

What this module promises: a client that offers neither changes nothing. What is asked before a call, and what a sandbox
forbids, is decided before anything here; commands that are confined run in processes of ours, for a client would run
them outside. A path reaches the client as it was resolved for the question.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import errno
import io
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from indus_nb.base.events import ToolOutput
from indus_nb.base.wire import JsonObject
from indus_nb.core.session.questions import bound
from indus_nb.front.console.acp.peer import Peer, RpcError
from indus_nb.front.console.acp.requests import ClientCapabilities
from indus_nb.tools.commands.shell import Shell, ShellResult, printed_text
from indus_nb.tools.description import Approval, CallDescription
from indus_nb.tools.files.paths import failure, resolve
from indus_nb.tools.files.writing import FileQueue
from indus_nb.tools.tool import FunctionTool, ToolContext, ToolError, in_thread, text_output
from indus_nb.tools.truncate import GrowingTail, size_text

_MAX_OUTPUT_BYTES = 4 << 20
_MAX_FILE_BYTES = 64 << 20
_PATIENCE_SECONDS = 1.0
"""Longest wait for the output of a command after the client was asked to kill it."""
_QUESTION_SECONDS = 5.0
"""Longest wait for the client's text, before a question shows the change without its surroundings."""

_call: ContextVar[str] = ContextVar("call")
"""The tool call that the command at hand belongs to."""


class AcpTools:
    """Tools of one session that the client carries out in place of the built-in ones."""

    def __init__(self, peer: Peer, client: ClientCapabilities) -> None:
        self._peer = peer
        self._client = client
        self._queue = FileQueue()
        self._session_id = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._on_terminal: Callable[[str, str], None] | None = None
        self._on_change: Callable[[str, Path, str | None, str], None] | None = None

    def attach(
        self,
        session_id: str,
        on_terminal: Callable[[str, str], None],
        on_change: Callable[[str, Path, str | None, str], None],
    ) -> None:
        """Attach the tools to a session.

        Args:
            on_terminal: Called with a tool call and the terminal that its command runs in.
            on_change: Called with a tool call, the file that it changed, its text before, if there was one, and after.
        """
        self._session_id, self._on_terminal, self._on_change = session_id, on_terminal, on_change
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def shows(self, terminal_id: str) -> None:
        """Report the terminal in which the command of the call at hand runs."""
        if self._on_terminal is not None:
            self._on_terminal(_call.get(""), terminal_id)

    def _changed(self, call_id: str, path: Path, before: str | None, after: str) -> None:
        if self._on_change is not None:
            self._on_change(call_id, path, before, after)

    def shell(self, shell: Shell) -> Shell:
        """Return the shell of the session.

        Returns:
            The client's terminals, or that shell where the client has none, or it is confined.
        """
        if not self._client.terminal or shell.sandbox is not None:
            return shell
        return TerminalShell(shell.path, shell.prefix, shell.environment, shell.vault, client=self)

    def tools(self, tools: Mapping[str, FunctionTool[Any]], cwd: Path, read_whole: int) -> dict[str, FunctionTool[Any]]:
        """Return the tools, on what the client offers.

        Args:
            cwd: The directory in which relative paths start.
            read_whole: Most bytes of a file of which no part is asked for.

        Returns:
            The tools by name, in the same order.
        """
        changed = dict(tools)
        if self._client.terminal:
            changed["bash"] = _known_by_its_call(tools["bash"])
        if self._reads:
            changed["read"] = self._reading(tools["read"], cwd, read_whole)
        if self._writes:
            changed["write"] = self._writing(tools["write"], cwd)
        if self._reads and self._writes:
            changed["write"] = self._asking(changed["write"], _write_asked)
            changed["edit"] = self._asking(self._editing(tools["edit"], cwd), _edit_asked)
        return changed

    @property
    def _reads(self) -> bool:
        return self._client.fs is not None and self._client.fs.read_text_file

    @property
    def _writes(self) -> bool:
        return self._client.fs is not None and self._client.fs.write_text_file

    def _reading(self, tool: FunctionTool[Any], cwd: Path, whole: int) -> FunctionTool[Any]:
        async def run(arguments: Any, context: ToolContext) -> ToolOutput:
            path = _path(arguments.path, cwd, context)
            if not await asyncio.to_thread(_may_be_text, path):
                return await tool.run(arguments, context)
            try:
                text = await self._text(path)
            except RpcError:  # what it has no buffer for, and does not read
                return await tool.run(arguments, context)
            from indus_nb.tools.files.read import text_output_of

            def select(stop: threading.Event) -> ToolOutput:
                return text_output_of(arguments, path, io.BytesIO(text.encode(errors="replace")), stop, whole)

            return await in_thread(select)

        return replace(tool, run=run)

    def _writing(self, tool: FunctionTool[Any], cwd: Path) -> FunctionTool[Any]:
        async def run(arguments: Any, context: ToolContext) -> ToolOutput:
            path = _path(arguments.path, cwd, context)
            if not await asyncio.to_thread(_may_be_text, path):
                return await tool.run(arguments, context)
            before = None
            async with self._queue.turn(path):
                if self._reads:
                    with contextlib.suppress(RpcError):  # there is none yet
                        before = await self._text(path)
                await asyncio.to_thread(_make_directory, path, arguments.path)
                await self._write(path, arguments.content, arguments.path)
            self._changed(context.call_id, path, before, arguments.content)
            size = len(arguments.content.encode(errors="replace"))
            return text_output(f"Wrote {size} bytes to {arguments.path}")

        return replace(tool, run=run)

    def _editing(self, tool: FunctionTool[Any], cwd: Path) -> FunctionTool[Any]:
        async def run(arguments: Any, context: ToolContext) -> ToolOutput:
            path = _path(arguments.path, cwd, context)
            if not await asyncio.to_thread(_may_be_text, path):
                return await tool.run(arguments, context)
            async with self._queue.turn(path):
                try:
                    text = await self._text(path)
                except RpcError:
                    return await tool.run(arguments, context)
                from indus_nb.tools.files.edit import replace as edited_of

                edited = await in_thread(lambda _: edited_of(text.encode(errors="replace"), arguments.edits))
                after = edited.data.decode(errors="replace")
                await self._write(path, after, arguments.path)
            self._changed(context.call_id, path, text, after)
            from indus_nb.tools.files.writing import edit_output

            return edit_output(arguments, edited)

        return replace(tool, run=run)

    def _asking(
        self, tool: FunctionTool[Any], shown: Callable[[Approval, Any, str | None], Approval]
    ) -> FunctionTool[Any]:
        """Return the tool with a question about the client's text, which is what the call will change."""
        describe = tool.describe
        if describe is None:
            return tool

        def described(default: CallDescription, arguments: Any) -> CallDescription:
            description = describe(default, arguments)

            def approval() -> Approval:
                asked = description.approval()
                if asked.target is None or not _may_be_text(asked.target.path):
                    return asked
                try:
                    return shown(asked, arguments, self._text_for_question(asked.target.path))
                except (RpcError, ToolError):  # the call, too, is left to the disk then, or ends with that error
                    return asked

            return replace(description, approval=approval)

        return replace(tool, describe=described)

    def _text_for_question(self, path: Path) -> str | None:
        """Return the client's text; ``None`` if it does not answer soon, or cannot be awaited on this thread."""
        if self._loop is None or threading.get_ident() == self._thread:
            return None
        asked = asyncio.run_coroutine_threadsafe(self._text(path), self._loop)
        try:
            return asked.result(_QUESTION_SECONDS)
        except (TimeoutError, concurrent.futures.CancelledError):
            asked.cancel()
            return None

    async def _text(self, path: Path) -> str:
        params = {"sessionId": self._session_id, "path": str(path)}
        content = (await self._peer.request("fs/read_text_file", params)).get("content")
        if not isinstance(content, str):
            raise ToolError(f"The program that shows this session sent no text of {path}. Read it with bash.")
        if len(content) > _MAX_FILE_BYTES:
            raise ToolError(f"{path} has more than {size_text(_MAX_FILE_BYTES)}. Cut it with a shell command.")
        return content

    async def _write(self, path: Path, content: str, name: str) -> None:
        params = {"sessionId": self._session_id, "path": str(path), "content": content}
        try:
            await self._peer.request("fs/write_text_file", params)
        except RpcError as error:
            raise ToolError(f"The program that shows this session did not write {name}: {error}") from error

    async def request(self, what: str, params: JsonObject) -> JsonObject:
        """Send the client a request about terminals.

        Args:
            what: The method behind ``terminal/``.

        Raises:
            RpcError: The client answered with an error.
        """
        return await self._peer.request(f"terminal/{what}", {"sessionId": self._session_id, **params})


@dataclass(frozen=True, slots=True)
class TerminalShell(Shell):
    """Shell that runs commands in terminals of the client, without the keys of model providers."""

    client: AcpTools = field(kw_only=True)

    @property
    def is_here(self) -> bool:
        """Return ``False``: commands run where the client is."""
        return False

    async def run(
        self,
        command: str,
        *,
        cwd: Path,
        timeout: float | None = None,  # noqa: ASYNC109 - as its base has it
        on_output: Callable[[ShellResult], None] | None = None,
        on_text: Callable[[str], Awaitable[None]] | None = None,
    ) -> ShellResult:
        """Run a command to its end; what it prints meanwhile is shown by the client itself.

        Args:
            timeout: Seconds after which it is killed.
            on_output: Called at once, and not again: the client shows the output itself.

        Returns:
            The end of the output, and how the command ended.

        Raises:
            ToolError: The client cannot start it.
        """
        client = self.client
        if on_output is not None:
            on_output(ShellResult(GrowingTail("bash").shown()))
        program, *arguments = self.arguments(command)
        params: JsonObject = {
            "command": program,
            "args": arguments,
            "cwd": str(cwd),
            "env": self._hidden(),
            "outputByteLimit": _MAX_OUTPUT_BYTES,
        }
        creating = asyncio.ensure_future(self._created(params))
        try:
            terminal = await asyncio.shield(creating)
        except asyncio.CancelledError:
            _leave(self._discarded(creating))
            return ShellResult(GrowingTail("bash").shown(), cancelled=True)
        known: JsonObject = {"terminalId": terminal}
        client.shows(terminal)
        timed_out = cancelled = False
        exited: JsonObject = {}
        try:
            try:
                async with asyncio.timeout(timeout):
                    exited = await client.request("wait_for_exit", known)
            except TimeoutError:
                timed_out = True
            except asyncio.CancelledError:
                cancelled = True
            printed = await self._printed(known, kills=timed_out or cancelled)
        except RpcError as error:
            raise ToolError(f"The terminal of the command was lost, and with it how it ended: {error}") from error
        finally:
            _leave(client.request("release", known))
        code = None if timed_out or cancelled else _exit_code(exited)
        if code is None and not (timed_out or cancelled):
            printed += "\n[The terminal did not say how the command ended]"
        tail = GrowingTail("bash", folds=True)
        with contextlib.closing(tail):
            tail.append(printed)
        if on_text is not None:
            await on_text(printed)
        path = str(tail.path) if tail.path else None
        return ShellResult(tail.shown(), code, timed_out, cancelled, path, tail.file_problem)

    async def _created(self, params: JsonObject) -> str:
        try:
            terminal: object = (await self.client.request("create", params)).get("terminalId")
        except RpcError as error:
            raise ToolError(f"The program that shows this session did not run the command: {error}") from error
        if not isinstance(terminal, str) or not terminal:
            raise ToolError("The program that shows this session named no terminal. The command may run, or not.")
        return terminal

    async def _discarded(self, creating: asyncio.Future[str]) -> JsonObject:
        """Release a terminal that is not waited for any more, which ends its command; it may only come to be."""
        return await self.client.request("release", {"terminalId": await creating})

    async def _printed(self, known: JsonObject, *, kills: bool) -> str:
        """Return the output of the command; one that is not over by itself is killed before."""
        output: JsonObject = {}
        if kills:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await self.client.request("kill", known)
                    output = await self.client.request("output", known)
        else:
            output = await self.client.request("output", known)
        text = printed_text(str(output.get("output") or ""))
        text = text if self.vault is None else self.vault.hide(text)
        cut = f"[Only the last {size_text(_MAX_OUTPUT_BYTES)} were kept]\n" if output.get("truncated") else ""
        return cut + text

    def _hidden(self) -> list[JsonObject]:
        """Return the keys that are kept from a command, as empty variables: the client may have them too."""
        environment = self.environment()
        return [{"name": name, "value": ""} for name in os.environ if name not in environment]


def _known_by_its_call(tool: FunctionTool[Any]) -> FunctionTool[Any]:
    async def run(arguments: Any, context: ToolContext) -> ToolOutput:
        with bound(_call, context.call_id):
            return await tool.run(arguments, context)

    return replace(tool, run=run)


def _leave(request: Awaitable[JsonObject]) -> None:
    """Send a request without waiting for the response."""
    task = asyncio.ensure_future(request)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


def _exit_code(exited: JsonObject) -> int | None:
    code, name = exited.get("exitCode"), exited.get("signal")
    if type(code) is int:
        return code
    if not isinstance(name, str):
        return None
    import signal

    return 128 + getattr(signal, name if name.startswith("SIG") else f"SIG{name}", 0)


def _write_asked(asked: Approval, arguments: Any, text: str | None) -> Approval:
    """Return the question of ``write``, with what the client has in place of what the disk has."""
    if text is None:
        return replace(asked, preview=arguments.content, diff=None)
    from indus_nb.tools.files.previews import changed_text

    preview, diff = changed_text(text, arguments.content)
    return replace(asked, preview=preview, diff=diff, language="")


def _edit_asked(asked: Approval, arguments: Any, text: str | None) -> Approval:
    """Return the question of ``edit``, likewise."""
    from indus_nb.tools.files.previews import edited_text

    return replace(asked, diff=None if text is None else edited_text(text.encode(errors="replace"), arguments.edits))


def _path(given: str, cwd: Path, context: ToolContext) -> Path:
    return Path(os.path.realpath(resolve(given, cwd))) if context.target is None else context.target.path


def _may_be_text(path: Path) -> bool:
    """Return whether an editor may have it open: no image, no directory, nothing that only the system has."""
    from indus_nb.base.messages import image_type

    if path.suffix == ".ipynb":
        return False  # an editor of notebooks has no text of it
    try:
        if not path.is_file():
            return not path.exists()
        with path.open("rb") as file:
            return image_type(file.read(12)) is None
    except OSError as error:
        return error.errno == errno.ENOENT


def _make_directory(path: Path, name: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise failure("write", name, error) from error
