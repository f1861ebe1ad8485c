"""The user's own kernel, as the agent may use it: code in the user's namespace, its variables, and the cells that ran.

Code runs on the main thread, where figures, magics and thread-bound objects work, as a job of the cell that waits for
the agent. What it prints and displays goes to the model, and to the card of the call.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import reprlib
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import Field

from indus_nb.events import ToolOutput
from indus_nb.extensions.api import ExtensionApi
from indus_nb.messages import ImageContent, TextContent
from indus_nb.notebook.thread import Inbox
from indus_nb.tools.bash import PlainText
from indus_nb.tools.tool import Arguments, FunctionTool, ToolContext, ToolError, text_output
from indus_nb.tools.truncate import GrowingTail
from indus_nb.wire import clean_text

_REPORT_EVERY = 0.1
_PATIENCE = 5.0
_MOST_IMAGES = 8
_LARGEST_IMAGE = 5 * 1024 * 1024
_MOST_VARIABLES = 100
_MOST_CELLS = 20
_LONGEST_CELL = 2000
_OURS = ("%agent", "%%agent", "%load_ext", "%reload_ext")
_HIDDEN = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})


class PythonArguments(Arguments):
    """What the tool ``python`` takes."""

    code: str = Field(description="The code to run, as in a notebook cell: magics and top-level await work")
    timeout: float | None = Field(default=None, gt=0, description="Seconds after which it is interrupted")


class VariablesArguments(Arguments):
    """What the tool ``variables`` takes."""

    pattern: str = Field(default="", description="Only names that contain this")


@dataclass(slots=True)
class Ran:
    """A cell of the user's, as the model is told of it."""

    code: str
    result: str | None = None
    error: str | None = None


@dataclass(slots=True)
class _Outcome:
    text: GrowingTail
    images: list[bytes] = field(default_factory=list[bytes])
    more_images: int = 0
    failed: bool = False
    interrupted: bool = False


