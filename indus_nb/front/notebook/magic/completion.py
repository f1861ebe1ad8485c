"""Tab completion behind ``%agent`` and in a ``%%agent`` cell."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from indus_nb.base import textcut
from indus_nb.core.answers.naming import PLAIN
from indus_nb.core.resources.settings import agent_directory, load_settings, model_registry
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage import list_sessions, user_text
from indus_nb.front.notebook.magic.options import (
    COMMANDS,
    MAP_OPTIONS,
    OPTION,
    OPTION_NAMES,
    OPTIONS,
    VALUE,
    Kind,
    Option,
    find_map_option,
    find_option,
)
from indus_nb.models.registry import ModelRegistry
from indus_nb.start import THINKING_LEVELS, SessionOptions
from indus_nb.start.stores import Stores

_MAX_OFFERS = 200
_MAX_NAME_CHARACTERS = 200
_SHORT_OPTIONS = tuple(f"-{option.short}" for option in OPTIONS if option.short)
_CELL = re.compile(r"\s*%%agent(?=\s|$)")
_LINE = re.compile(r"[ \t]*%agent[ \t]")
_MAP = re.compile(r"map\s+")
_OVER = re.compile(r"(?:^|[\"']\s+)over\s+((?:[^\W\d]\w*)?)$")
_DOLLAR = re.compile(r"(?<![\w\\$])\$([^\W\d]\w*)?$")
_NAMED = re.compile(r"(?<![\w.\"'])(?:(?P<owner>[^\W\d]\w*)\.)?(?P<part>(?:[^\W\d]\w*)?)$")
_CALLED = re.compile(r"\s*/(?P<name>\S+) (?P<typed>.*)")
_OPENS = "([+-*/%<>=,"
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_TOOLS = (
    *("python", "variables", "state", "notebook", "propose_cell"),
    *("read", "bash", "edit", "write", "grep", "find", "ls"),
)
"""Tools that a conversation in a notebook may have, for completion before there is one."""
_MAX_DESCRIBED_SESSIONS = 20
_MAX_NOTE_CHARACTERS = 60
_OF_STATES = ("save", "back", "diff", "drop")
_PLAIN_NAME = re.compile(r"[^\s\"']+")


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of completions.

    Attributes:
        session: The session, if there is one.
        arguments: Completes the arguments of an extension's command.
        states: Returns the named states, each with where it is.
    """

    namespace: Mapping[str, Any]
    session: AgentSession | None
    registry: ModelRegistry
    directory: Path
    arguments: Callable[[str, str], Sequence[str]] = lambda _name, _typed: ()
    names: Sequence[str] = ()
    states: Callable[[], Mapping[str, str]] = dict[str, str]


@dataclass(frozen=True, slots=True)
class Offers:
    """Completions of ``fragment``, with which the text up to the cursor ends.

    Attributes:
        texts: Replacements of the fragment.
        notes: Texts that front ends show beside some of them, instead of the kind.
        alone: Whether nothing of another kind fits there, even if there are none.
    """

    fragment: str
    texts: Sequence[str]
    kind: Literal["keyword", "instance", "path"] = "keyword"
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    alone: bool = False


def complete(text: str, sources: Sources) -> Offers | None:
    """List the completions of ``text``.

    May be called in any thread: of the session it reads only what is in memory. Exceptions that the user's
    objects raise on access to their attributes are not caught.

    Args:
        sources: The sources of completions.

    Returns:
        The offers; ``None`` if there are none or the text does not belong to the agent.
    """
    offers = None
    if cell := _CELL.match(text):
        line, below, body = text[cell.end() :].partition("\n")
        if not below:
            offers = _behind_magic(line, sources, commands=False) if line else None
        else:
            offers = _in_prompt(body, sources, begins=not _Options(f"{line} ").rest.strip())
    else:
        line = text.rpartition("\n")[2]
        if magic := _LINE.match(line):
            offers = _behind_magic(line[magic.end() :], sources, commands=True)
    return offers if offers is not None and (offers.texts or offers.alone) else None


