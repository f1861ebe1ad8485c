"""An engine of the user's: an executor whose workers run the functions of tools, while requests stay in this process.

What this module promises: what a function returns or raises is read by the model as ever. What goes wrong with the
engine is not: it ends the row with a sentence, before another request of that row. An engine that is gone is reported
once, and a call never waits for it longer than it takes to find that out.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import pickle
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from indus_nb.base import textcut
from indus_nb.base.errors import IndusError, UsageError, failure_text
from indus_nb.base.events import ToolOutput
from indus_nb.base.wire import random_hex
from indus_nb.fanout import pulse
from indus_nb.tools.function import as_output, function_tool
from indus_nb.tools.tool import FunctionTool, Tool, ToolContext, ToolError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from indus_nb.core.session.session import AgentSession

Functions: TypeAlias = Mapping[str, tuple[Callable[..., Any], Mapping[str, Any]]]
"""Functions that are tools and the options of each, by the tool's name."""

_MAX_REASON_CHARACTERS = 300
_CHECK_SECONDS = 0.2


class EngineError(IndusError):
    """A call that the engine did not carry out; whether the function has run is unknown."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a function in a worker: content, and whether it is what the function raised."""

    output: ToolOutput
    failed: bool = False


# --- in the worker ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _function(pickled: bytes) -> Callable[..., Any]:
    return pickle.loads(pickled)  # noqa: S301 - this process's parent has made it


def _ignore_interruptions() -> None:
    """Leave Ctrl-C to the process that asks: a terminal sends it to the workers of a pool as well."""
    if multiprocessing.parent_process() is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def load(_number: str, pickled: Sequence[bytes]) -> int:
    """Load functions, so that one that cannot run here is found before anything is asked.

    Args:
        _number: Different for each call, for some engines run equal calls only once.
    """
    _ignore_interruptions()
    return len([*map(_function, pickled)])


def call(_number: str, pickled: bytes, arguments: bytes) -> Outcome:
    """Call a function and make content of what it returns, so that only this travels back.

    Args:
        _number: Different for each call, for some engines run equal calls only once.
    """
    _ignore_interruptions()
    function = _function(pickled)
    values = pickle.loads(arguments)  # noqa: S301 - the same
    try:
        return Outcome(as_output(function(**values)))
    except ToolError as error:
        return Outcome(error.output, failed=True)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool's failure, whatever it is, is a result
        return Outcome(as_output(failure_text(error)), failed=True)


# --- in this process -------------------------------------------------------------------------------------------------


