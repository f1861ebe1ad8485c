"""One run of the agent's code in a copy of the kernel: it sends the outputs, and finds the effects.

All of this happens in the copy, which is confined before it begins (`indus_nb.kernel.preview`).
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import ctypes
import errno
import getpass
import importlib
import io
import logging
import os
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, cast

from indus_nb.base import textcut
from indus_nb.base.installed import is_installed, modules_of_project
from indus_nb.kernel.preview import Report, Send, Stop
from indus_nb.kernel.preview.forgetting import FILLER, forget
from indus_nb.kernel.preview.values import dumped
from indus_nb.kernel.preview.watching import read_by_libraries, set_by_imports
from indus_nb.kernel.preview.world import World
from indus_nb.kernel.run.execution import Execution, Routes
from indus_nb.kernel.run.inert import inert
from indus_nb.kernel.run.main_thread import Job
from indus_nb.kernel.run.outputs import sent
from indus_nb.kernel.trials.databases import Databases
from indus_nb.kernel.trials.definitions import definitions
from indus_nb.kernel.trials.shell_state import ShellState
from indus_nb.kernel.undo import Change, Checkpoint, CheckpointBudget, take
from indus_nb.kernel.undo.objects.outside import settings
from indus_nb.kernel.undo.reach import names_in_source
from indus_nb.kernel.values.describe import MAX_TEXT_CHARACTERS, for_prompt
from indus_nb.kernel.values.interpolation import written
from indus_nb.safety.effects import Effect, EffectKind
from indus_nb.safety.redaction import is_distinct, labelled_secrets

RANDOM, NUMPY_RANDOM = "random numbers", "numpy's random numbers"
"""Keys of random number generators among the values of variables; no variable has a blank in its name."""
VALUES = "_indus_nb_values"
"""Name in a copy of the function that sends values of a prompt: it is given placeholders, each with its expression."""
TEXTS = "_indus_nb_texts"
"""The same for expressions whose texts are sent."""
_OF_SHELL = ("In", "Out")
"""Variables of the shell's own, which are not compared by name."""
_DRAWING = frozenset({"plot", "hist", "boxplot"})
"""Methods of pandas that import matplotlib when they are first used."""
_BUDGET = (2.0, 512 << 20)
_REFUSED_BY_SQLITE = (8, 10, 14)
"""SQLITE_READONLY, SQLITE_IOERR, SQLITE_CANTOPEN."""
_REFUSED = (errno.EPERM, errno.EACCES, errno.EBADF, errno.EROFS, errno.EFBIG, errno.EMFILE, errno.ENOSYS)
_MAX_LINE_CHARACTERS = 160
_STAND_IN = FILLER.encode() * 10
"""Text that every replacement of a key in memory contains."""
_CHUNK = 1 << 20


