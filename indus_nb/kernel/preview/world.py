"""State of a process besides variables and files that code can change: all of it is compared before and after.

What this module promises: what is compared is what is there, by whatever means it was changed. Modules and
classes are compared name by name, so that what is put on a library, or taken from it, is found; what lies within the
objects of a library is not (``undo.objects.outside`` knows the settings of some).
"""

from __future__ import annotations

import abc
import asyncio
import atexit
import contextvars
import copyreg
import csv
import faulthandler
import gc
import logging
import multiprocessing
import os
import resource
import signal
import socket
import sys
import threading
import tracemalloc
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from operator import is_not
from threading import Thread
from types import BuiltinFunctionType, FunctionType, MappingProxyType, ModuleType
from typing import Any, cast

from indus_nb.base.installed import is_installed, is_of_project
from indus_nb.kernel.preview.words import shown_path
from indus_nb.kernel.undo.found_once import is_private
from indus_nb.safety.effects import Effect

SET_BY_PYTHON = frozenset(
    {"__warningregistry__", "__annotations__", "__annotate__", "__annotations_cache__", "__builtins__", "__path__"}
    | {
        "last_exc",
        "last_traceback",
        "last_type",
        "last_value",
        "__abstractmethods__",
        "__slotnames__",
        "_abc_impl",
        "__doc__",
        "__annotate_func__",
        "__conditional_annotations__",
    }
)
"""Names that Python itself, or introspection of a module or class, sets."""
_ABSENT = object()
_CONTAINERS = (list, dict, set, deque, bytearray)
_OPEN_FILES = "open files"
_BY_MODULES = (
    *("threads", "what runs at exit", "how objects are pickled", "virtual subclasses", _OPEN_FILES),
    "loggers",
)
"""Settings that modules make when they are imported, and again where they are used."""
_BY_PYPLOT = ("how values are displayed", "which formats are displayed", "what runs around cells")
"""Settings that IPython changes when pyplot is imported."""
_LIMITS = [getattr(resource, name) for name in sorted(vars(resource)) if name.startswith("RLIMIT_")]
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_APART = ("__main__", "__mp_main__", "indus_nb")
"""Modules that are compared elsewhere, or that do the comparing."""