class Engine:
    """Engine that calls functions in the workers of an executor; used on one event loop.

    Args:
        executor: The executor, which stays the user's: it is neither started nor shut down here.
        functions: The functions that may be called.
        on_lost: Called once with a sentence when the engine is gone.

    Raises:
        UsageError: It is no executor, or a function cannot be sent to another process.
    """

    def __init__(self, executor: Executor, functions: Functions, on_lost: Callable[[str], None]) -> None:
        if not callable(getattr(executor, "submit", None)):
            raise UsageError(
                "over= takes an executor, such as ProcessPoolExecutor(), client.get_executor() of Dask or "
                f"client.executor() of ipyparallel, and not a {type(executor).__name__}."
            )
        self._executor = executor
        kind = type(executor)
        self._name = f"{kind.__name__} of {kind.__module__.partition('.')[0]}"
        self._on_lost = on_lost
        self._lost: str | None = None
        self._pending: set[asyncio.Future[None]] = set()
        self._has_worked = False
        self._watching: asyncio.Task[None] | None = None
        self._numbers = map(f"{random_hex(8)}-{{}}".format, itertools.count())
        self._tools = {name: function_tool(function, **options) for name, (function, options) in functions.items()}
        self._pickled = {name: _pickled(name, function) for name, (function, _) in functions.items()}

    async def check(self, stopping: Callable[[], bool]) -> None:
        """Let a worker load the functions, before any row is asked.

        Args:
            stopping: Returns whether the user has stopped the call.

        Raises:
            UsageError: A worker cannot load them.
            EngineError: The engine is gone.
        """
        if not self._pickled:
            return
        if (probe := pulse.probe_of(self._executor)) is not None:
            self._watching = asyncio.create_task(self._watch(probe))
        task = asyncio.ensure_future(self._submit("The first call", load, [*self._pickled.values()]))
        try:
            while not task.done() and not stopping():
                await asyncio.wait([task], timeout=_CHECK_SECONDS)
            if task.done():
                task.result()
        except EngineError as error:
            if self._lost is None:
                names = ", ".join(self._pickled)
                raise UsageError(
                    f"The workers of {self._name} cannot run {names}: {_reason(error.__cause__ or error)}. They need "
                    "this package and every module that the functions use, in the versions that are here."
                ) from error
            raise
        finally:
            task.cancel()

    def close(self) -> None:
        """Stop watching the engine."""
        if self._watching is not None:
            self._watching.cancel()

    def lend_to(self, session: AgentSession) -> RowCalls:
        """Let a session call the functions in the engine.

        Raises:
            UsageError: A function has the name of a tool of the session's own.
        """
        calls = RowCalls(self, session)
        session.lend_tools(calls.tool(name, tool) for name, tool in self._tools.items())
        return calls

    async def call(self, name: str, values: Mapping[str, Any]) -> ToolOutput:
        """Call a function in a worker.

        Raises:
            ToolError: The function raised, which the model reads.
            EngineError: The engine did not carry out the call.
        """
        try:
            arguments = _pickler().dumps(dict(values))
        except Exception as error:
            raise EngineError(f"The arguments of {name} cannot be sent to {self._name}: {_reason(error)}.") from error
        given = await self._submit(name, call, self._pickled[name], arguments)
        if not isinstance(given, Outcome):
            raise EngineError(
                f"{self._name} gave back {type(given).__name__} for one call of {name}. Use an executor that runs each "
                "call once, such as client.executor() of ipyparallel."
            )
        if given.failed:
            error = ToolError("")
            error.output = given.output
            raise error
        return given.output

    async def _submit(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a call; it ends as soon as it is known that the engine is gone."""
        if self._lost is not None:
            raise EngineError(self._lost)
        try:
            future = self._executor.submit(function, next(self._numbers), *arguments)
        except Exception as error:
            raise EngineError(self._lose(_reason(error))) from error
        ended = asyncio.get_running_loop().create_future()
        future.add_done_callback(_wakes(ended))
        self._pending.add(ended)
        try:
            await ended
        except asyncio.CancelledError:
            # In a thread, for it may wait for an engine that does not answer.
            threading.Thread(target=future.cancel, name="indus_nb cancels a call", daemon=True).start()
            raise
        finally:
            self._pending.discard(ended)
        return self._outcome(what, future)

    def _outcome(self, what: str, future: Future[Any]) -> Any:
        if not future.done():
            raise EngineError(self._lost or f"{self._name} is lost.")
        if future.cancelled():
            raise EngineError(self._lose("it cancelled its calls"))
        if (error := future.exception()) is None:
            self._has_worked = True
            return future.result()
        if isinstance(error, BrokenExecutor):
            raise EngineError(self._lose(_reason(error))) from error
        raise EngineError(
            f"{what} was not carried out by {self._name}: {_reason(error)}. retry() asks for the row again."
        ) from error

    async def _watch(self, probe: pulse.Probe) -> None:
        self._lose(await pulse.lost(probe, lambda: bool(self._pending), lambda: self._has_worked))

    def _lose(self, reason: str) -> str:
        """Note that the engine is gone, once; calls that wait for it wait no longer."""
        if self._lost is None:
            self._lost = (
                f"The engine {self._name} is lost: {reason}. retry(over=...) with another one asks for the rows that "
                "have no answer."
            )
            for ended in tuple(self._pending):
                if not ended.done():
                    ended.set_result(None)
            self._on_lost(self._lost)
        return self._lost


class RowCalls:
    """The calls of one row's session.

    Attributes:
        problem: The error of the engine; ``None`` without one.
    """

    def __init__(self, engine: Engine, session: AgentSession) -> None:
        self._engine = engine
        self._session = session
        self.problem: str | None = None

    def tool(self, name: str, tool: Tool) -> Tool:
        """Let the function of a tool run in the engine."""

        async def run(arguments: BaseModel, _context: ToolContext) -> ToolOutput:
            try:
                return await self._engine.call(
                    name, {field: getattr(arguments, field) for field in type(arguments).model_fields}
                )
            except EngineError as error:
                # The model reads nothing of it: the run is aborted, and this wait is where that takes effect.
                self.problem = self.problem or str(error)
                self._session.turns.request_abort()
                await asyncio.Event().wait()
                raise

        return replace(cast("FunctionTool[BaseModel]", tool), run=run)


def _pickled(name: str, function: Callable[..., Any]) -> bytes:
    pickler = _pickler()
    try:
        return pickler.dumps(function)
    except Exception as error:
        advice = "" if pickler is not pickle else " Install cloudpickle, which sends functions of notebooks too."
        raise UsageError(
            f"The function of the tool {name} cannot be sent to the engine: {_reason(error)}. Let it open "
            f"what it needs when it is called, or leave it out of tools.{advice}"
        ) from error


def _pickler() -> ModuleType:
    with contextlib.suppress(ImportError):
        return import_module("cloudpickle")  # which sends functions of a notebook; type checkers need not find it
    return pickle


def _wakes(ended: asyncio.Future[None]) -> Callable[[object], None]:
    loop = ended.get_loop()

    def wake() -> None:
        if not ended.done():
            ended.set_result(None)

    def done(_future: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and no caller waits
            loop.call_soon_threadsafe(wake)

    return done


def _reason(error: BaseException) -> str:
    return textcut.one_line(str(error).strip().rstrip(".") or type(error).__name__, _MAX_REASON_CHARACTERS)
