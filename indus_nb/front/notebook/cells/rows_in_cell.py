"""``%agent map`` in a cell: its result and its progress, with Stop where a page shows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from indus_nb.base.errors import Interrupted, UsageError
from indus_nb.core.session.questions import Choice, Decision, Question
from indus_nb.fanout.agent import agent
from indus_nb.fanout.reporting import Reporter, bundle_of
from indus_nb.fanout.running import RowsInterrupted
from indus_nb.fanout.words import rows_of
from indus_nb.front.notebook.magic import Rows
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.output import NOTHING, Display, screen_of

if TYPE_CHECKING:
    from indus_nb.core.session.session import AgentSession
    from indus_nb.fanout.progress import Progress
    from indus_nb.fanout.results import Answers
    from indus_nb.front.notebook.page.comm_gate import CommGate
    from indus_nb.front.notebook.page.protocol import CellRequest
    from indus_nb.front.notebook.page.widget import AgentWidget

_PAGE_SECONDS = 3.0
"""Time for a page to answer, before a display without Stop is shown; one that answers later gets the widget."""
_YES, _NO = "Yes", "No"
SAMPLE_STOPPED = "Stopped: the sample has its answers, and no other row was asked."


def ask_rows(rows: Rows, session: AgentSession, shell: Any, decide: Callable[[Question], Decision] | None) -> Answers:
    """Run ``%agent map``: the answers are in the user's variable when this returns.

    Args:
        session: The conversation, whose model answers unless another is named.
        decide: Asks the user, after a sample, whether to go on with the other rows; ``None`` where no user can answer.

    Raises:
        IndusError: Nothing could be asked.
        RowsInterrupted: The user has interrupted it; the variable has the answers so far.
    """
    kind = None
    if rows.result is not None:
        from indus_nb.core.answers.naming import kind_in

        kind = kind_in(rows.result, shell.user_ns, "--result")
    data = _evaluated(shell, "over", rows.data)
    options = dict(rows.options)
    if options.get("sure", "twice") != "twice":
        options["sure"] = _evaluated(shell, "--sure", options["sure"])
    if "over" in options:
        options["over"] = _evaluated(shell, "--engine", options["over"])
    if session.model is not None and "model" not in options and "provider" not in options:
        options |= {"provider": session.model.provider, "model": session.model.id}
    tools = options.pop("tools", "").replace(",", " ").split()
    if "files" in options:
        options["files"] = [name.strip() for name in options["files"].split(",") if name.strip()]
    name = rows.output
    try:
        shell.user_ns[name] = answers = agent.map(rows.question, data, result=kind, tools=tools, **options)
        samples = "sample" in options and "estimate" not in options
        if samples and decide is not None and _goes_on(answers, shell, decide):
            shell.user_ns[name] = answers = answers.retry()
    except RowsInterrupted as stopped:
        shell.user_ns[name] = stopped.result
        raise RowsInterrupted(stopped.result, name) from None
    again = f", {name}.retry() asks for the others" if answers.failed else ""
    lines = [f"{answers.summary}: {name} has the answers, {name}.frame the data with them{again}.", *answers.problems]
    text, reasons = "\n".join(lines), answers.failures
    screen_of(shell).show(blocks.table(text, reasons) if reasons else blocks.notice(text), final=True)
    return answers


def _goes_on(answers: Answers, shell: Any, decide: Callable[[Question], Decision]) -> bool:
    """Show what a sample gave, and ask the user whether the other rows are asked."""
    others = sum(row.error is None and not row.answered for row in answers.rows)
    if not others or answers.cost_left is None:
        return False
    screen_of(shell).show(shell.display_formatter.format(answers)[0], final=True)
    heading = f"Go on with the other {rows_of(others)} for about ${answers.cost_left:.4f}?"
    try:
        return decide(Question(heading, [Choice(_YES, "yes"), Choice(_NO, "no")])).option == _YES
    except Interrupted:
        raise RowsInterrupted(answers) from None


def _evaluated(shell: Any, option: str, expression: str) -> Any:
    try:
        return shell.ev(expression)
    except Exception as error:  # of the user's expression, whatever it is
        raise UsageError(f"{option} {expression}: {type(error).__name__}: {error}") from error


class RowsInCell(Reporter):
    """Progress in the output of the cell that runs.

    Its arguments are those that `Conversations` uses for other cells that wait.

    Args:
        live: Makes the widget, if a page may show one, from the callback for its requests.
        gate: Returns the gate that delivers the widget's messages while the cell is busy.
        call: Runs work on the agent's thread, which alone may use the widget.
        shows: Whether the cell shows progress.
    """

    def __init__(
        self,
        shell: Any,
        live: Callable[[Callable[[CellRequest], None]], AgentWidget | None],
        gate: Callable[[], CommGate | None],
        call: Callable[[Callable[[], object]], None],
        *,
        shows: bool,
    ) -> None:
        self._shell = shell
        self._make = live
        self._gate_of = gate
        self._call = call
        self.on_begun: Callable[[RowsInCell], None] = lambda _: None
        """Called often while rows are asked."""
        self.on_ended: Callable[[RowsInCell], None] = lambda _: None
        """Called when no more are."""
        self._shows = shows
        self._live: AgentWidget | None = None
        self._is_late = False
        """Whether a display without Stop stands for the widget, which no page has shown in time."""
        self._gate: CommGate | None = None
        self._display: Display | None = None
        self._shown = ""
        self._open = ExitStack()
        self._since = 0.0

    def begin(self, stop: Callable[[], None]) -> None:
        """Show the widget, whose Stop calls ``stop``."""

        def receive(request: CellRequest) -> None:
            if request.kind == "stop":
                stop()

        self.on_begun(self)
        if not self._shows:
            return
        self._live = live = self._make(receive)
        if live is not None and (gate := self._gate_of()) is not None:
            self._gate = gate
            self._open.enter_context(gate.busy())
            self._open.callback(gate.forget, live.comm_id)
            self._open.callback(self._call, live.close)
            self._call(partial(live.set, busy=True, started_ms_ago=0))
        self._display = screen_of(self._shell).show(NOTHING if live is None else live.bundle, final=False)
        self._since = time.monotonic()

    def show(self, progress: Progress) -> None:
        """Update the widget; as long as no page answers, a display without Stop."""
        self.on_begun(self)
        if self._gate is not None:
            self._gate.pump()
        bundle, live = bundle_of(progress), self._live
        is_ready = live is not None and live.ready.is_set()
        if self._display is None or (bundle["text/plain"] == self._shown and not (is_ready and self._is_late)):
            return
        if live is not None and is_ready:
            if self._is_late:
                self._display.update(live.bundle, final=False)
                self._is_late = False
            self._call(partial(_draw, live, bundle["text/html"]))
        elif live is None or self._is_late or time.monotonic() - self._since >= _PAGE_SECONDS:
            self._is_late = True
            self._display.update(bundle, final=False)
        else:
            return
        self._shown = bundle["text/plain"]

    def end(self, progress: Progress | None) -> None:
        """Leave the last state in the cell, and close the widget."""
        self.on_ended(self)
        self._open.close()
        if self._display is not None:
            self._display.update(NOTHING if progress is None else bundle_of(progress), final=True)


def _draw(live: AgentWidget, html: str) -> None:
    live.put("rows", html)
    live.send()