class World:
    """Snapshot of a process."""

    def __init__(
        self,
        apart: Callable[[], Mapping[str, Any]],
        own: Mapping[str, ModuleType],
        read_by_libraries: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        """Take the snapshot.

        Args:
            apart: Returns what else is to be compared, by what it is called.
            own: The imported modules of the project's, by name: what these find out once is an effect, too.
            read_by_libraries: Returns the real paths of files that may stay open.
        """
        self._apart = apart
        self._own = own
        self._read_by_libraries = read_by_libraries
        self._loaded = dict(sys.modules)
        self._modules = {name: (module, dict(vars(module))) for name, module in _modules()}
        self._classes = {kind: _names_of(kind).copy() for kind in _classes()}
        self._state()  # which imports what it asks
        self._rest = self._state()
        self._count = len(sys.modules)
        self._drew = _has_pyplot()

    def changes(self) -> list[Effect]:
        """List the differences to the present state; the snapshot stays."""
        return [
            *self._loaded_modules(),
            *self._changed_modules(),
            *self._changed_classes(),
            *self._changed_rest(),
        ]

    def _loaded_modules(self) -> Iterator[Effect]:
        """List changes of ``sys.modules``; installed modules are loaded where they are used."""
        for name in sorted(map(str, self._loaded.keys() | sys.modules.keys())):
            before, now = self._loaded.get(name, _ABSENT), sys.modules.get(name, _ABSENT)
            if before is not now and (before is not _ABSENT or _is_made(name, now)):
                verb = "loads" if before is _ABSENT else "unloads" if now is _ABSENT else "replaces"
                yield Effect("changes_setting", name, f"{verb} the module {name}")

    def held(self) -> dict[int, tuple[str, str] | None]:
        """Map the id of each container of a module to its place: a copy of it would be another one.

        Returns:
            The module and the name there; ``None`` for a module that is not an installed one.
        """
        return {
            id(value): None if module in self._own else (module, name)
            for module, (_, space) in self._modules.items()
            for name, value in space.items()
            if issubclass(type(value), _CONTAINERS)
        }

    def _changed_modules(self) -> Iterator[Effect]:
        for name, (module, before) in self._modules.items():
            now = vars(module)
            for attribute in _differing(before, now):
                if name not in self._own and _is_by_itself(name, before, now, attribute):
                    continue
                is_submodule = attribute not in before and isinstance(now.get(attribute), ModuleType)
                if not is_submodule:  # which was imported
                    full = f"{name}.{attribute}"
                    yield Effect("changes_setting", full, f"changes {full}")

    def _changed_classes(self) -> Iterator[Effect]:
        for kind, before in self._classes.items():
            now = _names_of(kind)
            for attribute in _differing(before, now):
                owner = ".".join(str(type.__dict__[part].__get__(kind)) for part in ("__module__", "__qualname__"))
                if not _is_by_itself(owner, before, now, attribute):
                    full = f"{owner}.{attribute}"
                    yield Effect("changes_setting", full, f"changes {full}")

    def _changed_rest(self) -> Iterator[Effect]:
        now, imported = self._state(), len(sys.modules) != self._count
        expected = {*(_BY_MODULES if imported else ()), *(_BY_PYPLOT if _has_pyplot() != self._drew else ())}
        for name, value in self._rest.items():
            if now.get(name) != value and name not in expected:
                if name == _OPEN_FILES:
                    yield from _opened_or_closed(value, now[name], self._read_by_libraries())
                else:
                    yield Effect("changes_setting", name, f"changes {name}")

    def _state(self) -> dict[str, Any]:
        return {
            "signal handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
            "threads": ({(each, each.name) for each in threading.enumerate()}, {*sys._current_frames()}),  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - documented
            "timers": [signal.getitimer(each)[0] > 0 for each in _TIMERS],
            "how objects are pickled": {kind: id(made) for kind, made in copyreg.dispatch_table.items()},
            "blocked signals": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
            "limits of the process": [resource.getrlimit(each) for each in _LIMITS],
            _OPEN_FILES: _open_files(),
            "virtual subclasses": abc.get_cache_token(),
            "what runs at exit": atexit._ncallbacks(),  # noqa: SLF001 # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownMemberType]
            "import hooks": [*map(id, sys.meta_path), *map(id, sys.path_hooks)],
            "tracing": (
                sys.gettrace(),
                sys.getprofile(),
                threading.gettrace(),
                threading.getprofile(),
                *sys.get_asyncgen_hooks(),
            ),
            "garbage collection": (gc.isenabled(), gc.get_threshold(), gc.get_debug(), [*map(id, gc.callbacks)]),
            "context variables": _context(),
            "tasks": _tasks(),
            "the umask": _umask(),
            "limits of the interpreter": _limits(),
            "the default time limit of sockets": socket.getdefaulttimeout(),
            "how processes start": multiprocessing.get_start_method(),
            "dialects of csv": {*csv.list_dialects()},
            "the field limit of csv": csv.field_size_limit(),
            "fault handlers": (faulthandler.is_enabled(), tracemalloc.is_tracing()),
            "figures": _figures(),
            "loggers": _loggers(),
            **self._apart(),
        }


def _is_made(name: str, module: Any) -> bool:
    """Return whether a new module is the project's, or was made by code."""
    if isinstance(getattr(module, "__file__", None), str):
        return is_of_project(name, module)
    return not name.startswith("_cython_") and not is_installed(name)


def _modules() -> Iterator[tuple[str, ModuleType]]:
    for name, module in [*sys.modules.items()]:
        if isinstance(module, ModuleType) and name.partition(".")[0] not in _APART:  # pyright: ignore[reportUnnecessaryIsInstance] - code puts anything there
            yield name, module


def _classes() -> Iterator[type[Any]]:
    """List all classes but those of the user's cells, which are variables."""
    seen: set[type[Any]] = set()
    waiting: list[type[Any]] = [object]
    subclasses: Any = type.__subclasses__
    while waiting:
        for kind in subclasses(waiting.pop()):
            if kind not in seen:
                seen.add(kind)
                waiting.append(kind)
                if str(type.__dict__["__module__"].__get__(kind)).partition(".")[0] not in _APART:
                    yield kind


def _names_of(kind: type[Any]) -> MappingProxyType[str, Any]:
    return type.__dict__["__dict__"].__get__(kind)


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    if len(before) == len(now) and not any(map(is_not, before.values(), now.values())):
        return []
    names = before.keys() | now.keys()
    return sorted(
        name
        for name in names
        if isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance] - whatever code has put there
        and name not in SET_BY_PYTHON
        and not _is_same(before.get(name, _ABSENT), now.get(name, _ABSENT))
    )


