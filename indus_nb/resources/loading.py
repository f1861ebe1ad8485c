"""What users lay down for the agent in files: skills, prompt templates, context files, texts for the system prompt.

All of it may come with a project that somebody else wrote. So whatever is wrong with a file becomes a ``Diagnostic``,
and the work is bounded: the entries looked at, the bytes read, the YAML parsed, and what a pattern can cost.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from html import escape
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from indus_nb import textcut
from indus_nb.errors import UsageError
from indus_nb.files import expand_user
from indus_nb.ignore import MAX_LINE, IgnoreFile, fits
from indus_nb.resources.frontmatter import UnusableFileError, read_text, simple_fields, split_frontmatter, yaml_fields
from indus_nb.resources.settings import PROJECT_FOLDER
from indus_nb.wire import clean_text

Scope = Literal["project", "user", "temporary"]
_Kind = Literal["file", "folder"]

_LARGEST_PROMPT = 8 << 20
_LONGEST_FRONTMATTER = 16 << 10
_LONGEST_NAME = 64
_LONGEST_DESCRIPTION = 1024
_LONGEST_TEASER = 60
# Far more than users have, and done with in seconds, whoever laid the files down.
_FOR_EACH_SOURCE = {"entries of folders": 10_000, "characters of patterns": 10_000_000}
_BUDGETS = {"characters of files": 32 << 20, "characters of YAML": 512 << 10, **_FOR_EACH_SOURCE}
# A pattern costs its length and a little each time that it is tried, and as much as many tries to be understood.
_A_LITTLE = 10
_MANY = 20
_MOST_DIAGNOSTICS = 100
_DEEPEST = 32

_SKILL_FILE = "SKILL.md"
_CONTEXT_NAMES = ("AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")
_IGNORE_NAMES = (".gitignore", ".ignore", ".fdignore")

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_CALL = re.compile(r"/(\S+)(?:\s(.*))?", re.DOTALL)
_ARGUMENT = re.compile(r"""(?:"[^"]*(?:"|\Z)|'[^']*(?:'|\Z)|[^ \t"'])+""")
_QUOTED = re.compile(r""""([^"]*)(?:"|\Z)|'([^']*)(?:'|\Z)""")
_PLACEHOLDER = re.compile(
    r"\$(?:(?P<number>[0-9]+)|(?P<all>@|ARGUMENTS)"
    r"|\{@:(?P<start>[0-9]+)(?::(?P<count>[0-9]+))?\}"
    r"|\{(?P<preferred>[0-9]+|@):-(?P<default>(?:[^}$]|\$(?!\{))*)\})"
)


@dataclass(frozen=True, slots=True)
class Skill:
    """Instructions for one kind of work, in the file at ``path``; a ``hidden`` one is not offered to the model."""

    name: str
    description: str
    path: Path
    scope: Scope
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt with placeholders, ``body``, that ``/name arguments`` stands for."""

    name: str
    description: str
    argument_hint: str | None
    path: Path
    scope: Scope
    body: str


@dataclass(frozen=True, slots=True)
class ContextFile:
    """What a user wants the model to know in every session within a folder."""

    path: Path
    content: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something to mend in a user's files; the session goes on without what could not be used."""

    path: Path
    problem: str

    def __str__(self) -> str:
        return clean_text(f"{self.path} {self.problem}")


@dataclass(frozen=True, slots=True)
class Resources:
    """What was found, each name once, and what was wrong with it.

    ``base`` replaces the built-in system prompt, ``appended`` follows it, ``context_files`` have the nearest last.
    """

    skills: list[Skill] = field(default_factory=list[Skill])
    templates: list[PromptTemplate] = field(default_factory=list[PromptTemplate])
    context_files: list[ContextFile] = field(default_factory=list[ContextFile])
    base: str | None = None
    appended: str | None = None
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])


