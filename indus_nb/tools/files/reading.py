"""Shared parts of the tools that read: the question about a file, and the file that is read then."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from indus_nb.tools.description import Approval, CallDescription, Target
from indus_nb.tools.files.paths import rejection, resolve
from indus_nb.tools.files.targets import located, parent_of
from indus_nb.tools.tool import ToolContext


def describe_read(
    default: CallDescription, path: str, cwd: Path, verb: str, *, searches: bool = False
) -> CallDescription:
    """Describe a call that reads a file or a directory.

    Args:
        cwd: Directory that relative paths start from.
        searches: True if it reads all that is below a directory.

    Returns:
        The description; its question names the file that is reached through all links.
    """

    def approval() -> Approval:
        target = located(path, cwd)
        return replace(default.approval(), question=f"{verb} {target.path}?", effects=(), target=target)

    return replace(default, approval=approval, rejection=rejection(path), reads=True, searches=searches)


def read_target(path: str, cwd: Path, context: ToolContext) -> Target:
    """Return the file that a call reads: the one that it was allowed for, else the present target of the path.

    Args:
        cwd: Directory that relative paths start from.

    Returns:
        The file, by its real path.
    """
    return context.target or located(path, cwd)


async def searched_path(path: str, cwd: Path, context: ToolContext) -> Path:
    """Return the path that a search starts from; one that was allowed must still be the same.

    Args:
        cwd: Directory that relative paths start from.

    Raises:
        ToolError: It leads elsewhere by now.
    """
    target = context.target
    if target is None:
        return resolve(path, cwd)
    await asyncio.to_thread(_look_again, target)
    return target.path


def _look_again(target: Target) -> None:
    try:
        with parent_of(target):
            pass
    except OSError:
        pass  # the search itself will report what is wrong
