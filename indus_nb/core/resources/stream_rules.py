"""Stream rules: instructions that a model is shown at the moment at which it begins to break them.

A rule is a Markdown file in ``rules/`` of the agent directory or of the project: a ``condition`` (a pattern, or a list
of them) and a text. When the condition appears in an answer that streams, the answer is stopped, the model is shown the
text, and it is asked again. Until then a rule uses no space in the model's context. Rules only add: no rule takes the
place of another, and a project can neither switch off a user's rules nor the checks of tool calls.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from indus_nb.base.messages import AssistantMessage, CustomMessage, Message
from indus_nb.base.streaming import (
    AssistantMessageEvent,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from indus_nb.base.wire import JsonObject
from indus_nb.core.resources.frontmatter import UnusableFileError, read_fields, read_text, split_frontmatter
from indus_nb.core.resources.inputs import PROJECT_DIRECTORY, RULES_DIRECTORY
from indus_nb.core.resources.settings import StreamRuleSettings

if TYPE_CHECKING:
    from regex import Pattern

Part: TypeAlias = Literal["text", "thinking", "tool"]

CUSTOM_TYPE = "ttsr"
MAX_ENTRIES = 1000
MAX_RULES = 100
MAX_FRONTMATTER_CHARACTERS = 16 << 10
MAX_TEXT_CHARACTERS = 64 << 10
MAX_PATTERN_CHARACTERS = 1000
MAX_REPEATS = 10_000
"""Largest product of all counts in a pattern, which is what it may grow to when it is compiled."""
MAX_LOOK_BACK = 1000
"""Characters before new text that are searched with it: a condition that needs more at once is not met."""
SEARCHED_AT_ONCE = 64
"""New characters that are waited for, unless a line or the block ends: not every small piece is worth a search."""
MAX_SEARCH_SECONDS = 1.0
"""Longest search for one rule's conditions in an answer: a pattern can be slow on text made for that."""
MAX_STOPS = 10
"""Most times that the answers to one prompt are stopped."""
_CONDITIONS = ("condition", "ttsrTrigger", "pattern")
_REPEAT = r"\{(\d{0,9})(?:,(\d{0,9}))?"
_USUAL_PARTS: frozenset[Part] = frozenset({"text", "tool"})


@dataclass(frozen=True, slots=True)
class StreamRule:
    """A rule. ``parts`` are those of an answer that it watches; ``content`` is what the model is shown."""

    name: str
    path: Path
    level: Literal["project", "user"]
    patterns: tuple[Pattern[str], ...]
    parts: frozenset[Part]
    content: str
    description: str | None = None

    @property
    def key(self) -> str:
        """Return the key that identifies it in a session's file."""
        return f"{self.level}:{self.name}"

    def to_wire(self) -> JsonObject:
        """Return the rule as an event shows it."""
        described = {"description": self.description} if self.description else {}
        return {
            "name": self.name,
            "path": str(self.path),
            "content": self.content,
            **described,
            "condition": [pattern.pattern for pattern in self.patterns],
            "scope": sorted(self.parts),
            "level": self.level,
        }


@dataclass(frozen=True, slots=True)
class FoundRules:
    """The rules for a directory, the project's first, and what is wrong with files that are none."""

    rules: list[StreamRule] = field(default_factory=list[StreamRule])
    problems: list[str] = field(default_factory=list[str])


def load_rules(cwd: Path, agent_dir: Path, *, trusted: bool = False) -> FoundRules:
    """Find the stream rules for sessions in ``cwd``; never raises.

    Args:
        trusted: Whether the user trusts the project; if not, its rules are left out.

    Returns:
        The rules, and a sentence about each file that holds none.
    """
    found = FoundRules()
    places: tuple[tuple[Path, Literal["project", "user"]], ...] = (
        (cwd / PROJECT_DIRECTORY / RULES_DIRECTORY, "project"),
        (agent_dir / RULES_DIRECTORY, "user"),
    )
    for directory, level in reversed(
        places if trusted else places[1:]
    ):  # a project that asks for too much leaves the user's share
        for path in _rule_files(directory, found.problems):
            try:
                rule = _rule(path, level)
            except OSError as error:
                found.problems.append(f"{path} cannot be read ({error.strerror}).")
                continue
            except UnusableFileError as error:
                found.problems.append(f"{path} is not used: {error}.")
                continue
            if len(found.rules) == MAX_RULES:
                found.problems.append(f"{path} and the rules behind it are not used: there are too many. Remove some.")
                break
            found.rules.append(rule)
    found.rules.sort(key=lambda rule: rule.level)
    return found


