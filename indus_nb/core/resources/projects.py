"""Projects, looked at in full: what could run, by digest, and what the user is asked about it.

What this module promises: what may be imported later is what was looked at here (``Project.check``), and the settings
that are merged later are the bytes that were read here. The work is bounded: what is too large is never trusted for
good.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import cast

from indus_nb.base import textcut
from indus_nb.base.errors import SettingsError
from indus_nb.base.files import is_open_to_others, others_can_write, read_file
from indus_nb.base.visible import visible
from indus_nb.base.wire import JsonObject
from indus_nb.core.resources.extension_files import extension_files
from indus_nb.core.resources.inputs import (
    CONTEXT_NAMES,
    PROJECT_DIRECTORY,
    Decision,
    ProjectInput,
    may_be_trusted_whole,
)
from indus_nb.core.resources.server_files import ServerFiles, TooManyFilesError
from indus_nb.core.resources.settings import MAX_SETTINGS_BYTES, absolute_entry, parsed_settings, privileged

MAX_FILES = 2000
MAX_BYTES = 64 << 20
_NOT_HASHED = ("__pycache__",)
"""Compiled files are never imported from a project: see ``indus_nb.extend.checked_imports``."""
_PARENT = "Trust everything in "
_LISTED_AT_AN_END = 100
"""Most entries listed of a project: more than are loaded, however many it names."""
_OPTIONS: Mapping[Decision, str] = {
    "directory": "Trust this directory",
    "parent": _PARENT,
    "session": "Trust it for this session only",
    "no": "No, ignore what it brings",
}


@dataclass(slots=True)
class Project:
    """Files and settings of a project that sessions would use, and whether the user trusts it.

    ``settings`` is the content of its settings file; ``runs`` and ``tells`` are what it brings, for the user to read;
    ``parts`` are digests of what can run or weaken protection, by name, and ``files`` those of single files.
    ``open_to_others`` are places of its own that other users can write to. ``changed`` names the parts that are not
    what the user trusted.
    """

    directory: Path
    inputs: Sequence[ProjectInput]
    settings: bytes | None = None
    runs: list[str] = field(default_factory=list[str])
    tells: list[str] = field(default_factory=list[str])
    parts: dict[str, str] = field(default_factory=dict[str, str])
    files: dict[str, str] = field(default_factory=dict[str, str])
    open_to_others: list[Path] = field(default_factory=list[Path])
    too_large: bool = False
    changed: Sequence[str] = ()
    trusted: bool = False
    undecided: bool = False
    problem: str = ""

    def changes(self, before: Mapping[str, str]) -> list[str]:
        """Name the parts that differ from those of an earlier decision."""
        names = dict.fromkeys([*self.parts, *before])
        return [name for name in names if self.parts.get(name) != before.get(name)]

    def check(self, path: Path, content: bytes) -> None:
        """Raise ``ImportError`` unless a file is what it was when the project was looked at."""
        known = self.files.get(str(path)) or self.files.get(os.path.realpath(path))
        if self.too_large and not known:
            return  # it was too large to be looked at in full, and the user trusts it for this session all the same
        if known != sha256(content).hexdigest():
            raise ImportError(
                f"{path} was added or changed since the project was looked at, and is not run. Start a new session to "
                "be asked about it."
            )

    def ignored_sentence(self) -> str:
        """Return the sentence that it is ignored, and how to use it."""
        return (
            f"{_shown(self.directory)} is not trusted, and what it brings is ignored "
            f"({self.summary()}). `--trust` uses it (in a notebook `%agent trust`, in Python `trust=True`)."
        )

    def summary(self) -> str:
        """Return a summary of what it brings, in a line."""
        names = dict.fromkeys(_shown(_name(each, self.directory)) for each in self.inputs)
        return textcut.one_line(", ".join(names), 300)

    def question(self, session: str = "") -> str:
        """Return the question for the user.

        Args:
            session: The session file that chose the directory, if the user did not.
        """
        lines = [f"Do you trust {_shown(self.directory)}?"]
        lines += [f"You are not working there: the session {_shown(session)} names it."] if session else []
        lines.append("It brings what is below. None of it is run, or told to a model, unless you trust it.")
        if self.changed:
            lines += ["", "Changed since you decided about it:", *_listed(list(self.changed))]
        if self.open_to_others:
            lines += ["", "Others than you can write here:", *_listed(list(map(str, self.open_to_others)))]
        if self.too_large:
            lines += ["", "It is too large to notice changes, and so can be trusted for this session only."]
        if self.runs:
            lines += ["", "Runs with your rights, or changes what others are asked:", *_listed(self.runs)]
        if self.tells:
            lines += ["", "Is told to the model:", *_listed(self.tells)]
        return "\n".join(lines)

    def options(self) -> dict[str, Decision]:
        """Return the user's options, and the decision that each stands for."""
        lasting = not self.open_to_others and not self.too_large
        parent = self.directory.parent
        texts: dict[str, Decision] = {}
        if lasting:
            texts[_OPTIONS["directory"]] = "directory"
        if lasting and may_be_trusted_whole(parent):
            texts[f"{_OPTIONS['parent']}{_shown(parent)}"] = "parent"
        return {**texts, _OPTIONS["session"]: "session", _OPTIONS["no"]: "no"}