def load_resources(  # noqa: PLR0913 - each is a flag or a setting of its own
    cwd: Path,
    agent_dir: Path,
    *,
    skills: Sequence[str] = (),
    prompts: Sequence[str] = (),
    extra_skill_paths: Sequence[str | Path] = (),
    extra_prompt_paths: Sequence[str | Path] = (),
    use_skills: bool = True,
    use_templates: bool = True,
    use_context_files: bool = True,
    home: Path | None = None,
) -> Resources:
    """All that holds for sessions in ``cwd``; never raises, for what cannot be used is among the diagnostics.

    ``skills`` and ``prompts`` are the lists of the settings: absolute paths and globs (``*``, ``?``, ``[...]``, ``**``
    for any number of folders); ``!glob`` leaves out what it fits, ``+path`` takes a path all the same, ``-path`` leaves
    one out for good. Those within the project's folder concern the project's places, the others the user's.

    Of two things with one name the first counts: the extra paths (files or folders, relative to ``cwd``), then the
    project's, then the user's. ``use_skills`` and ``use_templates`` concern all but the extra paths.
    """
    cwd, agent_dir = Path(os.path.abspath(cwd)), Path(os.path.abspath(agent_dir))  # noqa: PTH100 - keeps symlinks
    project_dir = cwd / PROJECT_FOLDER
    if home is None:
        try:
            home = expand_user("~")
        except UsageError:
            home = agent_dir
    load = _Loading(home)
    base = load.first_text(project_dir / "SYSTEM.md", agent_dir / "SYSTEM.md")
    appended = load.first_text(project_dir / "APPEND_SYSTEM.md", agent_dir / "APPEND_SYSTEM.md")
    context_files = load.context_files([agent_dir, *reversed(cwd.parents), cwd]) if use_context_files else []
    prompt_sources = [_Source("temporary", cwd, list(map(str, extra_prompt_paths)))]
    skill_sources = [_Source("temporary", cwd, list(map(str, extra_skill_paths)))]
    if use_templates:
        projects, users = _by_scope(prompts, project_dir)
        prompt_sources += [
            _Source("project", project_dir, projects, [_Place(project_dir / "prompts")]),
            _Source("user", agent_dir, users, [_Place(agent_dir / "prompts")]),
        ]
    if use_skills:
        projects, users = _by_scope(skills, project_dir)
        shared = home / ".agents" / "skills"
        above = [folder / ".agents" / "skills" for folder in _up_to_repository(cwd)]
        nearby = [_Place(path, loose=False) for path in above if path != shared]
        skill_sources += [
            _Source("project", project_dir, projects, [_Place(project_dir / "skills"), *nearby]),
            _Source("user", agent_dir, users, [_Place(agent_dir / "skills"), _Place(shared, loose=False)]),
        ]
    return Resources(
        templates=load.templates(prompt_sources),
        skills=load.skills(skill_sources),
        context_files=context_files,
        base=base,
        appended=appended,
        diagnostics=load.diagnostics,
    )


def expand(text: str, resources: Resources) -> str:
    """What ``/skill:name arguments`` or ``/template arguments`` stands for; any other text as it is.

    Raises ``UsageError`` if the skill's file cannot be read any more, since a model could make nothing of the bare
    command, or if the prompt would become larger than 8 MiB.
    """
    call = _CALL.fullmatch(text)
    if call is None:
        return text
    name, arguments = call[1], (call[2] or "").strip()
    for skill in resources.skills:
        if name == f"skill:{skill.name}":
            return _skill_prompt(skill, arguments)
    for template in resources.templates:
        if name == template.name:
            return _filled(template, arguments)
    return text


def _skill_prompt(skill: Skill, arguments: str) -> str:
    try:
        _, body = split_frontmatter(read_text(skill.path))
    except (OSError, UnusableFileError) as error:
        problem = error if isinstance(error, UnusableFileError) else f"cannot be read any more ({error.strerror})"
        raise UsageError(
            f"The skill {skill.name} was not used and nothing was sent: {skill.path} {problem}. "
            "Mend the file, or ask without the skill."
        ) from error
    block = (
        f'<skill name="{escape(skill.name)}" location="{escape(skill.path.as_posix())}">\n'
        f"Relative paths in this skill start at {skill.path.parent.as_posix()}.\n\n{body}\n</skill>"
    )
    return f"{block}\n\n{arguments}" if arguments else block