class TrialTask:
    """A run of code in a copy: the code, and its inputs."""

    def __init__(
        self,
        shell: Any,
        routes: Routes,
        code: str,
        own: Mapping[str, int],
        keys: Mapping[str, str],
        *,
        renews: bool = False,
    ) -> None:
        """Create the task, before the fork.

        Args:
            routes: Where prints and displays go.
            own: Variables of the agent's own, with the ids of their values.
            keys: Values that the code must not see, with their placeholders.
            renews: Whether what the code changes in itself is sent too, as a new value.
        """
        self._shell = shell
        self._renews = renews
        self._routes = routes
        self._code = code
        self._own = own
        self._keys = keys
        self._stand_ins: tuple[bytes, ...] = ()
        self._run: _Run | None = None
        self._checkpoint: Checkpoint | None = None
        self._world: World | None = None
        self._environment: dict[str, str] = {}
        self._databases: Databases | None = None
        self._found: tuple[Change, list[Effect]] | None = None
        self._begun = False
        self._shell_state = ShellState(shell)
        self._send: Send = _nothing

    def run(self, stop: Stop, send: Send, effects: list[Effect]) -> None:
        """Run the code, with the ways out of the kernel replaced.

        Args:
            stop: Ends the copy with what the code was about to do.
            effects: The effects so far; those of imports on the copy's own files are removed.
        """
        self._send, self._stop = send, stop
        known = {**labelled_secrets(), **self._keys}
        self._stand_ins = (_STAND_IN, *{label.encode() for label in known.values()})
        _hide_keys(known, self._shell)
        _detach(self._shell, stop)
        setattr(builtins, VALUES, partial(_send_computed, send, lambda key, value: written(key, value, for_prompt)))
        setattr(builtins, TEXTS, partial(_send_computed, send, lambda _, value: _as_text(value)))
        self._import()
        _settle()
        effects[:] = [each for each in effects if each.kind != "writes_file"]
        self._shell_state.watch(effects)
        asyncio.new_event_loop().run_until_complete(self._whole())

    def _import(self) -> None:
        """Import the code's modules beforehand: what an installed module does on import is no effect of the code."""
        try:
            tree = ast.parse(self._shell.transform_cell(self._code))
        except Exception:  # noqa: BLE001 - then nothing of it will run
            return
        if "pandas" in sys.modules and any(getattr(node, "attr", "") in _DRAWING for node in ast.walk(tree)):
            with contextlib.suppress(Exception, SystemExit):
                importlib.import_module("matplotlib.pyplot")
        for node in ast.walk(tree):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            for name in names:
                if is_installed(name):
                    with contextlib.suppress(Exception, SystemExit):
                        importlib.import_module(name)

    async def _whole(self) -> None:
        self._run = _Run(
            self._shell,
            self._code,
            send=self._send,
            name="trial",
            routes=self._routes,
            on_text=_nothing,
            on_start=self._remember,
            on_end=self._compare,
        )
        job = Job(self._run, None)
        job.run(_begin, _nothing, lambda: False)
        await job.done

    def _remember(self, execution: Execution) -> None:
        self._begun = True
        shell = self._shell
        reached = names_in_source(execution.code, shell.transform_cell)
        names = shell.user_ns.keys() if reached.everything else reached.names
        self._databases = Databases(shell.user_ns, names, self._stop)
        beside = dict(modules_of_project())
        self._checkpoint = take(
            shell.user_ns, execution.code, CheckpointBudget(*_BUDGET), transform=shell.transform_cell, beside=beside
        )
        self._world = World(
            self._shell_state.state, beside, read_by_libraries
        )  # when modules have been asked where they are
        self._environment = dict(os.environ)

    def _compare(self, execution: Execution) -> None:
        """Compare the state with that before the code, once it has ended."""
        if self._checkpoint is not None and self._world is not None and self._databases is not None:
            for error in _chain(execution.error):
                traceback.clear_frames(error.__traceback__)  # with the files and other objects that they hold
            around = [*self._world.changes(), *self._databases.changes()]
            self._found = self._checkpoint.close(), around

    def report(self) -> Report:
        """Return the result; for code that was stopped, with its changes by then."""
        report, run = Report(), self._run
        if run is None or self._checkpoint is None:
            if run is not None and run.error is not None and not self._begun:  # it could not be compiled
                report.how, report.why = _ended_by(run.error)
            else:
                report.effects.append(Effect("unknown", "", "could not be followed"))
            return report
        if run.error is not None:
            report.how, report.why = _ended_by(run.error)
        report.effects += run.effects
        try:
            change, around = self._found or (self._checkpoint.close(), [])
            report.outcome = change.outcome
            report.effects += around
            self._describe(report, change)
        except Exception as error:  # noqa: BLE001 - an object in a state that cannot be read
            report.effects.append(Effect("unknown", "", f"could not be followed ({type(error).__name__})"))
        return report

    def _describe(self, report: Report, change: Change) -> None:
        found, space = change.found, self._shell.user_ns
        report.effects += [
            Effect("unknown", name, f"reaches {name} ({why}), whose changes cannot be seen")
            for name, why in sorted(change.left_out.items())
            if name not in found.in_place and (self._databases is None or name not in self._databases.names)
        ]
        report.effects += [Effect("changes_variable", name, f"deletes {name}") for name in sorted(found.deleted)]
        report.effects += [
            Effect(
                "changes_setting" if "." in name else "changes_variable",
                name,
                f"changes {found.words[name]}",
            )
            for name in sorted(found.in_place)
        ]
        report.inside = sorted(found.in_place)
        new: dict[str, Any] = {}
        for name in sorted(found.created | found.rebound):
            value = space[name]
            if name in found.created and _is_over(value):
                report.dropped.append(name)
                continue
            new[name] = value
            foreign = change.held_before(name) != self._own.get(name, 0)
            if name in found.rebound:
                is_users = foreign or callable(value) or change.was_callable(name)
                kind: EffectKind = "changes_variable" if is_users else "new_names"
                report.effects.append(Effect(kind, name, f"changes {found.words.get(name, name)}"))
            elif shadowed(name, value, self._shell):
                report.effects.append(Effect("changes_variable", name, f"takes the place of {name}"))
            else:
                report.effects.append(Effect("new_names", name, f"adds {name}"))
        if self._renews:
            report.renewed = sorted(name for name in found.in_place if name in space)
            new |= {name: space[name] for name in report.renewed}
        draws = self._settings(report, found.settings)
        if all(effect.kind in ("new_names", "changes_variable", "draws_random") for effect in report.effects):
            self._send_values(report, new, draws, change)

    def _settings(self, report: Report, names: Any) -> dict[str, Any]:
        draws: dict[str, Any] = {}
        for name in names:
            if name == "random numbers":
                report.effects.append(Effect("draws_random", "", "draws random numbers"))
            elif name == "environment variables" and self._is_by_imports():
                continue
            else:
                report.effects.append(Effect("changes_setting", name, f"changes {name}"))
        if any(effect.kind == "draws_random" for effect in report.effects):
            import random

            draws[RANDOM] = random.getstate()
            if (numpy := sys.modules.get("numpy.random")) is not None:
                draws[NUMPY_RANDOM] = numpy.get_state()
        return draws

    def _is_by_imports(self) -> bool:
        now = dict(os.environ)
        differing = {
            name for name in now.keys() | self._environment.keys() if now.get(name) != self._environment.get(name)
        }
        return differing <= set_by_imports

    def _send_values(self, report: Report, new: dict[str, Any], draws: dict[str, Any], change: Change) -> None:
        functions, space = definitions(self._shell.transform_cell(self._code)), self._shell.user_ns
        places = self._world.held() if self._world is not None else {}
        places |= {id(space[name]): None for name in _OF_SHELL if name in space}
        known = change.known
        if report.renewed and self._checkpoint is not None:
            found = change.found
            theirs = self._checkpoint.only_below(found.in_place | found.rebound | found.deleted)
            known = {key: name for key, name in known.items() if key not in theirs}
        data, refused = dumped(new | draws, known, functions.keys(), space, places)
        if any(each in data for each in self._stand_ins):
            report.effects.append(Effect("unknown", "", "uses a key, which a copy of the kernel does not have"))
            return
        report.kept = sorted(new.keys() - refused.keys())
        report.renewed = [name for name in report.renewed if name in report.kept]
        report.modules = [name for name in report.kept if type(new[name]) is ModuleType]
        report.effects = [
            Effect(each.kind, each.what, f"{each.words} ({refused[each.what]}, which has to be made in the kernel)")
            if each.what in refused
            else each
            for each in report.effects
        ]
        self._send({"values": report.kept}, data)


