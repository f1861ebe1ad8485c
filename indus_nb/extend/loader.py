"""Sources of extensions: files, directories, installed packages, and functions given in this process."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, cast

from indus_nb.base.own_imports import working_directory_entries
from indus_nb.core.resources.extension_files import Check, ExtensionScope, extension_files

Scope: TypeAlias = ExtensionScope
ENTRY_POINTS = "indus_nb.extensions"
MAX_PROJECT_EXTENSIONS = 100


@dataclass(frozen=True, slots=True)
class Source:
    """An extension that has not been loaded yet.

    ``path`` is a file, the name of an entry point, or the location of a function. ``setup`` is there for functions
    and entry points. ``check`` is asked about every file that is imported for it.
    """

    path: str
    scope: Scope
    setup: Callable[[Any], Any] | None = None
    check: Check | None = None

    @property
    def is_foreign(self) -> bool:
        """Return whether it is a user's, rather than a part of this package."""
        module: object = getattr(self.setup, "__module__", None)
        own = isinstance(module, str) and module.startswith("indus_nb.")
        return not own or module == "indus_nb.extend.definitions"


def discover(
    directories: Iterable[tuple[Path, Scope]],
    paths: Iterable[tuple[Path, Scope]],
    check: Check | None = None,
    problems: list[str] | None = None,
) -> Iterator[Source]:
    """Find extensions in files.

    Args:
        directories: Searched one level deep; those that do not exist are passed over.
        paths: Files and directories that were named; one that does not exist is kept, so that loading it fails.
        check: What sees to it that files of a project are those that the user trusts.
        problems: Gets a sentence if a project has more than are loaded.

    Returns:
        The extensions in that order; each file once.
    """
    of_project = 0
    for path, scope in extension_files(directories, paths):
        of_project += scope == "project"
        if scope != "project":
            yield Source(str(path), scope)
        elif of_project <= MAX_PROJECT_EXTENSIONS:
            yield Source(str(path), scope, check=check)
    if of_project > MAX_PROJECT_EXTENSIONS and problems is not None:
        sentence = f"The project has {of_project:,} extensions, of which {MAX_PROJECT_EXTENSIONS} are loaded."
        problems += [sentence] if sentence not in problems else []


def installed() -> Iterator[Source]:
    """List the extensions of installed packages (entry points of the group ``indus_nb.extensions``)."""
    for point in _entry_points(tuple(sys.path)):

        def setup(api: Any, point: Any = point) -> Any:
            return _factory(point.load(), point.value)(api)

        yield Source(f"{point.name} ({point.value})", "package", setup)


@lru_cache(maxsize=1)
def _entry_points(_: tuple[str, ...]) -> Sequence[Any]:
    """Return entry points, cached: looking through all packages takes milliseconds; they change with the path only."""
    # A package that only the working directory has is not installed.
    places = [entry for entry in sys.path if entry not in working_directory_entries()]
    finders = [finder for finder in sys.meta_path if finder is not PathFinder]
    if not any(map(_may_name_some, places)) and not any(hasattr(finder, "find_distributions") for finder in finders):
        return ()
    from importlib.metadata import distributions

    packages = [
        package
        for package in distributions(path=places)
        if ENTRY_POINTS in (package.read_text("entry_points.txt") or "")
    ]
    points = (package.entry_points.select(group=ENTRY_POINTS) for package in packages)
    return tuple(dict.fromkeys(chain.from_iterable(points)))


def _may_name_some(place: str) -> bool:
    """Return whether a package in an entry of the path may have extensions; the library takes longer to import."""
    try:
        names = os.listdir(place or ".")  # noqa: PTH208 - a path's objects would double the time
    except NotADirectoryError:
        return True  # an archive
    except OSError:
        return False
    found = [name for name in names if name.endswith((".dist-info", ".egg-info", ".egg"))]
    return any(name.endswith(".egg") or _names_some(f"{place}/{name}/entry_points.txt") for name in found)


def _names_some(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - see above
            return ENTRY_POINTS.encode() in file.read()
    except OSError:
        return False


def load(source: Source, *, afresh: bool = False) -> Callable[[Any], Any]:
    """Import an extension's module and return its setup function.

    Args:
        afresh: Whether to import the module again if it is imported already.

    Raises:
        ImportError: There is no such module, it has no function ``setup``, or it is not what the user trusts.
        Exception: Whatever the module raises.
    """
    if source.setup is not None:
        return source.setup
    from hashlib import sha256

    path = Path(source.path)
    name = f"indus_nb_extension_{path.stem.replace('-', '_')}_{sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    if afresh or name not in sys.modules:
        for loaded in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
            del sys.modules[loaded]
        package = [str(path.parent)] if path.name == "__init__.py" else None
        spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=package)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no Python module")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            content = path.read_bytes()
            if source.check is not None:
                from indus_nb.extend.checked_imports import check_imports

                source.check(path, content)
                if package or path.parent.name == "extensions":  # else the directory is not the extension's own
                    check_imports(path.parent, source.check)
            # Not through the bytecode cache: that cannot distinguish versions of one second and one size.
            exec(compile(content, str(path), "exec"), module.__dict__)  # noqa: S102 - extensions are code
        except BaseException:
            del sys.modules[name]
            raise
    return _factory(sys.modules[name], str(path))


def _factory(loaded: Any, where: str) -> Callable[[Any], Any]:
    setup = loaded if callable(loaded) and not inspect.ismodule(loaded) else getattr(loaded, "setup", None)
    if not callable(setup):
        raise ImportError(f"{where} has no function `setup(api)`")
    return cast("Callable[[Any], Any]", setup)
