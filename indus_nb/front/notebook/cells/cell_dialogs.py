"""The session's dialogs in a cell: in its widget where a page can answer, else with ``input()``.

A page that can answer is ready within a fraction of a second, also while the cell is busy. Dialogs wait until that is
known. A page may be ready and yet draw no view: a dialog that no view shows within `_VIEW_SECONDS` is asked with
``input()`` as well, and a page that is ready later shows it, too. The first answer counts, and ends the other. A cell
that does not wait has no ``input()``: it names the command that asks in another cell.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from indus_nb.base.terminal import read_through
from indus_nb.base.textcut import middle_lines, one_line
from indus_nb.core.session.dialogs import (
    Answer,
    Cancel,
    Confirm,
    Dialog,
    Editor,
    Input,
    Notify,
    Select,
    Ui,
    UiFrame,
)
from indus_nb.core.session.questions import Choice, Question
from indus_nb.front.notebook.view.output import free_line
from indus_nb.kernel.run.agent_thread import AgentThread, Inbox
from indus_nb.render.markup import plain

_IN_LINE, _HEADING_IN_LINE = 30, 60
"""Characters of a choice, and of the heading, in the line where the user types; both are written out above."""
_LINES_OF_OUTCOME = 6
_MAX_HEADING_CHARACTERS = 80
_VIEW_SECONDS = 3.0
"""Time for a page that is ready to draw a view of a dialog."""
Ask: TypeAlias = Callable[[str], str]
"""Shows a prompt, and returns the line that the user types."""


class CellDialogs:
    """Dialogs of one session in one cell; used on the agent's thread.

    ``in_page`` shows a frame in the widget, and returns whether it could; ``None`` means that this is not known yet.
    ``note_typed`` tells the widget which dialogs ``input()`` asks, by their ids, with the line before the box: before
    it asks one, and of all so far, for the view of an earlier one may not have been told yet that it is answered.
    ``inbox`` belongs to the thread that may call ``input()``; without one there is no such thread, and the dialog waits
    for another host of the session. ``show_notice`` shows a line in the cell.
    """

    def __init__(
        self,
        ui: Ui,
        thread: AgentThread,
        *,
        in_page: Callable[[UiFrame], bool | None],
        inbox: Inbox | None,
        show_notice: Callable[[str], None],
        note_typed: Callable[[Mapping[str, str]], None] = lambda _: None,
    ) -> None:
        self._ui = ui
        self._thread = thread
        self._in_page = in_page
        self._note_typed = note_typed
        self._typed: dict[str, str] = {}
        self._inbox = inbox
        self._show_notice = show_notice
        self._asks = False
        self._undecided: list[UiFrame] = []
        self._over: set[str] = set()
        self._asked: str | None = None
        """The dialog that ``input()`` asks; it and ``_over`` are changed under the lock."""
        self._lock = threading.Lock()
        self._stream = sys.stdout  # as it is now: output of code is redirected
        self._detach: Callable[[], None] | None = None

    def attach(self, *, asks: bool) -> None:
        """Show the open dialogs and subscribe to new ones, until ``detach``.

        With ``asks`` also dialogs.
        """
        self._asks = asks
        self._detach = self._ui.attach(self._show, asks=asks)

    def open_dialogs(self) -> Sequence[tuple[Dialog, float | None]]:
        """List the dialogs that a page may show now.

        Each comes with the seconds until it answers itself.
        """
        return self._ui.open_dialogs_with_time(self._show) if self._asks and self._detach is not None else ()

    def detach(self) -> None:
        """Unsubscribe from the session's dialogs."""
        if self._detach is not None:
            self._detach()
            self._detach = None

    def decide(self) -> None:
        """Show the dialogs that waited until it was known whether a page can answer."""
        undecided, self._undecided = self._undecided, []
        for frame in undecided:
            self._show(frame)

    def withdraw(self, dialog_id: str) -> None:
        """Stop asking outside of the page: the dialog is over.

        An ``input()`` that asks it already ends as if it was interrupted.
        """
        with self._lock:
            self._over.add(dialog_id)
            if self._asked == dialog_id:
                self._asked = None
                _thread.interrupt_main()  # while its handler stands: who asks takes the lock before that goes

    def _show(self, frame: UiFrame) -> None:
        if isinstance(frame, Notify):
            self._show_notice(plain(frame.message))
            return
        if isinstance(frame, Cancel):
            self.withdraw(frame.target_id)
        shown = self._in_page(frame)
        if shown is None:
            self._undecided.append(frame)
        elif not shown:
            self._show_outside(frame)
        elif isinstance(frame, Dialog):
            asyncio.get_running_loop().call_later(_VIEW_SECONDS, self._ask_if_unseen, frame)

    def _ask_if_unseen(self, frame: Dialog) -> None:
        if self._detach is not None and self._ui.is_unseen(frame.id):
            self._ask_outside(frame)

    def _show_outside(self, frame: UiFrame) -> None:
        match frame:
            case Select() | Confirm() | Input() | Editor():
                self._ask_outside(frame)
            case _:
                pass  # status lines and widgets belong to a panel

    def _ask_outside(self, frame: Dialog) -> None:
        if self._inbox is not None:
            self._inbox.put(partial(self._ask, frame))
        elif frame.id not in self._over:
            question = self._ui.question(frame.id)
            heading = in_short(frame.title if question is None else question.heading)
            self._show_notice(f"You were asked: “{heading}” `%agent answer` in another cell shows the question.")

    def _ask(self, frame: Dialog) -> None:
        if frame.id in self._over:
            return
        answer: Answer = None
        reason = ""
        question = self._ui.question(frame.id)
        ask = partial(self._ask_below, frame.id)
        with free_line(), _interruptible() as was_interrupted, self._asking(frame.id) as is_open:
            if not is_open or (self._inbox is not None and self._inbox.interrupts):
                pass
            elif question is not None:
                answer, reason = _decide(question, ask)
            else:
                answer = _answer(frame, ask)
        if frame.id in self._over:
            return
        self._thread.call(partial(self._take, frame.id, answer, reason))
        if was_interrupted():
            os.kill(os.getpid(), signal.SIGINT)  # the main thread, which waits for the agent, counts it

    @contextlib.contextmanager
    def _asking(self, dialog_id: str) -> Generator[bool]:
        """Let `withdraw` end the ``input()`` within this context; yields whether the dialog is still open."""
        with self._lock:
            self._asked = dialog_id if threading.current_thread() is threading.main_thread() else None
        try:
            yield dialog_id not in self._over
        finally:
            with self._lock:
                self._asked = None

    def _ask_below(self, dialog_id: str, prompt: str) -> str:
        """Print a prompt, and ask in its last line: the box that some front ends show for ``input()`` has no more."""
        above, end, line = prompt.rpartition("\n")
        self._typed = {**self._typed, dialog_id: line}
        self._thread.call(partial(self._note_typed, self._typed))
        self._stream.write(above + end)
        self._stream.flush()
        return input(line)

    def _take(self, dialog_id: str, answer: Answer, reason: str) -> None:
        """Answer a dialog, and close it in a page that connected later."""
        self._ui.answer(dialog_id, answer, reason)
        self._in_page(Cancel(id=dialog_id, target_id=dialog_id))


