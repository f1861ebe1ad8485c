"""Skills: instructions for one kind of work, each in a Markdown file that the model opens when it needs them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from indus_nb.base.errors import UsageError
from indus_nb.core.resources.frontmatter import UnusableFileError, read_text, split_frontmatter
from indus_nb.core.resources.search import SKILL_FILE, Ignored, Place, Scope, Search, Source, kind_of

_MAX_NAME_CHARACTERS = 64
_MAX_DESCRIPTION_CHARACTERS = 1024
_MAX_DEPTH = 32
_NAME = r"[a-z0-9]+(?:-[a-z0-9]+)*"


@dataclass(frozen=True, slots=True)
class Skill:
    """Instructions for one kind of work, in the file at ``path``; a ``hidden`` one is not offered to the model."""

    name: str
    description: str
    path: Path
    scope: Scope
    hidden: bool = False


def find_skills(search: Search, sources: Iterable[Source]) -> list[Skill]:
    """Find the skills in some places.

    Args:
        search: Reads the files, and reports those that cannot be used.
        sources: Where to look; of two skills with one name the first counts.

    Returns:
        The skills that can be used, in the order of the sources.
    """
    found = (_skill(search, path, scope) for path, scope in search.files(sources, lambda at: _skill_files(search, at)))
    return search.once_each(filter(None, found))


def _skill(search: Search, path: Path, scope: Scope) -> Skill | None:
    described = search.described(path)
    if described is None:
        return None
    fields, _ = described
    usual_name = path.parent.name if path.name == SKILL_FILE else path.stem
    name = fields.get("name") or usual_name
    description = fields.get("description")
    if not description:
        search.report(path, "is not used: it says nothing of what it is for. Put a `description` in its frontmatter")
        return None
    if len(name) > _MAX_NAME_CHARACTERS or not re.fullmatch(_NAME, name):
        search.report(
            path, f"is named {name[:_MAX_NAME_CHARACTERS]!r}; use at most 64 of a-z, 0-9 and single hyphens within"
        )
    elif name != usual_name:
        search.report(path, f"is named {name}, and where it lies says {usual_name}. Give both one name")
    if len(description) > _MAX_DESCRIPTION_CHARACTERS:
        search.report(
            path, f"has a description of {len(description)} characters; use at most {_MAX_DESCRIPTION_CHARACTERS}"
        )
    hidden = fields.get("disable-model-invocation", "").lower() in ("true", "yes", "on")
    return Skill(name, description, path, scope, hidden)


def _skill_files(search: Search, place: Place) -> Iterator[Path]:
    if kind_of(place.path) == "file":
        yield from search.markdown(place.path)
        return
    seen: set[str] = set()  # symlinks may lead back to where one came from
    stack: list[tuple[Path, int, Ignored | None]] = [(place.path, 0, None)]
    while stack:
        directory, depth, above = stack.pop()
        real = os.path.realpath(directory)
        if real in seen or kind_of(directory) != "directory":
            continue
        seen.add(real)
        skill = directory / SKILL_FILE
        if kind_of(skill) == "file" and not search.hides(skill, above, directory=False):
            yield skill
        elif depth == _MAX_DEPTH:
            search.report(
                directory, f"is not searched, {depth} directories below {place.path}. Name it in the settings"
            )
        else:
            ignored = search.ignored(directory, above)
            shown = search.shown(directory, ignored)
            if place.loose and depth == 0:
                yield from (path for path, kind in shown if kind == "file" and path.suffix == ".md")
            stack += [(path, depth + 1, ignored) for path, kind in reversed(shown) if kind == "directory"]


def skill_prompt(skill: Skill, arguments: str) -> str:
    """Read a skill's instructions and put the user's arguments behind them.

    Args:
        arguments: What the user wrote behind its name; may be empty.

    Raises:
        UsageError: The skill's file cannot be read any more.
    """
    from html import escape

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
