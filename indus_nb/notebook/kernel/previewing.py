"""What the agent's code would print and change, found out in a copy of the kernel while the user is asked.

The copy is forked on the main thread, which is busy for that alone. There the code runs as it would here (`Execution`),
and what it would change is told by a checkpoint, as it is for code that ran.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import errno
import getpass
import logging
import re
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from indus_nb import textcut
from indus_nb.notebook.kernel.effects import touched
from indus_nb.notebook.kernel.execution import Execution, Routes
from indus_nb.notebook.kernel.main_thread import Job, MainThread
from indus_nb.preview import Copy, Report, Stop, obstacle, working_thread
from indus_nb.redaction import hide_known, labelled_secrets
from indus_nb.tools.tool import ToolError
from indus_nb.undo import Budget, Checkpoint, take
from indus_nb.undo.checkpoint import is_users
from indus_nb.undo.reach import names_in_source

_PAUSES = (0.01, 0.025, 0.05, 0.0)
"""Between looks whether a thread of a library has ended its work, as parts of the time that a preview may take."""
_BUDGET = (0.3, 256 << 20)
_REFUSED_BY_SQLITE = (8, 10, 14)
"""SQLITE_READONLY, SQLITE_IOERR, SQLITE_CANTOPEN."""
_MAX_LINES = 12
_MAX_LINE_CHARACTERS = 160
_MAX_FILES = 5
_BEGINNING = "Preview \N{EM DASH} not run yet: "
_WITHOUT_TEXT = re.compile(r"<.* at 0x[0-9a-f]+>")
"""How an object is printed that has no text of its own."""
_CHARTS = ("application/vnd.plotly", "application/vnd.vega", "application/vnd.bokeh", "application/vnd.holoviews")


class Previews:
    """Previews of code in one kernel."""

    def __init__(self, shell: Any, main: MainThread, routes: Routes) -> None:
        """Begin without any.

        Args:
            shell: The IPython shell.
            main: Its main thread.
            routes: Where prints and displays go.
        """
        self._shell = shell
        self._main = main
        self._routes = routes

    async def of(self, code: str, seconds: float) -> str:
        """Return what code would do, in a few lines, or why that is not known.

        Called on the agent's loop; if that task is cancelled the copy is ended.

        Args:
            code: The code, as in a cell.
            seconds: How long it may run, and how long the main thread may take to come to it.

        Returns:
            The lines, for the user; nothing where there never is a preview, for each question would say so.
        """
        if sys.platform != "linux":
            return ""
        report = await self.report(code, seconds)
        return hide_known(lines(report), labelled_secrets())

    async def report(self, code: str, seconds: float) -> Report:
        """Return what a copy of the kernel tells of the code.

        Args:
            code: The code.
            seconds: How long it may run, and how long the main thread may take to come to it.

        Returns:
            What it told, or why there is none.
        """
        if self._main.busy:
            return Report("none", "a cell of yours runs")
        if why := await asyncio.to_thread(obstacle, lambda package: self._uses(code, package)):
            return Report("none", why)
        problem = ""
        for pause in _PAUSES:
            fork = _Fork(_Trial(self._shell, self._routes, code), await asyncio.to_thread(Copy, seconds))
            try:
                await asyncio.wait_for(self._main.do(fork), seconds)
            except TimeoutError:
                fork.problem = "the kernel is busy"
            except ToolError as error:
                fork.problem = str(error)
            except BaseException:
                fork.abandon()
                raise
            if fork.copy.begun and not fork.problem:
                return await fork.copy.report()
            fork.abandon()
            problem = fork.problem
            if not fork.waits_for_thread:
                break
            await asyncio.sleep(pause * seconds)
        return Report("none", problem)

    def _uses(self, code: str, package: str) -> bool:
        reached = names_in_source(code, self._shell.transform_cell)
        held = dict(self._shell.user_ns)
        names = held if reached.everything else reached.names & held.keys()
        return any(package in (_package(held[name]), _package(type(held[name]))) for name in names) or package in code


def _package(value: Any) -> str:
    name = getattr(value, "__module__", None) or getattr(value, "__name__", None)
    return name.partition(".")[0] if isinstance(name, str) else ""


class _Fork:
    """The fork, as work for the main thread."""

    def __init__(self, trial: _Trial, copy: Copy) -> None:
        self.copy = copy
        self.problem = ""
        self.waits_for_thread = False
        self._trial = trial
        self._abandoned = False

    def prepare(self) -> bool:
        return False

    async def run(self, job: Job) -> None:
        with job.interrupts.postponed():  # else a process could be left of which nobody knows
            if self._abandoned:
                return
            if at_work := working_thread():
                self.waits_for_thread = True
                self.problem = f"the thread {textcut.one_line(at_work, 60)} is at work"
                return
            try:
                self.copy.fork(self._trial)
            except OSError as error:
                self.problem = f"there can be no other process ({error.strerror})"

    def abandon(self) -> None:
        """Leave nothing of it."""
        self._abandoned = True
        self.copy.abandon()


class _Trial:
    """The code in the copy."""

    def __init__(self, shell: Any, routes: Routes, code: str) -> None:
        self._shell = shell
        self._routes = routes
        self._code = code
        self._run: _Run | None = None
        self._checkpoint: Checkpoint | None = None
        self._suspected: list[str] = []

    def run(self, stop: Stop) -> None:
        """Run it, with what leads out of the kernel replaced."""
        _detach(self._shell, stop)
        asyncio.new_event_loop().run_until_complete(self._whole())

    async def _whole(self) -> None:
        self._run = _Run(
            self._shell,
            self._code,
            name="preview",
            routes=self._routes,
            on_text=_nothing,
            on_start=self._remember,
            on_end=_nothing,
        )
        job = Job(self._run, None)
        job.run(_begin, _nothing, lambda: False)
        await job.done

    def _remember(self, execution: Execution) -> None:
        with contextlib.suppress(Exception):
            budget = Budget(*_BUDGET)
            transform = self._shell.transform_cell
            users = {name: value for name, value in self._shell.user_ns.items() if is_users(name)}
            found = touched(execution.code, users, transform)
            self._suspected = [*found.deleted, *found.overwritten, *found.changed]
            self._checkpoint = take(self._shell.user_ns, execution.code, budget, transform=transform)

    def report(self) -> Report:
        """Return what came of it."""
        report = Report()
        run = self._run
        if run is not None:
            report.printed = run.card.shown().content
            report.shown = run.shown
            if run.error is not None:
                report.how, report.why = _ended_by(run.error)
        if self._checkpoint is not None:
            with contextlib.suppress(Exception):
                change = self._checkpoint.close()
                report.changed = change.outcome
                report.otherwise = _otherwise(change.left_out, self._suspected)
        return report


def _otherwise(left_out: Mapping[str, str], suspected: Sequence[str]) -> str:
    """What is said of variables where nothing was seen to change, without a word against the question's own."""
    if left_out:
        named = ", ".join(f"{name} ({why})" for name, why in sorted(left_out.items())[:_MAX_FILES])
        return f"what it changes inside of {named} cannot be told"
    if suspected:
        return f"in the copy {', '.join(suspected[:_MAX_FILES])} stayed the same"
    return "changes no variable"


