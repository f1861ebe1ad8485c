"""Code in a kernel whose environment does not have our package: sent as text, and a list of its variables.

What this module promises: code is run without a number and leaves nothing but what it defines; it is asked about, for
nothing can be known of it before; and it is interrupted, from its beginning to its end as far as both are reported.
"""

from __future__ import annotations

import ast
import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from indus_nb.base.events import ToolOutput
from indus_nb.base.terminal import plain
from indus_nb.base.textcut import one_line
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.core.resources.settings import Settings
from indus_nb.kernel.attached.connection import Connection, KernelGoneError, Request
from indus_nb.kernel.attached.finding import FoundKernel, interrupt_by_server
from indus_nb.kernel.attached.kernel import RunningKernel
from indus_nb.kernel.run.execution import Shown
from indus_nb.kernel.run.outputs import CallOutputs
from indus_nb.kernel.toolset.results import Signal, joined, output_of, reported, without_secrets
from indus_nb.safety.effects import Effect
from indus_nb.tools.tool import ToolContext, ToolError

UNSEEN = Effect("unknown", "", "runs code in another kernel, which cannot be tried before")
_END_SECONDS = 5.0
_INTERRUPT_SECONDS = 1.0
_INTERRUPTS = ("KeyboardInterrupt", "CancelledError")
_SHOW = "(lambda value: None if value is None else __import__('IPython').display.display(value))({})"
NO_INPUT = (
    "[Nobody can answer input() in a kernel that the agent is attached to. Ask the user, and put the value into the "
    "code.]"
)


class PlainKernel:
    """Code for one kernel, one piece at a time."""

    def __init__(self, kernel: RunningKernel) -> None:
        """Use a kernel."""
        self._kernel = kernel
        self._one_at_a_time = asyncio.Lock()
        self._was_told = False

    @property
    def _limits(self) -> str:
        """Return the sentence that says why there is no more."""
        return "" if self._kernel.about is None else f"[{self._kernel.about.limits}]"

    async def variables(self, on_busy: Callable[[], None]) -> str:
        """List the variables by name and type."""
        async with self._kernel.channels(on_busy) as connection:
            await self._kernel.wait_until_free(connection, on_busy)
            answer = await self._kernel.entrance(connection, {"do": "list"})
        pairs = cast("list[Any]", listed) if isinstance(listed := answer.get("listed"), list) else []
        lines = [one_line(plain(clean_text(f"{name}: {kind}")), 200) for name, kind in pairs]
        if answer.get("more"):
            lines.append(f"… and {int(answer['more'])} more.")
        return "\n".join([*(lines or ["There are no variables yet."]), "", self._limits])

    async def run(
        self,
        code: str,
        seconds: float | None,
        context: ToolContext,
        outputs: CallOutputs,
        settings: Settings,
        on_busy: Callable[[], None],
        *,
        is_job: Callable[[], object],
    ) -> ToolOutput:
        """Run code as a cell would; when the task is cancelled it is interrupted.

        Args:
            seconds: How long it may run; ``None`` for as long as it takes.
            is_job: Returns the job that the call has become, else ``None``.

        Raises:
            ToolError: It failed, was not allowed, or the kernel is gone.
        """
        if context.gate is not None and not await context.gate.covers([UNSEEN]):
            await context.gate.ask([UNSEEN])
        changed = Signal()
        shown = Shown(changed.set)
        began = time.monotonic()

        def details() -> JsonObject:
            return {"code": code, "executionSeconds": round(time.monotonic() - began, 3)}

        secrets = self._kernel.secrets
        reporting: asyncio.Task[None] | None = None
        running = _Running(shown)
        try:
            async with self._one_at_a_time, self._kernel.channels(on_busy) as connection:
                await self._kernel.wait_until_free(connection, on_busy)
                reporting = asyncio.create_task(reported(shown, changed, context, outputs, details, secrets))
                reply = await running.run(connection, self._kernel.found, code, seconds)
            ending = _ending(reply, f"after {seconds:g} seconds" if running.timed_out and seconds else "")
            first, self._was_told = not self._was_told, True
            done = reply.get("status") == "ok"
            text = joined(ending, self._limits if first else "")
            if not done and reply.get("ename") not in (*_INTERRUPTS, "StdinNotImplementedError"):
                shown.add_text(_traceback(reply))
            return await output_of(shown, "done" if done else "failed", text, details(), settings, outputs, secrets)
        except ToolError as error:
            if running.ended or not running.begun:
                raise
            output = f"{shown.text().content}\n\n{error}".lstrip()  # the kernel ended with what it was doing
            raise ToolError(without_secrets(output, context.hide, secrets), details()) from error
        except asyncio.CancelledError:
            if not running.begun:
                raise
            how = "was interrupted" if running.ended else "did not end when it was interrupted, and may still run"
            why = "The run was aborted" if is_job() is None else "It was stopped"
            output = f"{shown.text().content}\n\n{why}: the code {how}.".lstrip()
            found = {**details(), "interrupted": "stopped"}
            raise ToolError(without_secrets(output, context.hide, secrets), found) from None
        finally:
            if reporting is not None:
                reporting.cancel()
            shown.tail.close()


