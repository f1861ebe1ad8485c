"""The normal form of a request, which is compared when it is recorded and when it is replayed.

What this module promises:

- Two requests have the same normal form when nothing differs but the machine, the moment and secrets: directories,
  dates, process ids, ids of calls, times of messages (``RULES``), and what looks like a key.
- A normal form holds no secret that ``indus_nb.safety.redaction`` recognises: they are replaced before anything is
  compared or written. In answers only known values and shapes are replaced, not guesses by name: the code in them is
  run again.
- Answers are made *portable*, with ``<<cwd>>`` and ``<<home>>`` in them, and *local* again when they are replayed.
- A request that repeats the ones before it costs time for what is new in it alone, and no text keeps a search busy.

The keys and order of a normal form are part of the files that users keep: do not change them.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

from indus_nb.base.messages import (
    AssistantBlock,
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
)
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.models import Context, Model, StreamOptions
from indus_nb.safety.redaction import PLACEHOLDER, hide_named, hide_shapes, secrets_of

# --- what differs from run to run ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rule:
    """A part of a request's texts that is ignored in comparisons.

    Where ``pattern`` matches, normal forms hold ``replacement``.
    """

    name: str
    pattern: str
    replacement: str


RULES: tuple[Rule, ...] = (
    Rule("current-date", r"(?m)^(Current date: ).+$", r"\1<<date>>"),
    Rule("current-directory", r"(?m)^(Current working directory: ).+$", r"\1<<cwd>>"),
    Rule("kernel", r"(?m)^(Kernel: Python ).+$", r"\1<<kernel>>"),
    Rule("notebook", r"\nNotebook: .+", ""),  # not known everywhere
    Rule("versions", r"(?m)^(versions: ).+$", r"\1<<versions>>"),
    Rule(
        "timestamp",
        r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?",
        "<<timestamp>>",
    ),
    Rule("process-id", r"(?i)\b(pid|process id)([ =:]{1,3})\d+", r"\1\2<<pid>>"),
    Rule(
        "long-listing",
        r"(?m)^([-dlcbps])[-rwxsStT]{9}[.+@]? +\d+ +\S+ +\S+ +[\d,]+ +\w{3} +\d{1,2} +[\d:]{4,5} ",
        r"\1 <<listed>> ",
    ),
    Rule("listed-blocks", r"(?m)^total \d+$", "total <<blocks>>"),
    Rule("memory-address", r"\bat 0x[0-9a-fA-F]{6,16}\b", "at <<address>>"),
)
"""The rules in force unless others are given; times of messages and ids of calls never count."""

_SECRET = "<<secret>>"  # noqa: S105 - a placeholder


class Surroundings:
    """Machine, moment and secrets of a request, and how they are kept out of its text.

    ``normal`` is for requests. ``portable`` is for answers, and ``local`` undoes it, secrets aside.

    Args:
        secrets: Texts to replace wherever they occur.
        rules: What else does not count in requests.
        ignores_temporary: Whether names of temporary files do not.
    """

    def __init__(
        self, cwd: str, home: str, secrets: Iterable[str], rules: Iterable[Rule], *, ignores_temporary: bool = True
    ) -> None:
        self._secrets = frozenset(secrets)
        temporary = {*_spellings(tempfile.gettempdir()), *_spellings("/tmp"), *_spellings("/var/tmp")}  # noqa: S108
        # The last directory's name ends there: /home/me does not begin /home/me2.
        here = _place("working-directory", _spellings(cwd) - temporary, r"(?![\w-])", "<<cwd>>")
        own = _place("home-directory", _spellings(home) - temporary, r"(?![\w-])", "<<home>>")
        # The name behind the directory of temporary files is another one each time.
        made_up = _place("temporary-path", temporary, r"(?![\w-])(?:[/\\][^\s/\\'\"`:,;)\]}>]+)?", "<<tmp>>")
        self._places = {"<<cwd>>": Path(cwd).as_posix(), "<<home>>": Path(home).as_posix()}
        self._portable = (*here, *own)
        self._normal = (*here, *(made_up if ignores_temporary else ()), *own, *rules)
        self._done: dict[str, str] = {}
        self._done_before: dict[str, str] = {}

    def begin(self) -> None:
        """Reset for another request.

        Of the texts that were made normal, only those of the last request are remembered.
        """
        self._done_before, self._done = self._done, {}

    def normal(self, text: str) -> str:
        """Remove from ``text`` what is ignored in comparisons.

        A text that the last request held is not searched again.
        """
        done = self._done.get(text)
        if done is None:
            done = self._done_before.get(text)
            self._done[text] = done = self._made_normal(text) if done is None else done
        return done

    def portable(self, text: str) -> str:
        """Replace secrets, and directories that ``local`` fills in again, by placeholders."""
        return _applied(self._portable, self._without_secrets(text))

    def recorded(self, text: str) -> str:
        """Normalize what an earlier version recorded, which may hold secrets that it did not know."""
        return hide_named(self._without_secrets(text), mark=_SECRET)

    def _made_normal(self, text: str) -> str:
        # What names give away comes last, so that it can be hidden in texts that are normal already.
        return hide_named(_applied(self._normal, self._without_secrets(text)), mark=_SECRET)

    def _without_secrets(self, text: str) -> str:
        # Placeholders of the vault have numbers of their process, or name what another machine does not know.
        return re.sub(PLACEHOLDER, _SECRET, hide_shapes(clean_text(text), self._secrets, mark=_SECRET))

    def local(self, text: str) -> str:
        """Replace the placeholders in ``text`` by this machine's directories."""
        for placeholder, place in self._places.items():
            text = text.replace(placeholder, place)
        return text


