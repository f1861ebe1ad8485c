"""Code of the model's, run as a cell of the user's would be, with all that it shows kept out of the user's cells.

What this module promises:

- **The code runs in the user's namespace**, with magics, top-level ``await``, and the events that every cell triggers.
- **What it prints, displays and returns goes to its `Execution`**, and to no cell: recognised by the context in which
  it runs and the thread that writes. Cells and threads of the user's show what they show where they always did.
- **What it shows is bounded**: eight images, the end of the text (all of which is in a file), few frames of tracebacks.
- **Nothing it raises escapes.** It is kept as ``error``, also an interrupt and ``SystemExit``; ``exit()`` is refused.
- **Everything is put back**: streams, routes and callbacks, also those that the code replaced.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any, Literal, cast
from weakref import WeakKeyDictionary

from indus_nb.notebook.kernel import describe
from indus_nb.notebook.kernel.main_thread import Job, running, work_here

_MAX_IMAGES = 8
_MAX_IMAGE_BYTES = 64 << 20
_MAX_HTML_CHARACTERS = 4000
_NOTHING = (None, None)
_MAX_LIBRARY_FRAMES = 6
_MAX_FRAMES = 20


class Execution:
    """One run of code, to be done by ``MainThread``.

    What came of it so far can be read from any thread.

    Attributes:
        code: The code.
        tail: What was printed.
        images: The images that were displayed, as bytes.
        more_images: How many there were beyond that.
        error: What it raised.
        before: The names in the namespace before it ran, with the ids of what they were bound to.
        after: The same, after it ran.
    """

    def __init__(
        self,
        shell: Any,
        code: str,
        *,
        number: Callable[[], int],
        routes: Routes,
        on_text: Callable[[], None],
        on_end: Callable[[Execution], None],
    ) -> None:
        """Make a run of code, which begins nothing yet.

        Args:
            shell: The IPython shell.
            code: The code, as in a cell.
            number: Gives the number that the code will have in the history.
            routes: Where prints and displays of the shell go.
            on_text: Called on any thread when there is more to read: once, until ``text`` is called.
            on_end: Called on the main thread when the code has ended.
        """
        # A user's cells are watched before the tools are imported.
        from indus_nb.tools.bash import PlainText
        from indus_nb.tools.truncate import GrowingTail

        self.code = code
        self.tail = GrowingTail("python")
        self.images: list[bytes] = []
        self.more_images = 0
        self.error: BaseException | None = None
        self.before: dict[str, int] = {}
        self.after: dict[str, int] = {}
        self._shell = shell
        self._number = number
        self._routes = routes
        self._on_text = on_text
        self._on_end = on_end
        self._plain = PlainText()
        self._lock = threading.Lock()
        self._notified = False
        self._job: Job | None = None
        self._displayed: dict[str, int] = {}
        self._parts: list[CodeType] = []
        self._quiet = False
        self._file = ""
        self._before_cell: dict[str, int] = {}

    @property
    def how(self) -> Literal["done", "failed", "interrupted"]:
        """How the code ended."""
        if self.error is None:
            return "done"
        by_interrupt = isinstance(self.error, KeyboardInterrupt | asyncio.CancelledError)
        return "interrupted" if by_interrupt and self._job is not None and self._job.ended_by else "failed"

    def text(self) -> Any:
        """Return what was printed so far, or the end of it: a ``Truncation``."""
        with self._lock:
            self._notified = False
            return self.tail.shown()

    # On the main thread

    def prepare(self) -> bool:
        """Compile the code; return whether something in it is awaited at top level."""
        shell = self._shell
        # What the cell that waits has drawn so far stays in it.
        inline: Any = sys.modules.get("matplotlib_inline.backend_inline")
        if inline is not None:
            inline.flush_figures()
        try:
            transformed = shell.transform_cell(self.code)
            self._file = shell.compile.cache(transformed, self._number(), raw_code=self.code)
            tree = shell.transform_ast(shell.compile.ast_parse(transformed, filename=self._file))
            self._quiet = transformed.rstrip().endswith(";")
            self._parts = self._compiled(tree)
        except Exception as error:  # noqa: BLE001 - it is the code that is wrong, or a transformer of the user's
            self.error = error
        return any(part.co_flags & inspect.CO_COROUTINE for part in self._parts)

    def _compiled(self, tree: ast.Module) -> list[CodeType]:
        """The statements, and the expression at the end, if there is one."""
        compiler: Any = self._shell.compile
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if self._shell.autoawait else 0
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with compiler.extra_flags(flags):
            parts = [compiler(tree, self._file, "exec")]
            if last is not None:
                parts.append(compiler(ast.Expression(cast("ast.Expr", last).value), self._file, "eval"))
        return parts

    async def run(self, job: Job) -> None:
        """Run the code; what it raises is kept as ``error``."""
        self._job = job
        shell = self._shell
        info = SimpleNamespace(
            raw_cell=self.code,
            store_history=False,
            silent=False,
            shell_futures=True,
            cell_id=None,
            transformed_cell=None,
        )
        result = SimpleNamespace(
            info=info, result=None, execution_count=None, error_before_exec=None, error_in_exec=None
        )
        self._routes.install()
        streams = sys.stdout, sys.stderr
        self.before = self._names()
        shell.events.register("pre_run_cell", self._cell_begins)
        shell.events.register("post_run_cell", self._cell_ends)
        try:
            # Others have to do with every cell, such as autoreload, and the one that shows figures.
            shell.events.trigger("pre_execute")
            shell.events.trigger("pre_run_cell", info)
            if self.error is None:
                with shell.builtin_trap:
                    for part in self._parts:
                        value = eval(part, shell.user_global_ns, shell.user_ns)  # noqa: S307 - what it is for
                        if part.co_flags & inspect.CO_COROUTINE:
                            value = await value
                        result.result = value
                if result.result is not None and not self._quiet:
                    self._show_value(result.result)
        except BaseException as error:  # noqa: BLE001 - the model reads it
            self.error = error
        finally:
            job.finish()
            result.error_in_exec = self.error
            result.success = self.error is None
            shell.events.trigger("post_execute")
            shell.events.trigger("post_run_cell", result)
            shell.events.unregister("pre_run_cell", self._cell_begins)
            shell.events.unregister("post_run_cell", self._cell_ends)
            self._show_pages()
            sys.stdout, sys.stderr = streams  # the user's cells print there
        if self.error is not None and self.how != "interrupted":
            self.write(traceback_of(self.error, shell))
        self.after = self._names()
        self._on_end(self)

    def _names(self) -> dict[str, int]:
        return {name: id(value) for name, value in self._shell.user_ns.items()}

    def _cell_begins(self, *_: object) -> None:
        """Note what there is before a cell that the user runs while this code awaits something."""
        if work_here() is None:
            self._before_cell = self._names()

    def _cell_ends(self, *_: object) -> None:
        """What that cell has bound is not by this code."""
        if work_here() is None:
            self.before.update(self._names().items() - self._before_cell.items())

    def _show_value(self, value: object) -> None:
        bundle, _ = self._shell.display_formatter.format(value)
        self.show(bundle or {"text/plain": describe.describe(value)})

    def _show_pages(self) -> None:
        """Show the help texts that the front end would show beside the cell."""
        manager: Any = getattr(self._shell, "payload_manager", None)
        if manager is None:
            return
        payload: list[dict[str, Any]] = [*manager.read_payload()]
        manager.clear_payload()
        for part in payload:
            if part.get("source") == "page":
                self.show(part["data"])
            else:
                manager.write_payload(part, single=False)

    # What the code shows

    def write(self, text: str) -> int:
        """Store what is printed."""
        job = self._job
        if job is None:
            return len(text)
        with job.interrupts.postponed(), self._lock:
            self.tail.append(self._plain.feed(text.encode(errors="replace")))
            notify, self._notified = not self._notified, True
        if notify:
            self._on_text()
        return len(text)

    def show(self, bundle: Mapping[str, Any], display_id: str | None = None) -> None:
        """Store what is displayed.

        Args:
            bundle: A MIME bundle; of one without an image the text is stored.
            display_id: The display whose image it replaces.
        """
        image = _image(bundle)
        if image is None:
            text = _text(bundle)
            self.write(text if text.endswith("\n") else f"{text}\n")
        elif display_id in self._displayed:
            self.images[self._displayed[display_id]] = image
        elif len(self.images) < _MAX_IMAGES and len(image) <= _MAX_IMAGE_BYTES:
            if display_id:
                self._displayed[display_id] = len(self.images)
            self.images.append(image)
        else:
            self.more_images += 1

    def clear(self) -> None:
        """Drop the images; what was printed stays."""
        self.images.clear()
        self._displayed.clear()
        self.more_images = 0

    def format(self, value: Any, plain: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Make the bundle for a value.

        Tables are shown in short, figures as images whatever the user's cells show them as.

        Args:
            value: The value.
            plain: The formatter's own method.
            *args: What it is called with.
            **kwargs: What it is called with.

        Returns:
            The bundle and its metadata.
        """
        if describe.is_frame(value):
            return {"text/plain": describe.for_prompt(value)}, {}
        bundle, metadata = plain(value, *args, **kwargs)
        is_figure = type(value).__module__.startswith("matplotlib") and hasattr(value, "savefig")
        if is_figure and _image(bundle) is None:
            from IPython.core import pylabtools

            draw = cast("Any", pylabtools).print_figure
            bundle = {**bundle, "image/png": draw(value, base64=True)}
        return bundle, metadata