def _rule_files(directory: Path, problems: list[str]) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in islice(entries, MAX_ENTRIES)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        problems.append(f"{directory} cannot be searched ({error.strerror}).")
        return []
    return [directory / name for name in sorted(names) if name.endswith(".md") and not name.startswith(".")]


def _rule(path: Path, level: Literal["project", "user"]) -> StreamRule:
    front, content = split_frontmatter(read_text(path))
    if len(front) > MAX_FRONTMATTER_CHARACTERS or len(content) > MAX_TEXT_CHARACTERS:
        raise UnusableFileError("it is too long for a rule: 64 KiB of text, and 16 KiB of fields in front")
    fields = read_fields(front)
    sources = next((_texts(fields[key], key) for key in _CONDITIONS if key in fields), list[str]())
    if not sources:
        raise UnusableFileError("it has no `condition`, the pattern that it waits for")
    if not content:
        raise UnusableFileError("it has no text that the model could be told")
    parts = frozenset(part.strip() for text in _texts(fields.get("scope", []), "scope") for part in text.split(","))
    if unknown := sorted(parts - {*get_args(Part)}):
        raise UnusableFileError(f"its `scope` names {unknown[0]!r}; known are {', '.join(get_args(Part))}")
    description = fields.get("description")
    return StreamRule(
        name=path.stem,
        path=path,
        level=level,
        patterns=tuple(map(_pattern, sources)),
        parts=cast("frozenset[Part]", parts) or _USUAL_PARTS,
        content=content,
        description=description if isinstance(description, str) and description else None,
    )


def _pattern(source: str) -> Pattern[str]:
    import regex  # only for those who have rules: its searches can be given a time limit, which those of re cannot

    problem = None
    repeats = math.prod(max(1, int(most or least or 1)) for least, most in re.findall(_REPEAT, source))
    if len(source) > MAX_PATTERN_CHARACTERS:
        problem = f"is longer than {MAX_PATTERN_CHARACTERS} characters"
    elif repeats > MAX_REPEATS:
        problem = f"repeats more than {MAX_REPEATS} times in all"
    else:
        try:
            pattern = regex.compile(source, regex.MULTILINE)
            if not pattern.search("", timeout=MAX_SEARCH_SECONDS):
                return pattern
            problem = "fits the empty text"
        except (regex.error, OverflowError, RecursionError, MemoryError, TimeoutError) as error:
            problem = f"is no regular expression ({error})"
    raise UnusableFileError(f"the condition {source[:100]!r} {problem}")


def _texts(value: object, key: str) -> list[str]:
    texts = cast("list[object]", value) if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise UnusableFileError(f"its `{key}` must be a text or a list of texts")
    return [text for text in cast("list[str]", texts) if text]


@dataclass(slots=True)
class _Block:
    """The end of a block that grows, and how much of it has not been searched yet."""

    part: Part
    text: str = ""
    new: int = 0

    def append(self, delta: str) -> bool:
        """Append a piece; returns whether it is time to search."""
        self.text += delta
        self.new += len(delta)
        return self.new >= SEARCHED_AT_ONCE or "\n" in delta

    def searched(self) -> None:
        """Drop the searched text but what may belong to a later find, and a character before it for word boundaries."""
        self.text = self.text[-MAX_LOOK_BACK - 1 :]
        self.new = 0

    @property
    def start(self) -> int:
        """Return the position at which the search begins."""
        return max(0, len(self.text) - self.new - MAX_LOOK_BACK)


