"""What of a process besides variables and files differs after code has run: all of it is found, and nothing else."""

from __future__ import annotations

import asyncio
import atexit
import builtins
import calendar
import contextlib
import contextvars
import copyreg
import csv
import decimal
import faulthandler
import gc
import json
import logging
import multiprocessing
import os
import re
import resource
import signal
import socket
import string
import sys
import threading
import tracemalloc
import types
from collections.abc import Callable, Iterator, Sized
from importlib import import_module
from pathlib import Path

import pytest
from copied import copied

from indus_nb.kernel.preview.words import shown_path
from indus_nb.kernel.preview.world import World
from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")


@pytest.fixture(autouse=True)
def _no_callbacks_of_collections() -> Iterator[None]:
    """Without Hypothesis's, which note times in its module."""
    before = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = before


class Plain:
    """A class of the tests'."""

    kept = 1

    def method(self) -> int:
        return self.kept


def made(name: str) -> None:
    sys.modules[name] = types.ModuleType(name)


def put(owner: object, name: str, value: object) -> None:
    setattr(owner, name, value)


def add_level() -> None:
    logging.addLevelName(7, "LOUD")


def begin_thread() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True, name="mine").start()


HERE = __name__
CHANGES: dict[str, tuple[Callable[[], object], list[str]]] = {
    "a name of a module": (lambda: put(string, "digits", ""), ["changes string.digits"]),
    "a new name of a module": (lambda: put(string, "mine", 1), ["changes string.mine"]),
    "a name that is gone": (lambda: delattr(string, "digits"), ["changes string.digits"]),
    "a builtin": (lambda: put(builtins, "mine", 1), ["changes builtins.mine"]),
    "a method": (lambda: put(Plain, "method", len), [f"changes {HERE}.Plain.method"]),
    "a new name of a class": (lambda: put(Plain, "mine", 1), [f"changes {HERE}.Plain.mine"]),
    "a name that a class has no more": (lambda: delattr(Plain, "kept"), [f"changes {HERE}.Plain.kept"]),
    "a class of a library's": (
        lambda: put(json.JSONEncoder, "default", len),
        ["changes json.encoder.JSONEncoder.default"],
    ),
    "a module that is made": (lambda: made("made_here"), ["loads the module made_here"]),
    "a module that is gone": (lambda: sys.modules.pop("calendar"), ["unloads the module calendar"]),
    "a module that is another": (lambda: made("calendar"), ["replaces the module calendar"]),
    "a handler of a signal": (lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN), ["changes signal handlers"]),
    "a signal that is held": (
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1}),
        ["changes blocked signals"],
    ),
    "a timer": (lambda: signal.setitimer(signal.ITIMER_REAL, 1000), ["changes timers"]),
    "a thread": (begin_thread, ["changes threads"]),
    "the name of a thread": (lambda: put(threading.current_thread(), "name", "x"), ["changes threads"]),
    "a way to pickle": (lambda: copyreg.pickle(Plain, str), ["changes how objects are pickled"]),
    "a limit": (
        lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)),
        ["changes limits of the process"],
    ),
    "an open file": (lambda: os.open(__file__, os.O_RDONLY), [f"leaves {shown_path(__file__)} open"]),
    "a connection": (lambda: os.dup(socket.socket().detach()), ["leaves a file or connection open"]),
    "a file that is closed": (lambda: os.close(0), ["closes a file or connection"]),
    "a virtual subclass": (lambda: Sized.register(type("Fresh", (), {})), ["changes virtual subclasses"]),
    "a function at exit": (lambda: atexit.register(print), ["changes what runs at exit"]),
    "an import hook": (lambda: sys.meta_path.append(None), ["changes import hooks"]),  # type: ignore[arg-type]
    "a path hook": (sys.path_hooks.clear, ["changes import hooks"]),
    "a trace": (lambda: threading.settrace(print), ["changes tracing"]),  # type: ignore[arg-type]
    "a profile": (lambda: sys.setprofile(lambda *_: None), ["changes tracing"]),
    "no collections": (gc.disable, ["changes garbage collection"]),
    "a threshold of collections": (lambda: gc.set_threshold(1), ["changes garbage collection"]),
    "a callback of collections": (lambda: gc.callbacks.append(print), ["changes garbage collection"]),
    "the umask": (lambda: os.umask(0o070), ["changes the umask"]),
    "how long a thread runs": (lambda: sys.setswitchinterval(1), ["changes limits of the interpreter"]),
    "the digits of numbers": (lambda: sys.set_int_max_str_digits(0), ["changes limits of the interpreter"]),
    "the arguments": (lambda: sys.argv.append("x"), ["changes limits of the interpreter"]),
    "the patience of sockets": (
        lambda: socket.setdefaulttimeout(3),
        ["changes the default time limit of sockets"],
    ),
    "how processes start": (
        lambda: multiprocessing.set_start_method("spawn", force=True),
        ["changes how processes start"],
    ),
    "a dialect": (lambda: csv.register_dialect("mine"), ["changes dialects of csv"]),
    "the length of fields": (lambda: csv.field_size_limit(9), ["changes the field limit of csv"]),
    "faults": (
        lambda: faulthandler.disable() if faulthandler.is_enabled() else faulthandler.enable(),
        ["changes fault handlers"],
    ),
    "traces of memory": (tracemalloc.start, ["changes fault handlers"]),
    "a logger": (lambda: logging.getLogger("fresh.one").setLevel(10), ["changes loggers"]),
    "the handlers of a logger": (
        lambda: logging.getLogger("fresh.two").addHandler(logging.NullHandler()),
        ["changes loggers"],
    ),
    "a logger that keeps to itself": (
        lambda: put(logging.getLogger("fresh.three"), "propagate", False),
        ["changes loggers"],
    ),
    "logs that are switched off": (lambda: logging.disable(logging.CRITICAL), ["changes loggers"]),
    "a level of logs": (add_level, ["changes loggers"]),
    "a context variable": (lambda: contextvars.ContextVar("mine").set(1), ["changes context variables"]),
}