def _is_same(was: object, value: object) -> bool:
    """Return whether nothing has changed: equal texts are the same, as ``strptime`` makes ``time.tzname`` anew."""
    if was is value or type(was) is not type(value):
        return was is value
    texts = cast("tuple[object, ...]", was) if type(was) is tuple else (was,)
    return {*map(type, texts)} == {str} and was == value


def _is_by_itself(owner: str, before: Mapping[str, Any], now: Mapping[str, Any], name: str) -> bool:
    """Return whether a change is a library's own: a cache, a count, or something loaded when it is needed."""
    was, value = before.get(name), now.get(name)
    if any(map(is_private, (*owner.split("."), name))):
        is_count = type(was) is int and type(value) is int and value > was
        is_in_use = isinstance(was, Thread)  # which of them uses it
        return was is None or was is False or is_count or is_in_use or (name not in now and hasattr(was, "__get__"))
    return name not in before and (_is_function_of(value, now) or _is_loaded(value))


def _is_function_of(value: Any, names: Mapping[str, Any]) -> bool:
    return type(value) is FunctionType and value.__globals__ is names


def _is_loaded(value: Any) -> bool:
    """Return whether a value is a class or function of an installed library's, which others bind when asked."""
    kinds = (type, FunctionType, BuiltinFunctionType)
    home = getattr(value, "__module__", None) if isinstance(value, kinds) else type(value).__module__
    return callable(value) and isinstance(home, str) and (is_installed(home) or home.startswith("_cython_"))


def _context() -> dict[str, int]:
    apart = ("decimal_context", "format_options", "indus_nb")  # settings of their own: of decimal, of numpy
    return {
        variable.name: id(value)
        for variable, value in contextvars.copy_context().items()
        if not variable.name.startswith(apart)
    }


def _tasks() -> int:
    try:
        current = asyncio.current_task()
        return len([task for task in asyncio.all_tasks() if task is not current])
    except RuntimeError:
        return 0


def _limits() -> tuple[Any, ...]:
    asked = (sys.getswitchinterval, sys.get_int_max_str_digits, sys.getdlopenflags, threading.stack_size)
    return *(ask() for ask in asked), sys.get_coroutine_origin_tracking_depth(), [*sys.argv], [*sys.warnoptions]


def _open_files() -> dict[str, str]:
    """Map the descriptors of files to their paths; libraries have others for themselves."""
    found: dict[str, str] = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue  # the one that listed them
    return {number: path for number, path in found.items() if not path.startswith(("anon_inode:", "/dev/u", "/dev/r"))}


def _opened_or_closed(before: Mapping[str, str], now: Mapping[str, str], apart: Collection[str]) -> Iterator[Effect]:
    """List what was opened or closed; what a library keeps open to read it, as its fonts, is a matter of its own."""
    others = {number: path for number, path in now.items() if before.get(number) != path}
    opened = {path for path in others.values() if path not in apart}
    closed = {path for number, path in before.items() if now.get(number) != path}
    for form, paths in (("leaves {} open", opened), ("closes {}", closed)):
        for named in sorted({_shown_file(path) for path in paths}):
            yield Effect("changes_setting", named, form.format(named))


def _shown_file(path: str) -> str:
    """Return how an open file is named: in a copy those from before have lost their paths."""
    return shown_path(path) if path.startswith("/") and path != os.devnull else "a file or connection"


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _has_pyplot() -> bool:
    return "matplotlib.pyplot" in sys.modules


def _loggers() -> tuple[Any, ...]:
    """Return the names of loggers of which something is set, and what is set for all of them."""
    manager = logging.root.manager
    names = {
        name
        for name, each in [*manager.loggerDict.items()]
        if isinstance(each, logging.Logger) and (each.level or each.handlers or each.filters or not each.propagate)
    }
    return names, manager.disable, logging.getLevelNamesMapping()


def _figures() -> list[int]:
    pylab: Any = sys.modules.get("matplotlib._pylab_helpers")
    return [] if pylab is None else sorted(pylab.Gcf.figs)
