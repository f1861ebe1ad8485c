"""The model's code, run like a cell of the user's, with its output kept out of the user's cells.

What this module promises:

- **The code runs in the user's namespace**, with magics, top-level ``await``, and the events that every cell triggers.
- **What it prints, displays and returns goes to its `Execution`**, and to no cell: recognised by the context in which
  it runs and the thread that writes. Cells and threads of the user's show what they show where they always did.
- **What it displays is kept twice**: as MIME bundles for the user (`outputs`), and in short for the model. Within an
  output widget both are shown there, and the model gets them all the same.
- **What it shows is bounded**: eight images, the end of the text (all of which is in a file), few frames of tracebacks.
- **Nothing it raises escapes.** It is kept as ``error``, also an interrupt and ``SystemExit``; ``exit()`` is refused.
- **Everything is put back**: streams, routes and callbacks, also those that the code replaced.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import CodeType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast
from weakref import WeakKeyDictionary

from indus_nb.base.errors import Interrupted
from indus_nb.kernel.run.main_thread import Job, JobState, running, work_here
from indus_nb.kernel.run.output_widgets import OutputWidget, entered, output_class
from indus_nb.kernel.run.tracebacks import traceback_of

if TYPE_CHECKING:
    from indus_nb.kernel.run.outputs import Display

_NOTHING = (None, None)


class Shown:
    """Output of code so far, for the model and for the user; it can be read from any thread.

    Attributes:
        tail: The printed text, with short texts for the model about displays.
    """

    def __init__(self, on_text: Callable[[], None]) -> None:
        """Start with no output.

        Args:
            on_text: Called on any thread when there is more to read: once, until ``text`` is called.
        """
        # A user's cells are watched before the tools are imported.
        from indus_nb.kernel.run.outputs import Displays
        from indus_nb.tools.commands.shell import PlainText
        from indus_nb.tools.truncate import GrowingTail

        self.tail: GrowingTail = GrowingTail("python", folds=True)
        self.card: GrowingTail = GrowingTail("python", folds=True, in_file=False)
        self.displays: Displays = Displays()
        self._on_text = on_text
        self._plain = PlainText(keeps_cursor=True)
        self._lock = threading.Lock()
        self._notified = False
        self._clears = False

    def text(self) -> Any:
        """Return the printed text so far, or the end of it, as a ``Truncation``."""
        with self._lock:
            self._notified = False
            return self.tail.shown()

    def card_text(self) -> str:
        """Return the text as the user reads it on the card."""
        with self._lock:
            return self.card.shown().content

    def discard(self) -> None:
        """Discard all output: it is no result."""
        self.tail.close()
        if self.tail.path is not None:
            self.tail.path.unlink(missing_ok=True)

    def add_text(self, text: str, *, on_card: bool = True) -> None:
        """Append printed text."""
        with self._lock:
            if on_card:
                self._clear_now()
            plain = self._plain.feed(text.encode(errors="replace"))
            self.tail.append(plain)
            if on_card:
                self.card.append(plain)
        self._notify()

    def add_display(self, display: Display | None, told: str, shown: str, *, update: bool = False) -> None:
        """Append a display.

        Args:
            display: The output below the card; ``None`` for text.
            update: Whether it replaces the display with that id.
        """
        with self._lock:
            self._clear_now()
            if display is not None:
                told, shown = self.displays.add(display, update=update)
            self._add_lines(told, shown)
        self._notify()

    def _add_lines(self, for_model: str, for_card: str) -> None:
        for tail, text in ((self.tail, for_model), (self.card, for_card)):
            if text:
                tail.end_line()
                plain = self._plain.feed(text.encode(errors="replace"))
                tail.append(plain if plain.endswith("\n") else f"{plain}\n")

    def _notify(self) -> None:
        notify, self._notified = not self._notified, True
        if notify:
            self._on_text()

    def clear(self, *, waits: bool = False) -> None:
        """Clear the printed text and the displays.

        Args:
            waits: Whether to do so only when there is something new.
        """
        self._clears = True
        if not waits:
            with self._lock:
                self._clear_now()
            self._notify()

    def _clear_now(self) -> None:
        if self._clears:
            self._clears = False
            self.tail.clear()
            self.card.clear()
            self.displays.clear()


class Execution(Shown):
    """One run of code, to be done by ``MainThread``.

    Its results so far can be read from any thread.

    Attributes:
        check: Called on the main thread before anything of it is done; what it raises ends the job instead.
        before: The names in the namespace before it ran, with the ids of what they were bound to.
        after: The same, after it ran.
        changed: Its changes, as a line.
        not_undoable: Why they cannot be undone; empty if it can.
    """

    def __init__(
        self,
        shell: Any,
        code: str,
        *,
        name: str,
        routes: Routes,
        on_text: Callable[[], None],
        on_start: Callable[[Execution], None],
        on_end: Callable[[Execution], None],
    ) -> None:
        """Create a run of code, which starts later.

        Args:
            name: Its name in tracebacks, in the place of a cell's number.
            routes: Where prints and displays of the shell go.
            on_text: Called on any thread when there is more to read: once, until ``text`` is called.
            on_start: Called on the main thread right before the code runs.
            on_end: Called on the main thread when the code has ended.
        """
        super().__init__(on_text)
        self.code = code
        self.error: BaseException | None = None
        self.check: Callable[[], None] = lambda: None
        self.before: dict[str, int] = {}
        self.after: dict[str, int] = {}
        self.changed = ""
        self.changed_names: Collection[str] = ()
        self.not_undoable = ""
        self._shell = shell
        self._name = name
        self._routes = routes
        self._on_start = on_start
        self._on_end = on_end
        self._job: Job | None = None
        self._parts: list[CodeType] = []
        self._quiet = False
        self._file = ""
        self._before_cell: dict[str, int] = {}
        self._within: list[OutputWidget] = []

    @property
    def how(self) -> Literal["done", "failed", "interrupted"]:
        """Return how the code ended."""
        if self.error is None:
            return "done"
        by_interrupt = isinstance(self.error, KeyboardInterrupt | asyncio.CancelledError)
        return "interrupted" if by_interrupt and self._job is not None and self._job.ended_by else "failed"

    @property
    def begun(self) -> bool:
        """Return whether the main thread has begun to run the code."""
        return self._job is not None

    @property
    def ended(self) -> bool:
        """Return whether none of the code will run any more."""
        return self._job is not None and self._job.state is JobState.ENDED

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
            self._file = shell.compile.cache(transformed, self._name, raw_code=self.code)
            tree = shell.transform_ast(shell.compile.ast_parse(transformed, filename=self._file))
            self._quiet = transformed.rstrip().endswith(";")
            self._parts = self._compiled(tree)
        except Exception as error:  # noqa: BLE001 - it is the code that is wrong, or a transformer of the user's
            self.error = error
        return any(part.co_flags & inspect.CO_COROUTINE for part in self._parts)

    def _compiled(self, tree: ast.Module) -> list[CodeType]:
        """Compile the statements, and separately the expression at the end, if there is one."""
        compiler: Any = self._shell.compile
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if self._shell.autoawait else 0
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with compiler.extra_flags(flags):
            parts = [compiler(tree, self._file, "exec")]
            if last is not None:
                parts.append(compiler(ast.Expression(cast("ast.Expr", last).value), self._file, "eval"))
        return parts

    async def run(self, job: Job) -> None:
        """Run the code, and store the exception that it raises as ``error``."""
        self.check()
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
        self._routes.route_output_widgets()
        streams = sys.stdout, sys.stderr
        self.before = self._names()
        shell.events.register("pre_run_cell", self._cell_begins)
        shell.events.register("post_run_cell", self._cell_ends)
        try:
            # Others have to do with every cell, such as autoreload, and the one that shows figures.
            shell.events.trigger("pre_execute")
            shell.events.trigger("pre_run_cell", info)
            if self.error is None:
                self._on_start(self)
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
            self.displays.finish()
            for widget in self._within:  # of code that was ended where nothing can be ended in order
                widget.send()
            sys.stdout, sys.stderr = streams  # the user's cells print there
        result.result = value = None  # whose end may change something, and belongs to the run
        if self.error is not None and self.how != "interrupted":
            self.write(traceback_of(self.error, shell))
        elif isinstance(self.error, Interrupted):
            self.write(f"{self.error}\n")
        self.after = self._names()
        self._on_end(self)

    def _names(self) -> dict[str, int]:
        held = dict(self._shell.user_ns)
        return dict(zip(held, map(id, held.values()), strict=True))

    def _cell_begins(self, *_: object) -> None:
        """Take a snapshot of the names before a cell that the user runs while this code awaits."""
        if work_here() is None:
            self._before_cell = self._names()

    def _cell_ends(self, *_: object) -> None:
        """Count the names that the cell has bound as not bound by this code."""
        if work_here() is None:
            self.before.update(self._names().items() - self._before_cell.items())

    def _show_value(self, value: object) -> None:
        bundle, metadata = self._shell.display_formatter.format(value)
        if bundle:  # else it has displayed itself
            self.show(bundle, metadata)

    def _show_pages(self) -> None:
        """Show the help texts that the front end would show beside the cell."""
        manager: Any = getattr(self._shell, "payload_manager", None)
        if manager is None:
            return
        payload: list[dict[str, Any]] = [*manager.read_payload()]
        manager.clear_payload()
        for part in payload:
            if part.get("source") == "page":
                self.show({"text/plain": part["data"].get("text/plain", "")})
            else:
                manager.write_payload(part, single=False)

    # What the code shows

    def write(self, text: str) -> int:
        """Append printed text."""
        job = self._job
        if job is None:
            return len(text)
        within = self._output_widget()
        with job.interrupts.postponed():
            if within is not None:
                within.write(text)
            self.add_text(text, on_card=within is None)
        return len(text)

    def show(
        self,
        bundle: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        display_id: str | None = None,
        *,
        update: bool = False,
    ) -> None:
        """Append a display.

        Args:
            display_id: Its id for updates, if it has one.
            update: Whether it replaces the display with that id.
        """
        job = self._job
        if job is None:
            return
        display, text = self.displays.prepared(bundle, metadata or {}, display_id)
        shown = str(bundle.get("text/plain", ""))
        within = self._output_widget()
        with job.interrupts.postponed():
            if within is not None:
                within.show(bundle if display is None else display.output.data, metadata or {})
                with self._lock:
                    self._add_lines(text or "[Shown to the user within an output widget]", "")
                self._notify()
            else:
                self.add_display(display, text, shown, update=update)

    def clear(self, *, waits: bool = False) -> None:
        """Clear the printed text and the displays, or the output widget that the code is within.

        Args:
            waits: Whether to do so only when there is something new.
        """
        if within := self._output_widget():
            within.clear(waits=waits)
        else:
            super().clear(waits=waits)

    def enter(self, widget: Any) -> None:
        """Send subsequent output to an output widget."""
        self._within.append(OutputWidget(widget))

    def leave(self, widget: Any) -> None:
        """Restore the target of output from before that widget was entered."""
        for at, within in reversed([*enumerate(self._within)]):
            if within.widget is widget:
                within.send()
                del self._within[at]
                return

    def _output_widget(self) -> OutputWidget | None:
        """Return the innermost output widget that the code is within."""
        for widget in self._routes.route_output_widgets():
            self.enter(widget)
        return self._within[-1] if self._within else None

    def format(self, value: Any, plain: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Build the MIME bundle of a value, with figures as images whatever the user's cells use.

        Args:
            *args: What it is called with.
            **kwargs: What it is called with.
        """
        bundle, metadata = plain(value, *args, **kwargs)
        is_figure = type(value).__module__.startswith("matplotlib") and hasattr(value, "savefig")
        if is_figure and not any(kind.startswith("image/") and kind != "image/svg+xml" for kind in bundle):
            from IPython.core import pylabtools

            draw = cast("Any", pylabtools).print_figure
            bundle = {**bundle, "image/png": draw(value, base64=True)}
        self.displays.made(bundle, value)
        return bundle, metadata


