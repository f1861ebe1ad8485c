"""Kernel of a panel: variables in prompts, cells that ran, and commands like those of ``%agent``."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.messages import Attachment, Message, going_along
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage.entries import Entry
from indus_nb.front.notebook.magic import Command
from indus_nb.front.notebook.magic.options import COMMANDS
from indus_nb.front.notebook.magic.subcommands import serve
from indus_nb.front.notebook.panel.surroundings import Filled, PanelCommand
from indus_nb.front.notebook.taking_back import (
    TakingBack,
    asked_since,
    state_wanted,
    steps_wanted,
)
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.transcript import ValuesOf
from indus_nb.kernel.claims import Show
from indus_nb.kernel.document import NotebookTools
from indus_nb.kernel.run.journal import Journal
from indus_nb.kernel.run.namespace import UserNamespace
from indus_nb.kernel.values.describe import for_prompt
from indus_nb.kernel.values.interpolation import Computed, interpolate, named_values
from indus_nb.render.untraced import NO_TRACING, Tracing
from indus_nb.tools import ToolError

_OF_SESSIONS = ("model", "thinking", "stats", "trust", "approved", "doctor")
_STEPS = ("undo", "redo")
_NOTHING_CHANGED = "Nothing was changed."
_AS_IN_A_CELL = re.compile(r"`%agent (?=[a-z]+(?: (?:[A-Z\[]|forget |directory)[^`]*)?`)")


class PanelKernel:
    """The kernel of one shell, for its panels.

    Attributes:
        note_session: Records which session a notebook uses, and returns the notebook's id for its metadata.
        check_prompt: Raises ``UsageError`` if a session must not be asked now.
        values_of: Returns the values in a whole answer that has just ended, by its text; ``None`` where it has none.
        values_in: Returns what does so for stored messages in their order, given a conversation's entries, backwards.
        tracing: Returns what looks up where the numbers of a session's answers come from.
        watch_values: Has the values in answers shown that do not hold.
        check_values: Computes the stale ones again.
    """

    def __init__(
        self,
        namespace: UserNamespace,
        journal: Journal,
        notebook: NotebookTools,
        taking_back: TakingBack,
        compute: Callable[[Sequence[str]], Awaitable[Mapping[str, Computed]]],
    ) -> None:
        """Bind the kernel's namespace, journal, notebook and undo to its panels.

        Args:
            compute: Computes the values of placeholders in a copy of the kernel.
        """
        self.note_session: Callable[[AgentSession], str | None] = lambda _: None
        self.check_prompt: Callable[[AgentSession], None] = lambda _: None
        self.values_of: ValuesOf = lambda _text: None
        self.values_in: Callable[[Sequence[Message], Iterable[Entry]], ValuesOf] = lambda _messages, _entries: (
            self.values_of
        )
        self.tracing: Callable[[AgentSession], Tracing] = lambda _: NO_TRACING
        self.watch_values: Callable[[Show], Callable[[], None]] = lambda _: lambda: None
        self.check_values: Callable[[], Awaitable[None]] = _nothing
        self._compute = compute
        self._namespace = namespace
        self._journal = journal
        self._notebook = notebook
        self._taking_back = taking_back

    @property
    def commands(self) -> Mapping[str, PanelCommand]:
        """Return the kernel's commands by name, which a panel has besides its own."""
        declared = {name: COMMANDS[name] for name in (*_OF_SESSIONS, *_STEPS, "state")}
        return {
            name: PanelCommand(f"{each.usage}: {each.help}".lstrip(": "), whole=each.argument("") is not None)
            for name, each in declared.items()
        }

    def variables(self) -> Mapping[str, str]:
        """Return the names of the user's variables, each with the name of its class."""
        return self._namespace.kinds()

    async def fill_in(self, text: str, *, literal: bool) -> Filled:
        """Fill values of variables into a prompt, as ``%agent`` does.

        Args:
            literal: Whether nothing in it stands for a value.

        Raises:
            UsageError: A value cannot be looked up, or a cell of the user's runs.
        """
        # Which names there are needs no look at what they name.
        named = named_values(text, self._namespace.kinds())
        if literal:
            shown = textcut.one_line(", ".join(named), 200)
            return Filled(text, [f"{shown}: sent as it stands, for lines of the message were pasted."] if named else [])
        if not named:
            return Filled(interpolate(text, self._namespace.kinds(), for_prompt).text)
        beside: dict[str, str] = {}

        def put(source: str, value: str) -> str:
            """Keep lines beside the prompt, which then reads as it was typed."""
            if "\n" not in value:
                return value
            beside[source] = value
            return source

        fill = partial(interpolate, text, render=for_prompt, put=put)
        filled = await self._namespace.do(fill)
        if filled.to_compute:
            computed = await self._compute(filled.to_compute)
            filled = await self._namespace.do(partial(fill, computed=computed))
        if filled.kept:
            source, why = next(iter(filled.kept.items()))
            others = f" Nor have {len(filled.kept) - 1} more." if len(filled.kept) > 1 else ""
            raise UsageError(
                f"Nothing was sent: {source} has no value ({why}).{others} Between backticks it is sent as it stands."
            )
        missing = textcut.one_line(", ".join(f"{{{name}}}" for name in filled.missing), 200)
        notes = [f"{missing}: sent as it stands, there is no such variable."] if missing else []
        return Filled(filled.text, notes, [_named(source, value) for source, value in beside.items()])

    def cells(self) -> Mapping[int, str]:
        """Return the code of the cells that ran last, by the numbers that they ran with."""
        return self._journal.by_number

    async def cell(self, number: int) -> Attachment:
        """Return the cell with an execution number, with its printed output and its value.

        Raises ``UsageError`` if it is not known.
        """
        text = self._journal.cell(number)
        if text is None:
            try:
                text = await self._notebook.cell_that_ran(number)
            except ToolError as error:
                raise UsageError(f"Nothing was sent: @cell {number} is not known. {error}") from error
        return _named(f"cell In [{number}]", text)

    async def carry_out(self, session: AgentSession, name: str, argument: str) -> str:
        """Run one of ``commands``.

        Raises:
            IndusError: It failed.
        """
        given = COMMANDS[name].argument(argument)
        if given is None:
            raise UsageError(f"/{name} {COMMANDS[name].usage}: {COMMANDS[name].help}.")
        command = Command(name, given)
        if name in _STEPS:
            return await self._move_steps(session, command)
        if name == "state":
            do = partial(self._taking_back.state, session)
            stated = await asked_since(session.ui.choose, do, state_wanted(command.argument))
            text, rows = stated or (_NOTHING_CHANGED, ())
            text = text.replace("`%agent ", "`/")
            return blocks.table(text, rows)["text/html"]
        shown = await serve(command, session)
        return shown.bundle(partial(_AS_IN_A_CELL.sub, "`/"))["text/html"]

    async def _move_steps(self, session: AgentSession, command: Command) -> str:
        verb: Literal["undo", "redo"] = "redo" if command.name == "redo" else "undo"
        if command.argument == "list":
            await session.start()  # which restores the steps of earlier kernels
            text, rows = await self._taking_back.listed(session, verb)
            return blocks.table(text.replace("`%agent ", "`/"), rows)["text/html"]
        wanted = self._taking_back.meant(session, steps_wanted(verb, command.argument))
        moved = await asked_since(session.ui.choose, partial(self._taking_back.move, session), wanted)
        if moved is None:
            return blocks.notice(_NOTHING_CHANGED)["text/html"]
        done = "Taken back" if verb == "undo" else "Done once more"
        return blocks.notice(f"{done}: {moved}. `/{wanted.inverse}` turns that around.")["text/html"]


async def _nothing() -> None:
    """Compute nothing again: there are no values."""


def _named(name: str, text: str) -> Attachment:
    return going_along(name, f"{name}:\n{text}")