class _Options:
    """Options in front of ``rest``; ``unfinished`` is the one whose value is still being typed."""

    def __init__(self, line: str, find: Callable[[str], Option | None] = find_option) -> None:
        self.rest = line
        self.unfinished: Option | None = None
        self.ended = False
        self.provider: str | None = None
        while option := OPTION.match(self.rest):
            behind = self.rest[option.end() :]
            if not behind:
                break  # the option itself is still being typed
            self.rest = behind
            name = option["short"] or option["name"]
            if name is None:
                self.ended = True
                break
            known = find(name)
            if known is None or not known.value:
                continue
            value = VALUE.match(behind)
            if value is None or value.end() == len(behind):
                self.unfinished = known
                break
            if known.kind is Kind.PROVIDER:
                self.provider = value["double"] or value["single"] or value["bare"]
            self.rest = behind[value.end() :]


def _behind_magic(line: str, sources: Sources, *, commands: bool) -> Offers | None:
    options = _Options(line)
    if options.unfinished is not None:
        typed = options.rest.lstrip("= \t").lstrip("\"'")
        return _values(options.unfinished, typed, options.provider, sources)
    typed = options.rest.lstrip()
    if not options.ended and (mapped := _MAP.match(typed)):
        return _behind_map(typed[mapped.end() :], sources)
    if not options.ended and typed.startswith("-") and " " not in typed:
        return _fitting(typed, [*_SHORT_OPTIONS, *(f"--{name}" for name in OPTION_NAMES)])
    if commands and not options.ended:
        name, blank, argument = typed.partition(" ")
        if blank and name in COMMANDS and (offers := _arguments(name, argument.lstrip(), sources)):
            # Behind `%agent tree ` nothing but an entry makes sense; `%agent tree of life` is a prompt.
            return replace(offers, alone=offers.alone or not argument.strip())
        if not blank and (offers := _fitting(typed, COMMANDS, part=False)).texts:
            return offers
    return _in_prompt(typed, sources, begins=True)


def _behind_map(line: str, sources: Sources) -> Offers | None:
    options = _Options(line, find_map_option)
    typed = options.rest.lstrip()
    if options.unfinished is not None:
        return _values(options.unfinished, typed.lstrip("= ").lstrip("\"'"), options.provider, sources)
    if typed.startswith("-") and " " not in typed:
        return _fitting(typed, [f"-{each.short}" if each.short else f"--{each.name}" for each in MAP_OPTIONS])
    over = _OVER.search(typed)
    return None if over is None else _variables(over[1], sources)


def _arguments(  # noqa: PLR0911 - one for each kind
    command: str, typed: str, sources: Sources
) -> Offers | None:
    declared = COMMANDS[command]
    match declared.kind:
        case Kind.MODEL:
            return _models(typed, None, sources.registry)
        case Kind.LEVEL:
            model = sources.session.model if sources.session is not None else None
            return _fitting(typed, THINKING_LEVELS if model is None else model.thinking_levels)
        case Kind.CHOICE:
            return _fitting(typed, declared.choices)
        case Kind.ENTRY:
            return _entries(typed, sources.session, users=command == "fork")
        case Kind.STATE:
            return _states(typed, declared.choices, sources)
        case Kind.EXPORT:
            return _files(typed, sources.directory, (".html", ".jsonl"))
        case _:
            return None


def _entries(typed: str, session: AgentSession | None, *, users: bool) -> Offers:
    """Offer the session's entries that hold messages, newest first; with ``users`` only the user's."""
    notes: dict[str, str] = {}
    for entry in reversed(session.store.entries if session is not None else ()):
        text = user_text(entry)
        if (text if users else entry.type == "message") and len(notes) < _MAX_OFFERS:
            notes[entry.id] = _note(text or "answer")
    return replace(_fitting(typed, notes, part=False), notes=notes)


