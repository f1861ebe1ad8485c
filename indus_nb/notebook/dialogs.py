"""The session's dialogs in a cell: asked with ``input()``, where somebody can answer that."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from indus_nb.markup import plain
from indus_nb.notebook import blocks
from indus_nb.notebook.thread import AgentThread, Inbox
from indus_nb.notebook.view import Screen
from indus_nb.ui import Answer, Cancel, Confirm, Dialog, Editor, Input, Notify, Select, Ui, UiFrame


class DialogHost:
    """Shows one session's dialogs in the cell that waits for it: a job for the waiting thread asks and answers."""

    def __init__(self, screen: Screen, inbox: Inbox, thread: AgentThread, ui: Ui) -> None:
        self._screen = screen
        self._inbox = inbox
        self._thread = thread
        self._ui = ui
        self._over: set[str] = set()

    @contextlib.contextmanager
    def attached(self) -> Generator[None]:
        """Show dialogs within this context, if the front end lets code ask for input."""
        if not can_ask():
            yield
            return
        detach = self._ui.attach(self._show)
        try:
            yield
        finally:
            detach()

    def _show(self, frame: UiFrame) -> None:
        match frame:
            case Select() | Confirm() | Input() | Editor():
                self._inbox.put(partial(self._ask, frame))
            case Cancel():
                self._over.add(frame.target_id)
            case Notify():
                self._inbox.put(partial(self._notify, plain(frame.message)))
            case _:
                pass  # what stands beside a conversation has no place in a cell that passes

    def _notify(self, message: str) -> None:
        self._screen.show(blocks.notice(message), final=True)

    def _ask(self, frame: Dialog) -> None:
        if frame.id in self._over:
            return
        answer: Answer = None
        with _interruptible() as was_interrupted:
            answer = _answer(frame)
        self._thread.call(partial(self._ui.answer, frame.id, answer))
        if was_interrupted():
            os.kill(os.getpid(), signal.SIGINT)  # whoever waits for the agent counts it


def can_ask() -> bool:
    """Whether somebody answers ``input()``: a front end that said so, or a terminal."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    kernel: Any = getattr(shell, "kernel", None)
    if kernel is None:
        return sys.stdin is not None and sys.stdin.isatty()
    content: Any = kernel.get_parent("shell").get("content", {})
    return bool(content.get("allow_stdin", False))


def _answer(frame: Dialog) -> Answer:
    match frame:
        case Select():
            return _choose(frame)
        case Confirm():
            question = f"{plain(frame.title)}\n{plain(frame.message)}\n[y/N] "
            return input(question).strip().lower() in ("y", "yes")
        case Input():
            hint = f" ({plain(frame.placeholder)})" if frame.placeholder else ""
            return input(f"{plain(frame.title)}{hint}: ")
        case Editor():
            return _write(frame)


def _choose(frame: Select) -> str | None:
    listed = "\n".join(f"  {number}  {plain(option)}" for number, option in enumerate(frame.options, 1))
    question = f"{plain(frame.title)}\n\n{listed}\n\n1-{len(frame.options)}, or nothing to dismiss: "
    while True:
        chosen = input(question).strip()
        if not chosen:
            return None
        if chosen.isdecimal() and 1 <= int(chosen) <= len(frame.options):
            return frame.options[int(chosen) - 1]
        question = f"{chosen!r} is none of 1-{len(frame.options)}. Which one, or nothing to dismiss: "


def _write(frame: Editor) -> str | None:
    """Lines up to one that is a single dot; nothing at all keeps the text."""
    prefill = f"\n{plain(frame.prefill)}\n" if frame.prefill else ""
    lines: list[str] = []
    question = f"{plain(frame.title)}{prefill}\nWrite lines, and a dot alone to end; a dot at once keeps the text: "
    while (line := input(question)) != ".":
        lines.append(line)
        question = ""
    return "\n".join(lines) if lines else frame.prefill


@contextlib.contextmanager
def _interruptible() -> Generator[Callable[[], bool]]:
    """Let an interrupt end ``input()`` within this context, and tell of it afterwards."""
    interrupts: list[int] = []
    on_main = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGINT, signal.default_int_handler) if on_main else None
    try:
        yield lambda: bool(interrupts)
    except KeyboardInterrupt:
        interrupts.append(signal.SIGINT)
    except (EOFError, NotImplementedError):
        pass  # nobody is there to answer after all
    finally:
        if on_main:
            signal.signal(signal.SIGINT, previous or signal.SIG_DFL)
