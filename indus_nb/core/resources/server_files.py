"""Files of a project that the entry of an MCP server leads to: they are watched for changes once it is trusted.

What this module promises: a file of the project that is named anywhere in the entry, be it behind ``=``, within a text
for a shell or in a variable, and the modules that such a script names in turn. What a program finds out by itself, and
installed dependencies, are not found here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

from indus_nb.base.files import read_file
from indus_nb.base.wire import JsonObject
from indus_nb.core.resources.extension_files import is_file

_MAX_LOOKS = 100_000
_MAX_SCRIPT_BYTES = 1 << 20
_BETWEEN = re.compile(r"[\s'\"=;:,|&<>()`{}\[\]$@]+")
_DEPENDENCIES = ("node_modules", "__pycache__")
_FAMILIES = ((".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"), ("", ".sh", ".bash"), (".py", ".pyi"))
"""Endings of files that import each other; others import those of their own ending."""
_READS = {
    "package.json": ("npm", "npx", "pnpm", "yarn", "bun", "bunx"),
    "pyproject.toml": ("uv", "uvx", "poetry", "hatch", "pdm", "pixi"),
    "deno.json": ("deno",),
    "Makefile": ("make",),
    "justfile": ("just",),
}
"""Files with commands that a program reads at its start, without being given their name."""


class TooManyFilesError(Exception):
    """Raised when a directory holds more names than are looked at."""


class ServerFiles:
    """Finds the files of a project that entries of ``mcpServers`` name, and the modules that these name.

    Args:
        directory: The real path of the project.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._roots: Sequence[Path] = ()
        self._stems: dict[Path, set[str]] = {}
        """Names in directories, without their endings."""
        self._looks = 0

    def of(self, entry: JsonObject) -> list[Path]:
        """Return the files that an entry leads to.

        Raises:
            TooManyFilesError: This and the entries before lead to more than is looked at.
        """
        texts = list(_texts(entry))
        at = entry.get("cwd")
        start = _normal(self._directory / at) if isinstance(at, str) else self._directory
        pieces = dict.fromkeys(piece for text in texts for piece in _pieces(text))
        self._roots = list(dict.fromkeys((start, self._directory)))
        self._roots += [path for piece in pieces for path in self._named(piece) if self._is_part(path)]
        found = [path for piece in pieces for path in self._named(piece) if is_file(path)]
        programs = {os.path.basename(piece) for piece in pieces}  # noqa: PTH119 - of text
        read = [name for name, readers in _READS.items() if programs.intersection(readers)]
        found += [path for name in read for path in self._named(name) if is_file(path)]
        for module in _modules(texts):
            found += [file for path in self._named(module.split(".")[0]) for file in self._module(path, ".py")]
        return self._with_imported(found)

    def _is_part(self, path: Path) -> bool:
        """Return whether this is a directory of the project, and not the whole."""
        return path != self._directory and os.path.isdir(path)  # noqa: PTH112 - pathlib's fails for long names

    def _named(self, name: str) -> list[Path]:
        """Return the paths in the project that a name may mean."""
        self._count(len(self._roots))
        paths = dict.fromkeys(_normal(root / name) for root in self._roots)
        return [path for path in paths if path.is_relative_to(self._directory)]

    def _module(self, path: Path, ending: str) -> list[Path]:
        """Return the files of a module: of a package all, for its parts import each other."""
        endings = _family(ending)
        if self._is_part(path):
            return [file for file in self._below(path) if file.suffix in endings]
        return [file for each in endings if is_file(file := path.with_name(f"{path.name}{each}"))]

    def _with_imported(self, found: Iterable[Path]) -> list[Path]:
        """Add the modules beside scripts, and at the roots, that the scripts name; and those that these name."""
        known: dict[Path, None] = {}
        modules: set[tuple[Path, str, tuple[str, ...]]] = set()
        waiting = list(found)
        while waiting:
            path = waiting.pop()
            if path in known:
                continue
            known[path] = None
            words, family = _words(path), _family(path.suffix)
            places = dict.fromkeys((path.parent, *self._roots))
            new = {(place, stem, family) for place in places for stem in self._listed(place) & words} - modules
            modules |= new
            waiting += (file for place, stem, _ in new for file in self._module(place / stem, path.suffix))
        return list(known)

    def _listed(self, place: Path) -> set[str]:
        if place not in self._stems:
            try:
                names = os.listdir(place)  # noqa: PTH208 - names alone
            except (OSError, ValueError):
                names = []
            self._count(len(names))
            self._stems[place] = {name.partition(".")[0] for name in names}
        return self._stems[place]

    def _below(self, top: Path) -> Iterator[Path]:
        for at, directories, files in os.walk(top):
            self._count(len(files))
            directories[:] = [name for name in directories if name not in _DEPENDENCIES and not name.startswith(".")]
            yield from (Path(at, name) for name in files)

    def _count(self, looks: int) -> None:
        self._looks += looks
        if self._looks > _MAX_LOOKS:
            raise TooManyFilesError


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in cast("JsonObject", value).values():
                yield from _texts(each)
        case list():
            for each in cast("list[object]", value):
                yield from _texts(each)
        case _:
            pass


def _pieces(text: str) -> Iterator[str]:
    """Yield the pieces of a text that may be paths: all of it, its words, and what follows a one-letter option."""
    words = [text, *_BETWEEN.split(text)]
    words += [word[2:] for word in words if re.match(r"-[A-Za-z].", word)]
    return (word for word in words if word and "\0" not in word)


def _modules(words: Sequence[str]) -> Iterator[str]:
    """Yield the modules that a command names with ``-m``, also behind other options of one letter."""
    spread = [word for text in words for word in text.split()]
    for word, following in zip(spread, [*spread[1:], ""], strict=True):
        if (option := re.fullmatch(r"-[A-Za-z]*?m([A-Za-z_][\w.]*)?", word)) and (module := option[1] or following):
            yield module


def _family(ending: str) -> tuple[str, ...]:
    return next((family for family in _FAMILIES if ending in family), (ending,))


def _words(path: Path) -> set[str]:
    try:
        return set(re.findall(r"[\w-]+", read_file(path, most=_MAX_SCRIPT_BYTES).decode(errors="replace")))
    except OSError:
        return set()


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path))