def _filled(template: PromptTemplate, text: str) -> str:
    arguments = [value for match in _ARGUMENT.finditer(text) if (value := _QUOTED.sub(r"\1\2", match[0]))]
    everything = " ".join(arguments)
    size = len(template.body)

    def filling(found: re.Match[str]) -> str:
        nonlocal size
        chosen = _chosen(found, arguments, everything)
        size += len(chosen)
        if size > _LARGEST_PROMPT:
            raise UsageError(
                f"The template {template.name} with these arguments would be a prompt of more than 8 MiB; nothing was "
                f"sent. Give it less, or repeat the arguments less often in {template.path}."
            )
        return chosen

    # One pass, so that arguments which look like placeholders stay what they are.
    return _PLACEHOLDER.sub(filling, template.body)


def _chosen(found: re.Match[str], arguments: Sequence[str], everything: str) -> str:
    if found["all"]:
        return everything
    if found["start"]:
        first = max(_position(found["start"]) - 1, 0)
        last = None if found["count"] is None else first + _position(found["count"])
        return " ".join(arguments[first:last])
    wanted = found["number"] or found["preferred"]
    position = _position(wanted) if wanted != "@" else 0
    chosen = arguments[position - 1] if 0 < position <= len(arguments) else ""
    return (everything if wanted == "@" else chosen) or found["default"] or ""


def _position(digits: str) -> int:
    return int(digits[-9:]) if len(digits.lstrip("0")) < 10 else 10**9


class _Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...


_NamedT = TypeVar("_NamedT", bound=_Named)


@dataclass(frozen=True, slots=True)
class _Place:
    """A file, or a folder to search; ``loose`` says whether Markdown files right in it are skills."""

    path: Path
    loose: bool = True


@dataclass(frozen=True, slots=True)
class _Source:
    """The places of one scope: those in a list, which may be relative to ``folder``, before the usual ones."""

    scope: Scope
    folder: Path
    listed: Sequence[str]
    usual: Sequence[_Place] = ()


@dataclass(frozen=True, slots=True)
class _Ignored:
    """The lines of the ignore files in ``folder``, and what holds in the folders above it."""

    folder: Path
    file: IgnoreFile
    above: _Ignored | None


