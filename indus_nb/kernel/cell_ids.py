"""The ids of the cells that ran in a shell, by which the file of its notebook is recognised."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar, cast

T = TypeVar("T")
_MAX_IDS = 10_000


class Origin(NamedTuple):
    """Where a request to the notebook comes from: several notebooks may use one kernel.

    Attributes:
        client: The id that the page that ran the cell has for its connection to the kernel; each notebook has its own.
        widget: The comm of the widget in which the user asks, in the place of a cell.
        notebook: The notebook's file, where the request itself names it.
    """

    cell: str | None = None
    client: str | None = None
    widget: str | None = None
    notebook: str | None = None


ORIGIN: ContextVar[Origin | None] = ContextVar("indus_nb origin", default=None)
"""Set in the tasks of the agent's thread; what they start inherits it."""


async def asked_from(origin: Origin, work: Callable[[], Awaitable[T]]) -> T:
    """Do work whose requests to the notebook come from a place."""
    ORIGIN.set(origin)
    return await work()


class CellIds:
    """Notes the ids of the cells that run, from the one that makes it."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._ids: dict[str, str | None] = {}
        """The ids, with the connection over which each cell was run last."""
        self.numbers: dict[int, str] = {}
        """The ids by the numbers that the cells ran with, of those that have ended."""
        self.paths: dict[str, str] = {}
        """Where notebooks lie as their pages have said before their cells, by the connection."""
        self._begun: str | None = None
        """The cell that has begun, and not ended."""
        self._note(self.running)
        shell.events.register("pre_run_cell", self._note_cell)
        shell.events.register("post_run_cell", self._note_number)

    def close(self) -> None:
        """Stop watching the user's cells."""
        for event, callback in (("pre_run_cell", self._note_cell), ("post_run_cell", self._note_number)):
            with suppress(ValueError):
                self._shell.events.unregister(event, callback)

    @property
    def request(self) -> Mapping[str, Any]:
        """The request that the running cell came with; empty in a terminal."""
        get_parent = getattr(self._shell, "get_parent", None)
        parent = get_parent() if get_parent is not None else None
        return cast("Mapping[str, Any]", parent) if isinstance(parent, dict) else {}

    @property
    def origin(self) -> Origin:
        """Where what goes on was asked for: in the running cell, unless the task knows better."""
        return ORIGIN.get() or Origin(self.running, self.client)

    def ran_over(self, client: str | None) -> frozenset[str]:
        """Return the ids of the cells that were run over a connection; all of them without one."""
        self._note(self.running)
        return frozenset(own_id for own_id, own in self._ids.items() if client in (None, own))

    def number_of(self, cell: str | None) -> int | None:
        """Return the number that a cell ran with last, by its id; ``None`` where that is not known."""
        return next((number for number, own in reversed([*self.numbers.items()]) if own == cell), None)

    def code_of(self, cell: str | None, shown: int | None) -> str | None:
        """Return the code that a cell ran with last, by its id; ``None`` where that is not known.

        Args:
            shown: The number that stands at it; where it ran with another one, it does not show that run.
        """
        number, ran = self.number_of(cell), self._shell.history_manager.input_hist_raw
        return ran[number] if number is not None and number == shown and number < len(ran) else None

    def shown_at(self, cell: str | None, shown: int | None) -> int | None:
        """Return the number that stands at a cell, by its id; at the one that runs, which shows none, it will.

        Args:
            shown: The number that the page shows at it.
        """
        if shown is not None or cell is None or cell != self._begun:
            return shown
        # Some versions of IPython count a cell when it begins, and others when it has ended.
        return len(self._shell.history_manager.input_hist_raw) - 1

    def client_of(self, cell: str | None) -> str | None:
        """Return the connection over which a cell was run last, by its id; ``None`` where that is not known."""
        return self._ids.get(cell or "")

    @property
    def running(self) -> str | None:
        """The id that the front end gave the running cell."""
        metadata: Any = self.request.get("metadata")
        found: object = metadata.get("cellId") if isinstance(metadata, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return found if isinstance(found, str) else None

    @property
    def ran(self) -> frozenset[str]:
        """The ids of the cells that ran, and of the one that runs."""
        self._note(self.running)
        return frozenset(self._ids)

    def _note_cell(self, info: Any) -> None:
        cell_id = getattr(info, "cell_id", None)
        self._note(cell_id)
        if getattr(info, "store_history", False):  # else it is the agent's, within that of the user's
            self._begun = cell_id

    def _note_number(self, result: Any) -> None:
        # While the cell runs, some versions of IPython count it already and others do not.
        info, number = getattr(result, "info", None), getattr(result, "execution_count", None)
        cell_id: object = getattr(info, "cell_id", None)
        if not (isinstance(cell_id, str) and isinstance(number, int) and getattr(info, "store_history", False)):
            return
        self._begun = None
        if len(self.numbers) < _MAX_IDS:
            self.numbers[number] = cell_id

    def _note(self, cell_id: object) -> None:
        if isinstance(cell_id, str) and (cell_id in self._ids or len(self._ids) < _MAX_IDS):
            self._ids[cell_id] = self.client

    @property
    def client(self) -> str | None:
        """The id that the page that ran the running cell has for its connection to the kernel."""
        header: object = self.request.get("header")
        client = cast("Mapping[str, object]", header).get("session") if isinstance(header, dict) else None
        return client if isinstance(client, str) else None