def _answer(frame: Dialog, ask: Ask) -> Answer:
    match frame:
        case Select():
            return _choose(frame, ask)
        case Confirm():
            shown = read_through("\n".join(filter(None, (frame.title, frame.message))), ask)
            return shown is not None and ask(f"{shown}[y/N] ").strip().lower() in ("y", "yes")
        case Input():
            hint = f" ({plain(frame.placeholder)})" if frame.placeholder else ""
            return ask(f"{plain(frame.title)}{hint}: ")
        case Editor():
            return _write(frame, ask)


def _choose(frame: Select, ask: Ask) -> str | None:
    shown = read_through(frame.title, ask)
    if shown is None:
        return None
    listed = "\n".join(f"  {number}  {_one_line(option)}" for number, option in enumerate(frame.options, 1))
    question = f"{shown}\n{listed}\n\n1-{len(frame.options)}, or nothing to dismiss: "
    while True:
        chosen = ask(question).strip()
        if not chosen:
            return None
        if chosen.isdecimal() and 1 <= int(chosen) <= len(frame.options):
            return frame.options[int(chosen) - 1]
        question = f"{chosen!r} is none of 1-{len(frame.options)}. Which one, or nothing to dismiss: "


def _decide(question: Question, ask: Ask) -> tuple[str | None, str]:
    """Ask a question that has parts; returns the chosen option and its reason."""
    warnings = [f"⚠ {warning}" for warning in question.warnings]
    outcome = middle_lines(question.outcome, _LINES_OF_OUTCOME, "… {left} lines …")
    parts = ["\n".join([question.heading, *warnings]), question.diff or question.body, outcome]
    shown = read_through("\n\n".join(filter(None, parts)), ask)
    if shown is None:
        return None, ""
    choices = question.choices
    by_key = dict(sorted(zip(question.keys, choices, strict=True), key=lambda answer: int(answer[0])))
    listed = "\n".join(f"  {key}  {_one_line(_label(choice))}" for key, choice in by_key.items())
    refusal = next((choice.option for choice in choices if choice.kind == "no"), None)
    words = f"y, n{', n and why' if question.takes_reason else ''}"
    short = " · ".join(f"{key} {one_line(plain(_label(choice)), _IN_LINE)}" for key, choice in by_key.items())
    heading = one_line(plain(question.heading), _HEADING_IN_LINE)
    prompt = f"{shown}\n{listed}\n\n{heading} {short}, {words}, or nothing to dismiss: "
    while True:
        typed = ask(prompt).strip()
        word, _, reason = typed.partition(" ")
        if not typed:
            return None, ""
        if typed in by_key:
            return by_key[typed].option, ""
        if typed.lower() in ("y", "yes") and choices[0].kind == "yes":
            return choices[0].option, ""
        if word.lower().rstrip(",:") in ("n", "no") and refusal is not None:
            return refusal, reason.strip()
        prompt = f"{typed!r} is none of {', '.join(by_key)}, {words}. Which one, or nothing to dismiss: "