class _Run(Execution):
    """A run of code of which nothing is drawn.

    Attributes:
        shown: What it displayed that is no text.
    """

    def __init__(self, shell: Any, code: str, **others: Any) -> None:
        super().__init__(shell, code, **others)
        self.shown: list[str] = []

    def write(self, text: str) -> int:
        return len(text) if self.error is not None else super().write(text)  # its traceback

    def show(
        self,
        bundle: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        display_id: str | None = None,
        *,
        update: bool = False,
    ) -> None:
        if what := _picture(bundle):
            if not update:
                self.shown.append(what)
        else:
            super().show({"text/plain": bundle.get("text/plain", "")}, metadata, display_id, update=update)

    def format(self, value: Any, plain: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        if type(value).__module__.startswith("matplotlib") and hasattr(value, "savefig"):
            return {"image/png": ""}, {}  # to draw it takes longer than all else
        return super().format(value, plain, *args, **kwargs)


def _picture(bundle: Mapping[str, Any]) -> str:
    kinds = [*map(str, bundle)]
    if any(kind.startswith("image/") for kind in kinds):
        return "a figure"
    if any(kind.startswith(_CHARTS) for kind in kinds):
        return "a chart"
    html, plain = (str(bundle.get(kind, "")) for kind in ("text/html", "text/plain"))
    if "<script" in html:
        return "a chart"
    if html and _WITHOUT_TEXT.fullmatch(plain):
        return "a table" if "<table" in html else "a display"
    return "a widget" if any(kind.startswith("application/vnd.jupyter.widget") for kind in kinds) else ""


def _begin(job: Job, whole: Coroutine[Any, Any, None]) -> None:
    job.interrupts.task = asyncio.get_running_loop().create_task(whole)


def _nothing(*_: Any) -> None:
    """What need not be noticed in a copy."""


def _detach(shell: Any, stop: Stop) -> None:
    """Replace what would speak to the front end, or run programs, by other means than Python's own."""

    def ask(*_: object, **__: object) -> NoReturn:
        stop("asks for input")

    def run_program(command: object, *_: object, **__: object) -> NoReturn:
        stop(f"runs {command}")

    def run_script(_: object, line: str, __: object) -> NoReturn:
        stop(f"runs {line}")

    kernel = getattr(shell, "kernel", None)
    if kernel is not None:
        kernel.session.send = _nothing
        kernel.raw_input = kernel.getpass = ask
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.flush = _nothing
    builtins.input = getpass.getpass = ask
    for name in ("system", "system_piped", "system_raw", "getoutput"):
        setattr(shell, name, run_program)
    scripts: Any = sys.modules.get("IPython.core.magics.script")
    if scripts is not None:
        scripts.ScriptMagics.shebang = run_script
    logging.raiseExceptions = False  # a handler whose file is not here


def _ended_by(error: BaseException) -> tuple[Any, str]:
    """How the code ended, and by what."""
    text = textcut.one_line(str(error), _MAX_LINE_CHARACTERS)
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    refused = (errno.EPERM, errno.EACCES, errno.EBADF, errno.EROFS, errno.EFBIG, errno.EMFILE)
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        return "stopped", "uses a file or connection that was open before"
    if isinstance(error, MemoryError):
        return "stopped", "needs more memory than a preview may have"
    if isinstance(error, OSError) and error.errno in refused:
        return "stopped", said
    if any(getattr(each, "sqlite_errorcode", 0) & 0xFF in _REFUSED_BY_SQLITE for each in _chain(error)):
        return "stopped", f"writes to a database, or uses one that was open before ({said})"
    return "failed", said


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def lines(report: Report) -> str:
    r"""Return a report as the user reads it.

    >>> lines(Report(printed="42\n", changed="changes x 5 → 6", files=["writes out.csv"]))
    'Preview — not run yet: prints 42; changes x 5 → 6; writes out.csv'
    >>> lines(Report(otherwise="what it changes inside of numbers (a generator) cannot be told"))
    'Preview — not run yet: prints nothing; what it changes inside of numbers (a generator) cannot be told'
    >>> print(lines(Report("failed", "KeyError: 'a'", printed="one  \ntwo\n", shown=["a figure"])))
    Preview — not run yet: shows a figure; raises KeyError: 'a'; prints:
        one
        two
    >>> lines(Report("none", "it takes longer than 2 s"))
    'No preview: it takes longer than 2 s.'

    Args:
        report: What a copy told; hostile.

    Returns:
        Lines; as many as are read before a question.
    """
    if report.how == "none":
        return f"No preview: {textcut.one_line(report.why, _MAX_LINE_CHARACTERS)}."
    printed = textcut.middle_lines(report.printed.strip("\n"), _MAX_LINES, "… {left} lines …").split("\n")
    printed = [textcut.head(line.rstrip(), _MAX_LINE_CHARACTERS) for line in printed]
    parts: list[str] = []
    if len(printed) == 1 and printed[0].strip():
        parts.append(f"prints {printed[0].strip()}")
    if report.changed:
        parts.append(textcut.one_line(report.changed, 2 * _MAX_LINE_CHARACTERS))
    done = report.files[:_MAX_FILES]
    parts += [textcut.one_line(what, _MAX_LINE_CHARACTERS) for what in done]
    if len(report.files) > len(done):
        parts.append(f"{len(report.files) - len(done)} more files")
    if report.shown:
        counted = {what: report.shown.count(what) for what in sorted({*report.shown})}
        parts += [
            f"shows {what}" if number == 1 else f"shows {what} ({number} times)" for what, number in counted.items()
        ]
    if report.calls:
        called = ", ".join(dict.fromkeys(report.calls[:_MAX_FILES]))
        parts.append(
            textcut.one_line(f"calls {called} in C, what that does outside cannot be told", _MAX_LINE_CHARACTERS)
        )
    if report.how != "done":
        verb = "stopped at:" if report.how == "stopped" else "raises"
        parts.append(f"{verb} {textcut.one_line(report.why, _MAX_LINE_CHARACTERS)}")
    if len(printed) > 1:
        return "\n".join([f"{_BEGINNING}{'; '.join([*parts, 'prints:'])}", *(f"    {line}" for line in printed)])
    if parts:
        return f"{_BEGINNING}{'; '.join(parts)}"
    together = " and " if report.otherwise == Report.otherwise else "; "
    return f"{_BEGINNING}prints nothing{together}{textcut.one_line(report.otherwise, 2 * _MAX_LINE_CHARACTERS)}"
