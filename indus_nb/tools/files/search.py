"""The tools that search: ``grep`` and ``find``.

They run ripgrep and fd where these are installed, and ``walk`` in their stead where they are not; neither is ever
downloaded. What comes out is the same.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

from indus_nb.base import textcut
from indus_nb.base.events import ToolOutput
from indus_nb.base.wire_model import wire_field
from indus_nb.safety.key_places import holds_keys
from indus_nb.tools.files.paths import failure
from indus_nb.tools.files.reading import describe_read, searched_path
from indus_nb.tools.processes.process import Child
from indus_nb.tools.tool import Arguments, FunctionTool, ToolContext, ToolError, in_thread, text_output
from indus_nb.tools.truncate import MAX_BYTES, Truncation, head, size_text

_MAX_MATCHES = 100
_MAX_LINE_CHARACTERS = 500
_MAX_FOUND = 1000
_MAX_FOUND_LIMIT = 10_000
_MAX_NAMED_FILES = 5
_MAX_RECORD_BYTES = 1 << 17
_MAX_SECONDS = 30.0
_MORE_SECONDS = 2.0
"""Time that a program may take beyond its own limit, in seconds."""
_LINE_NUMBER = re.compile(rb"(\d+)([:-])")


class _SearchFailedError(Exception):
    """Failure of a search program, with its message."""


async def _records(
    arguments: Sequence[str], cwd: Path, separator: bytes, seconds: float
) -> AsyncGenerator[bytes, None]:
    """Read a program's output, record by record; closing the generator kills it.

    Raises ``TimeoutError`` when it goes on for longer than ``seconds``.
    """
    until = asyncio.get_running_loop().time() + seconds + _MORE_SECONDS
    with tempfile.TemporaryFile() as complaints:
        anything = False
        try:
            child = Child(arguments, cwd=cwd, stderr=complaints)
        except (OSError, ValueError) as error:
            raise _SearchFailedError(f"{arguments[0]}: {error}") from error
        async with child:
            rest = b""
            while chunk := await child.read(until):
                *whole, rest = (rest + chunk).split(separator)
                rest = rest[:_MAX_RECORD_BYTES]
                for record in whole:
                    anything = True
                    yield record
            if rest:
                anything = True
                yield rest
        if child.exit_code and not anything:
            complaints.seek(0)
            if complaint := complaints.read(2000).decode(errors="replace").strip():
                raise _SearchFailedError(complaint)


def _walk(*arguments: str) -> list[str]:
    program = str(Path(__file__).with_name("walk.py"))
    # Without -P this directory's modules would come before the standard library's.
    return [sys.executable, "-P", "-X", "utf8", "-W", "ignore", program, *arguments]


def _outside_git(directory: Path) -> list[str]:
    """Return the option that makes ignore files count where there is no repository."""
    if any(os.path.lexists(above / ".git") for above in (directory, *directory.parents)):
        return []
    return ["--no-require-git"]


class GrepArguments(Arguments):
    """What the model gives."""

    pattern: str = wire_field(description="Regular expression, or plain text if literal is true")
    path: str = wire_field(default=".", description="Folder or file; by default the working directory")
    glob: str | None = wire_field(default=None, description="Search only files that match, as '*.py' or 'src/**/*.ts'")
    ignore_case: bool = wire_field(default=False, description="Ignore upper and lower case")
    literal: bool = wire_field(default=False, description="Take pattern as plain text")
    context: int = wire_field(default=0, ge=0, le=1000, description="Lines to show before and after each match")
    limit: int = wire_field(default=_MAX_MATCHES, ge=1, description="Most matches to show")


def grep_tool(cwd: Path, *, seconds: float = _MAX_SECONDS) -> FunctionTool[GrepArguments]:
    """Make the ``grep`` tool.

    Args:
        cwd: Directory that relative paths start from.
        seconds: After which a search ends with what it has found.
    """

    async def run(arguments: GrepArguments, context: ToolContext) -> ToolOutput:
        path = await searched_path(arguments.path, cwd, context)
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise failure("search", arguments.path, error) from error
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise ToolError(f"{arguments.path} is neither a folder nor a regular file. Nothing was searched.")
        root = path if stat.S_ISDIR(mode) else path.parent
        hides_keys = context.target is not None and context.target.hides_keys
        found = _Matches(arguments.limit, arguments.context, seconds, hides_keys=hides_keys)
        command = _grep_command(arguments, root, path, seconds)
        try:
            async with aclosing(_records(command, root, b"\n", seconds)) as records:
                async for record in records:
                    if not found.add(record):
                        break
        except TimeoutError:
            found.stop()
        except _SearchFailedError as error:
            raise ToolError(f"The search for {arguments.pattern!r} failed: {error}") from error
        return found.output()

    return FunctionTool(
        name="grep",
        description=(
            "Search the contents of files. Hidden files are searched, ignored ones (.gitignore) are not. Each match "
            "comes back as path:line: text, with paths relative to path. At most "
            f"{_MAX_MATCHES} matches or {MAX_BYTES // 1024} KB are shown, and {_MAX_LINE_CHARACTERS} characters of a "
            "line. To find files by name use find."
        ),
        arguments=GrepArguments,
        run=run,
        read_only=True,
        describe=lambda default, arguments: describe_read(default, arguments.path, cwd, "Search in", searches=True),
    )


def _grep_command(arguments: GrepArguments, root: Path, path: Path, seconds: float) -> list[str]:
    file = "" if path == root else f"./{path.name}"
    program = shutil.which("rg")
    if program is None:
        flags = "i" * arguments.ignore_case + "F" * arguments.literal
        context = str(arguments.context)
        return _walk("grep", str(seconds), file, arguments.pattern, flags, context, arguments.glob or "")
    command = [program, "--no-config", "--no-messages", "--color=never", "--no-heading", "--with-filename"]
    command += ["--line-number", "--null", "--hidden", "--crlf", "--sort=path", "--no-context-separator"]
    command += ["--max-columns=4096", "--max-columns-preview", f"--context={arguments.context}", *_outside_git(root)]
    if arguments.ignore_case:
        command.append("--ignore-case")
    if arguments.literal:
        command.append("--fixed-strings")
    if arguments.glob:
        command.append(f"--glob={arguments.glob}")
    return [*command, "--glob=!.git", "-e", arguments.pattern, "--", file or "./"]


class _Matches:
    """Matches and their context, until there are enough of them."""

    def __init__(self, limit: int, context: int, seconds: float, *, hides_keys: bool = False) -> None:
        self._limit = limit
        self._context = context
        self._seconds = seconds
        self._abandoned: list[str] = []
        self._stopped: str | None = None
        self._lines: list[str] = []
        self._size = 0
        self._count = 0
        self._last: tuple[bytes, int] = (b"", 0)
        self._more = False
        self._long_lines = False
        self._hides_keys = hides_keys
        self._hidden: dict[bytes, bool] = {}

    def add(self, record: bytes) -> bool:
        """Add one line of output; return whether there is room for more."""
        name, nul, rest = record.partition(b"\0")
        numbered = _LINE_NUMBER.match(rest)
        if nul and rest == b"?":
            self._abandoned.append(_shown(name))
        elif nul and rest == b"!":
            self.stop(name)
        if not nul or numbered is None:
            return True  # a remark, on a binary file for example
        if self._hides_keys and self._is_hidden(name):
            return True
        number, is_match = int(numbered[1]), numbered[2] == b":"
        if is_match and self._count == self._limit:
            self._more = True
            return False
        if is_match:
            self._count += 1
            self._last = name, number
        elif self._count == self._limit and (self._last[0] != name or number > self._last[1] + self._context):
            return True  # context of a match that is no longer shown
        text = rest[numbered.end() :].decode(errors="replace").rstrip("\r")
        if len(text) > _MAX_LINE_CHARACTERS:
            text = textcut.head(text, _MAX_LINE_CHARACTERS, "... [cut]")
            self._long_lines = True
        shown_name = _shown(name)
        line = f"{shown_name}:{number}: {text}" if is_match else f"{shown_name}-{number}- {text}"
        self._lines.append(line)
        self._size += len(line) + 1
        return self._size <= MAX_BYTES

    def _is_hidden(self, name: bytes) -> bool:
        if name not in self._hidden:
            self._hidden[name] = holds_keys(Path(os.fsdecode(name)))
        return self._hidden[name]

    def stop(self, place: bytes | None = None) -> None:
        """Record that the time is over, and where the search was then."""
        place = place or self._last[0]
        self._stopped = f"The search was stopped after {self._seconds:g} s" + (
            f" at {_shown(place)}: nothing behind it, by name, was searched" if place else " without a match"
        )

    def output(self) -> ToolOutput:
        """Return the matches for the model."""
        notices: list[str] = []
        if hidden := [_shown(name) for name, is_hidden in self._hidden.items() if is_hidden]:
            notices.append(
                f"Matches in {_named(hidden)} are left out, for keys are kept there: read it, and the user is asked"
            )
        if self._abandoned:
            named = _named(self._abandoned)
            notices.append(f"The pattern took too long on {named}: the rest there was not searched. Simplify it")
        if self._stopped:
            notices.append(f"{self._stopped}. Narrow path or glob")
        if not self._count:
            return _output("No matches found", notices)
        shown = head("\n".join(self._lines), max_lines=None)
        if self._more:
            notices.append(f"{self._limit} matches are shown and there are more: raise limit or narrow the pattern")
        if shown.truncated:
            notices.append(f"Cut at {size_text(MAX_BYTES)}: narrow the search to see the rest")
        if self._long_lines:
            notices.append(f"Lines cut at {_MAX_LINE_CHARACTERS} characters: use read to see them whole")
        return _output(shown.content, notices, shown)


def _output(text: str, notices: Sequence[str], shown: Truncation | None = None) -> ToolOutput:
    text = text.removesuffix("\n")
    details = None if shown is None else shown.details()
    return text_output(f"{text}\n\n[{'. '.join(notices)}]" if notices else text, details)


def _named(files: Sequence[str]) -> str:
    return ", ".join(files[:_MAX_NAMED_FILES]) + (" …" if len(files) > _MAX_NAMED_FILES else "")


def _shown(path: bytes) -> str:
    return path.removeprefix(b"./").decode(errors="replace")


class FindArguments(Arguments):
    """What the model gives."""

    pattern: str = wire_field(description="Glob for names, as '*.py', or with a slash for paths, as 'src/**/*.ts'")
    path: str = wire_field(default=".", description="Folder to search; by default the working directory")
    limit: int = wire_field(default=_MAX_FOUND, ge=1, description="Most results to show")


def find_tool(cwd: Path, *, seconds: float = _MAX_SECONDS) -> FunctionTool[FindArguments]:
    """Make the ``find`` tool.

    Args:
        cwd: Directory that relative paths start from.
        seconds: After which a search ends with what it has found.
    """

    async def run(arguments: FindArguments, context: ToolContext) -> ToolOutput:
        root = await searched_path(arguments.path, cwd, context)
        if not root.is_dir():
            raise ToolError(f"Could not search {arguments.path}: there is no such folder. Check the path with ls.")
        limit = min(arguments.limit, _MAX_FOUND_LIMIT)
        try:
            found, stopped = await _found(arguments.pattern, root, limit + 1, seconds)
        except _SearchFailedError as error:
            raise ToolError(f"The search for {arguments.pattern!r} failed: {error}") from error
        notices: list[str] = []
        if stopped is not None:
            place = f" at {_shown(stopped)}: nothing behind it, by name, was searched" if stopped else ""
            notices.append(f"The search was stopped after {seconds:g} s{place}. Search in a folder further down")
        if not found:
            return _output("No files found matching pattern", notices)
        names = await in_thread(lambda stop: _marked(found[:limit], root, stop))
        shown = head("\n".join(names), max_lines=None)
        if shown.truncated:
            notices.append(f"Cut at {size_text(MAX_BYTES)}: narrow the pattern to see the rest")
        elif len(found) > limit:
            notices.append(f"{limit} results are shown and there are more: raise limit or narrow the pattern")
        return _output(shown.content, notices, shown)

    return FunctionTool(
        name="find",
        description=(
            "Find files and folders by name. Hidden ones are found, ignored ones (.gitignore) are not. Paths come back "
            f"relative to path, folders with a slash at the end; at most {_MAX_FOUND} or {MAX_BYTES // 1024} KB. To "
            "search what files hold use grep."
        ),
        arguments=FindArguments,
        run=run,
        read_only=True,
        describe=lambda default, arguments: describe_read(default, arguments.path, cwd, "Look for files in"),
    )


async def _found(pattern: str, root: Path, most: int, seconds: float) -> tuple[list[bytes], bytes | None]:
    """Return at most ``most`` paths in the order of a walk by name, and where the search was at a timeout."""
    whole_path = "/" in pattern
    if whole_path and not pattern.startswith(("/", "**/")):
        pattern = f"**/{pattern}"
    stand_in = _walk("find", str(seconds), pattern, "path" if whole_path else "name")
    program = shutil.which("fd") or shutil.which("fdfind")
    if program is None:
        return await _paths(stand_in, root, most, seconds)
    command = [program, "--glob", "--hidden", "--color=never", "--print0", "--exclude=.git", *_outside_git(root)]
    if whole_path:
        command.append("--full-path")
    try:
        return await _paths([*command, "--", pattern], root, most, seconds)
    except _SearchFailedError as error:
        if "--no-require-git" in str(error):  # an fd too old to know it
            return await _paths(stand_in, root, most, seconds)
        raise


async def _paths(command: Sequence[str], root: Path, most: int, seconds: float) -> tuple[list[bytes], bytes | None]:
    paths: list[bytes] = []
    stopped: bytes | None = None
    try:
        async with aclosing(_records(command, root, b"\0", seconds)) as records:
            async for record in records:
                if not record:
                    stopped = await anext(records, b"")
                    break
                paths.append(record.removeprefix(b"./"))
                if len(paths) == most:
                    break
    except TimeoutError:
        stopped = b""
    return sorted(paths, key=lambda path: path.rstrip(b"/").split(b"/")), stopped


def _marked(paths: Sequence[bytes], root: Path, stop: threading.Event) -> list[str]:
    """Return the paths as text, directories with a slash, which not every fd prints."""
    names: list[str] = []
    for path in paths:
        if stop.is_set():
            break
        name = path.rstrip(b"/")
        full = Path(os.fsdecode(os.path.join(os.fsencode(root), name)))  # noqa: PTH118, of bytes
        slash = "/" if full.is_dir() and not full.is_symlink() else ""
        names.append(name.decode(errors="replace") + slash)
    return names