class RuleWatch:
    """Looks at one answer after another for what rules wait for.

    Args:
        settings: how often each may apply.
    """

    def __init__(self, rules: Sequence[StreamRule], settings: StreamRuleSettings) -> None:
        self._settings = settings
        self._rules = rules
        self._seconds: dict[str, float] = {}
        self._open: dict[int, _Block] = {}
        self._answers = 0
        self._applied: dict[str, int] = {}
        self.too_slow: dict[str, StreamRule] = {}
        """Rules whose search took too long; they are watched no more."""

    def recall(self, messages: Iterable[Message]) -> None:
        """Record the answers of a conversation and the rules that were applied in it."""
        for message in messages:
            if isinstance(message, AssistantMessage):
                self._answers += 1
            elif isinstance(message, CustomMessage) and message.custom_type == CUSTOM_TYPE:
                self._applied.update(dict.fromkeys(_keys(message.details), self._answers))

    def feed(self, event: AssistantMessageEvent) -> list[StreamRule]:
        """Return the rules that apply to the answer as it is now."""
        match event:
            case StreamStart():
                self._open.clear()
                self._answers += 1
                self._seconds.clear()
            case TextStart() | ThinkingStart() | ToolCallStart():
                self._open[event.content_index] = _Block(_part(event))
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                if (block := self._open.get(event.content_index)) is not None and block.append(event.delta):
                    return self._found(block, ended=False)
            case TextEnd() | ThinkingEnd() | ToolCallEnd():
                if (block := self._open.pop(event.content_index, None)) is not None:
                    return self._found(block, ended=True)
            case _:
                pass
        return []

    def _found(self, block: _Block, *, ended: bool) -> list[StreamRule]:
        watching = [rule for rule in self._rules if block.part in rule.parts and self._may_apply(rule)]
        found = [rule for rule in watching if self._is_met(rule, block, ended=ended)]
        block.searched()
        return found

    def _is_met(self, rule: StreamRule, block: _Block, *, ended: bool) -> bool:
        began = time.monotonic()
        spent = self._seconds.get(rule.key, 0)
        try:
            for pattern in rule.patterns:
                left = max(MAX_SEARCH_SECONDS - spent - (time.monotonic() - began), 0.001)
                found = pattern.search(block.text, block.start, timeout=left)
                # What touches the end may become something else with the next piece: a longer word, a longer line.
                if found is not None and (ended or found.end() < len(block.text)):
                    return True
        except TimeoutError:
            self.too_slow[rule.key] = rule
        finally:
            self._seconds[rule.key] = spent + time.monotonic() - began
        return False

    def apply(self, rules: Iterable[StreamRule]) -> None:
        """Record that the model is shown these rules."""
        self._applied.update((rule.key, self._answers) for rule in rules)

    def _may_apply(self, rule: StreamRule) -> bool:
        applied = self._applied.get(rule.key)
        if rule.key in self.too_slow:
            return False
        if applied is None:
            return True
        return self._settings.repeat_mode == "after-gap" and self._answers - applied >= self._settings.repeat_gap


def _part(event: TextStart | ThinkingStart | ToolCallStart) -> Part:
    match event:
        case TextStart():
            return "text"
        case ThinkingStart():
            return "thinking"
        case ToolCallStart():
            return "tool"


def _keys(details: object) -> list[str]:
    keys: object = cast("JsonObject", details).get("rules") if isinstance(details, dict) else None
    return [key for key in cast("list[object]", keys) if isinstance(key, str)] if isinstance(keys, list) else []


def reminder(rules: Sequence[StreamRule]) -> CustomMessage:
    """Build the text for the model about the rules for which its answer was stopped."""
    from html import escape

    texts = "\n\n".join(
        f'<rule name="{escape(rule.name)}" path="{escape(str(rule.path))}">\n{rule.content}\n</rule>' for rule in rules
    )
    text = (
        "<system-reminder>\nYour answer was stopped and discarded, for it was about to break what follows. Keep to it, "
        f"and answer again.\n\n{texts}\n</system-reminder>"
    )
    details = {"rules": [rule.key for rule in rules]}
    return CustomMessage(custom_type=CUSTOM_TYPE, content=text, display=False, details=details)