class _Loading:
    """One look at all files: what it found wrong and what it may still spend."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._left = dict(_BUDGETS)
        self.diagnostics: list[Diagnostic] = []

    def first_text(self, *paths: Path) -> str | None:
        return next((text for path in paths if (text := (self._text(path) or "").strip())), None)

    def context_files(self, folders: Iterable[Path]) -> list[ContextFile]:
        found: dict[str, ContextFile] = {}
        for folder in folders:
            for name in _CONTEXT_NAMES:
                path = folder / name
                text = self._text(path)
                if text is not None:
                    if content := text.strip():
                        found.setdefault(os.path.realpath(path), ContextFile(path, content))
                    break
        return list(found.values())

    def templates(self, sources: Iterable[_Source]) -> list[PromptTemplate]:
        files = self._files(sources, self._template_files)
        return self._once_each(filter(None, (self._template(path, scope) for path, scope in files)))

    def skills(self, sources: Iterable[_Source]) -> list[Skill]:
        files = self._files(sources, self._skill_files)
        return self._once_each(filter(None, (self._skill(path, scope) for path, scope in files)))

    def _once_each(self, found: Iterable[_NamedT]) -> list[_NamedT]:
        chosen: dict[str, _NamedT] = {}
        for one in found:
            first = chosen.setdefault(one.name, one)
            if first is not one:
                self._report(one.path, f"is not used: {first.path} has the name {one.name} already. Rename one of them")
        return list(chosen.values())

    def _skill(self, path: Path, scope: Scope) -> Skill | None:
        described = self._described(path)
        if described is None:
            return None
        fields, _ = described
        usual_name = path.parent.name if path.name == _SKILL_FILE else path.stem
        name = fields.get("name") or usual_name
        description = fields.get("description")
        if not description:
            self._report(path, "is not used: it says nothing of what it is for. Put a `description` in its frontmatter")
            return None
        if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
            self._report(
                path, f"is named {name[:_LONGEST_NAME]!r}; use at most 64 of a-z, 0-9 and single hyphens within"
            )
        elif name != usual_name:
            self._report(path, f"is named {name}, and where it lies says {usual_name}. Give both one name")
        if len(description) > _LONGEST_DESCRIPTION:
            self._report(
                path, f"has a description of {len(description)} characters; use at most {_LONGEST_DESCRIPTION}"
            )
        hidden = fields.get("disable-model-invocation", "").lower() in ("true", "yes", "on")
        return Skill(name, description, path, scope, hidden)

    def _template(self, path: Path, scope: Scope) -> PromptTemplate | None:
        described = self._described(path)
        if described is None:
            return None
        fields, body = described
        description = fields.get("description")
        if not description:
            description = next((line.strip() for line in body.split("\n") if line.strip()), "")
            description = textcut.head(description, _LONGEST_TEASER, "...")
        name = path.name.removesuffix(".md")
        return PromptTemplate(name, description, fields.get("argument-hint") or None, path, scope, body)

    def _described(self, path: Path) -> tuple[dict[str, str], str] | None:
        """The frontmatter's texts and the body of the file, or ``None`` if something is wrong with it."""
        text = self._text(path)
        if text is None:
            return None
        front, body = split_frontmatter(text)
        if len(front) > _LONGEST_FRONTMATTER:
            self._report(path, "is not used: its frontmatter is longer than 16 KiB. Move text to the body")
            return None
        fields = simple_fields(front)
        if fields is None:
            if not self._spend("characters of YAML", len(front), path):
                return None
            try:
                fields = yaml_fields(front)
            except UnusableFileError as error:
                self._report(path, f"is not used: {error}")
                return None
        return {key: value for key, value in fields.items() if value not in ("null", "~")}, body

    def _text(self, path: Path) -> str | None:
        if self._left["characters of files"] < 0:
            return None
        try:
            text = read_text(path)
        except UnusableFileError as error:
            self._report(path, f"is not used: it {error}")
            return None
        except OSError as error:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                self._report(path, f"cannot be read ({error.strerror}). Make it a file that you may read, or remove it")
            return None
        return text if self._spend("characters of files", len(text), path) else None

    def _files(
        self, sources: Iterable[_Source], find: Callable[[_Place], Iterator[Path]]
    ) -> Iterator[tuple[Path, Scope]]:
        """The files in all places that their scope's settings do not leave out, each once whatever leads to it."""
        seen: set[str] = set()
        for source in sources:
            # So that a project which asks for too much does not use up what its user's own places need.
            self._left |= _FOR_EACH_SOURCE
            choice = _Choice(source, self._home)
            listed = [_Place(path) for wanted in choice.listed for path in self._reachable(wanted)]
            for place in (*listed, *source.usual):
                for path in find(place):
                    real = os.path.realpath(path)
                    if real in seen or not self._spend("characters of patterns", choice.cost, path):
                        continue
                    if not choice.takes(path):
                        continue
                    seen.add(real)
                    if clean_text(str(path)) == str(path):
                        yield path, source.scope
                    else:
                        self._report(path, "is not used: its path is not UTF-8. Rename it")

    def _template_files(self, place: _Place) -> Iterator[Path]:
        if _kind(place.path) == "file":
            yield from self._markdown(place.path)
        elif _kind(place.path) == "folder":
            for path, kind in self._shown(place.path, None):
                if kind == "file" and path.suffix == ".md":
                    yield path

    def _skill_files(self, place: _Place) -> Iterator[Path]:
        if _kind(place.path) == "file":
            yield from self._markdown(place.path)
            return
        seen: set[str] = set()  # symlinks may lead back to where one came from
        stack: list[tuple[Path, int, _Ignored | None]] = [(place.path, 0, None)]
        while stack:
            folder, depth, above = stack.pop()
            real = os.path.realpath(folder)
            if real in seen or _kind(folder) != "folder":
                continue
            seen.add(real)
            skill = folder / _SKILL_FILE
            if _kind(skill) == "file" and not self._hidden(skill, above, folder=False):
                yield skill
            elif depth == _DEEPEST:
                self._report(folder, f"is not searched, {depth} folders below {place.path}. Name it in the settings")
            else:
                ignored = self._ignored(folder, above)
                shown = self._shown(folder, ignored)
                if place.loose and depth == 0:
                    yield from (path for path, kind in shown if kind == "file" and path.suffix == ".md")
                stack += [(path, depth + 1, ignored) for path, kind in reversed(shown) if kind == "folder"]

    def _shown(self, folder: Path, ignored: _Ignored | None) -> list[tuple[Path, _Kind]]:
        """The files and folders in ``folder`` that count, by name."""
        shown: list[tuple[Path, _Kind]] = []
        for entry in self._entries(folder):
            path, kind = folder / entry.name, _kind(entry)
            if kind and not self._hidden(path, ignored, folder=kind == "folder"):
                shown.append((path, kind))
        return shown

    def _markdown(self, path: Path) -> Iterator[Path]:
        if path.suffix == ".md":
            yield path
        else:
            self._report(path, "is not used: it is no Markdown file. Name one that ends in .md, or a folder")

    def _ignored(self, folder: Path, above: _Ignored | None) -> _Ignored | None:
        # Only from where the search began: that a repository leaves out its users' skills says nothing about them.
        lines: list[str] = []
        for name in _IGNORE_NAMES:
            lines += (self._text(folder / name) or "").split("\n")
        file = IgnoreFile(lines)
        if not file or not self._spend("characters of patterns", file.size * _MANY, folder):
            return above
        return _Ignored(folder, file, above)

    def _hidden(self, path: Path, ignored: _Ignored | None, *, folder: bool) -> bool:
        while ignored:
            if not self._spend("characters of patterns", ignored.file.size, path):
                return False
            name = path.relative_to(ignored.folder).as_posix()
            decision = ignored.file.hides(f"{name}/" if folder else name)
            if decision is not None:
                return decision
            ignored = ignored.above
        return False

    def _reachable(self, wanted: Path) -> list[Path]:
        """The paths that ``wanted``, a path or a glob, means."""
        if not any("*" in part or "?" in part for part in wanted.parts):
            if _kind(wanted) is None:
                self._report(
                    wanted,
                    "is named in settings or on the command line and is neither file nor folder. Correct it there",
                )
                return []
            return [wanted]
        start, *parts = wanted.parts
        paths = [Path(start)]
        for part in parts:
            if part == "**":
                paths = list(dict.fromkeys(below for path in paths for below in self._folders(path)))
            elif "*" in part or "?" in part:
                paths = [
                    path / entry.name
                    for path in paths
                    if _kind(path) == "folder"
                    for entry in self._entries(path)
                    if fnmatchcase(entry.name, part)
                ]
            else:
                paths = [path / part for path in paths]
        return list(dict.fromkeys(path for path in paths if _kind(path)))

    def _folders(self, top: Path) -> Iterator[Path]:
        """``top`` and the folders below it; symlinks are not followed, since ``**`` could run in circles."""
        stack = [top] if _kind(top) == "folder" else []
        while stack:
            folder = stack.pop()
            yield folder
            below = [folder / entry.name for entry in self._entries(folder) if not entry.is_symlink()]
            stack += [path for path in reversed(below) if _kind(path) == "folder"]

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        """What is in the folder, by name, without what is hidden or installed."""
        left = self._left["entries of folders"]
        if left < 0:
            return []
        try:
            with os.scandir(folder) as entries:
                found = list(islice(entries, left + 1))
        except OSError as error:
            self._report(folder, f"cannot be searched ({error.strerror}). Make it a folder that you may read")
            return []
        self._spend("entries of folders", len(found), folder)
        counting = [entry for entry in found[:left] if not entry.name.startswith(".") and entry.name != "node_modules"]
        return sorted(counting, key=lambda entry: entry.name)

    def _spend(self, budget: str, amount: int, path: Path) -> bool:
        """Whether there was so much left; the first time that there was not is reported."""
        if self._left[budget] < 0:
            return not amount
        self._left[budget] -= amount
        if self._left[budget] >= 0:
            return True
        self._report(
            path,
            f"and what comes after it is not looked at in full: {_BUDGETS[budget]:,} {budget} are the most. Keep large "
            "folders and files out of the places for skills and prompts",
        )
        return False

    def _report(self, path: Path, problem: str) -> None:
        if len(self.diagnostics) < _MOST_DIAGNOSTICS:
            self.diagnostics.append(Diagnostic(path, f"{problem}."))
        elif len(self.diagnostics) == _MOST_DIAGNOSTICS:
            self.diagnostics.append(Diagnostic(path, "and further files have problems too. Mend the others first."))