def _label(choice: Choice) -> str:
    return f"{'Yes, ' if choice.kind == 'again' else ''}{choice.label or choice.option}"


def in_short(heading: str) -> str:
    """Return the beginning of what a question asks, for a sentence about it."""
    return one_line(plain(heading), _MAX_HEADING_CHARACTERS)


def _one_line(text: str) -> str:
    return "\\n".join(plain(text).split("\n"))


def _write(frame: Editor, ask: Ask) -> str | None:
    """Read lines up to a single dot; returns ``None`` to keep the text when there are none."""
    prefill = f"\n{plain(frame.prefill)}\n" if frame.prefill else ""
    lines: list[str] = []
    question = f"{plain(frame.title)}{prefill}\nWrite lines, and a dot alone to end; a dot at once keeps the text: "
    while (line := ask(question)) != ".":
        lines.append(line)
        question = ""
    return "\n".join(lines) if lines else frame.prefill


@contextlib.contextmanager
def _interruptible() -> Generator[Callable[[], bool]]:
    """Let SIGINT end ``input()`` within this context.

    Yields a function that returns, afterwards, whether there was one.
    """
    interrupts: list[int] = []
    on_main = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGINT, signal.default_int_handler) if on_main else None
    try:
        yield lambda: bool(interrupts)
    except KeyboardInterrupt:
        interrupts.append(signal.SIGINT)
    except (EOFError, NotImplementedError):
        pass  # there is no user to answer after all
    finally:
        if on_main:
            signal.signal(signal.SIGINT, previous or signal.SIG_DFL)
