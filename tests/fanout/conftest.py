"""Where questions for many rows are asked."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from messages_api import Gate

from indus_nb import agent
from indus_nb.base import front_end
from indus_nb.fanout.progress import Progress
from indus_nb.fanout.reporting import Reporter


@pytest.fixture
def in_work(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A working directory, with a model to ask and short waits; no tool that was defined there is left."""
    monkeypatch.chdir(home / "work")
    (home / "agent").mkdir()
    settings = {"defaultModel": "claude-haiku-4-5", "retry": {"baseDelayMs": 10}}
    (home / "agent" / "settings.json").write_text(json.dumps(settings))
    yield
    agent.forget()


@pytest.fixture
def interrupt_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Gate], None]]:
    """Ctrl-C, as a program has it, once the server stands at a gate, which opens when no more rows begin."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have switched it off
    threads: list[threading.Thread] = []

    def arm(gate: Gate) -> None:
        class Opening(Reporter):
            def show(self, progress: Progress) -> None:
                if progress.stopping:
                    gate.open()

        def interrupt() -> None:
            gate.reached.wait(240)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        monkeypatch.setattr(front_end, "reporter", lambda _: Opening())
        threads.append(threading.Thread(target=interrupt))
        threads[-1].start()

    yield arm
    for thread in threads:
        thread.join()
    signal.signal(signal.SIGINT, previous)