class Observer:
    """A source of the surroundings of one request after another."""

    def __init__(self, rules: Sequence[Rule], *, ignores_temporary: bool = True) -> None:
        self._rules = rules
        self._ignores_temporary = ignores_temporary
        self._cwd = str(Path.cwd())
        self._seen: tuple[str, str, frozenset[str]] | None = None
        self._around: Surroundings | None = None

    def around(self, model: Model, context: Context, options: StreamOptions) -> Surroundings:
        """Return the surroundings of a request.

        Its working directory is the one that a system prompt named last, else that of the process.

        Args:
            model: The model that is asked; its headers are secrets.
            options: How it is asked; the key is a secret.
        """
        named = re.findall(r"(?m)^Current working directory: (.+)$", context.system_prompt)
        self._cwd = named[-1].strip() if named else self._cwd
        around = self._with((options.api_key or "", *model.headers.values()))
        around.begin()
        return around

    def latest(self) -> Surroundings:
        """Return the surroundings of the request before, or of this process if there was none."""
        return self._around or self._with(())

    def _with(self, more_secrets: Iterable[str]) -> Surroundings:
        home = os.path.expanduser("~")  # noqa: PTH111 - without a home, `Path.home` raises
        seen = self._cwd, home, frozenset(more_secrets) | secrets_of()
        if self._around is None or self._seen != seen:
            self._seen, self._around = seen, Surroundings(*seen, self._rules, ignores_temporary=self._ignores_temporary)
        return self._around


def _spellings(path: str) -> set[str]:
    paths = Path(path), Path(path).resolve()
    return {spelt for found in paths if len(found.parts) > 1 for spelt in (str(found), found.as_posix())}


def _place(name: str, spellings: set[str], end: str, placeholder: str) -> Sequence[Rule]:
    spelt = "|".join(re.escape(spelling) for spelling in sorted(spellings, key=len, reverse=True))
    return (Rule(name, rf"(?<![\w.-])(?:{spelt}){end}", placeholder),) if spelt else ()


