"""Resources of sessions in a directory: skills, prompt templates, context files, texts for the system prompt."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from indus_nb.base.errors import UsageError
from indus_nb.base.files import expand_user, is_open_to_others
from indus_nb.core.resources.inputs import CONTEXT_NAMES, PROJECT_DIRECTORY
from indus_nb.core.resources.search import Diagnostic, Place, Search, Source, kind_of, sign_of
from indus_nb.core.resources.skills import Skill, find_skills, skill_prompt
from indus_nb.core.resources.templates import PromptTemplate, fill, find_templates

__all__ = ["ContextFile", "Diagnostic", "PromptTemplate", "Resources", "Skill", "expand", "load_resources"]

_CALL = r"(?s)/(\S+)(?:\s(.*))?"


@dataclass(frozen=True, slots=True)
class ContextFile:
    """Instructions for the model in every session within a directory."""

    path: Path
    content: str


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources found, each name once, and the problems of those that cannot be used.

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
    trusted: bool = False,
    home: Path | None = None,
) -> Resources:
    """Load all that holds for sessions in a directory. Does not raise: what cannot be used is among the diagnostics.

    The lists of the settings hold absolute paths and globs (``*``, ``?``, ``[...]``, ``**`` for any number of
    directories); ``!glob`` leaves out what it matches, ``+path`` includes a path all the same, ``-path`` excludes it in
    any case. Those within the project's directory concern the project's places, the others the user's.

    Of two things with one name the first counts: the extra paths, then the project's, then the user's.

    Args:
        skills: The list ``skills`` of the settings.
        prompts: The list ``prompts`` of the settings.
        extra_skill_paths: Files or directories, relative to ``cwd``.
        use_skills: Whether to look for skills in other places than the extra paths.
        use_templates: Whether to look for prompt templates in other places than the extra paths.
        trusted: Whether the user trusts the project in ``cwd``. If not, only the user's own places are looked at.
        home: The user's home directory, if not that of the environment.

    Returns:
        What was found, each name once, and what was wrong with it.
    """
    cwd, agent_dir = Path(os.path.abspath(cwd)), Path(os.path.abspath(agent_dir))  # noqa: PTH100 - keeps symlinks
    project_dir = cwd / PROJECT_DIRECTORY
    if home is None:
        try:
            home = expand_user("~")
        except UsageError:
            home = agent_dir
    search = Search(home, cwd, agent_dir)
    above = [*reversed(cwd.parents), cwd] if trusted else []
    texts = [project_dir, agent_dir] if trusted else [agent_dir]
    base = _first_text(search, *(place / "SYSTEM.md" for place in texts))
    appended = _first_text(search, *(place / "APPEND_SYSTEM.md" for place in texts))
    read = [agent_dir, *above] if use_context_files else []
    context_files = _context_files(search, read, own=[agent_dir, cwd])
    prompt_sources = [Source("temporary", cwd, list(map(str, extra_prompt_paths)))]
    skill_sources = [Source("temporary", cwd, list(map(str, extra_skill_paths)))]
    if use_templates:
        projects, users = _by_scope(prompts, project_dir)
        prompt_sources += [
            Source("project", project_dir, projects, [Place(project_dir / "prompts")] if trusted else []),
            Source("user", agent_dir, users, [Place(agent_dir / "prompts")]),
        ]
    if use_skills:
        projects, users = _by_scope(skills, project_dir)
        shared = home / ".agents" / "skills"
        places = [directory / ".agents" / "skills" for directory in _up_to_repository(cwd)] if trusted else []
        nearby = [Place(path, loose=False) for path in places if path != shared]
        skill_sources += [
            Source("project", project_dir, projects, [Place(project_dir / "skills"), *nearby] if trusted else []),
            Source("user", agent_dir, users, [Place(agent_dir / "skills"), Place(shared, loose=False)]),
        ]
    return Resources(
        templates=find_templates(search, prompt_sources),
        skills=find_skills(search, skill_sources),
        context_files=context_files,
        base=base,
        appended=appended,
        diagnostics=search.diagnostics,
    )


def expand(text: str, resources: Resources) -> str:
    """Expand ``/skill:name arguments`` and ``/template arguments``.

    Returns:
        The prompt that it stands for; any other text unchanged.

    Raises:
        UsageError: The skill's file cannot be read any more, or the prompt would be larger than 8 MiB.
    """
    call = re.fullmatch(_CALL, text)
    if call is None:
        return text
    name, arguments = call[1], (call[2] or "").strip()
    for skill in resources.skills:
        if name == f"skill:{skill.name}":
            return skill_prompt(skill, arguments)
    for template in resources.templates:
        if name == template.name:
            return fill(template, arguments)
    return text


def _context_files(search: Search, directories: Iterable[Path], own: Iterable[Path] = ()) -> list[ContextFile]:
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
            if directory not in decided and kind_of(path) and any(map(is_open_to_others, (path, directory))):
                search.report(path, "is not used: others than you own it or its directory, or can write there")
                break
            text = search.text(path)
            if text is not None:
                if content := text.strip():
                    found.setdefault(os.path.realpath(path), ContextFile(path, content))
                break
    return list(found.values())


def _by_scope(entries: Sequence[str], project_dir: Path) -> tuple[list[str], list[str]]:
    projects: list[str] = []
    users: list[str] = []
    for entry in entries:
        (projects if Path(sign_of(entry)[1]).is_relative_to(project_dir) else users).append(entry)
    return projects, users


def _up_to_repository(cwd: Path) -> Iterator[Path]:
    for directory in (cwd, *cwd.parents):
        yield directory
        if kind_of(directory / ".git"):
            return


def _first_text(search: Search, *paths: Path) -> str | None:
    return next((text for path in paths if (text := (search.text(path) or "").strip())), None)
