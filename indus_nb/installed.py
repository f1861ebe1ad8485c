"""Which modules are Python's or an installed package's: their authors wrote them, and not the user or the agent."""

from __future__ import annotations

import importlib.util
import os
import sysconfig

_STARTS_SOMETHING = frozenset({"__main__", "antigravity", "this", "idlelib", "turtledemo", "test"})
"""Modules of Python's that do more when they are imported than to be there."""


def is_installed(name: str) -> bool:
    """Return whether a module belongs to Python or to an installed package, and not to the project.

    Args:
        name: Its full name.

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
    paths = sysconfig.get_paths()
    places = tuple(f"{os.path.realpath(paths[each])}/" for each in ("purelib", "platlib", "stdlib", "platstdlib"))
    origins = [found.origin] if found.has_location and found.origin else [*(found.submodule_search_locations or ())]
    return bool(origins) and all(os.path.realpath(origin).startswith(places) for origin in origins)
