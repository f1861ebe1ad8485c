"""Modules of Python or of an installed package, told from those that the user or the agent wrote."""

from __future__ import annotations

import importlib.util
import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from types import ModuleType

_STARTS_SOMETHING = frozenset({"__main__", "antigravity", "this", "idlelib", "turtledemo", "test"})
"""Modules of Python's that do more when they are imported than to be there."""


def is_installed(name: str) -> bool:
    """Return whether a module belongs to Python or to an installed package, and not to the project.

    Returns:
        Whether it is found where packages are installed; ``False`` for those that start something when imported.

    >>> is_installed("json.decoder"), is_installed("__main__")
    (True, False)
    """
    top, *below = name.split(".")
    if top in _STARTS_SOMETHING or "__main__" in below:
        return False
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    if found is None or found.origin in ("built-in", "frozen"):
        return found is not None
    origins = [found.origin] if found.has_location and found.origin else [*(found.submodule_search_locations or ())]
    return bool(origins) and all(map(lies_installed, origins))


def lies_installed(path: str) -> bool:
    """Return whether a file is Python's or an installed package's.

    Args:
        path: The file, as modules have it in ``__file__``.

    Returns:
        Whether it lies where packages are installed, or is none.
    """
    if path.startswith("<frozen "):
        return True
    return path.startswith(_places()) or os.path.realpath(path).startswith(_places())


def has_package(name: str) -> bool:
    """Return whether a package of an extra can be imported, without importing it."""
    return importlib.util.find_spec(name) is not None


def how_to_install(extra: str) -> str:
    """Return, for a sentence, what installs the packages of an extra.

    >>> how_to_install("images")
    'pip install ".[images]" in the clone of indus_nb'
    """
    return f'pip install ".[{extra}]" in the clone of indus_nb'


@lru_cache(maxsize=1)
def _places() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = [paths[each] for each in ("purelib", "platlib", "stdlib", "platstdlib")]
    found += [*site.getsitepackages(), site.getusersitepackages()]
    return tuple(f"{place}/" for place in {*found, *map(os.path.realpath, found)})


def is_of_project(name: str, module: object) -> bool:
    """Return whether an imported module lies elsewhere than installed packages do.

    Args:
        name: Its name in ``sys.modules``.
        module: What is there, which code may have put there.

    Returns:
        Whether it does; ``False`` for this package.
    """
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and not name.startswith(("__", "indus_nb")) and not lies_installed(file)


def modules_of_project() -> Iterator[tuple[str, ModuleType]]:
    """Yield the imported modules that lie elsewhere than installed packages do, with their names."""
    for name, module in [*sys.modules.items()]:
        if is_of_project(name, module):
            yield name, module
