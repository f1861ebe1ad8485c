"""Imports from the directories of a project's extensions: of what the user trusts, and of nothing else.

What this module promises: a module that is found in such a directory, by whichever entry of a path, is compiled from
bytes that were checked. Compiled files are neither read nor written there: one that claims to belong to a source would
run in the place of what was looked at.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from indus_nb.core.resources.extension_files import Check

_checks: dict[str, Check] = {}


def check_imports(directory: Path, check: Check) -> None:
    """Run a check on every import from a directory, or one below it, from now on."""
    if _find not in sys.path_hooks:
        sys.path_hooks.insert(0, _find)
    _checks[os.path.realpath(directory)] = check
    for path in list(sys.path_importer_cache):  # other threads import meanwhile
        if _check_of(path) is not None:
            sys.path_importer_cache.pop(path, None)  # found before it was known whose it is


def _check_of(path: str) -> Check | None:
    place = os.path.realpath(path)
    return next(
        (check for top, check in list(_checks.items()) if place == top or place.startswith(f"{top}{os.sep}")), None
    )


def _find(path: str) -> FileFinder:
    check = _check_of(path)
    if check is None or not os.path.isdir(path):  # noqa: PTH112 - of a string
        raise ImportError(path)

    class Source(_CheckedSource):
        checked_by = staticmethod(check)

    class Binary(_CheckedBinary):
        checked_by = staticmethod(check)

    return FileFinder(path, (Binary, EXTENSION_SUFFIXES), (Source, [".py"]))


class _CheckedSource(SourceFileLoader):
    checked_by: Callable[[Path, bytes], None]

    def path_stats(self, path: str) -> Any:
        """Raise ``OSError``, so that no compiled file is looked for or written."""
        raise OSError(path)

    def get_data(self, path: str) -> bytes:
        """Read a file of the module, after a check."""
        data = super().get_data(path)
        self.checked_by(Path(path), data)
        return data


class _CheckedBinary(ExtensionFileLoader):
    checked_by: Callable[[Path, bytes], None]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Load a compiled module, directly after a check of its file."""
        self.checked_by(Path(self.path), Path(self.path).read_bytes())
        return super().create_module(spec)