class _Run(Execution):
    """A run of code that sends all its output.

    Attributes:
        effects: Displays that do something in a page.
    """

    def __init__(self, shell: Any, code: str, *, send: Send, **others: Any) -> None:
        super().__init__(shell, code, **others)
        self.effects: list[Effect] = []
        self._send = send

    def add_text(self, text: str, *, on_card: bool = True) -> None:
        for start in range(0, len(text) if on_card else 0, _CHUNK):
            self._send({"text": text[start : start + _CHUNK]}, b"")

    def show(
        self,
        bundle: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        display_id: str | None = None,
        *,
        update: bool = False,
    ) -> None:
        value = self.displays.value_of(bundle)
        is_progress = type(value).__module__.partition(".")[0] == "tqdm"
        kept = {"text/plain"} if is_progress else inert(bundle)
        # As they are: what is made of them is made again where they are shown.
        harmless = None if kept is None else {kind: bundle.get(kind, "") for kind in kept}
        if harmless is None:
            harmless = {"text/plain": str(bundle.get("text/plain", ""))}
            what = "a widget" if any("widget" in kind for kind in bundle) else "what runs in the page"
            self.effects.append(Effect("sends_message", "the page", f"shows {what}"))
        if value is not None:
            self.displays.made(harmless, value)
        display, text = self.displays.prepared(harmless, metadata or {}, display_id)
        if display is None and len(text) > _CHUNK:
            self.add_text(f"{text}\n")
            return
        self._send(sent(display, text, str(harmless.get("text/plain", "")), update=update), b"")

    def clear(self, *, waits: bool = False) -> None:
        self._send({"clear": waits}, b"")


def _is_over(value: Any) -> bool:
    """Return whether a value is of no use after the code: a shown and closed figure, or a closed file."""
    if isinstance(value, io.IOBase):
        return value.closed
    if type(value) in (list, tuple) or type(value).__name__ == "ndarray":
        parts: list[Any] = value.ravel().tolist() if hasattr(value, "ravel") else [*value]
        return bool(parts) and all(map(_is_drawn, parts))
    return _is_drawn(value)


def _is_drawn(value: Any) -> bool:
    drawing: Any = sys.modules.get("matplotlib.figure")
    if drawing is None:
        return False
    own = [value, *(getattr(value, "__dict__", {}).get(name) for name in ("figure", "_figure", "_fig"))]
    return type(value).__module__.startswith("matplotlib.") or any(isinstance(each, drawing.Artist) for each in own)


