"""Prompt templates: prompts with placeholders, which ``/name arguments`` stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.core.resources.search import Place, Scope, Search, Source, kind_of

_MAX_PROMPT_CHARACTERS = 8 << 20
_MAX_TEASER_CHARACTERS = 60
# Possessive where it can be: the engine then keeps no state for each character, which took more memory than the text.
_ARGUMENT = r"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^ \t"']++)+"""
_QUOTED = r""""([^"]*)(?:"|\Z)|'([^']*)(?:'|\Z)"""
_PLACEHOLDER = (
    r"\$(?:(?P<number>[0-9]+)|(?P<all>@|ARGUMENTS)"
    r"|\{@:(?P<start>[0-9]+)(?::(?P<count>[0-9]+))?\}"
    r"|\{(?P<preferred>[0-9]+|@):-(?P<default>[^}$]*+(?:\$(?!\{)[^}$]*+)*)\})"
)


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt with placeholders, ``body``, that ``/name arguments`` stands for."""

    name: str
    description: str
    path: Path
    scope: Scope
    body: str

    @property
    def needs_arguments(self) -> bool:
        """Return whether something is missing in the prompt where nothing stands behind the name."""
        return any(found["default"] is None for found in re.finditer(_PLACEHOLDER, self.body))


def find_templates(search: Search, sources: Iterable[Source]) -> list[PromptTemplate]:
    """Find the prompt templates in some places.

    Args:
        search: Reads the files, and reports those that cannot be used.
        sources: Where to look; of two templates with one name the first counts.

    Returns:
        The templates that can be used, in the order of the sources.
    """

    def files(place: Place) -> Iterator[Path]:
        if kind_of(place.path) == "file":
            yield from search.markdown(place.path)
        elif kind_of(place.path) == "directory":
            for path, kind in search.shown(place.path, None):
                if kind == "file" and path.suffix == ".md":
                    yield path

    found = (_template(search, path, scope) for path, scope in search.files(sources, files))
    return search.once_each(filter(None, found))


def _template(search: Search, path: Path, scope: Scope) -> PromptTemplate | None:
    described = search.described(path)
    if described is None:
        return None
    fields, body = described
    description = fields.get("description")
    if not description:
        description = next((line.strip() for line in body.split("\n") if line.strip()), "")
        description = textcut.head(description, _MAX_TEASER_CHARACTERS, "...")
    return PromptTemplate(path.name.removesuffix(".md"), description, path, scope, body)


def fill(template: PromptTemplate, text: str) -> str:
    """Replace a template's placeholders by arguments.

    Args:
        text: The arguments as the user wrote them, with quotes around those that hold blanks.

    Raises:
        UsageError: The prompt would be larger than 8 MiB.
    """
    arguments = [value for match in re.finditer(_ARGUMENT, text) if (value := re.sub(_QUOTED, r"\1\2", match[0]))]
    everything = " ".join(arguments)
    size = len(template.body)

    def filling(found: re.Match[str]) -> str:
        nonlocal size
        chosen = _chosen(found, arguments, everything)
        size += len(chosen)
        if size > _MAX_PROMPT_CHARACTERS:
            raise UsageError(
                f"The template {template.name} with these arguments would be a prompt of more than 8 MiB; nothing was "
                f"sent. Give it less, or repeat the arguments less often in {template.path}."
            )
        return chosen

    # One pass, so that arguments which look like placeholders stay what they are.
    return re.sub(_PLACEHOLDER, filling, template.body)


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
