"""Settings of the process and of libraries that code changes and that are cheap to restore."""

from __future__ import annotations

import locale
import logging
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from indus_nb.kernel.undo.keeper import State
from indus_nb.kernel.undo.objects.builtin_kinds import DecimalContextKind, LoggingKind

_DECIMALS = DecimalContextKind()
_LOGGING = LoggingKind()


class Setting:
    """A part of the process's state, as an object."""

    def __init__(
        self,
        name: str,
        get: Callable[[], Any],
        put: Callable[[Any], object],
        counts: Callable[[], bool] = lambda: True,
    ) -> None:
        """Set its name, how it is read and written, and whether a change of it is the code's own."""
        self.name = name
        self.get = get
        self.put = put
        self.counts = counts


class SettingKind(State):
    """Settings: what ``get`` returns, compared by value."""

    def remember(self, obj: Setting) -> Any:
        return obj.get()

    def put(self, obj: Setting, state: Any) -> None:
        if not self.same(obj, state):
            obj.put(state)


KIND = SettingKind()


def settings() -> Iterator[Setting]:
    """List the present settings; those of a library once it was imported."""
    yield Setting("the working directory", _directory, _put_directory)
    yield Setting("environment variables", os.environ.copy, _put_environment)
    yield Setting("the import path", lambda: [*sys.path], lambda state: sys.path.__setitem__(slice(None), state))
    yield Setting("random numbers", random.getstate, random.setstate)
    modules = sys.modules
    count = len(modules)
    # Libraries add filters of their own when they are imported, and stay imported when the code is taken back.
    yield Setting("warning filters", lambda: [*warnings.filters], _put_filters, lambda: len(modules) == count)
    if "decimal" in modules:
        context = modules["decimal"].getcontext
        yield Setting(
            "the decimal context",
            lambda: _DECIMALS.remember(context()),
            lambda state: _DECIMALS.put(context(), state),
        )
    yield Setting(
        "the locale", lambda: locale.setlocale(locale.LC_ALL), lambda state: locale.setlocale(locale.LC_ALL, state)
    )
    yield Setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit)
    root: Any = logging.getLogger()
    loggers = [root, *(each for each in [*root.manager.loggerDict.values()] if isinstance(each, logging.Logger))]
    yield Setting(
        "loggers",
        lambda: [_LOGGING.remember(each) for each in loggers],
        lambda state: [_LOGGING.put(*each) for each in zip(loggers, state, strict=True)],
        lambda: len(modules) == count,
    )
    if (numpy := modules.get("numpy")) is not None and hasattr(numpy, "set_printoptions"):
        yield Setting("numpy's options", numpy.get_printoptions, lambda state: numpy.set_printoptions(**state))
        yield Setting("numpy's error handling", lambda: _of_numpy(numpy), lambda state: _put_of_numpy(numpy, state))
    if (matplotlib := modules.get("matplotlib")) is not None and hasattr(matplotlib, "rcParams"):
        given: Any = matplotlib.rcParams
        yield Setting(
            "matplotlib's settings", lambda: dict[str, Any].copy(given), lambda state: _put_dict(given, state)
        )
    if (learning := modules.get("sklearn")) is not None and hasattr(learning, "set_config"):
        yield Setting("sklearn's settings", learning.get_config, lambda state: learning.set_config(**state))
    if "plotly.io" in modules:
        yield Setting("plotly's settings", _of_plotly, _put_of_plotly)
    if (config := getattr(modules.get("pandas._config.config"), "_global_config", None)) is not None:
        yield Setting("pandas' options", lambda: _copied(config), lambda state: _put_tree(config, state))


def generators() -> Iterator[Any]:
    """List the generators of random numbers that modules hold, which are objects with a kind of their own."""
    inside = getattr(sys.modules.get("numpy.random"), "mtrand", None)
    generator: Any = getattr(inside, "_rand", None)
    if generator is not None:
        yield generator


def _directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - as chdir is given it
    except OSError:
        return None


def _put_directory(state: str | None) -> None:
    if state is not None:
        os.chdir(state)


def _put_environment(state: dict[str, str]) -> None:
    for name in os.environ.keys() - state.keys():
        del os.environ[name]
    for name, value in state.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _put_filters(state: list[Any]) -> None:
    filters: Any = warnings.filters
    filters[:] = state
    changed: Callable[[], None] | None = getattr(warnings, "_filters_mutated", None) or getattr(
        warnings, "_filters_mutated_lock_held", None
    )
    if changed is not None:
        changed()


def _of_numpy(numpy: Any) -> tuple[Any, ...]:
    return numpy.geterr(), numpy.geterrcall(), numpy.getbufsize()


def _put_of_numpy(numpy: Any, state: tuple[Any, ...]) -> None:
    numpy.seterr(**state[0])
    numpy.seterrcall(state[1])
    numpy.setbufsize(state[2])


def _of_plotly() -> dict[tuple[str, str], Any]:
    """Return the settings of plotly that differ from its defaults, of the modules that are loaded."""
    return {
        (module, name): getattr(owner, name)
        for module, owner, begun in _owners_of_plotly()
        for name, value in begun.items()
        if getattr(owner, name) != value
    }


def _put_of_plotly(state: dict[tuple[str, str], Any]) -> None:
    for module, owner, begun in _owners_of_plotly():
        for name, value in begun.items():
            if getattr(owner, name) != (wanted := state.get((module, name), value)):
                setattr(owner, name, wanted)


def _owners_of_plotly() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """List the loaded modules of plotly with the owners of its settings and their defaults."""
    module: Any
    if (module := sys.modules.get("plotly.io._templates")) is not None:
        yield "templates", module.templates, {"default": "plotly"}
    if (module := sys.modules.get("plotly.io._renderers")) is not None:
        yield "renderers", module.renderers, {"default": module.default_renderer or ""}
    if (module := sys.modules.get("plotly.express")) is not None:
        fresh = type(module.defaults)()
        yield "defaults", module.defaults, {name: getattr(fresh, name) for name in fresh.__slots__}


def _put_dict(settings: dict[str, Any], state: dict[str, Any]) -> None:
    for name in settings.keys() - state.keys():
        dict[str, Any].__delitem__(settings, name)
    dict[str, Any].update(settings, state)


def _copied(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: _copied(value) if isinstance(value, dict) else value for name, value in tree.items()}  # pyright: ignore[reportUnknownArgumentType]


def _put_tree(tree: dict[str, Any], state: dict[str, Any]) -> None:
    for name, value in state.items():
        if isinstance(value, dict) and isinstance(tree.get(name), dict):
            _put_tree(tree[name], value)  # pyright: ignore[reportUnknownArgumentType]
        else:
            tree[name] = value