class Routes:
    """Where prints and displays go.

    Those of a job's code go to its ``Execution``, those of anything else where they always went.

    Attributes:
        on_print: Called with what others print.
    """

    def __init__(self, shell: Any) -> None:
        self.on_print: Callable[[str], None] | None = None
        self._shell = shell
        self._replaced: WeakKeyDictionary[Any, dict[str, tuple[Any, Any]]] = WeakKeyDictionary()
        self._answered: bool | None = None

    def install(self) -> None:
        """Route streams and displays through here, as they are now.

        Called before every cell; what is routed already stays as it is.
        """
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not self._passes_here(stream):
                self._replace(stream, "write", self._listening(stream.write))
        publisher, formatter = self._shell.display_pub, self._shell.display_formatter
        for owner, name, inside in (
            (publisher, "publish", _publish),
            (publisher, "clear_output", _clear),
            (formatter, "format", _format),
            (self._shell, "_showtraceback", _show_traceback),
            (self._shell, "ask_exit", _refuse_exit),
        ):
            if self._replaced.get(owner, {}).get(name, _NOTHING)[0] is not _own(owner).get(name, _NOTHING):
                self._replace(owner, name, _routed(getattr(owner, name), inside))

    def remove(self) -> None:
        """Put everything back.

        What others have wrapped since stays: call this again once they have gone.
        """
        self.on_print = None
        for owner, routes in self._replaced.items():
            for name, (route, before) in tuple(routes.items()):
                if _own(owner).get(name) is not route:
                    continue
                del routes[name]
                if before is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, before)

    def _passes_here(self, stream: Any) -> bool:
        """Whether what is written there passes here: IPython wraps a stream's ``write`` while a cell runs."""
        self._answered = False
        try:
            stream.write("")
            return bool(self._answered)
        except (ValueError, OSError):
            return True  # a closed stream
        finally:
            self._answered = None

    def _listening(self, before: Callable[..., Any]) -> Callable[..., Any]:
        """A stream's ``write``. It is called very often, mostly while no job goes on."""

        def write(text: Any, *more: Any) -> Any:
            if not text and self._answered is False:
                self._answered = True
                return 0
            if running and isinstance(execution := work_here(), Execution):
                return execution.write(str(text))
            written = before(text, *more)
            if self.on_print is not None:
                self.on_print(text)
            return written

        return write

    def _replace(self, owner: Any, name: str, route: Callable[..., Any]) -> None:
        held = _own(owner).get(name)
        try:
            setattr(owner, name, route)
            self._replaced.setdefault(owner, {})[name] = route, held
        except (TypeError, AttributeError):
            return  # a stream of a kind that cannot be listened to