def examine(directory: Path, inputs: Sequence[ProjectInput]) -> Project | None:
    """Look at all that a project brings.

    Args:
        directory: The real path of the sessions' working directory.
        inputs: What there is, see ``indus_nb.core.resources.inputs.project_inputs``.

    Returns:
        The project, about which nothing is decided yet; ``None`` if what there is has no effect.
    """
    project = Project(directory, inputs)
    reader = _Reader(project)
    effective = [each for each in inputs if reader.look(each)]
    if not effective:
        return None
    project.inputs = effective
    places = [directory, *(Path(each.path) for each in effective if each.directory == str(directory))]
    places += [directory / PROJECT_DIRECTORY] if (directory / PROJECT_DIRECTORY).exists() else []
    project.open_to_others = sorted({*project.open_to_others, *filter(is_open_to_others, places)})
    return project


def digests_of_texts(directory: str, inputs: Sequence[ProjectInput]) -> dict[str, str]:
    """Hash the texts of a project that reach the model, and can run nothing.

    Args:
        directory: The real path of the project.
        inputs: What there is; what stands above the directory is left out.

    Returns:
        Digests of context files, skills and prompt templates, by name.
    """
    looked_at = Project(Path(directory), inputs)
    reader = _Reader(looked_at)
    for each in inputs:
        if each.directory == directory and each.kind in (*CONTEXT_NAMES, "skills", "prompts"):
            reader.tree(Path(each.path))
    return looked_at.parts


