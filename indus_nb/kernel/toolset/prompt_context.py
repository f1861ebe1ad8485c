"""What a prompt tells of a kernel: the cells that ran since the last one, and the variables if they changed.

What this module promises: a conversation's own messages hold what it knows, so a fork, or another branch, gets what is
new to it, and nothing is sent twice.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, cast

from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.core.resources.settings import NotebookSettings
from indus_nb.core.storage.entries import Entry
from indus_nb.kernel.run.journal import Journal
from indus_nb.kernel.toolset.variables import KernelVariables
from indus_nb.render.context import CONTEXT_TYPE

_NAME = re.compile(r"\b[^\W\d]\w*")


class PromptContext:
    """The context of prompts about one shell."""

    def __init__(self, journal: Journal, variables: KernelVariables) -> None:
        """Tell of these cells and variables."""
        self._journal = journal
        self._variables = variables
        self._id = secrets.token_hex(4)

    def message(self, newest_first: Iterable[Entry], wanted: NotebookSettings) -> Mapping[str, Any] | None:
        """Return the message that goes before a prompt; ``None`` if there is nothing new."""
        found = self.untold(newest_first, wanted)
        if found is None:
            return None
        content, details = found
        return {"customType": CONTEXT_TYPE, "content": content, "display": False, "details": details}

    def untold(self, newest_first: Iterable[Entry], wanted: NotebookSettings) -> tuple[str, JsonObject] | None:
        """Write the cells and variables that a conversation does not know yet.

        Returns:
            The text, and what it is about; ``None`` if there is nothing new.
        """
        known = self._known(newest_first)
        last = known.get("cell")
        cells, new_cells = self._journal.since(last if isinstance(last, int) else 0) if wanted.tell_cells else ("", 0)
        held, count = self._variables.summary(_NAME.findall(cells)) if wanted.tell_variables else ("", 0)
        digest = hashlib.sha256(held.encode(errors="replace")).hexdigest()[:16] if held else ""
        parts = [cells] if cells else []
        if held and digest != known.get("variables"):
            parts.append(f"The user's variables now:\n{held}")
        else:
            count = 0
        if not parts:
            return None
        details = {"kernel": self._id, "cell": self._journal.count, "variables": digest}
        details |= {"toldCells": new_cells, "toldVariables": count}
        return clean_text("\n\n".join(parts)), details

    def _known(self, newest_first: Iterable[Entry]) -> JsonObject:
        for entry in newest_first:
            if entry.type == "custom_message" and entry.data.get("customType") == CONTEXT_TYPE:
                details: object = entry.data.get("details")
                if isinstance(details, dict) and cast("JsonObject", details).get("kernel") == self._id:
                    return cast("JsonObject", details)
        return {}