class _Choice:
    """What a list of paths and globs takes and leaves out."""

    def __init__(self, source: _Source, home: Path) -> None:
        self._folder = source.folder
        self.listed: list[Path] = []
        self._forced: set[Path] = set()
        self._removed: set[Path] = set()
        self._excluded: list[Path] = []
        self._excluded_here: list[Path] = []
        for entry in source.listed:
            sign, text = _sign(entry) if source.scope != "temporary" else ("", entry)
            if not text.strip() or len(text) > MAX_LINE:
                continue
            named = home / text[2:] if text == "~" or text.startswith("~/") else Path(text)
            path = Path(os.path.normpath(source.folder / named))
            if sign == "-":
                self._removed.add(path)
            elif sign != "!":
                self.listed.append(path)
                if sign == "+":
                    self._forced.add(path)
            elif path.is_relative_to(source.folder):
                self._excluded_here.append(path.relative_to(source.folder))
            else:
                self._excluded.append(path)
        self.cost = _cost(map(str, [*self._excluded, *self._excluded_here]))

    def takes(self, path: Path) -> bool:
        names = {path, path.parent} if path.name == _SKILL_FILE else {path}
        if names & self._removed:
            return False
        return bool(names & self._forced) or not any(map(self._excludes, names))

    def _excludes(self, path: Path) -> bool:
        # A glob in the settings' own folder, such as `!draft-*`, may mean a name wherever it lies.
        ways: list[Sequence[str]] = [(path.name,)]
        if path.is_relative_to(self._folder):
            ways.append(path.relative_to(self._folder).parts)
        return any(_fits(glob.parts, way) for glob in self._excluded_here for way in ways) or any(
            _fits(glob.parts, path.parts) for glob in self._excluded
        )


def _sign(entry: str) -> tuple[str, str]:
    return (entry[0], entry[1:]) if entry[:1] in ("!", "+", "-") else ("", entry)


def _by_scope(entries: Sequence[str], project_dir: Path) -> tuple[list[str], list[str]]:
    projects: list[str] = []
    users: list[str] = []
    for entry in entries:
        (projects if Path(_sign(entry)[1]).is_relative_to(project_dir) else users).append(entry)
    return projects, users


def _cost(patterns: Iterable[str]) -> int:
    return sum(len(pattern) + _A_LITTLE for pattern in patterns)


def _fits(glob: Sequence[str], parts: Sequence[str]) -> bool:
    # Fnmatch never goes back behind a star: however many there are, they are soon done with.
    return fits([None if part == "**" else partial(_is_named, glob=part) for part in glob], parts)


def _is_named(name: str, glob: str) -> bool:
    return fnmatchcase(name, glob)


def _up_to_repository(cwd: Path) -> Iterator[Path]:
    for folder in (cwd, *cwd.parents):
        yield folder
        if _kind(folder / ".git"):
            return


def _kind(path: Path | os.DirEntry[str]) -> _Kind | None:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return None
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else None