class _Reader:
    """Fills a project, one input after another."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._server_files = ServerFiles(project.directory)
        self._bytes = 0

    def look(self, found: ProjectInput) -> bool:
        """Look at an input; returns whether it has an effect."""
        project, path = self._project, Path(found.path)
        match found.kind:
            case "settings.json":
                return self._settings(path)
            case "extensions":
                entries = [each for each, _ in extension_files([(path, "project")], [])]
                self._extensions(entries)
                if entries:  # what these import may be anywhere below
                    self.tree(path, entries)
                return bool(entries)
            case "SYSTEM.md" | "APPEND_SYSTEM.md" | "rules":
                with_files = self.tree(path)
                if with_files:
                    project.tells.append(_name(found, project.directory))
                return with_files
            case "skills" | "prompts":
                with_content = _has_entries(path)
                if with_content:
                    project.tells.append(_name(found, project.directory))
                return with_content
            case _:
                project.tells.append(_name(found, project.directory))
                return found.kind in CONTEXT_NAMES

    def _settings(self, path: Path) -> bool:
        project = self._project
        try:
            parsed_settings(path)
            content = read_file(path, most=MAX_SETTINGS_BYTES)
            settings = privileged(parsed_settings(path, content))
        except (OSError, SettingsError) as error:
            project.settings, project.problem = b"{}", str(error)
            return False
        project.settings = content
        if not settings:
            return False
        project.parts["settings"] = _digest(json.dumps(settings, sort_keys=True).encode())
        servers = settings.get("mcpServers")
        if isinstance(servers, dict):
            for name, server in cast("JsonObject", servers).items():
                self._server(name, server)
        named = settings.get("extensions")
        entries = (
            [text for text in cast("list[object]", named) if isinstance(text, str)] if isinstance(named, list) else []
        )
        absolute = [absolute_entry(text, path.parent) for text in entries if not text.startswith(("!", "-"))]
        chosen = [Path(text.lstrip("+")) for text in absolute]
        self._extensions([each for each, _ in extension_files([], [(each, "project") for each in chosen])])
        others = [key for key in settings if key not in ("mcpServers", "extensions")]
        project.runs += [f"settings: {', '.join(others)}"] if others else []
        return True

    def _server(self, name: str, server: object) -> None:
        """Add an MCP server, with the files of the project that its entry leads to."""
        entry = cast("JsonObject", server) if isinstance(server, dict) else {}
        self._project.runs.append(f"MCP server {name}: {_entry_shown(entry)}")
        label = f"MCP server {name}"
        self._project.parts[label] = _digest(json.dumps(entry, sort_keys=True).encode())
        try:
            self._add(label, self._server_files.of(entry))
        except TooManyFilesError:
            self._project.too_large = True

    def _extensions(self, entries: Sequence[Path]) -> None:
        for path in entries:
            label = f"extension {_relative(path, self._project.directory)}"
            self._project.runs.append(label)
            self._add(label, self._walk(path.parent) if path.name == "__init__.py" else [path])

    def tree(self, path: Path, known: Sequence[Path] = ()) -> bool:
        """Make a part of the files at or below ``path`` that are not ``known``; returns whether there are any."""
        files = [each for each in self._walk(path) if each not in known] if path.is_dir() else [path]
        if files:
            self._add(_relative(path, self._project.directory), files)
        return bool(files)

    def _walk(self, top: Path) -> Iterator[Path]:
        """Yield the files below a directory, also by links, as far as they are not too many."""
        seen: set[str] = set()
        stack = [top]
        count = 0
        while stack:
            directory = stack.pop()
            real = os.path.realpath(directory)
            if real in seen:
                continue
            seen.add(real)
            try:
                with os.scandir(directory) as entries:
                    names = sorted(entry.name for entry in entries)
            except OSError:
                continue
            for name in names:
                path = directory / name
                count += 1
                if count > MAX_FILES:
                    self._project.too_large = True
                    return
                if path.is_dir():
                    if name not in _NOT_HASHED:
                        stack.append(path)
                elif path.is_file():
                    yield path

    def _add(self, label: str, files: Sequence[Path] | Iterator[Path]) -> None:
        project = self._project
        digests: list[str] = [project.parts.get(label, "")]
        for path in files:
            digest = self._digest_of(path)
            project.files[str(path)] = project.files[os.path.realpath(path)] = digest
            digests.append(f"{_relative(path, project.directory)} {digest}")
        project.parts[label] = _digest("\n".join(sorted(digests)).encode("utf-8", "surrogateescape"))

    def _digest_of(self, path: Path) -> str:
        try:
            state = path.stat()
            if others_can_write(state):
                self._project.open_to_others.append(path)
            if self._bytes + state.st_size > MAX_BYTES or len(self._project.files) > MAX_FILES:
                self._project.too_large = True
                return ""
            content = read_file(path, most=MAX_BYTES - self._bytes)
            self._bytes += len(content)
            return _digest(content)
        except OSError as error:
            self._project.too_large |= error.errno == errno.EFBIG
            return ""


def _entry_shown(entry: JsonObject) -> str:
    """Return all of a server's entry: the command as it would be typed, then whatever else is set."""
    arguments: object = entry.get("args")
    words = [entry.get("command"), *(cast("list[object]", arguments) if isinstance(arguments, list) else [])]
    command = " ".join(_quoted(word) for word in words if isinstance(word, str))
    is_shown = isinstance(arguments, list) and all(isinstance(word, str) for word in words)
    others = {key: value for key, value in entry.items() if key != "command" and not (key == "args" and is_shown)}
    more = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in others.items()]
    return "; ".join([*([command] if command else []), *more])


def _quoted(word: str) -> str:
    """Quote a word for a shell, on one line."""
    if not re.search(r"[\n\t\r]", word):
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + escaped.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") + "'"


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _has_entries(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode) or any(path.iterdir())
    except OSError:
        return False


def _name(found: ProjectInput, directory: Path) -> str:
    """Describe an input: where it is, and where it really is if that is nowhere near."""
    name, real = _relative(Path(found.path), directory), Path(os.path.realpath(found.path))
    is_elsewhere = real.name != Path(found.path).name or not real.is_relative_to(found.directory)
    is_elsewhere = is_elsewhere and not real.is_relative_to(directory)
    return f"{name} (a link to {real})" if is_elsewhere else name


def _relative(path: Path, directory: Path) -> str:
    path = Path(os.path.normpath(path))
    return str(path.relative_to(directory)) if path.is_relative_to(directory) else str(path)


def _listed(texts: Sequence[str]) -> list[str]:
    """Return a line for each; of very many the first and last, and how many more there are."""
    left = len(texts) - 2 * _LISTED_AT_AN_END
    if left <= 1:
        return [f"- {_shown(text)}" for text in texts]
    first, last = texts[:_LISTED_AT_AN_END], texts[-_LISTED_AT_AN_END:]
    return [*_listed(first), f"… {left:,} more, which a yes holds for as well …", *_listed(last)]


def _shown(text: object) -> str:
    """Return a name that a project chose, on one line, with invisible characters as escapes."""
    return visible(str(text).replace("\n", "\\n").replace("\t", "\\t"))
