"""The tools that change files, ``write`` and ``edit``, and ``ls``."""

from __future__ import annotations

import asyncio
import errno
import heapq
import json
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from indus_nb.base.events import ToolOutput
from indus_nb.base.files import write_atomically
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import wire_field
from indus_nb.safety.effects import Effect
from indus_nb.tools.description import Approval, CallDescription, Target
from indus_nb.tools.files.paths import failure, rejection, resolve
from indus_nb.tools.files.previews import edited_file, file_notes, replacements, written_file
from indus_nb.tools.files.reading import describe_read, searched_path
from indus_nb.tools.files.replacement import Replacement
from indus_nb.tools.files.targets import located, open_target, parent_of
from indus_nb.tools.tool import Arguments, FunctionTool, ToolContext, ToolError, in_thread, text_output
from indus_nb.tools.truncate import head, size_text

if TYPE_CHECKING:
    from indus_nb.tools.files.edit import Edited

_MAX_EDITED = 64 << 20
_MAX_ENTRIES = 500


class FileQueue:
    """Queue of changes of each file, in the order in which they came, whatever name the file goes by."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def turn(self, path: Path) -> asyncio.Lock:
        """Return the lock to hold while ``path`` is changed."""
        return self._locks.setdefault(os.path.realpath(path), asyncio.Lock())


class WriteArguments(Arguments):
    """What the model gives."""

    path: str = wire_field(description="Relative to the working directory, or absolute")
    content: str = wire_field(description="All of the file")


def write_tool(cwd: Path, queue: FileQueue) -> FunctionTool[WriteArguments]:
    """Make the ``write`` tool.

    Args:
        cwd: Directory that relative paths start from.
    """

    async def run(arguments: WriteArguments, context: ToolContext) -> ToolOutput:
        path = resolve(arguments.path, cwd)
        data = arguments.content.encode(errors="replace")

        def write(stop: threading.Event) -> None:
            if stop.is_set():
                return
            if context.target is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, data, in_place=True)
            else:
                _write(context.target, data)

        async with queue.turn(path if context.target is None else context.target.path):
            try:
                await in_thread(write)
            except OSError as error:
                raise failure("write", arguments.path, error) from error
        return text_output(f"Wrote {len(data)} bytes to {arguments.path}")

    def describe(default: CallDescription, arguments: WriteArguments) -> CallDescription:
        def approval() -> Approval:
            target = located(arguments.path, cwd)
            shown, diff = written_file(target, arguments.content)
            language = target.path.suffix[1:] if shown == arguments.content else ""
            asked = Approval(f"Write {target.path}?", shown, language=language, diff=diff)
            return _of_file(asked, "writes", target, arguments.path, cwd)

        wrong = rejection(arguments.path)
        return replace_fields(default, announces_start=True, approval=approval, rejection=wrong)

    return FunctionTool(
        name="write",
        description=(
            "Create a file, or replace all of one that is there. Missing folders are made. To change a part of a file "
            "use edit."
        ),
        arguments=WriteArguments,
        run=run,
        describe=describe,
        secret_arguments=("content",),
        secrets_in_code=False,
    )


class EditArguments(Arguments):
    """What the model gives; one replacement may also stand beside ``path``, and ``edits`` be JSON in a string."""

    path: str = wire_field(description="Relative to the working directory, or absolute")
    edits: list[Replacement] = wire_field(
        min_items=1,
        description="Each oldText is looked for in the file as it was before the call",
    )

    @classmethod
    def usual_shape(cls, given: JsonObject) -> JsonObject:
        """Return all replacements as a list."""
        edits: Any = given.get("edits")
        if isinstance(edits, str):
            try:
                edits = json.loads(edits)
            except ValueError as error:
                raise ValueError(f"edits is a string that holds no JSON ({error}); give an array of objects") from error
        if "oldText" in given and "newText" in given and (edits is None or isinstance(edits, list)):
            edits = [*(edits or []), {"oldText": given["oldText"], "newText": given["newText"]}]
        return {**given, "edits": edits} if edits is not None else given


def edit_tool(cwd: Path, queue: FileQueue) -> FunctionTool[EditArguments]:
    """Make the ``edit`` tool.

    Args:
        cwd: Directory that relative paths start from.
    """

    async def run(arguments: EditArguments, context: ToolContext) -> ToolOutput:
        def edit(stop: threading.Event) -> Edited:
            from indus_nb.tools.files.edit import replace

            target = context.target or located(arguments.path, cwd)
            state = target.state
            if state is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            if stat.S_ISDIR(state.st_mode):
                raise IsADirectoryError(0, "It is a folder")
            if not stat.S_ISREG(state.st_mode) or state.st_size > _MAX_EDITED:
                raise ToolError(
                    f"{arguments.path} is no regular file of at most {size_text(_MAX_EDITED)}. "
                    "It was left as it is; change it with a shell command."
                )
            with open_target(target, name=arguments.path) as file:
                edited = replace(file.read(), arguments.edits)
            if not stop.is_set():
                _write(target, edited.data)
            return edited

        async with queue.turn(resolve(arguments.path, cwd) if context.target is None else context.target.path):
            try:
                edited = await in_thread(edit)
            except OSError as error:
                raise failure("edit", arguments.path, error) from error
        return edit_output(arguments, edited)

    def describe(default: CallDescription, arguments: EditArguments) -> CallDescription:
        def approval() -> Approval:
            target = located(arguments.path, cwd)
            diff = edited_file(target, arguments.edits)
            asked = Approval(f"Change {target.path}?", replacements(arguments.edits), diff=diff)
            return _of_file(asked, "changes", target, arguments.path, cwd)

        wrong = rejection(arguments.path)
        return replace_fields(default, announces_start=True, approval=approval, rejection=wrong)

    return FunctionTool(
        name="edit",
        description=(
            "Replace pieces of a text file. Each oldText must occur exactly once: keep it short, with enough around "
            "it to be unique. Make all changes to a file in one call, as separate edits that do not overlap. If one "
            "fails, nothing is changed."
        ),
        arguments=EditArguments,
        run=run,
        secret_arguments=("edits", "oldText", "newText", "old_text", "new_text"),
        secrets_in_code=False,
        describe=describe,
    )


def edit_output(arguments: EditArguments, edited: Edited) -> ToolOutput:
    """Build the result of ``edit``."""
    count = len(arguments.edits)
    return text_output(
        f"Replaced {count} block{'s' if count > 1 else ''} in {arguments.path}",
        {"diff": edited.diff, "firstChangedLine": edited.first_changed_line},
    )


def _write(target: Target, data: bytes) -> None:
    with parent_of(target, create=True) as at:
        write_atomically(Path(target.path.name), data, in_place=True, at=at)


def _of_file(asked: Approval, verb: str, target: Target, given: str, cwd: Path) -> Approval:
    """Add to a question about a change what the user should know of the file."""
    effect = Effect("writes_file", str(target.path), f"{verb} {target.path}")
    return replace_fields(asked, warning=file_notes(target, given, cwd), effects=(effect,), target=target)


class LsArguments(Arguments):
    """What the model gives."""

    path: str = wire_field(default=".", description="Folder to list; by default the working directory")
    limit: int = wire_field(default=_MAX_ENTRIES, ge=1, description="Most entries to show")


def ls_tool(cwd: Path) -> FunctionTool[LsArguments]:
    """Make the ``ls`` tool for paths relative to ``cwd``."""

    async def run(arguments: LsArguments, context: ToolContext) -> ToolOutput:
        path = await searched_path(arguments.path, cwd, context)
        try:
            names, total = await in_thread(lambda stop: _entries(path, arguments.limit, stop))
        except OSError as error:
            raise failure("list", arguments.path, error) from error
        if not names:
            return text_output("(empty directory)")
        shown = head("\n".join(names), max_lines=None)
        text = shown.content.removesuffix("\n")
        if shown.truncated:
            text += f"\n\n[Cut at {size_text(shown.max_bytes)}: {shown.output_lines} of {total} entries are shown]"
        elif total > len(names):
            text += f"\n\n[{len(names)} of {total} entries are shown; raise limit to see more]"
        return text_output(text, shown.details())

    return FunctionTool(
        name="ls",
        description=(
            "List a folder by name, dotfiles included; names of folders end with a slash. "
            f"At most {_MAX_ENTRIES} entries come back unless limit says otherwise."
        ),
        arguments=LsArguments,
        run=run,
        read_only=True,
        describe=lambda default, arguments: describe_read(default, arguments.path, cwd, "List"),
    )


def _entries(path: Path, limit: int, stop: threading.Event) -> tuple[list[str], int]:
    """Return the first ``limit`` names in order, and how many there are."""
    total = 0

    def names(entries: Iterable[os.DirEntry[str]]) -> Iterator[str]:
        nonlocal total
        for entry in entries:
            if stop.is_set():
                return
            total += 1
            name = os.fsencode(entry.name).decode(errors="replace")
            yield f"{name}/" if Path(entry.path).is_dir() else name

    with os.scandir(path) as entries:
        return heapq.nsmallest(limit, names(entries), key=lambda name: (name.casefold(), name)), total