class _Job:
    """Work for the main thread, and its end as the agent's loop sees it."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._running = threading.Event()
        self._interrupted_by_us = False

    def run(self) -> None:
        error: BaseException | None = None
        self._running.set()
        try:
            if self._work() == "interrupted" and not self._interrupted_by_us:
                signal.raise_signal(signal.SIGINT)  # the user meant the agent: the cell that waits counts it
        except BaseException as caught:  # noqa: BLE001 - the model reads it; the cell that waits is not to blame
            error = caught
        finally:
            self._running.clear()
            self._loop.call_soon_threadsafe(self._finish, error)

    def interrupt(self) -> None:
        if self._running.is_set():
            self._interrupted_by_us = True
            signal.pthread_kill(cast("int", threading.main_thread().ident), signal.SIGINT)

    def _finish(self, error: BaseException | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(ToolError(f"The code could not be run: {type(error).__name__}: {error}"))


class UserKernel:
    """One shell. ``inbox`` is where the main thread takes jobs from while a cell waits for the agent, else ``None``."""

    tools = ("python", "variables")

    def __init__(self, shell: Any) -> None:
        self.inbox: Inbox | None = None
        self._shell = shell
        self._cells: list[Ran] = []
        self._hidden = set(shell.user_ns) | _HIDDEN
        self._executing = False
        shell.events.register("post_run_cell", self._note)

    @contextlib.contextmanager
    def serving(self, inbox: Inbox) -> Generator[None]:
        """Within this context the calling thread takes jobs from ``inbox``."""
        before, self.inbox = self.inbox, inbox
        try:
            yield
        finally:
            self.inbox = before

    def close(self) -> None:
        """Do not look at the user's cells any more."""
        with contextlib.suppress(ValueError):
            self._shell.events.unregister("post_run_cell", self._note)

    def __call__(self, api: ExtensionApi) -> None:
        """Lend a session the tools, and tell its model of the cells that ran since it was last asked."""
        api.register_tool(
            FunctionTool(
                name="python",
                description=(
                    "Run Python code in the user's notebook kernel: its variables are there, and what it defines "
                    "stays. Returns what it prints and displays, figures as images."
                ),
                arguments=PythonArguments,
                run=self._run,
                snippet="Run code in the user's kernel, on the live objects",
                guidelines=(
                    "Work on the user's live variables with python rather than reading their files again",
                    "Do not overwrite or delete the user's variables unless asked to; choose new names",
                ),
            )
        )
        api.register_tool(
            FunctionTool(
                name="variables",
                description="List the user's variables: name, type, shape or length, and a short view of each.",
                arguments=VariablesArguments,
                run=self._list,
                read_only=True,
                snippet="See which variables the user's kernel holds",
            )
        )
        api.on("before_agent_start", self._tell)

    # What the tools do

    async def _run(self, arguments: PythonArguments, context: ToolContext) -> ToolOutput:
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        outcome = _Outcome(GrowingTail("python"))

        def on_text() -> None:
            loop.call_soon_threadsafe(changed.set)

        async def report() -> None:
            while True:
                await changed.wait()
                changed.clear()
                context.report(text_output(outcome.text.shown().content))
                await asyncio.sleep(_REPORT_EVERY)

        context.report(text_output(""))
        reporting = asyncio.create_task(report())
        self._executing = True  # what runs now is no cell of the user's
        try:
            await self._on_main(lambda: _execute(self._shell, arguments.code, outcome, on_text), arguments.timeout)
        finally:
            self._executing = False
            reporting.cancel()
            outcome.text.close()
        return _output(outcome, arguments.timeout)

    async def _list(self, arguments: VariablesArguments, _: ToolContext) -> ToolOutput:
        found: list[str] = []
        await self._on_main(lambda: found.extend(self._described(arguments.pattern)), None)
        return text_output("\n".join(found) or "There are no variables yet.")

    async def _on_main(self, work: Callable[[], object], seconds: float | None) -> None:
        """Have ``work`` done by the cell that waits; out of time or cancelled, it is interrupted."""
        if self.inbox is None:
            raise ToolError("No cell of the notebook waits for the agent, so nothing can run in the kernel now.")
        job = _Job(work)
        self.inbox.put(job.run)
        late = None if seconds is None else asyncio.get_running_loop().call_later(seconds, job.interrupt)
        try:
            await asyncio.shield(job.done)
        except asyncio.CancelledError:
            job.interrupt()
            with contextlib.suppress(TimeoutError, ToolError):
                await asyncio.wait_for(asyncio.shield(job.done), _PATIENCE)
            raise
        finally:
            if late is not None:
                late.cancel()

    def _described(self, pattern: str) -> Iterator[str]:
        namespace: Mapping[str, Any] = self._shell.user_ns
        names = [name for name in namespace if self._is_users(name) and pattern in name]
        for name in names[:_MOST_VARIABLES]:
            yield f"{name}: {describe(namespace[name])}"
        if len(names) > _MOST_VARIABLES:
            yield f"… and {len(names) - _MOST_VARIABLES} more. Give a pattern to see others."

    def _is_users(self, name: str) -> bool:
        return not name.startswith("_") and name not in self._hidden

    # What the model is told

    def _note(self, result: Any) -> None:
        code: str = getattr(result.info, "raw_cell", "") or ""
        if (
            self._executing
            or not code.strip()
            or code.lstrip().startswith(("%agent", "%%agent", "%load_ext", "%reload_ext"))
        ):
            return
        error = result.error_before_exec or result.error_in_exec
        told = None if error is None else f"{type(error).__name__}: {error}"
        shown = None if result.result is None else describe(result.result)
        self._cells = [*self._cells[1 - _MOST_CELLS :], Ran(code[:_LONGEST_CELL], shown, told)]

    def _tell(self, *_: object) -> Mapping[str, Any] | None:
        cells, self._cells = self._cells, []
        if not cells:
            return None
        parts = ["The user ran these cells since the last message:"]
        for cell in cells:
            parts.append(f"```python\n{cell.code}\n```")
            if cell.result is not None:
                parts.append(f"Out: {cell.result}")
            if cell.error is not None:
                parts.append(f"Error: {cell.error}")
        message = {"customType": "cells", "content": clean_text("\n".join(parts)), "display": False}
        return {"message": message, "beforePrompt": True}


def describe(value: object) -> str:
    """A variable in a line: its type, how much it holds, and a short view; never more than a few hundred characters.

    >>> describe([1, 2, 3])
    'list of 3 · [1, 2, 3]'
    """
    kind = type(value)
    name = kind.__name__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__name__}"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        told = f"{name} of shape {cast('tuple[Any, ...]', shape)}"
        columns = getattr(value, "dtypes", None)
        if columns is not None and hasattr(columns, "items"):
            pairs = list(columns.items())
            listed = ", ".join(f"{column} {dtype}" for column, dtype in pairs[:20])
            return f"{told} · {listed}{' …' if len(pairs) > 20 else ''}"[:600]
        dtype = getattr(value, "dtype", None)
        return f"{told}{f' · {dtype}' if dtype is not None else ''}"
    if callable(value) or name == "module":
        return name
    size = ""
    if isinstance(value, str | bytes | list | tuple | dict | set | frozenset):
        size = f" of {len(cast('Any', value))}"
    if kind.__module__ == "builtins":
        short = reprlib.Repr()
        short.maxstring = short.maxother = 120
        return f"{name}{size} · {short.repr(value)}"
    return f"{name}{size}"


# Code of the model's, on the main thread