def _applied(rules: Iterable[Rule], text: str) -> str:
    for rule in rules:
        text = re.sub(rule.pattern, rule.replacement, text)
    return text


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Change all strings of a JSON value, keys of objects included.

    Args:
        change: Called with each string.
    """
    match value:
        case str():
            return change(value)
        case dict():
            return {change(key): map_strings(item, change) for key, item in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [map_strings(item, change) for item in cast("list[Any]", value)]
        case _:
            return value


# --- the normal form of a request ------------------------------------------------------------------------------------


def normal_request(
    model: Model, context: Context, around: Surroundings, results: Surroundings | None = None
) -> JsonObject:
    """Return the normal form of a request.

    Args:
        results: Makes results of calls normal, whose images then count by what they show; ``None`` for ``around``, and
            by their kind alone.

    Returns:
        ``model``, ``system``, ``tools`` (schemas by name) and ``messages``. Calls have the ids ``call-1``, ``call-2``.
    """
    numbers: dict[str, str] = {}
    return {
        "model": model.id,
        "system": around.normal(context.system_prompt),
        "tools": {tool.name: map_strings(tool.parameters, around.normal) for tool in context.tools},
        "messages": [_normal_message(message, around, numbers, results) for message in context.messages],
    }


def _normal_message(
    message: ModelMessage, around: Surroundings, numbers: dict[str, str], results: Surroundings | None
) -> JsonObject:
    if isinstance(message, AssistantMessage):
        return _normal_answer(message.content, around, numbers)
    if isinstance(message, ToolResultMessage):
        around = results or around
    content = [TextContent(text=message.content)] if isinstance(message.content, str) else message.content
    blocks = [_normal_block(block, around, numbers) for block in content]
    only_text = len(blocks) == 1 and isinstance(content[0], TextContent)
    texts = {"content": blocks[0]["text"] if only_text else blocks}
    if isinstance(message, ToolResultMessage):
        for block in blocks if results is None else ():
            block.pop("sha256", None)
        about = {"toolCallId": _number(message.tool_call_id, numbers), "toolName": message.tool_name}
        return {"role": "toolResult", **about, **({"isError": True} if message.is_error else {}), **texts}
    return {"role": "user", **texts}


def _normal_answer(content: Iterable[AssistantBlock], around: Surroundings, numbers: dict[str, str]) -> JsonObject:
    return {"role": "assistant", "content": [_normal_block(block, around, numbers) for block in content]}


def _normal_block(block: AssistantBlock | ImageContent, around: Surroundings, numbers: dict[str, str]) -> JsonObject:
    match block:
        case TextContent():
            return {"type": "text", "text": around.normal(block.text)}
        case ThinkingContent():
            redacted = {"redacted": True} if block.redacted else {}
            return {"type": "thinking", "thinking": around.normal(block.thinking), **redacted}
        case ToolCall():
            call = {"id": _number(block.id, numbers), "name": clean_text(block.name)}
            return {"type": "toolCall", **call, "arguments": map_strings(block.arguments, around.normal)}
        case ImageContent():
            if block.source is not None:
                return {"type": "image", "url": around.normal(block.source.url)}
            digest = hashlib.sha256((block.data or "").encode()).hexdigest()
            return {"type": "image", "mimeType": block.mime_type, "sha256": digest}


def _number(call_id: str, numbers: dict[str, str]) -> str:
    return numbers.setdefault(clean_text(call_id), f"call-{len(numbers) + 1}")


def conversation(request: JsonObject, answer: Sequence[AssistantBlock], around: Surroundings) -> list[JsonObject]:
    """Join a request and its answer, with which the next request usually begins.

    Args:
        request: The normal form of the request.

    Returns:
        The messages of the request, and the answer as another one.
    """
    messages = cast("list[JsonObject]", request["messages"])
    # The blank keeps a number from being mistaken for an id of the answer.
    numbers = {f" {number}": str(number) for message in messages for number in _numbers_in(message)}
    return [*messages, _normal_answer(answer, around, numbers)]


def _numbers_in(message: JsonObject) -> Iterator[object]:
    content: object = message.get("content")
    named = [message.get("toolCallId")]
    if isinstance(content, list):
        named += [block.get("id") for block in cast("list[JsonObject]", content)]
    return (number for number in named if number is not None)


def share_parts(request: JsonObject, earlier: JsonObject) -> JsonObject:
    """Make a request share equal objects with an earlier one, to save memory.

    Returns:
        A normal form equal to ``request``.
    """
    same = {name: earlier[name] for name in ("system", "tools") if earlier[name] == request[name]}
    kept = common_prefix_length(earlier["messages"], request["messages"])
    return {**request, **same, "messages": [*earlier["messages"][:kept], *request["messages"][kept:]]}


def common_prefix_length(one: Sequence[object], other: Sequence[object]) -> int:
    """Count the items at the beginning of two lists that are equal."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def map_block(block: AssistantBlock, change: Callable[[str], str]) -> AssistantBlock:
    """Copy a block of an answer with its texts and arguments changed.

    Args:
        change: Called with each text; ids and names of calls are only made encodable.
    """
    match block:
        case TextContent():
            return block.replace(text=change(block.text))
        case ThinkingContent():
            return block.replace(thinking=change(block.thinking))
        case ToolCall():
            named = {"id": clean_text(block.id), "name": clean_text(block.name)}
            malformed = None if block.malformed is None else change(block.malformed)
            arguments = map_strings(block.arguments, change)
            return block.replace(**named, arguments=arguments, malformed=malformed)
