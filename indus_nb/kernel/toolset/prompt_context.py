"""What a prompt tells of a kernel: cells that ran since the last one, variables that changed, and profiles of data.

What this module promises: a conversation's own messages hold what it knows, so a fork, or another branch, gets what is
new to it, and nothing is sent twice. What a compaction has dropped of them is not known any more, but for the cells, of
which its summary tells. That the kernel is another one than the last that was told of is said once. With a cassette the
text does not depend on when the extension was loaded.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.core.resources.settings import NotebookSettings
from indus_nb.core.storage.entries import Entry
from indus_nb.kernel.run.journal import Journal
from indus_nb.kernel.toolset.profiles import Profiles
from indus_nb.kernel.toolset.told_again import Known, Told, ToldAgain
from indus_nb.kernel.toolset.variables import KernelVariables
from indus_nb.models.cassettes.environment import environment_cassette, is_in_use
from indus_nb.render.context import CONTEXT_TYPE

_NAME = re.compile(r"\b[^\W\d]\w*")
_LIST_SECONDS, _PROFILE_SECONDS = 0.2, 0.02
"""Processor time for the list of variables, which is whole within that in any usual case, and for profiles. A list that
ends early is another one each time, and is sent again."""
_WHOLE_SECONDS = 2.0
"""The same for both with a cassette, whose answers are found again by what was told."""
_NEW_KERNEL = (
    "The kernel is a new one since: of the variables, imports and definitions from before nothing is there any more, "
    "but for what is named below."
)
_MAX_PROMPT_CHARACTERS = 20_000
"""As much of a prompt is looked through for names of frames."""


class PromptContext:
    """The context of prompts about one shell."""

    def __init__(
        self,
        journal: Journal,
        variables: KernelVariables,
        busy: Callable[[], bool] = lambda: False,
        asked_in: Callable[[], str | None] = lambda: None,
        elsewhere: Callable[[str | None], str] = lambda _cell: "",
    ) -> None:
        """Tell of these cells and variables.

        Args:
            busy: Whether code runs that may change a frame while it is looked at.
            asked_in: Returns the id of the cell that asks, or ``None``.
            elsewhere: Returns the name of a cell's notebook where that is another one than what is asked from.
        """
        self._elsewhere = elsewhere
        self._asked_in = asked_in
        self._again = ToldAgain(journal, variables)
        self._busy = busy
        self._journal = journal
        self._variables = variables
        self._id = secrets.token_hex(4)

    def message(self, prompt: str, newest_first: Iterable[Entry], wanted: NotebookSettings) -> Mapping[str, Any] | None:
        """Return the message that goes before a prompt; ``None`` if there is nothing new."""
        self._journal.begin_use()
        cell = self._asked_in() if environment_cassette.kept is not None else None
        known = self._known(newest_first)
        noted = None if cell is None else self._again.find(cell, prompt, known)
        found = self._told(known, wanted, prompt) if noted is None else noted.told
        if cell is not None and noted is None:
            self._again.note(cell, prompt, known, found)
        if found is None:
            return None
        content, details = found[:2]
        return {"customType": CONTEXT_TYPE, "content": content, "display": False, "details": details}

    def untold(
        self, newest_first: Iterable[Entry], wanted: NotebookSettings, prompt: str = ""
    ) -> tuple[str, JsonObject] | None:
        """Write what a conversation does not know yet: cells, variables, profiles of frames.

        Args:
            prompt: Names frames; those come first whose names are in it, before those in the cells. A cell that stands
                in it is not told once more.

        Returns:
            The text, and what it is about; ``None`` if there is nothing new.
        """
        found = self._told(self._known(newest_first), wanted, prompt)
        return None if found is None else found[:2]

    def _told(self, before: Known, wanted: NotebookSettings, prompt: str) -> Told | None:
        known, is_new = before.details, before.is_new_kernel
        last = known.get("cell")
        cells, new_cells = "", 0
        if wanted.tell_cells:
            index = last if isinstance(last, int) else 0
            cells, new_cells = self._journal.since(index, prompt, self._elsewhere, from_use=is_in_use())
        named = _NAME.findall(cells)
        held, count = "", 0
        if wanted.tell_variables:
            held, count = self._variables.summary(named, _WHOLE_SECONDS if is_in_use() else _LIST_SECONDS)
        digest = hashlib.sha256(held.encode(errors="replace")).hexdigest()[:16] if held else ""
        profiles = Profiles("", 0, _texts(known.get("profiles")))
        if wanted.tell_variables and wanted.tell_profile and not self._busy():
            in_prompt = _NAME.findall(prompt[:_MAX_PROMPT_CHARACTERS])
            names = [*in_prompt, *reversed(named)]
            seconds = _WHOLE_SECONDS if is_in_use() else _PROFILE_SECONDS
            profiles = self._variables.profiles(names, profiles.digests, seconds)
        is_new = is_new and (wanted.tell_cells or wanted.tell_variables)
        parts = [_NEW_KERNEL] if is_new else []
        parts += [cells] if cells else []
        if held and digest != known.get("variables"):
            parts.append(f"The user's variables now:\n{held}")
        else:
            held, count = "", 0
        if profiles.text:
            parts.append(f"What the frames hold now (`variables` with a name shows more):\n{profiles.text}")
        if not parts:
            return None
        details: JsonObject = {"kernel": self._id, "cell": self._journal.count, "variables": digest}
        details |= {"profiles": dict(profiles.digests)} if profiles.digests else {}
        details |= {"newKernel": True} if is_new else {}
        details |= {"toldCells": new_cells, "toldVariables": count, "toldProfiles": profiles.told}
        of_frames: Mapping[str, str] = profiles.digests if profiles.text else {}
        return Told(clean_text("\n\n".join(parts)), details, held, of_frames)

    def _known(self, newest_first: Iterable[Entry]) -> Known:
        """Return what was told last, and whether that was in another kernel, of which nothing is left.

        Of what a compaction has dropped it is only which cells that were.
        """
        dropped, first_kept = False, None
        for entry in newest_first:
            if entry.type == "compaction" and first_kept is None:
                first_kept = entry.data.get("firstKeptEntryId") or entry.id
            if entry.type == "custom_message" and entry.data.get("customType") == CONTEXT_TYPE:
                details: object = entry.data.get("details")
                if isinstance(details, dict):
                    found = cast("JsonObject", details)
                    if found.get("kernel") != self._id:
                        return Known({}, is_new_kernel=True)
                    return Known({"cell": found.get("cell")} if dropped else found)
            dropped = dropped or entry.id == first_kept
        return Known({})


def _texts(found: object) -> dict[str, str]:
    """Return the digests that stand in a session's file."""
    if not isinstance(found, dict):
        return {}
    pairs = cast("JsonObject", found).items()
    return {name: digest for name, digest in pairs if isinstance(digest, str)}