def _execute(shell: Any, code: str, outcome: _Outcome, on_text: Callable[[], None]) -> str:
    """Run ``code`` as a cell within the cell that waits; all that it shows goes into ``outcome``.

    Returns how it ended: ``done``, ``failed`` or ``interrupted``.
    """
    plain = PlainText()

    def write(text: str) -> None:
        outcome.text.append(plain.feed(text.encode(errors="replace")))
        on_text()

    def show(bundle: Mapping[str, Any]) -> None:
        for image in _images(bundle):
            if len(outcome.images) < _MOST_IMAGES and len(image) <= _LARGEST_IMAGE:
                outcome.images.append(image)
            else:
                outcome.more_images += 1
        text = bundle.get("text/markdown") or bundle.get("text/plain")
        if isinstance(text, str) and not any(name.startswith("image/") for name in bundle):
            write(f"{text}\n")

    with _redirected(shell, write, show), _raising_interrupts():
        try:
            result = _run_cell(shell, code)
            _flush_figures()
        except KeyboardInterrupt:
            outcome.interrupted = True
            return "interrupted"
    error = result.error_before_exec or result.error_in_exec
    if isinstance(error, KeyboardInterrupt):
        outcome.interrupted = True
        return "interrupted"
    if error is not None:
        outcome.failed = True
        write(_traceback_of(error))
        return "failed"
    return "done"


def _run_cell(shell: Any, code: str) -> Any:
    try:
        transformed = shell.transform_cell(code)
        running = asyncio.get_running_loop() if shell.should_run_async(code, transformed_cell=transformed) else None
    except Exception:  # noqa: BLE001 - what is wrong with the code, or that no loop runs, shows below
        running, transformed = None, code
    if running is None:
        return shell.run_cell(code, store_history=False)
    # The kernel's loop runs the cell that waits; it must go on for what the code awaits.
    import nest_asyncio2  # pyright: ignore[reportMissingTypeStubs]

    nest_asyncio2.apply(running)  # pyright: ignore[reportUnknownMemberType]
    return running.run_until_complete(shell.run_cell_async(code, store_history=False, transformed_cell=transformed))


def _flush_figures() -> None:
    """Show the figures that are open, as a cell's end does."""
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    if inline is not None:
        inline.flush_figures()


@contextlib.contextmanager
def _redirected(shell: Any, write: Callable[[str], None], show: Callable[[Mapping[str, Any]], None]) -> Generator[None]:
    """Take prints, displays, results and tracebacks away from the cell that waits, and give them to the callables."""
    from IPython.core.displaypub import DisplayPublisher

    class Publisher(DisplayPublisher):
        def publish(self, data: Any, *_: Any, **__: Any) -> None:
            show(data)

        def clear_output(self, wait: bool = False) -> None:  # noqa: FBT001, FBT002 - as IPython calls it
            pass

    def hook(value: object) -> None:
        if value is not None:
            shell.user_ns["_"] = value
            bundle, _ = shell.display_formatter.format(value)
            show(bundle)

    stream = _Stream(write)
    kept = shell.display_pub, sys.displayhook, shell.__dict__.get("_showtraceback")
    shell.display_pub, sys.displayhook = Publisher(parent=shell), hook
    shell._showtraceback = _say_nothing  # noqa: SLF001 - the one place that every traceback passes
    try:
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            yield
    finally:
        shell.display_pub, sys.displayhook = kept[0], kept[1]
        if kept[2] is None:
            del shell._showtraceback  # noqa: SLF001 - the class's own again
        else:
            shell._showtraceback = kept[2]  # noqa: SLF001 - likewise


def _say_nothing(*_: object) -> None:
    """The traceback is told in words of our own."""


class _Stream(io.TextIOBase):
    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def write(self, text: str, /) -> int:
        self._write(text)
        return len(text)

    def writable(self) -> bool:
        return True


@contextlib.contextmanager
def _raising_interrupts() -> Generator[None]:
    """Let an interrupt end the code within this context."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous or signal.SIG_DFL)


def _traceback_of(error: BaseException) -> str:
    """The traceback from the user's first frame on; frames of IPython above it say nothing."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((index for index, frame in enumerate(frames) if _is_cell(frame.filename)), 0)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames[first:][-20:])]
    lines += traceback.format_exception_only(error)
    return "".join(lines)


def _is_cell(filename: str) -> bool:
    return "ipykernel_" in filename or filename.startswith(("<ipython-input", "<stdin"))


def _images(bundle: Mapping[str, Any]) -> Iterator[bytes]:
    for kind in ("image/png", "image/jpeg"):
        data = bundle.get(kind)
        if data is not None:
            yield base64.b64decode(data) if isinstance(data, str) else bytes(data)
            return


def _output(outcome: _Outcome, seconds: float | None) -> ToolOutput:
    shown = outcome.text.shown()
    text = shown.content or ("" if outcome.images or outcome.failed else "(no output)")
    if shown.truncated:
        text += f"\n\n[The end of {shown.total_lines} lines. All of it: {outcome.text.path}]"
    if outcome.more_images:
        text += f"\n\n[{outcome.more_images} more images were left out.]"
    if outcome.interrupted:
        why = f"after {seconds:g} seconds" if seconds is not None else "by the user"
        raise ToolError(f"{text}\n\nThe code was interrupted {why}.".strip())
    if outcome.failed:
        raise ToolError(text.rstrip())
    content: list[TextContent | ImageContent] = [TextContent(text=text)] if text else []
    for image in outcome.images:
        kind = "image/png" if image.startswith(b"\x89PNG") else "image/jpeg"
        content.append(ImageContent(data=base64.b64encode(image).decode(), mime_type=kind))
    return ToolOutput(content=content)
