"""The ids of the cells that ran in a shell, by which the file of its notebook is recognised."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

_MAX_IDS = 10_000


class CellIds:
    """Notes the ids of the cells that run, from the one that makes it."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._ids: set[str] = set()
        self._note(self.running)
        shell.events.register("pre_run_cell", self._note_cell)

    def close(self) -> None:
        """Stop watching the user's cells."""
        with suppress(ValueError):
            self._shell.events.unregister("pre_run_cell", self._note_cell)

    @property
    def request(self) -> Mapping[str, Any]:
        """The request that the running cell came with; empty in a terminal."""
        get_parent = getattr(self._shell, "get_parent", None)
        parent = get_parent() if get_parent is not None else None
        return cast("Mapping[str, Any]", parent) if isinstance(parent, dict) else {}

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
        self._note(getattr(info, "cell_id", None))

    def _note(self, cell_id: object) -> None:
        if isinstance(cell_id, str) and len(self._ids) < _MAX_IDS:
            self._ids.add(cell_id)