class _Running:
    """One piece of code, from the moment that it is sent."""

    def __init__(self, shown: Shown) -> None:
        self.begun = self.ended = self.timed_out = False
        self._shown = shown

    async def run(self, connection: Connection, found: FoundKernel, code: str, seconds: float | None) -> JsonObject:
        with connection.executing(_displaying(code), self._message) as request:
            self.begun = True
            interrupting: list[asyncio.Task[None]] = []

            def interrupt() -> None:
                interrupting.append(asyncio.ensure_future(_interrupt(connection, request, found)))

            def end() -> None:
                self.timed_out = True
                interrupt()

            limit = None if seconds is None else asyncio.get_running_loop().call_later(seconds, end)
            try:
                reply = await connection.all_of(request)
            except asyncio.CancelledError:
                interrupt()
                ending = asyncio.ensure_future(connection.all_of(request))
                await asyncio.wait([ending], timeout=_END_SECONDS)
                self.ended = request.reply.done()
                ending.cancel()
                raise
            finally:
                if limit is not None:
                    limit.cancel()
                for task in interrupting:
                    task.cancel()
            self.ended = True
            return reply

    def _message(self, kind: str, content: JsonObject) -> None:
        match kind:
            case "stream":
                self._shown.add_text(clean_text(str(content.get("text", ""))))
            case "display_data" | "execute_result" | "update_display_data":
                self._display(content, update=kind == "update_display_data")
            case "clear_output":
                self._shown.clear(waits=content.get("wait") is True)
            case _:
                pass

    def _display(self, content: JsonObject, *, update: bool) -> None:
        data, metadata = _mapping(content.get("data")), _mapping(content.get("metadata"))
        display_id: object = _mapping(content.get("transient")).get("display_id")
        named = display_id if isinstance(display_id, str) else None
        if not update or self._shown.displays.has(named):
            display, text = self._shown.displays.prepared(data, metadata, named)
            self._shown.add_display(display, text, str(data.get("text/plain", "")), update=update)


async def _interrupt(connection: Connection, request: Request, found: FoundKernel) -> None:
    """Interrupt our code, once it has begun and until it has ended."""
    await request.begun.wait()
    while not (request.idle.is_set() or request.reply.done()):
        try:
            await asyncio.wait_for(connection.ask("interrupt_request", "control"), _INTERRUPT_SECONDS)
            connection.wake()
        except TimeoutError:  # of a kernel that takes signals only: its server sends one
            if not (request.idle.is_set() or request.reply.done()):
                await asyncio.to_thread(interrupt_by_server, found)
        except KernelGoneError:
            return
        await asyncio.sleep(_INTERRUPT_SECONDS)


def _displaying(code: str) -> str:
    r"""Return code that displays the value of its last expression, as a cell would, where it is plain Python.

    Nothing else would show it: what is run silently, so that it has no number, displays no values.

    >>> _displaying("a = 1\na + 1  # more").endswith(".display(value))(a + 1)"), _displaying("%who"), _displaying("a;")
    (True, '%who', 'a;')
    """
    try:
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = cast("ast.Module", compile(code, "cell", "exec", flags))
    except (SyntaxError, ValueError):
        return code
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or code.rstrip().endswith(";"):
        return code
    shown = _SHOW.format(ast.unparse(last.value))
    before = "\n".join(code.splitlines()[: last.lineno - 1])
    beside = code.splitlines()[last.lineno - 1].encode()[: last.col_offset].decode()
    return f"{before}\n{beside}{shown}".lstrip("\n")


def _ending(reply: Mapping[str, Any], limit: str) -> str:
    if reply.get("status") == "ok":
        return f"[It was interrupted {limit}, but went on to its end.]" if limit else ""
    if reply.get("ename") == "StdinNotImplementedError":
        return NO_INPUT
    ended = reply.get("ename") in _INTERRUPTS
    return f"The code was interrupted {limit or 'by the user'}." if ended else ""


def _traceback(reply: Mapping[str, Any]) -> str:
    rows: object = reply.get("traceback")
    listed = (
        cast("list[object]", rows) if isinstance(rows, list) and rows else [reply.get("ename"), reply.get("evalue")]
    )
    return plain(clean_text("\n".join(map(str, listed)))) + "\n"


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