def unquoted(words: list[str]) -> list[str]:
    return [
        each.replace("\N{LEFT DOUBLE QUOTATION MARK}", "").replace("\N{RIGHT DOUBLE QUOTATION MARK}", "")
        for each in words
    ]


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_found_and_named(what: str) -> None:
    do, words = CHANGES[what]

    def silent() -> None:
        do()

    assert unquoted(copied(silent, compares=True).words) == words


def and_back(change: Callable[[], object], back: Callable[[], object]) -> Callable[[], None]:
    def both() -> None:
        change()
        back()

    return both


def run_thread() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


def open_and_close() -> None:
    with Path("/dev/null").open():
        pass


NO_CHANGES: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "what is put back": and_back(lambda: put(string, "mine", 1), lambda: delattr(string, "mine")),
    "the same value again": lambda: put(string, "digits", string.digits),
    "a file that is closed again": open_and_close,
    "a thread that has ended": run_thread,
    "an installed module": lambda: import_module("this"),
    "an installed module in a package": lambda: import_module("xml.dom.minidom"),
    "a pattern": lambda: re.compile("some (new) pattern"),
    "a loop that ends": lambda: asyncio.run(asyncio.sleep(0)),
    "a context that is left": lambda: contextvars.copy_context().run(contextvars.ContextVar("mine").set, 1),
    "a logger of which nothing is set": lambda: logging.getLogger("fresh.four").info("x"),
    "a class of its own": lambda: type("Mine", (), {}) and None,
    "the last error": lambda: put(sys, "last_value", ValueError()),
    "decimals in a context of their own": lambda: decimal.localcontext().__enter__() and None,
    "a collection": gc.collect,
}


@pytest.mark.parametrize("what", NO_CHANGES)
def test_what_leaves_nothing_is_no_change(what: str) -> None:
    do = NO_CHANGES[what]

    def silent() -> None:
        do()

    assert copied(silent, compares=True).words == []


def test_what_else_is_to_be_compared_is_asked_for_before_and_after() -> None:
    held = {"the weather": "fine", "the time": "noon"}
    world = World(lambda: dict(held), {})
    assert [each.words for each in world.changes()] == []
    held["the weather"] = "bad"
    assert [each.words for each in world.changes()] == ["changes the weather"]
    del held["the time"]
    assert [each.words for each in world.changes()] == ["changes the weather", "changes the time"]


def test_containers_of_modules_are_known_by_their_place_and_those_of_the_project_by_none() -> None:
    world = World(dict, {"string": string})
    string.kept = kept = [1]  # type: ignore[attr-defined]
    calendar.kept = other = {"a": 1}  # type: ignore[attr-defined]
    try:
        held = World(dict, {"string": string}).held()
        assert (held[id(kept)], held[id(other)]) == (None, ("calendar", "kept"))
        assert id(kept) not in world.held()
    finally:
        del string.kept, calendar.kept  # type: ignore[attr-defined]


def test_a_name_that_a_module_of_the_projects_finds_once_is_a_change() -> None:
    own = types.ModuleType("own_of_test")
    own._kept = None  # type: ignore[attr-defined]
    sys.modules["own_of_test"] = own
    with contextlib.ExitStack() as stack:
        stack.callback(sys.modules.pop, "own_of_test")
        theirs, ours = World(dict, {}), World(dict, {"own_of_test": own})
        own._kept = {}  # type: ignore[attr-defined]
        assert [each.words for each in theirs.changes()] == []  # as a library keeps what it has found
        assert [each.words for each in ours.changes()] == ["changes own_of_test._kept"]


def test_classes_are_compared_without_running_code_of_theirs() -> None:
    asked: list[str] = []

    class Meta(type):
        def __getattribute__(cls, name: str) -> object:
            asked.append(name)
            return type.__getattribute__(cls, name)

    class Watched(metaclass=Meta):
        """One whose attributes are noticed."""

    world = World(dict, {})
    type.__setattr__(Watched, "fresh", 1)
    asked.clear()
    assert [effect.words for effect in world.changes()] == [
        f"changes {HERE}.test_classes_are_compared_without_running_code_of_theirs.<locals>.Watched.fresh"
    ]
    assert asked == []
