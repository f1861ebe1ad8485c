"""Listing of session files: where they are, and what a list shows of each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

from indus_nb.base.errors import SessionFileError, SessionNotFoundError, UsageError
from indus_nb.base.wire import JsonObject, load_object, to_camel
from indus_nb.core.storage.entries import as_text, milliseconds
from indus_nb.core.storage.file import ELSEWHERE, open_session, read_header
from indus_nb.core.storage.text import content_text


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as a list shows it. Times are in ms since the epoch."""

    path: Path
    id: str
    cwd: str
    name: str | None
    parent_session: str | None
    created: int
    modified: int
    message_count: int
    first_message: str
    """The first text of the user, cut at 1000 characters; empty without one."""

    def to_wire(self) -> JsonObject:
        """Return the JSON object that a client is given."""
        values = {to_camel(name.name): getattr(self, name.name) for name in fields(self)}
        return {name: str(value) if name == "path" else value for name, value in values.items() if value is not None}


def session_directory(cwd: Path, agent_dir: Path) -> Path:
    """Return the directory for sessions that work in one directory.

    Returns:
        The directory, which need not exist.

    >>> session_directory(Path("/home/ada/engine"), Path("/agent")).as_posix()
    '/agent/sessions/--home-ada-engine--'
    """
    name = re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", str(cwd.absolute())))
    return agent_dir / "sessions" / f"--{name}--"


def most_recent_session(directory: Path, cwd: Path | None = None) -> Path | None:
    """Return the session file that was written last.

    Args:
        directory: where session files are.
        cwd: the directory that the session works in; without it any counts.

    Returns:
        Its path; ``None`` without one.
    """
    for _, path in sorted(_session_files(directory), reverse=True):
        with suppress(SessionFileError):
            header = read_header(path)
            if cwd is None or header.get("cwd") == str(cwd.absolute()):
                return path
    return None


def find_session(wanted: str, directory: Path) -> Path:
    """Return the session file that a user names.

    Args:
        wanted: a path, a file name in ``directory``, or the beginning of an id there.
        directory: where session files are.

    Raises:
        SessionNotFoundError: There is no such file.
        UsageError: Several ids begin so, or nothing is named.
    """
    if not wanted.strip():
        raise UsageError("Name the session: the path of its file, or the beginning of its id.")
    if wanted.endswith(".jsonl") or "/" in wanted or os.sep in wanted:
        path = Path(wanted)
        with suppress(RuntimeError):  # there is no home directory
            path = path.expanduser()
        found = next((place for place in (path, directory / path) if place.is_file()), None)
        if found is None:
            raise SessionNotFoundError(path, "there is no such session file. Check the path, or start a new session")
        return found
    matches: dict[Path, str] = {}
    for _, path in sorted(_session_files(directory)):
        with suppress(SessionFileError):
            session_id: str = read_header(path)["id"]
            if session_id.startswith(wanted):
                matches[path] = session_id
    exact = [path for path, session_id in matches.items() if session_id == wanted]
    candidates = exact or list(matches)
    if not candidates:
        raise SessionNotFoundError(directory, f"no session here has an id that begins with {wanted!r}")
    if len(candidates) > 1:
        names = ", ".join(path.name for path in candidates[:5])
        raise UsageError(f"{len(candidates)} sessions have an id that begins with {wanted!r}: {names}. Name the file.")
    return candidates[0]


def session_with_id(session_id: str, directories: Iterable[Path]) -> Path | None:
    """Return the session file with an id, wherever the id comes from.

    Args:
        session_id: the whole id; nothing else is found, no path either.
        directories: where session files are.

    Returns:
        The path of the file; ``None`` if there is none.
    """
    for directory in directories:
        with suppress(SessionFileError):
            for _, path in _session_files(directory):
                if path.name.endswith(f"_{session_id}.jsonl"):
                    with suppress(SessionFileError):
                        if read_header(path).get("id") == session_id:
                            return path
    return None


def list_sessions(directory: Path, limit: int | None = None) -> list[SessionInfo]:
    """List the sessions in a directory, the one with the latest message first.

    Other files are left out.

    Args:
        directory: where session files are.
        limit: the number of files that are read at most, those written to last.

    Returns:
        What a list shows of each.

    Raises:
        SessionFileError: The directory cannot be read.
    """
    found: list[SessionInfo] = []
    for modified, path in sorted(_session_files(directory), reverse=True)[:limit]:
        # One may vanish while the others are read.
        with suppress(SessionFileError, OSError):
            found.append(_described(path, modified // 1_000_000))
    return sorted(found, key=lambda info: info.modified, reverse=True)


def _session_files(directory: Path) -> list[tuple[int, Path]]:
    """Return pairs of time of change in ns, and path."""
    files: list[tuple[int, Path]] = []
    try:
        with os.scandir(directory) as listing:
            for item in listing:
                if item.name.endswith(".jsonl") and not item.name.startswith("."):
                    with suppress(OSError):
                        if item.is_file():
                            files.append((item.stat().st_mtime_ns, Path(item.path)))
    except FileNotFoundError:
        return []
    except OSError as error:
        problem = f"the sessions there cannot be listed ({error.strerror}). {ELSEWHERE}"
        raise SessionFileError(directory, problem) from error
    return files


def describe_session(path: Path) -> SessionInfo:
    """Return the list's view of one session file.

    Raises:
        OSError: It cannot be read.
    """
    return _described(path, path.stat().st_mtime_ns // 1_000_000)


def _described(path: Path, file_modified: int) -> SessionInfo:
    file, header = open_session(path)
    name: str | None = None
    spoken = 0
    count = 0
    first = ""
    with file:
        for line in file:
            if b'"message"' not in line and b'"session_info"' not in line:
                continue
            try:
                data = load_object(line)
            except ValueError:
                continue
            if data.get("type") == "session_info":
                name = as_text(data.get("name")).strip() or None
            if data.get("type") != "message" or not isinstance(data.get("message"), dict):
                continue
            count += 1
            message: JsonObject = data["message"]
            if message.get("role") in ("user", "assistant"):
                moment = message.get("timestamp")
                given = int(moment) if isinstance(moment, int | float) else milliseconds(data.get("timestamp"))
                spoken = max(spoken, given)
            if message.get("role") == "user" and not first:
                first = content_text(message.get("content"))
    created = milliseconds(header.get("timestamp"))
    return SessionInfo(
        path=path,
        id=header["id"],
        cwd=as_text(header.get("cwd")),
        name=name,
        parent_session=as_text(header.get("parentSession")) or None,
        created=created or file_modified,
        modified=spoken or created or file_modified,
        message_count=count,
        first_message=first[:1000],
    )