def _states(typed: str, choices: Sequence[str], sources: Sources) -> Offers:
    """Offer what may be done with states, and behind that their names, in quotation marks where these are needed."""
    action, blank, name = typed.partition(" ")
    if not blank or action not in _OF_STATES:
        return _fitting(typed, choices)
    name = name.lstrip()
    known = sources.states()
    is_quoted = name[:1] in ('"', "'")
    found = _fitting(name[1:] if is_quoted else name, known)
    texts = {_written(each, name[:1] if is_quoted else ""): each for each in found.texts}
    texts.pop("", None)
    return Offers(name, [*texts], notes={text: known[each] for text, each in texts.items()}, alone=True)


def _written(name: str, quote: str) -> str:
    """Return a state's name in ``quote`` or, without one, in what it needs; "" where no line can hold it."""
    if not quote and _PLAIN_NAME.fullmatch(name):
        return name
    quote = next((mark for mark in quote or "\"'" if mark not in name), "")
    return f"{quote}{name}{quote}" if quote else ""


def _note(text: str) -> str:
    return textcut.one_line(text, _MAX_NOTE_CHARACTERS)


def _values(  # noqa: PLR0911 - one for each kind
    option: Option, typed: str, provider: str | None, sources: Sources
) -> Offers | None:
    session = sources.session
    match option.kind:
        case Kind.PROVIDER:
            return _fitting(typed, dict.fromkeys(model.provider for model in sources.registry.models))
        case Kind.MODEL:
            return _models(typed, provider, sources.registry)
        case Kind.CHOICE:
            return _fitting(typed, option.choices)
        case Kind.TOOLS:
            *chosen, part = typed.split(",")
            known = _TOOLS if session is None else tuple(session.all_tools)
            return _fitting(part, [name for name in known if name not in chosen])
        case Kind.SESSION:
            return _sessions(typed, sources)
        case Kind.NAME:
            return replace(_fitting(typed, sources.names), alone=True)
        case Kind.IMAGE:
            return _images(typed, sources)
        case Kind.VARIABLE:
            return _variables(typed, sources)
        case Kind.TYPE:
            return _types(typed, sources)
        case _:
            return None


def _types(typed: str, sources: Sources) -> Offers:
    """Offer the user's classes and the plain types, within brackets too."""
    part = re.split(r"[\[,|\s]", typed)[-1]
    own = sorted(
        name for name, value in sources.namespace.items() if isinstance(value, type) and not name.startswith("_")
    )
    return _fitting(part, dict.fromkeys([*own, *PLAIN]), part=False)


def _models(typed: str, provider: str | None, registry: ModelRegistry) -> Offers:
    def listed(models: Iterable[Any]) -> Offers:
        found = [model for model in models if provider is None or model.provider == provider.casefold()]
        return _fitting(typed, [f"{model.provider}/{model.id}" if "/" in typed else model.id for model in found])

    usable = listed(registry.available())
    return usable if usable.texts else listed(registry.models)


def _sessions(typed: str, sources: Sources) -> Offers:
    """Offer the ids of the directory's sessions, newest first; the newest ones are described."""
    path = sources.session.store.path if sources.session is not None else None
    directory = path.parent if path is not None else _directory_of_new_sessions(sources.directory)
    names = sorted((path.stem for path in directory.glob("*.jsonl")), reverse=True)
    notes = {
        info.id: _note(info.name or info.first_message) for info in list_sessions(directory, _MAX_DESCRIBED_SESSIONS)
    }
    return replace(_fitting(typed, [name.rpartition("_")[2] for name in names]), notes=notes)


def _directory_of_new_sessions(cwd: Path) -> Path:
    agent_dir = agent_directory()
    return Stores(SessionOptions(), load_settings(cwd, agent_dir).settings, cwd, agent_dir).directory


def _images(typed: str, sources: Sources) -> Offers:
    """Offer variables, or if none matches, image files and directories."""
    offers = _variables(typed, sources)
    return offers if offers.texts else _files(typed, sources.directory, _PICTURES)


