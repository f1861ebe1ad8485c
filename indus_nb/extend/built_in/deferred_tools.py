"""Tools of MCP servers that the model finds by searching, in the place of a list of all of them.

Each schema that is sent is paid for with every request, and a tool that comes later changes what a provider has cached.
So beyond a number (the setting ``mcpToolLimit``), and for servers that connect late, two tools stand for all: one that
searches, and connects then, and one that calls.

What this module promises: what the two say of themselves is decided when extensions have started, and stays the same
over a conversation. A call by them is carried out, asked about and shown as one of the tool that it names
(``StandsFor``).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias, cast

from indus_nb.base import textcut
from indus_nb.base.events import ToolOutput
from indus_nb.base.wire import JsonObject, dump
from indus_nb.base.wire_model import wire_field
from indus_nb.extend.mcp import McpServers, McpTool
from indus_nb.models import ToolSpec
from indus_nb.tools import FunctionTool
from indus_nb.tools.description import CallDescription, by_arguments, describe_call
from indus_nb.tools.tool import Arguments, Tool, ToolContext, ToolError, text_output

SEARCH, CALL = "search_tools", "call_tool"
_FOUND = 5
_MAX_LISTED = 100
_MAX_DESCRIPTION_CHARACTERS = 1000
_MAX_CHARACTERS = 16_000
_MAX_LINES = 20
_WORD = re.compile(r"[^\W_]+")
_MAX_QUERY_WORDS = 32
_ENDING = re.compile(r"(?:e?s|ed|ing|e)\Z")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


_Weighed: TypeAlias = "tuple[tuple[int, frozenset[str]], ...]"
"""How much a match in each part of a tool counts, and the forms of the words there."""


class ToolQuery(Arguments):
    """Arguments of the tool that searches."""

    query: str = wire_field(description="Words for what it does, or its name; empty lists all names")


class DeferredTools:
    """Knows which tools of servers the model is sent, and stands for the others.

    Args:
        limit: How many tools of all servers may be sent.
        all_tools: Returns the tools of the session by name, those that are not sent included.
    """

    def __init__(self, limit: int, all_tools: Callable[[], Mapping[str, Tool]]) -> None:
        self._limit = limit
        self._all_tools = all_tools
        self._sent: dict[str, frozenset[str]] = {}
        self._servers: dict[str, McpServers] = {}
        self._offers: dict[str, Callable[[], None]] = {}
        self._stands_in: str | None = None
        self._about: str | None = None
        self._search_words: dict[str, tuple[ToolSpec, _Weighed]] = {}

    def begin(self, owner: str, servers: McpServers, offer: Callable[[], None]) -> None:
        """Decide which of the tools that are there now are sent, and have them offered.

        Args:
            owner: The name of the extension that offers them.
            offer: Offers what ``offered`` returns: at once, and when another extension's servers come to stand in it.
        """
        room = self._limit - sum(len(names) for other, names in self._sent.items() if other != owner)
        self._sent[owner] = frozenset(servers.tools) if len(servers.tools) <= room else frozenset()
        self._servers[owner], self._offers[owner] = servers, offer
        self._about = None
        if self._stands_in is None and (None in servers.counts.values() or len(servers.tools) > room):
            self._stands_in = owner
        offer()
        if self._stands_in not in (None, owner):
            self._offers[self._stands_in]()

    def end(self, owner: str) -> None:
        """Forget the servers of an extension."""
        self._sent.pop(owner, None)
        self._servers.pop(owner, None)
        self._offers.pop(owner, None)
        self._about = None
        if self._stands_in == owner:
            self._stands_in = None

    def offered(self, owner: str, tools: Mapping[str, McpTool]) -> dict[str, Tool]:
        """Return the tools of an extension, those that are not sent as such, and what stands for them."""
        sent = self._sent.get(owner, frozenset(tools))
        offered: dict[str, Tool] = {
            name: tool if name in sent else replace(tool, deferred=True) for name, tool in tools.items()
        }
        if self._stands_in is None and offered.keys() - sent:
            self._stands_in = owner
        return offered | self._stand_ins() if self._stands_in == owner else offered

    def _stand_ins(self) -> dict[str, Tool]:
        if self._about is None:
            self._about = self._described()
        about = self._about
        search = FunctionTool(SEARCH, about, ToolQuery, self._search, read_only=True, shows_parts=True)
        return {SEARCH: search, CALL: _CallTool(self._deferred)}

    def _described(self) -> str:
        """Describe the search, with the servers that have tools to be found now, or may have some later."""
        lines: list[str] = []
        for owner, servers in self._servers.items():
            found = Counter(t.server.spec.name for name, t in servers.tools.items() if name not in self._sent[owner])
            counts = {server: count and found[server] for server, count in servers.counts.items()}
            lines += [f"- {server}: {_said(count)}" for server, count in counts.items() if count != 0]
        more = [f"- and {len(lines) - _MAX_LINES} more"] if len(lines) > _MAX_LINES else []
        listed = "\n".join([*lines[:_MAX_LINES], *more])
        return (
            "Searches the tools of connected servers, which are not listed here, by name and description. Returns the "
            f"best matches with their arguments; call one with {CALL}.\nServers:\n{listed}"
        )

    def _deferred(self) -> dict[str, Tool]:
        return {name: tool for name, tool in self._all_tools().items() if getattr(tool, "deferred", False)}

    async def _search(self, arguments: ToolQuery, _: ToolContext) -> ToolOutput:
        tools = self._deferred()
        found = self._best(arguments.query, tools)
        waiting = [servers for servers in self._servers.values() if None in servers.counts.values()]
        if not found and waiting:
            await asyncio.gather(*(servers.start() for servers in waiting))
            tools = self._deferred()
            found = self._best(arguments.query, tools)
        if not found:
            more = f", and {len(tools) - _MAX_LISTED} more" if len(tools) > _MAX_LISTED else ""
            names = f"{', '.join([*tools][:_MAX_LISTED])}{more}" if tools else "none yet"
            heading = "Nothing matches. The tools are" if arguments.query.strip() else "The tools are"
            return text_output(f"{heading}: {names}.")
        shown: list[str] = []
        room = _MAX_CHARACTERS
        for name in found:
            spec = tools[name].spec
            about = textcut.head(spec.description, _MAX_DESCRIPTION_CHARACTERS, "[...]")
            text = f"## {name}\n{about}\nArguments: {dump(spec.parameters).decode()}"
            if len(text) > room and shown:
                text = f"## {name}\n{textcut.one_line(about, 200)}\nArguments: search for this name alone"
            shown.append(text)
            room -= len(text)
        return text_output("\n\n".join([f"{len(found)} of {textcut.counted(len(tools), 'tool')}:", *shown]))

    def _best(self, query: str, tools: Mapping[str, Tool]) -> list[str]:
        """Return the names that fit a query best, the best one first."""
        if (exact := query.strip()) in tools:
            return [exact]
        known, self._search_words = self._search_words, {}
        for name, tool in tools.items():
            spec, weighed = known.get(name, (None, ()))
            self._search_words[name] = tool.spec, weighed if spec is tool.spec else _weighed(name, tool.spec)
        words = islice(dict.fromkeys(_words(query)), _MAX_QUERY_WORDS)
        asked = [_forms([word]) if len(word) > 3 else {word} for word in words]
        points = {
            name: sum(weight for weight, forms in weighed for word in asked if not forms.isdisjoint(word))
            for name, (_, weighed) in self._search_words.items()
        }
        fitting = sorted((name for name in tools if points[name]), key=lambda name: -points[name])
        return fitting[:_FOUND]


@dataclass(frozen=True, slots=True)
class _CallTool:
    """The tool that calls another one; see ``StandsFor``."""

    tools: Callable[[], Mapping[str, Tool]]
    read_only: bool = False
    snippet: str | None = None
    guidelines: tuple[str, ...] = ()

    @property
    def spec(self) -> ToolSpec:
        """Return name, description and parameters, as the model sees them."""
        parameters = {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": f"The tool's name, as {SEARCH} gave it"},
                "arguments": {"type": "object", "description": "Its arguments", "additionalProperties": True},
            },
            "required": ["name", "arguments"],
        }
        return ToolSpec(CALL, f"Calls a tool that {SEARCH} found.", parameters)

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments as they are: ``stands_for`` looks at them."""
        return arguments

    def stands_for(self, arguments: JsonObject) -> tuple[Tool, JsonObject] | None:
        """Return the tool that is meant, and its arguments; ``None`` if there is none."""
        tool = self.tools().get(str(arguments.get("name")))
        given = _as_object(arguments.get("arguments", {}))
        return None if tool is None or given is None else (tool, given)

    def describe_call(self, arguments: JsonObject) -> CallDescription:
        """Describe a call as one of the tool that is meant."""
        meant = self.stands_for(arguments)
        if meant is None:
            return replace(by_arguments(CALL, arguments), rejection=self._refusal(arguments))
        tool, given = meant
        return describe_call(tool.spec.name, given, {tool.spec.name: tool})

    async def execute(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:  # noqa: ARG002 - the protocol's
        """Say what is wrong with a call that is none of any tool.

        Raises:
            ToolError: Always.
        """
        raise self._refusal(arguments)

    def _refusal(self, arguments: JsonObject) -> ToolError:
        name = textcut.one_line(str(arguments.get("name")), 200)
        if name in self.tools():
            return ToolError(f"Nothing was done. The arguments of {name} are an object.")
        return ToolError(f"Nothing was done. There is no tool named {name} to be called so. Find one with {SEARCH}.")


def _as_object(given: object) -> JsonObject | None:
    """Return arguments, also where a model wrote them as a text of JSON; ``None`` if they are no object."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return None
    return cast("JsonObject", given) if isinstance(given, dict) else None


def _said(count: int | None) -> str:
    return "not connected; a search that finds nothing tries again" if count is None else textcut.counted(count, "tool")


def _weighed(name: str, spec: ToolSpec) -> _Weighed:
    properties: object = spec.parameters.get("properties")
    arguments = " ".join(cast("JsonObject", properties)) if isinstance(properties, dict) else ""
    weighed = ((4, name), (2, spec.description), (1, arguments))
    return tuple((weight, _forms(_words(text[:_MAX_DESCRIPTION_CHARACTERS]))) for weight, text in weighed)


def _forms(words: Iterable[str]) -> frozenset[str]:
    """Return words, and what they have in common with the same ones in another ending ("issue", "issues")."""
    return frozenset(form for word in words for form in (word, f"{_ENDING.sub('', word)}-"))


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(_CAPITAL.sub(" ", text))]