def _own(owner: Any) -> dict[str, Any]:
    return getattr(owner, "__dict__", {})


def _routed(before: Callable[..., Any], inside: Callable[..., Any]) -> Callable[..., Any]:
    """Have ``inside(execution, before, …)`` called; ``execution`` is the one that the caller is a part of."""

    def route(*args: Any, **kwargs: Any) -> Any:
        work = work_here()
        return inside(work if isinstance(work, Execution) else None, before, *args, **kwargs)

    return route


def _publish(
    execution: Execution | None,
    before: Callable[..., Any],
    data: Any,
    *args: Any,
    transient: dict[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    if execution is None:
        before(data, *args, transient=transient, **kwargs)
    else:
        execution.show(data, (transient or {}).get("display_id"))


def _clear(execution: Execution | None, before: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    if execution is None:
        before(*args, **kwargs)
    else:
        execution.clear()


def _format(
    execution: Execution | None, before: Callable[..., Any], value: Any, *args: Any, **kwargs: Any
) -> tuple[Any, Any]:
    return before(value, *args, **kwargs) if execution is None else execution.format(value, before, *args, **kwargs)


def _show_traceback(execution: Execution | None, before: Callable[..., Any], *args: Any) -> None:
    """A traceback that a magic shows by itself."""
    if execution is None:
        before(*args)
    else:
        execution.write("\n".join(args[2]) + "\n")


def _refuse_exit(execution: Execution | None, before: Callable[..., Any], *args: Any) -> None:
    if execution is not None:
        raise RuntimeError("This would end the user's kernel and all that it holds, so it was not done.")
    before(*args)


# What is shown, for the model


def _image(bundle: Mapping[str, Any]) -> bytes | None:
    for kind in ("image/png", "image/jpeg", "image/gif", "image/webp"):
        data = bundle.get(kind)
        if isinstance(data, str):
            return base64.b64decode(data)
        if isinstance(data, bytes):
            return data
    return None


def _text(bundle: Mapping[str, Any]) -> str:
    """The most informative text: Markdown, or plain text, or HTML where plain text is but a type's name."""
    for kind in ("text/markdown", "text/plain"):
        text = bundle.get(kind)
        if isinstance(text, str) and not (text.startswith("<") and text.endswith(">") and "text/html" in bundle):
            return text
    html = bundle.get("text/html")
    if isinstance(html, str):
        return (
            html
            if len(html) <= _MAX_HTML_CHARACTERS
            else f"{html[:_MAX_HTML_CHARACTERS]}… ({len(html)} characters of HTML)"
        )
    return f"[shown: {', '.join(bundle)}]"


# Tracebacks


class _Trimmed(traceback.StackSummary):
    """Frames of the user's code and the last ones of libraries."""

    left_out = 0

    def format(self, **kwargs: Any) -> list[str]:
        lines = super().format(**kwargs)
        if self.left_out:
            lines.append(f"  [{self.left_out} frames, most of them of libraries, are left out]\n")
        return lines


def traceback_of(error: BaseException, shell: Any, libraries: int = _MAX_LIBRARY_FRAMES) -> str:
    """Format the traceback of an error without frames of IPython and this package.

    Args:
        error: The error.
        shell: The IPython shell, which knows the numbers of cells.
        libraries: How many frames of libraries to keep, the last ones.

    Returns:
        The traceback, with its causes.
    """
    described = traceback.TracebackException.from_exception(error)
    _trim(described, shell, libraries, set())
    return "".join(described.format())


def _trim(described: traceback.TracebackException, shell: Any, libraries: int, seen: set[int]) -> None:
    if id(described) in seen:
        return
    seen.add(id(described))
    frames = [frame for frame in described.stack if not frame.filename.startswith(_HIDDEN_FRAMES)]
    own = [frame for frame in frames if _is_cell(frame) or not _is_library(frame)]
    others = [frame for frame in frames if _is_library(frame) and not _is_cell(frame)]
    if len(own) > _MAX_FRAMES:  # of an endless recursion the first and the last ones are enough
        own = own[: _MAX_FRAMES // 2] + own[-_MAX_FRAMES // 2 :]
    shown = {id(frame) for frame in own + others[max(len(others) - libraries, 0) :]}
    kept = [_named(frame, shell) for frame in frames if id(frame) in shown]
    trimmed = _Trimmed(kept)
    trimmed.left_out = len(frames) - len(kept)
    described.stack = trimmed
    for other in (described.__cause__, described.__context__, *(getattr(described, "exceptions", None) or ())):
        if other is not None:
            _trim(other, shell, libraries, seen)


def _named(frame: traceback.FrameSummary, shell: Any) -> traceback.FrameSummary:
    """The frame with its cell's number in the place of a temporary file."""
    name: Callable[[str], Any] = getattr(shell.compile, "format_code_name", lambda _: None)
    cell = name(frame.filename)
    if not cell:
        return frame
    place = f"{cell[0]} {cell[1]}"
    return traceback.FrameSummary(place, frame.lineno, frame.name, lookup_line=False, line=frame.line)


def _is_cell(frame: traceback.FrameSummary) -> bool:
    return "ipykernel_" in frame.filename or frame.filename.startswith(("<ipython-input", "<stdin", "<string"))


def _is_library(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(("<frozen", *_LIBRARIES))


def _directory_of(module: str) -> str:
    spec = find_spec(module)
    return f"{Path(spec.origin).parent}{os.sep}" if spec is not None and spec.origin else "\0"


_LIBRARIES = (f"{Path(os.__file__).parent}{os.sep}", *(f"{path}{os.sep}" for path in sys.path if "-packages" in path))
_HIDDEN_FRAMES = (_directory_of("IPython"), _directory_of("ipykernel"), f"{Path(__file__).parents[1]}{os.sep}")
