"""Files of extensions: those in a directory, and those that a path stands for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, cast

from indus_nb.base.files import read_file

_MAX_PROJECT_BYTES = 1 << 20

ExtensionScope = Literal["project", "user", "temporary", "package"]
Check: TypeAlias = Callable[[Path, bytes], None]
"""Callback that raises ``ImportError`` unless a file with this content may be imported."""


def extension_files(
    directories: Iterable[tuple[Path, ExtensionScope]], paths: Iterable[tuple[Path, ExtensionScope]]
) -> Iterator[tuple[Path, ExtensionScope]]:
    """Find extensions in files.

    Args:
        directories: Searched one level deep; those that do not exist are passed over.
        paths: Files and directories that were named; one that does not exist is kept, so that loading it fails.

    Yields:
        Each file once, with its scope, in that order.
    """
    seen: set[str] = set()
    for path, scope in (*_in_directories(directories), *_at_paths(paths)):
        real = os.path.realpath(path)
        if real not in seen:
            seen.add(real)
            yield path, scope


def _in_directories(directories: Iterable[tuple[Path, ExtensionScope]]) -> Iterator[tuple[Path, ExtensionScope]]:
    for directory, scope in directories:
        try:
            items = sorted(directory.iterdir())
        except OSError:
            continue
        for item in items:
            if not item.name.startswith((".", "_")):
                for path in _entries(item):
                    yield path, scope


def _at_paths(paths: Iterable[tuple[Path, ExtensionScope]]) -> Iterator[tuple[Path, ExtensionScope]]:
    for path, scope in paths:
        entries = _entries(path)
        if entries or not os.path.isdir(path):  # noqa: PTH112 - pathlib's fails for names that are too long
            # A path that does not exist is kept: loading it reports what is wrong.
            for entry in entries or [path]:
                yield entry, scope
        else:
            yield from _in_directories([(path, scope)])


def _entries(path: Path) -> Sequence[Path]:
    """Return the modules that an item of a directory of extensions stands for."""
    if is_file(path):
        return [path] if path.suffix == ".py" else []
    if is_file(path / "__init__.py"):
        return [path / "__init__.py"]
    if is_file(path / "pyproject.toml"):
        return [path / name for name in _listed(path / "pyproject.toml")]
    return []


def _listed(project: Path) -> list[str]:
    """Return the names in ``[tool.indus_nb] extensions = [...]``."""
    import tomllib

    try:
        value: object = tomllib.loads(read_file(project, most=_MAX_PROJECT_BYTES).decode())
    except (OSError, ValueError, RecursionError):
        return []
    for key in ("tool", "indus_nb", "extensions"):
        value = cast("dict[str, object]", value).get(key) if isinstance(value, dict) else None
    names = cast("list[object]", value) if isinstance(value, list) else []
    return [name for name in names if isinstance(name, str) and "\0" not in name]


def is_file(path: Path) -> bool:
    """Return whether a regular file is there; not if there can be none of that name."""
    return os.path.isfile(path)  # noqa: PTH113 - pathlib's fails for names that are too long