def _files(typed: str, directory: Path, endings: tuple[str, ...]) -> Offers:
    """Offer directories, and files whose names have one of the endings."""
    parent, _, part = typed.rpartition("/")
    place = directory
    if parent or typed.startswith("/"):
        place /= Path(f"{parent}/").expanduser()
    found: list[str] = []
    with suppress(OSError), os.scandir(place) as entries:
        for entry in islice(entries, 10_000):
            if entry.is_dir():
                found.append(f"{entry.name}/")
            elif entry.name.lower().endswith(endings):
                found.append(entry.name)
    names = sorted(name for name in found if " " not in name and (part or not name.startswith(".")))
    offers = _fitting(part, names, part=False)
    return Offers(offers.fragment, offers.texts, "path")


# In a prompt


def _in_prompt(text: str, sources: Sources, *, begins: bool) -> Offers | None:
    """Complete within a prompt; ``begins`` means that ``text`` is all of it so far."""
    if dollar := _DOLLAR.search(text[-_MAX_NAME_CHARACTERS:]):
        names = _variables(dollar[1] or "", sources)
        return Offers(dollar[0], [f"${name}" for name in names.texts], "instance")
    command = text.strip()
    if begins and command.startswith("/") and command == text.lstrip() and not re.search(r"\s", command):
        listed = sources.session.list_commands() if sources.session is not None else []
        return _fitting(command, [f"/{each['name']}" for each in listed])
    if begins and (called := _CALLED.fullmatch(text)) and sources.session is not None:
        typed = called["typed"]
        offered = sources.arguments(called["name"], typed)
        if offered:
            # Offers replace all that is typed, or its last word.
            whole = [each for each in offered if each.startswith(typed)]
            return Offers(typed, whole) if whole else _fitting(typed.rpartition(" ")[2], offered)
    return _in_braces(text.rpartition("\n")[2], sources)


def _in_braces(line: str, sources: Sources) -> Offers | None:
    inside = line[line.rfind("{") + 1 :]
    is_open = "{" in line and "}" not in inside
    named = _NAMED.search(inside) if is_open and inside.count('"') % 2 == inside.count("'") % 2 == 0 else None
    if named is None:
        return None
    owner, part = named["owner"], named["part"]
    if owner is None:
        begins = part or not inside or inside.rstrip(" ")[-1:] in _OPENS
        return _variables(part, sources) if begins else None
    if owner not in sources.namespace:
        return None
    names = [name for name in dir(sources.namespace[owner]) if part or not name.startswith("_")]
    return Offers(part, _fitting(part, names, part=False).texts, "instance")


def _variables(typed: str, sources: Sources) -> Offers:
    names = sorted(name for name in sources.namespace if typed.startswith("_") or not name.startswith("_"))
    return Offers(typed, _fitting(typed, names, part=False).texts, "instance")


def _fitting(typed: str, candidates: Iterable[str], *, part: bool = True) -> Offers:
    """Filter candidates by their prefix, or with ``part`` by a substring if no prefix matches."""
    listed = list(candidates)
    folded = typed.casefold()
    found = [text for text in listed if text.startswith(typed)]
    found = found or [text for text in listed if text.casefold().startswith(folded)]
    if part and not found:
        found = [text for text in listed if folded in text.casefold()]
    return Offers(typed, found[:_MAX_OFFERS])


# IPython


def sources_of(
    shell: Any,
    session: AgentSession | None,
    arguments: Callable[[str, str], Sequence[str]],
    names: Sequence[str] = (),
    states: Callable[[], Mapping[str, str]] = dict[str, str],
) -> Sources:
    """Return the sources of completions in a shell.

    Args:
        session: The session, if there is one.
        arguments: Completes the arguments of an extension's command.
        states: Returns the named states, each with where it is.

    Returns:
        The sources; without a session the models and the directory of a new one.
    """
    registry = session.registry if session is not None else _own_registry()
    directory = session.store.cwd if session is not None else Path.cwd()
    return Sources(_variables_of(shell), session, registry, directory, arguments, names, states)


@cache
def _own_registry() -> ModelRegistry:
    return model_registry(agent_directory())


def _variables_of(shell: Any) -> dict[str, Any]:
    """Return the variables that are the user's and not the shell's."""
    hidden: Mapping[str, Any] = shell.user_ns_hidden
    missing = object()
    return {name: value for name, value in dict(shell.user_ns).items() if hidden.get(name, missing) is not value}
