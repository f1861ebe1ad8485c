"""Where extensions come from: files, directories, installed packages, and functions given in this process."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, cast

Scope = Literal["project", "user", "temporary", "package"]
ENTRY_POINTS = "indus_nb.extensions"


@dataclass(frozen=True, slots=True)
class Source:
    """An extension that has not been loaded yet.

    ``path`` is a file, the name of an entry point, or the location of a function. ``setup`` is there for functions
    and entry points.
    """

    path: str
    scope: Scope
    setup: Callable[[Any], Any] | None = None


def discover(directories: Iterable[tuple[Path, Scope]], paths: Iterable[tuple[Path, Scope]]) -> Iterator[Source]:
    """Find extensions in files.

    Args:
        directories: Searched one level deep; those that do not exist are passed over.
        paths: Files and directories that were named; one that does not exist is kept, so that loading it fails.

    Returns:
        The extensions in that order; each file once.
    """
    seen: set[Path] = set()
    for path, scope in (*_in_directories(directories), *_at_paths(paths)):
        real = path.resolve()
        if real not in seen:
            seen.add(real)
            yield Source(str(path), scope)


def installed() -> Iterator[Source]:
    """The extensions of installed packages (entry points of the group ``indus_nb.extensions``)."""
    for point in _entry_points(tuple(sys.path)):

        def setup(api: Any, point: Any = point) -> Any:
            return _factory(point.load(), point.value)(api)

        yield Source(f"{point.name} ({point.value})", "package", setup)


@lru_cache(maxsize=1)
def _entry_points(_: tuple[str, ...]) -> Sequence[Any]:
    """Looking through all packages takes milliseconds; they change with the path only."""
    from importlib.metadata import distributions, entry_points

    if not any(ENTRY_POINTS in (package.read_text("entry_points.txt") or "") for package in distributions()):
        return ()  # most often, and taking all of them apart would take as long again
    return tuple(entry_points(group=ENTRY_POINTS))


def load(source: Source, *, afresh: bool = False) -> Callable[[Any], Any]:
    """Import an extension's module and return its setup function.

    Args:
        source: Which extension.
        afresh: Whether to import the module again if it is imported already.

    Returns:
        What to call with the API.

    Raises:
        ImportError: There is no such module, or it has no function ``setup``.
        Exception: Whatever the module raises.
    """
    if source.setup is not None:
        return source.setup
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
            # Not through the bytecode cache: that cannot distinguish versions of one second and one size.
            exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102 - extensions are code
        except BaseException:
            del sys.modules[name]
            raise
    return _factory(sys.modules[name], str(path))


def _factory(loaded: Any, where: str) -> Callable[[Any], Any]:
    setup = loaded if callable(loaded) and not inspect.ismodule(loaded) else getattr(loaded, "setup", None)
    if not callable(setup):
        raise ImportError(f"{where} has no function `setup(api)`")
    return cast("Callable[[Any], Any]", setup)


def _in_directories(directories: Iterable[tuple[Path, Scope]]) -> Iterator[tuple[Path, Scope]]:
    for directory, scope in directories:
        try:
            items = sorted(directory.iterdir())
        except OSError:
            continue
        for item in items:
            if not item.name.startswith((".", "_")):
                for path in _entries(item):
                    yield path, scope


def _at_paths(paths: Iterable[tuple[Path, Scope]]) -> Iterator[tuple[Path, Scope]]:
    for path, scope in paths:
        entries = _entries(path)
        if entries or not path.is_dir():
            # A path that does not exist is kept: loading it reports what is wrong.
            for entry in entries or [path]:
                yield entry, scope
        else:
            yield from _in_directories([(path, scope)])


def _entries(path: Path) -> Sequence[Path]:
    """The modules that an item of a directory of extensions stands for."""
    if path.is_file():
        return [path] if path.suffix == ".py" else []
    if (path / "__init__.py").is_file():
        return [path / "__init__.py"]
    if (path / "pyproject.toml").is_file():
        return [path / name for name in _listed(path / "pyproject.toml")]
    return []


def _listed(project: Path) -> list[str]:
    """What ``[tool.indus_nb] extensions = [...]`` names."""
    import tomllib

    try:
        content = tomllib.loads(project.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    names: object = content.get("tool", {}).get("indus_nb", {}).get("extensions")
    return [name for name in cast("list[object]", names) if isinstance(name, str)] if isinstance(names, list) else []
