"""Our own imports, and those of the libraries that we import, never take a module of the working directory.

Where Python looks for modules in the working directory first, as in a notebook, a file ``httpx2.py`` there would be run
in the place of the library. What this module promises: an import that this package has caused, in whichever library and
thread it happens, finds what is installed or nothing. What the user's code imports, and what extensions import, is
found as Python finds it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType

_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120 - imported at every start
PROGRAM = (sys.executable, "-P", "-m", "indus_nb")
"""The console program of this environment: ``-P``, for ``runpy`` imports modules before any line of ours runs."""
_passed_over: dict[str, str] = {}


def keep_out_working_directory() -> None:
    """Install the import finder, if Python looks into the working directory at all."""
    if _InstalledOnly not in sys.meta_path and working_directory_entries():
        import_module("inspect")  # see find_spec
        sys.meta_path.insert(0, _InstalledOnly)


def problems() -> list[str]:
    """Say which files of the working directory would have been imported in the place of something installed."""
    return [
        f"{place} has the name of the module {name}, which is installed: the agent uses the installed one. Rename it, "
        "for other programs may not."
        for name, place in _passed_over.items()
    ]


def working_directory_entries() -> list[str]:
    """Return the entries of the path that mean the working directory, unless this package itself is there."""
    try:
        here = os.getcwd()  # noqa: PTH109 - see above
    except OSError:
        return []
    return [entry for entry in sys.path if entry in ("", ".", here)] if here != _HOME else []


class _InstalledOnly:
    """An import finder for our imports, ahead of any other."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a module that the working directory would provide otherwise.

        Args:
            path: Where to look; ``None`` for modules that are in no package.
            target: See ``importlib.abc.MetaPathFinder``.

        Returns:
            What is installed under that name; ``None`` if the usual finders are to decide.

        Raises:
            ModuleNotFoundError: Only the working directory has such a module, and the import is ours.
        """
        if path is not None or name in sys.builtin_module_names:
            return None
        import inspect  # which is there since this finder is: an import here would ask it again

        places = working_directory_entries()
        found = PathFinder.find_spec(name, places) if places else None
        if found is None or found.origin is None:
            return None
        ours = _is_ours(inspect.currentframe(), places)
        if ours is False:
            return None
        elsewhere = [entry for entry in sys.path if entry not in places]
        for finder in sys.meta_path:
            find: Any = getattr(finder, "find_spec", None)
            if finder is _InstalledOnly or find is None:
                continue
            spec = find(name, elsewhere if finder is PathFinder else None, target)
            if spec is not None and not _is_in(spec.origin, places):
                _passed_over[name] = found.origin
                return spec
        if ours is None:
            return None
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _is_ours(frame: FrameType | None, places: Sequence[str]) -> bool | None:
    """Return whether the innermost frame that is no library's and not Python's is one of this package.

    ``None`` where all are a library's, as in its own threads: there the installed module comes first.
    """
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name == "indus_nb" or name.startswith("indus_nb."):
            if name != __name__:
                return True
        elif (
            name == "__main__"
            or name.startswith("indus_nb_extension_")
            or _is_in(frame.f_globals.get("__file__"), places)
        ):
            return False
        frame = frame.f_back
    return None


def _is_in(file: object, places: Sequence[str]) -> bool:
    """Return whether a file is found by one of these entries of the path and by none nearer to it."""
    if not isinstance(file, str):
        return False
    tops = {os.path.abspath(entry): entry for entry in (*sys.path, *places)}  # noqa: PTH100 - texts
    above: str = os.path.dirname(os.path.abspath(file))  # noqa: PTH100, PTH120 - see above
    while above not in tops:
        parent: str = os.path.dirname(above)  # noqa: PTH120 - see above
        if parent == above:
            return False
        above = parent
    return tops[above] in places
