"""Context files: what a user wants the model to know in every session within a directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from indus_nb.resources.search import Search

_NAMES = ("AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")


@dataclass(frozen=True, slots=True)
class ContextFile:
    """What a user wants the model to know in every session within a directory."""

    path: Path
    content: str


def find_context_files(search: Search, directories: Iterable[Path]) -> list[ContextFile]:
    """Read the context file of each directory.

    Args:
        search: Reads the files, and reports those that cannot be used.
        directories: Where to look, in the order in which the model is shown their files.

    Returns:
        One file for each directory that has one with text in it; each file once, whatever leads to it.
    """
    found: dict[str, ContextFile] = {}
    for directory in directories:
        for name in _NAMES:
            path = directory / name
            text = search.text(path)
            if text is not None:
                if content := text.strip():
                    found.setdefault(os.path.realpath(path), ContextFile(path, content))
                break
    return list(found.values())