class DisplayListener(Protocol):
    """Listener for what cells of the user's display."""

    def add(self, bundle: Mapping[str, Any], display_id: str | None, *, update: bool) -> None:
        """Note a display, or that one is replaced."""
        ...

    def clear(self) -> None:
        """Note that what was displayed is gone."""
        ...


class Routes:
    """Routing of prints and displays.

    Those of a job's code go to its ``Execution``, those of anything else where they always went.

    Attributes:
        on_print: Called with text that other code prints.
        on_display: Notified of what other code displays.
    """

    def __init__(self, shell: Any) -> None:
        self.on_print: Callable[[str], None] | None = None
        self.on_display: DisplayListener | None = None
        self._shell = shell
        self._replaced: WeakKeyDictionary[Any, dict[str, tuple[Any, Any]]] = WeakKeyDictionary()
        self._answered: bool | None = None
        self._output_class: Any = None

    def install(self) -> None:
        """Route streams and displays through here, as they are now.

        Called before every cell; what is routed already stays as it is.
        """
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not self._passes_here(stream):
                self._replace(stream, "write", self._listening(stream.write))
        publisher, formatter = self._shell.display_pub, self._shell.display_formatter
        for owner, name, inside in (
            (publisher, "publish", partial(_publish, self)),
            (publisher, "clear_output", partial(_clear, self)),
            (formatter, "format", _format),
            (self._shell, "_showtraceback", _show_traceback),
            (self._shell, "ask_exit", _refuse_exit),
        ):
            if self._replaced.get(owner, {}).get(name, _NOTHING)[0] is not _own(owner).get(name, _NOTHING):
                self._replace(owner, name, _routed(getattr(owner, name), inside))

    def route_output_widgets(self) -> Sequence[Any]:
        """Route output widgets through here too, once they can be made; return those that code is within already."""
        kind = None if self._output_class is not None else output_class()
        if kind is None:
            return ()
        self._output_class = kind
        for name, inside in (("__enter__", _enter), ("__exit__", _leave)):
            self._replace(kind, name, _routed(getattr(kind, name), inside))
        return entered(kind)

    def remove(self) -> None:
        """Restore all streams and routes.

        Streams that others have wrapped since stay as they are: call this again once they are unwrapped.
        """
        self.on_print = self.on_display = self._output_class = None
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
        """Return whether a stream's ``write`` is routed here; IPython wraps it while a cell runs."""
        self._answered = False
        try:
            stream.write("")
            return bool(self._answered)
        except (ValueError, OSError):
            return True  # a closed stream
        finally:
            self._answered = None

    def _listening(self, before: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a stream's ``write``, which is called very often, mostly while no job runs."""

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
    """Wrap a method as ``inside(execution, before, …)``, with the execution that the caller is a part of."""

    def route(*args: Any, **kwargs: Any) -> Any:
        work = work_here()
        return inside(work if isinstance(work, Execution) else None, before, *args, **kwargs)

    return route


def _publish(
    routes: Routes,
    execution: Execution | None,
    before: Callable[..., Any],
    data: Any,
    metadata: Any = None,
    *args: Any,
    transient: dict[str, Any] | None = None,
    update: bool = False,
    **kwargs: Any,
) -> None:
    display_id = (transient or {}).get("display_id")
    if execution is None or (update and not execution.displays.has(display_id)):  # it may be one of the user's
        before(data, metadata, *args, transient=transient, update=update, **kwargs)
        if execution is None and routes.on_display is not None:
            routes.on_display.add(data, display_id, update=update)
    else:
        execution.show(data, metadata, display_id, update=update)


def _clear(routes: Routes, execution: Execution | None, before: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    if execution is None:
        before(*args, **kwargs)
        if routes.on_display is not None:
            routes.on_display.clear()
    else:
        execution.clear(waits=bool(kwargs.get("wait", args[:1] == (True,))))


def _enter(execution: Execution | None, before: Callable[..., Any], widget: Any) -> Any:
    given = before(widget)
    if execution is not None:
        execution.enter(widget)
    return given


def _leave(execution: Execution | None, before: Callable[..., Any], widget: Any, *error: Any) -> Any:
    try:
        return before(widget, *error)  # which shows the error there
    finally:
        if execution is not None:
            execution.leave(widget)


def _format(
    execution: Execution | None, before: Callable[..., Any], value: Any, *args: Any, **kwargs: Any
) -> tuple[Any, Any]:
    return before(value, *args, **kwargs) if execution is None else execution.format(value, before, *args, **kwargs)


def _show_traceback(execution: Execution | None, before: Callable[..., Any], *args: Any) -> None:
    """Route a traceback that a magic shows by itself."""
    if execution is None:
        before(*args)
    else:
        execution.write("\n".join(args[2]) + "\n")


def _refuse_exit(execution: Execution | None, before: Callable[..., Any], *args: Any) -> None:
    if execution is not None:
        raise RuntimeError("This would end the user's kernel and all that it holds, so it was not done.")
    before(*args)
