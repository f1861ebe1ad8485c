"""The user's variables as the model reads them: a list that goes along with a prompt, and the tool ``variables``."""

from __future__ import annotations

import fnmatch
import math
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from indus_nb.kernel.values.describe import describe, for_prompt, without_secrets
from indus_nb.kernel.values.extent import memory
from indus_nb.kernel.values.known_classes import is_a, library_of, module_name, version_of
from indus_nb.kernel.values.short import cut
from indus_nb.safety.redaction import is_secret_name

_MAX_SUMMARY_CHARACTERS = 1500
_MAX_LISTED = 100
_MAX_LOOKED_AT = 1000
"""The names that are looked at for one prompt."""
_NO_DATA = ("typing", "indus_nb")
"""Modules that are imported to write code with, and hold nothing of the user's."""


class Summary(NamedTuple):
    """A list of variables for the model, and the number of variables in it."""

    text: str
    names: int


def summary(
    namespace: dict[str, Any],
    hidden: Collection[str] = (),
    *,
    is_users: Callable[[str, object], bool] = lambda _name, _value: True,
    recent: Collection[str] = (),
    seconds: float = math.inf,
) -> Summary:
    """List the user's variables, with a line for each that holds data.

    The newest is the first. Of very many names only so many are looked at, for a moment.

    Args:
        namespace: The namespace, in the order in which names were bound.
        hidden: Names that are not the user's; so are those that begin with an underscore.
        recent: Names to look at first, where there are too many to look at all of them.
        seconds: Processor time of this thread for all lines but the first, which is there in any case: what is done
            once in a process, such as reading the versions of libraries, leaves the others as much of it.

    Returns:
        About 1,500 characters, none without variables; and the number of names in them.
    """
    newest = list(islice(reversed(namespace), _MAX_LOOKED_AT))
    more = len(namespace) - len(newest)
    if more:
        newest = [*dict.fromkeys([*filter(namespace.__contains__, recent), *newest])][:_MAX_LOOKED_AT]
    users = ((name, namespace.get(name)) for name in newest if not name.startswith("_") and name not in hidden)
    data, named, modules = _sorted_out(pair for pair in users if is_users(*pair))
    ends = [f"{what}: {', '.join(names)}" for what, names in named.items() if names]
    ends += [f"versions: {', '.join(versions)}"] if (versions := _versions(modules)) else []
    ends = [cut(line, _MAX_SUMMARY_CHARACTERS // 5) for line in ends]
    room = _MAX_SUMMARY_CHARACTERS - sum(len(line) + 1 for line in ends)
    shown: list[str] = []
    end = math.inf
    for name, value in data:
        line = f"{name}: {cut(describe(value, name), 120, note=False)}"
        room -= len(line) + 1
        if room < 0 or time.thread_time() > end:
            break
        end = end if shown else time.thread_time() + seconds
        shown.append(line)
    count = len(shown) + sum(len(names) for what, names in named.items() if what != "modules")
    if left := len(data) - len(shown) + more:
        shown.append(f"… and {f'about {left:,}' if more else left} older ones")
    return Summary("\n".join([*shown, *ends]), count)


def _versions(modules: Iterable[str]) -> list[str]:
    """Return the versions of libraries, by the modules of them that the user has imported."""
    libraries = dict.fromkeys(module.partition(".")[0] for module in modules)
    found = {name: version_of(name) for name in libraries if name not in sys.stdlib_module_names}
    return [f"{name} {version}" for name, version in found.items() if version]


def _sorted_out(
    users: Iterable[tuple[str, object]],
) -> tuple[list[tuple[str, object]], dict[str, list[str]], list[str]]:
    """Split variables into those that hold data, the names of the others, and the modules among these."""
    data: list[tuple[str, object]] = []
    named: dict[str, list[str]] = {"functions": [], "classes": [], "modules": []}
    modules: list[str] = []
    for name, value in users:
        if is_a(value, ModuleType):
            module = module_name(value)
            named["modules"].append(name if name == module else f"{name} ({module})")
            modules += [module] if type(module) is str else []
        elif is_a(value, type):
            named["classes"].append(name)
        elif is_a(value, FunctionType):
            named["functions"].append(name)
        elif library_of(type(value)) not in _NO_DATA:
            data.append((name, value))
    return data, named, modules


def listing(
    namespace: Mapping[str, object],
    hidden: Collection[str],
    pattern: str,
    agents: Collection[str] = (),
    profile: Callable[[object], str] = lambda _value: "",
) -> str:
    """Write the answer of the tool ``variables``.

    It shows one variable in full, or a line for each that matches.

    Args:
        namespace: The namespace, in the order in which names were bound.
        hidden: Names that are not the user's; so are those that begin with an underscore.
        pattern: The name of the one variable, or else a part of names, or a name with ``*`` and ``?``.
        agents: Names that the agent's code bound, which are marked.
        profile: Writes what is known of the data in a frame; empty for other values.
    """
    users = _users(namespace, hidden)
    exact = [pair for pair in users if pair[0] == pattern]
    if exact:
        name, value = exact[0]
        if is_secret_name(name):
            return f"{name}: {describe(value, name)}"
        known = profile(value)
        return f"{name}:\n{without_secrets(_view(value))}{f'{2 * chr(10)}Profile: {known}' if known else ''}"
    wild = "*" in pattern or "?" in pattern
    found = [(n, v) for n, v in users if (fnmatch.fnmatchcase(n, pattern) if wild else pattern in n)]
    lines = [
        f"{name}{' (made by you)' if name in agents else ''}: {describe(value, name)}{memory(value)}"
        for name, value in found[:_MAX_LISTED]
    ]
    if len(found) > _MAX_LISTED:
        lines.append(f"… and {len(found) - _MAX_LISTED} more. Give a pattern to see others.")
    if not lines:
        return f"No variable matches {pattern!r}." if users and pattern else "There are no variables yet."
    return "\n".join(lines)


def _view(value: object) -> str:
    return f"{for_prompt(value)}{memory(value)}" if type(value) is not str else cut(value, 2000)


def _users(namespace: Mapping[str, object], hidden: Collection[str]) -> list[tuple[str, object]]:
    return [(name, value) for name, value in dict(namespace).items() if not name.startswith("_") and name not in hidden]
