"""When there can be no copy of this process, and why."""

from __future__ import annotations

import hashlib
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import wait_until

from indus_nb.kernel.preview import obstacle, working_thread
from indus_nb.kernel.preview.possible import room_for_copy
from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")
POSSIBLE = "indus_nb.kernel.preview.possible"


def uses(_: str) -> bool:
    return True


def uses_not(_: str) -> bool:
    return False


def test_here_there_can_be_one() -> None:
    assert obstacle(uses_not) == ""


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("landlock_version", lambda: 0, "this system has no Landlock"),
        ("can_filter", lambda: False, "this processor's system calls are not known"),
        ("free_memory", lambda: 1 << 20, "too little memory is free for a copy of the kernel"),
        ("_SECONDS_PER_PAGE", 1.0, "which takes too long to copy"),
    ],
)
def test_a_system_that_cannot_have_one_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object, why: str
) -> None:
    monkeypatch.setattr(f"{POSSIBLE}.{name}", value)
    assert why in obstacle(uses_not)


def test_there_is_room_while_as_much_is_free_as_this_process_may_have_to_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{POSSIBLE}.free_memory", lambda: 0)
    own = -room_for_copy()
    assert own > 1 << 20
    monkeypatch.setattr(f"{POSSIBLE}.free_memory", lambda: 2 * own)
    assert 0.5 * own < room_for_copy() < 1.5 * own


@pytest.mark.parametrize(("module", "name"), [("jax", "JAX"), ("tensorflow", "TensorFlow")])
def test_a_library_whose_threads_a_copy_would_wait_for_is_named_once_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, types.ModuleType(module))
    assert obstacle(uses_not) == f"{name} does not work in a copy of a process"


@contextmanager
def thread_called(comm: str) -> Iterator[None]:
    """A thread that waits, and that the system knows by a name."""
    begun, over = threading.Event(), threading.Event()

    def wait() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(comm)
        begun.set()
        over.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    ("comm", "module", "name"), [("polars-3", "polars", "Polars"), ("DuckDBPool", "duckdb", "DuckDB")]
)
def test_a_librarys_pool_matters_to_code_that_uses_the_library(
    monkeypatch: pytest.MonkeyPatch, comm: str, module: str, name: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, types.ModuleType(module))
    assert obstacle(uses) == ""
    with thread_called(comm):
        assert obstacle(uses) == f"{name} does not work in a copy of a process"
        assert obstacle(uses_not) == ""
        assert obstacle(lambda package: package != module) == ""
    wait_until(lambda: obstacle(uses) == "")  # a thread that was joined is there a moment longer


@contextmanager
def at_work(name: str) -> Iterator[None]:
    """A thread that works without the interpreter's lock."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            hashlib.pbkdf2_hmac("sha256", b"a", b"b", 500_000)

    thread = threading.Thread(target=work, name=name)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_thread_that_works_within_a_library_is_named_and_ours_are_not() -> None:
    with at_work("indus_nb ours"), at_work("theirs"):
        found: set[str] = set()
        wait_until(lambda: "theirs" in (found.add(working_thread()) or found))
    assert found <= {"", "theirs"}