def _begin(job: Job, whole: Coroutine[Any, Any, None]) -> None:
    job.interrupts.task = asyncio.get_running_loop().create_task(whole)


def _nothing(*_: Any, **__: Any) -> None:
    """Ignore an event that does not matter in a copy."""


def shadowed(name: str, value: Any, shell: Any) -> bool:
    """Return whether a name belongs to a builtin or to the shell, and its value is not that builtin."""
    return (hasattr(builtins, name) or name in shell.user_ns_hidden) and getattr(builtins, name, None) is not value


def _hide_keys(known: Mapping[str, str], shell: Any) -> None:
    """Redact keys: placeholders in variables, fillers in the memory of this process."""
    for value, label in known.items():
        for name, held in [*os.environ.items()]:
            if value in held:
                os.environ[name] = held.replace(value, label)
    session = getattr(getattr(shell, "kernel", None), "session", None)
    signing = getattr(session, "key", b"")  # with it messages are signed that the kernel acts on
    values = [value.encode(errors="surrogateescape") for value in known]
    distinct = [value.encode(errors="surrogateescape") for value in known if is_distinct(value)]
    _blot_out(values)
    forget([*([signing] if len(signing) >= len(_STAND_IN) else []), *distinct])


def _blot_out(values: list[bytes]) -> None:
    """Overwrite values in the block of variables that this process was begun with, which stays in its memory."""
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
    block = ctypes.string_at(start, end - start)
    for value in filter(None, values):
        at = block.find(value)
        while at >= 0:
            ctypes.memset(start + at, ord(FILLER), len(value))
            at = block.find(value, at + 1)


def _settle() -> None:
    """Have matplotlib choose its back end as the first figure does, and help print itself."""
    import pydoc

    pydoc.pager = pydoc.plainpager
    for setting in settings():
        setting.get()  # which imports what a library reads it with
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        with contextlib.suppress(Exception):
            pyplot.get_backend()
            pyplot.close(pyplot.figure(num="indus_nb"))


def _detach(shell: Any, stop: Stop) -> None:
    """Replace what would send to the front end, or run programs, by other means than Python's own."""

    def ask(*_: object, **__: object) -> NoReturn:
        stop(Effect("sends_message", "input", "asks for input"))

    def run_program(command: object, *_: object, **__: object) -> NoReturn:
        words = str(command)
        stop(Effect("runs_program", words.split(maxsplit=1)[0] if words.strip() else "", f"runs {words}"))

    def run_script(_: object, line: str, __: object) -> NoReturn:
        run_program(line)

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
    cast("Any", logging.Handler).handleError = _nothing  # of one whose file is not here


def _send_computed(send: Send, write: Callable[[str, object], str], *values: tuple[str, Callable[[], object]]) -> None:
    for key, compute in values:
        try:
            found = {"value": write(key, compute()), "problem": ""}
        except Exception as error:  # noqa: BLE001 - whatever the expression raises; it says so in the value's place
            found = {"value": "", "problem": _ended_by(error)[1]}
        send({"of": key, **found}, b"")


def _as_text(value: object) -> str:
    return textcut.head(str(value), MAX_TEXT_CHARACTERS, "")


def _ended_by(error: BaseException) -> tuple[Any, str]:
    """Return how the code ended, and the reason."""
    text = textcut.one_line(str(error), _MAX_LINE_CHARACTERS)
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    for each in _chain(error):
        if isinstance(each, MemoryError):
            return "stopped", "needs more memory than a copy of the kernel may have"
        if isinstance(each, OSError) and each.errno == errno.EBADF:
            return "stopped", "uses a file or connection that was open before"
        if isinstance(each, OSError) and each.errno in _REFUSED:
            return "stopped", f"does what a copy of the kernel may not ({message})"
        if getattr(each, "sqlite_errorcode", 0) & 0xFF in _REFUSED_BY_SQLITE or _is_refused_duckdb(each):
            return "stopped", f"writes to a database, or uses one that was open before ({message})"
    if isinstance(error, KeyboardInterrupt | SystemExit | asyncio.CancelledError) or "can't start new thread" in text:
        return "stopped", f"ends in a copy of the kernel as it may not elsewhere ({message})"
    return "failed", message


def _is_refused_duckdb(error: BaseException) -> bool:
    """Return whether an error is DuckDB's about a forbidden file, known only by the system's message."""
    of_duckdb = type(error).__module__.partition(".")[0] in ("duckdb", "_duckdb")
    return of_duckdb and any(os.strerror(number) in str(error) for number in _REFUSED)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
