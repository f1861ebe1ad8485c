"""Context files: what a user wants the model to know in every session within a directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from indus_nb.base.files import others_can_write
from indus_nb.core.resources.inputs import CONTEXT_NAMES
from indus_nb.core.resources.search import Search


@dataclass(frozen=True, slots=True)
class ContextFile:
    """Instructions for the model in every session within a directory."""

    path: Path
    content: str


def find_context_files(search: Search, directories: Iterable[Path], own: Iterable[Path] = ()) -> list[ContextFile]:
    """Read the context file of each directory.

    Args:
        search: Reads the files, and reports those that cannot be used.
        directories: Where to look, in the order in which the model is shown their files.
        own: Those of them that the user decided about, even if others can write to them. Of the rest only files are
            read that no other user can put there.

    Returns:
        One file for each directory that has one with text in it; each file once, whatever leads to it.
    """
    found: dict[str, ContextFile] = {}
    decided = frozenset(own)
    for directory in directories:
        for name in CONTEXT_NAMES:
            path = directory / name
            if directory not in decided and _is_open_to_others(path):
                search.report(path, "is not used: others than you own it or its directory, or can write there")
                break
            text = search.text(path)
            if text is not None:
                if content := text.strip():
                    found.setdefault(os.path.realpath(path), ContextFile(path, content))
                break
    return list(found.values())


def _is_open_to_others(path: Path) -> bool:
    try:
        return any(others_can_write(place.stat()) for place in (path, path.parent))
    except OSError:
        return False  # it is not there
