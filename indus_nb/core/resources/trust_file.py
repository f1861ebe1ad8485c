"""The decisions about projects that a user wants kept: ``trust.json`` in the agent directory."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from indus_nb.base.files import is_link_of_others, make_private_directory, others_can_write, write_atomically
from indus_nb.base.locks import FileLock
from indus_nb.base.wire import JsonObject, load_object

if TYPE_CHECKING:
    from indus_nb.core.resources.projects import Project

TRUST_FILE = "trust.json"
_LOCK_SECONDS = 5.0
_MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Kept:
    """A decision about a directory; ``parts`` are the digests of what could run there then, by name."""

    trusted: bool
    below: bool = False
    parts: Mapping[str, str] = field(default_factory=dict[str, str])


class TrustFile:
    """The decisions in ``agent_dir``; ``problem`` is what was wrong with the file when it was used last, or empty."""

    def __init__(self, agent_dir: Path) -> None:
        self.problem: str = ""
        self._path = agent_dir / TRUST_FILE
        self._read: tuple[object, Mapping[str, Kept]] | None = None

    def read(self) -> Mapping[str, Kept]:
        """Return the decisions by directory; none if the file cannot be used, for which see ``problem``."""
        entries = self._entries()
        return {place: kept for place, entry in entries.items() if (kept := _kept(entry)) is not None}

    def keep(self, project: Project, decision: Literal["directory", "parent", "no"]) -> None:
        """Keep a decision; where that is not possible it counts for this session."""
        place = project.directory.parent if decision == "parent" else project.directory
        entry: JsonObject = {
            "decision": {"directory": "trusted", "parent": "below", "no": "ignored"}[decision],
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        if decision != "parent":
            entry["parts"] = dict(project.parts)
        self._change(place, lambda entries: _without_texts(entries, project.directory) | {str(place): entry})

    def texts(self, directory: str) -> Mapping[str, str] | None:
        """Return the digests of a project's texts when a sandbox began to work there; ``None`` if none did."""
        entry: object = self._entries().get(directory)
        texts: object = cast("JsonObject", entry).get("texts") if isinstance(entry, dict) else None
        return (
            {str(name): str(digest) for name, digest in cast("JsonObject", texts).items()}
            if isinstance(texts, dict)
            else None
        )

    def keep_texts(self, directory: str, texts: Mapping[str, str]) -> None:
        """Keep the digests of a project's texts until it is decided about again.

        Args:
            directory: The real path of the project.
        """

        def with_texts(entries: JsonObject) -> JsonObject:
            entry = entries.get(directory)
            known = cast("JsonObject", entry) if isinstance(entry, dict) else {}
            return {**entries, directory: {"texts": dict(texts), **known}}

        self._change(directory, with_texts)

    def _change(self, place: object, change: Callable[[JsonObject], JsonObject]) -> None:
        try:
            make_private_directory(self._path.parent)
            with FileLock(self._path, _LOCK_SECONDS):
                entries = self._entries()
                if self.problem:
                    return
                text = json.dumps(change(entries), indent=1)
                write_atomically(self._path, text.encode(), mode=0o600, exclusive=True)
                self._path.chmod(0o600)  # whatever it was before
        except OSError as error:
            self.problem = (
                f"{self._path}: the decision about {place} could not be kept ({error}). It will be asked again."
            )

    def _entries(self) -> JsonObject:
        self.problem = ""
        try:
            return load_object(self._content())
        except FileNotFoundError:
            return {}
        except OSError as error:
            self.problem = f"{self._path}: {error.strerror}. No decision in it counts until you mend or remove it."
        except ValueError as error:
            self.problem = f"{self._path}: is no JSON ({error}). No decision in it counts until you mend or remove it."
        return {}

    def _content(self) -> bytes:
        if is_link_of_others(self._path):
            raise OSError(errno.EPERM, "it is a link that another user made")
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode) or state.st_size > _MAX_BYTES:
                raise OSError(errno.EINVAL, "it is no file of decisions")
            if others_can_write(state):
                raise OSError(errno.EPERM, "others than you can write to it, or own it: `chmod 600` it if it is yours")
            return file.read()


def _without_texts(entries: JsonObject, directory: Path) -> JsonObject:
    entry = entries.get(str(directory))
    if not isinstance(entry, dict):
        return entries
    known = {key: value for key, value in cast("JsonObject", entry).items() if key != "texts"}
    return {**entries, str(directory): known}


def _kept(entry: object) -> Kept | None:
    if not isinstance(entry, dict):
        return None
    known = cast("JsonObject", entry)
    parts: object = known.get("parts", {})
    if not isinstance(parts, dict):
        return None
    named = {str(name): str(digest) for name, digest in cast("JsonObject", parts).items()}
    match known.get("decision"):
        case "trusted":
            return Kept(trusted=True, parts=named)
        case "below":
            return Kept(trusted=True, below=True)
        case "ignored":
            return Kept(trusted=False, parts=named)
        case _:
            return None
