"""Cassettes: the answers of any provider, recorded in a file and played back without a key or a network.

    with RecordingProvider(AnthropicProvider(), "demo.cassette.json") as provider: ...
    provider = ReplayProvider("demo.cassette.json")

or, without touching the program, the environment: INDUSAGI_CASSETTE names the file, and INDUSAGI_CASSETTE_MODE what to
do with it (``replay``, ``record``, or ``auto``, the default: replay what is there, else record).

A cassette is JSON, made to be read, compared and edited. It lists exchanges in the order of their requests. A request
is kept in a normal form: model, system prompt, tools with their schemas, messages, and in them placeholders such as
``<<cwd>>`` for what differs from run to run (``RULES``, and the folders of the machine). Of an image in a tool's result
only its type counts: another version of a library draws the same figure in other bytes. What repeats the exchange
before is not told again, messages are counted then (``keptMessages``), so that an edited answer is edited in one place.
Text of several lines is a list of lines. In answers stand ``<<cwd>>`` and ``<<home>>``, filled in when they are played.

Secrets are replaced before anything is compared or written: keys and headers that the request was given, values of
environment variables named like keys, and what looks like a key.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import json
import os
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast, get_args

from pydantic import ConfigDict, Field, ValidationError

from indus_nb import textcut
from indus_nb.errors import UsageError
from indus_nb.messages import (
    AssistantBlock,
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
)
from indus_nb.providers import Context, Model, Provider, StreamOptions
from indus_nb.streaming import AssistantMessageEvent, GrowingMessage, StreamDone, StreamError
from indus_nb.wire import JsonObject, WireModel, clean_text, first_problem, load_object

if TYPE_CHECKING:
    from filelock import BaseFileLock

Mode = Literal["replay", "record", "auto"]

_FORMAT = "indus_nb cassette"
_VERSION = 1
_DELTA = 32  # characters
_AT_FAULT = "422"  # an error that begins with such a number is not asked again, whatever words its diff is made of
_ANEW = "To record anew, run once with INDUSAGI_CASSETTE_MODE=record, or through a RecordingProvider."


# --- what differs from run to run ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rule:
    """What of a request's texts does not count: where ``pattern`` is found, ``replacement`` stands in normal forms."""

    name: str
    pattern: str
    replacement: str


RULES: tuple[Rule, ...] = (
    Rule("current-date", r"(?m)^(Current date: ).+$", r"\1<<date>>"),
    Rule("current-directory", r"(?m)^(Current working directory: ).+$", r"\1<<cwd>>"),
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

_SECRET = "<<secret>>"  # noqa: S105 - what stands there instead of one
_KEY_SHAPES = (  # each narrow enough to leave prose and code alone, and of bounded length where it may fail late
    r"\bsk-(?:ant|proj|or|svcacct)-[\w-]{4,}|\bsk-(?=[\w-]{0,99}\d)[\w-]{12,}|\bsk-\w{20,}"
    r"|(?<=\bbearer )(?=\S{0,99}\d|\S{20,})[\w.~+/=-]{8,}"
    r"|(?<=authorization: basic )\S{8,}|(?<=x-api-key: )\S{8,}"
    r"|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bxox[abprs]-[\w-]{10,}|\bA[KS]IA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]{0,9999}?-----END [A-Z ]{0,40}PRIVATE KEY-----"
)
_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)


def _secrets(model: Model, options: StreamOptions) -> set[str]:
    # Shorter ones (`none`, `ollama`, `true`) are no secrets, and their removal would make texts unreadable.
    given = {value for value in (options.api_key or "", *model.headers.values()) if len(value) >= 7}
    return given | {value for name, value in os.environ.items() if _SECRET_NAME.search(name) and len(value) >= 16}


class _Surroundings:
    """Machine, moment and secrets of a request, and how they are kept out of its text.

    ``normal`` is for requests. ``portable`` is for answers, and ``local`` takes it back, secrets aside.
    """

    def __init__(self, cwd: str, home: str, secrets: Iterable[str], rules: Iterable[Rule]) -> None:
        known = [re.escape(secret) for secret in sorted(secrets, key=len, reverse=True)]
        secret = Rule("secret", "|".join((*known, f"(?i:{_KEY_SHAPES})")), _SECRET)
        temporary = {*_spellings(tempfile.gettempdir()), *_spellings("/tmp"), *_spellings("/var/tmp")}  # noqa: S108
        # The last folder's name ends there: /home/me does not begin /home/me2.
        here = _place("working-directory", _spellings(cwd) - temporary, r"(?![\w-])", "<<cwd>>")
        own = _place("home-directory", _spellings(home) - temporary, r"(?![\w-])", "<<home>>")
        # What follows the folder of temporary files is made up anew each time.
        made_up = _place("temporary-path", temporary, r"(?![\w-])(?:[/\\][^\s/\\'\"`:,;)\]}>]+)?", "<<tmp>>")
        self._places = {"<<cwd>>": Path(cwd).as_posix(), "<<home>>": Path(home).as_posix()}
        self._portable = (secret, *here, *own)
        self._normal = (secret, *here, *made_up, *own, *rules)
        self._done: dict[str, str] = {}
        self._done_before: dict[str, str] = {}

    def begin(self) -> None:
        """Another request: of what was made normal, only what the last one held is remembered."""
        self._done_before, self._done = self._done, {}

    def normal(self, text: str) -> str:
        """``text`` without what does not count. Each request repeats the ones before, so this is done but once."""
        done = self._done.get(text)
        if done is None:
            done = self._done_before.get(text)
            self._done[text] = done = _applied(self._normal, text) if done is None else done
        return done

    def portable(self, text: str) -> str:
        """``text`` with placeholders for secrets and for the folders that ``local`` can name again."""
        return _applied(self._portable, text)

    def local(self, text: str) -> str:
        """``text`` with the folders of this machine for their placeholders."""
        for placeholder, place in self._places.items():
            text = text.replace(placeholder, place)
        return text


class _Observer:
    """Finds the surroundings of one request after another."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._cwd = str(Path.cwd())
        self._seen: tuple[str, str, set[str]] | None = None
        self._around: _Surroundings | None = None

    def around(self, model: Model, context: Context, options: StreamOptions) -> _Surroundings:
        """Those of this request. Its folder is the one that a system prompt named last, else that of the process."""
        named = re.findall(r"(?m)^Current working directory: (.+)$", context.system_prompt)
        self._cwd = named[-1].strip() if named else self._cwd
        home = os.path.expanduser("~")  # noqa: PTH111 - where nobody has a home, `Path.home` raises
        seen = self._cwd, home, _secrets(model, options)
        if self._around is None or self._seen != seen:
            self._seen, self._around = seen, _Surroundings(*seen, self._rules)
        self._around.begin()
        return self._around


def _spellings(path: str) -> set[str]:
    paths = Path(path), Path(path).resolve()
    return {spelt for found in paths if len(found.parts) > 1 for spelt in (str(found), found.as_posix())}


def _place(name: str, spellings: set[str], end: str, placeholder: str) -> Sequence[Rule]:
    spelt = "|".join(re.escape(spelling) for spelling in sorted(spellings, key=len, reverse=True))
    return (Rule(name, rf"(?<![\w.-])(?:{spelt}){end}", placeholder),) if spelt else ()


def _applied(rules: Iterable[Rule], text: str) -> str:
    text = clean_text(text)
    for rule in rules:
        text = re.sub(rule.pattern, rule.replacement, text)
    return text


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The JSON value with all of its strings changed, names included."""
    match value:
        case str():
            return change(value)
        case dict():
            return {change(key): _mapped(item, change) for key, item in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [_mapped(item, change) for item in cast("list[Any]", value)]
        case _:
            return value


# --- the normal form of a request ------------------------------------------------------------------------------------


def _normal_request(model: Model, context: Context, around: _Surroundings) -> JsonObject:
    numbers: dict[str, str] = {}
    return {
        "model": model.id,
        "system": around.normal(context.system_prompt),
        "tools": {tool.name: _mapped(tool.parameters, around.normal) for tool in context.tools},
        "messages": [_normal_message(message, around, numbers) for message in context.messages],
    }


def _normal_message(message: ModelMessage, around: _Surroundings, numbers: dict[str, str]) -> JsonObject:
    if isinstance(message, AssistantMessage):
        return _normal_answer(message.content, around, numbers)
    content = [TextContent(text=message.content)] if isinstance(message.content, str) else message.content
    blocks = [_normal_block(block, around, numbers) for block in content]
    only_text = len(blocks) == 1 and isinstance(content[0], TextContent)
    said = {"content": blocks[0]["text"] if only_text else blocks}
    if isinstance(message, ToolResultMessage):
        for block in blocks:
            block.pop("sha256", None)
        about = {"toolCallId": _number(message.tool_call_id, numbers), "toolName": message.tool_name}
        return {"role": "toolResult", **about, **({"isError": True} if message.is_error else {}), **said}
    return {"role": "user", **said}


def _normal_answer(content: Iterable[AssistantBlock], around: _Surroundings, numbers: dict[str, str]) -> JsonObject:
    return {"role": "assistant", "content": [_normal_block(block, around, numbers) for block in content]}


def _normal_block(block: AssistantBlock | ImageContent, around: _Surroundings, numbers: dict[str, str]) -> JsonObject:
    match block:
        case TextContent():
            return {"type": "text", "text": around.normal(block.text)}
        case ThinkingContent():
            redacted = {"redacted": True} if block.redacted else {}
            return {"type": "thinking", "thinking": around.normal(block.thinking), **redacted}
        case ToolCall():
            call = {"id": _number(block.id, numbers), "name": clean_text(block.name)}
            return {"type": "toolCall", **call, "arguments": _mapped(block.arguments, around.normal)}
        case ImageContent():
            if block.source is not None:
                return {"type": "image", "url": around.normal(block.source.url)}
            digest = hashlib.sha256((block.data or "").encode()).hexdigest()
            return {"type": "image", "mimeType": block.mime_type, "sha256": digest}


def _number(call_id: str, numbers: dict[str, str]) -> str:
    return numbers.setdefault(clean_text(call_id), f"call-{len(numbers) + 1}")


def _conversation(request: JsonObject, answer: Sequence[AssistantBlock], around: _Surroundings) -> list[JsonObject]:
    """The messages of a request and its answer, from which the next request goes on as a rule."""
    messages = cast("list[JsonObject]", request["messages"])
    # The blank keeps a number from being taken for an id of the answer.
    numbers = {f" {number}": str(number) for message in messages for number in _numbers_in(message)}
    return [*messages, _normal_answer(answer, around, numbers)]


def _numbers_in(message: JsonObject) -> Iterator[object]:
    content: object = message.get("content")
    named = [message.get("toolCallId")]
    if isinstance(content, list):
        named += [block.get("id") for block in cast("list[JsonObject]", content)]
    return (number for number in named if number is not None)


def _sharing(request: JsonObject, earlier: JsonObject) -> JsonObject:
    """``request`` made of the objects of ``earlier`` where they are equal: many requests take the room of one."""
    same = {name: earlier[name] for name in ("system", "tools") if earlier[name] == request[name]}
    kept = _equal_at_the_beginning(earlier["messages"], request["messages"])
    return {**request, **same, "messages": [*earlier["messages"][:kept], *request["messages"][kept:]]}


def _equal_at_the_beginning(one: Sequence[object], other: Sequence[object]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


# --- the file --------------------------------------------------------------------------------------------------------

_TEXTS = frozenset({"system", "content", "text", "thinking", "malformed", "errorMessage"})
_FOREIGN = frozenset({"arguments", "tools"})  # their JSON is others', in which a list of lines is a list


class _Stored(WireModel):
    model_config = ConfigDict(extra="forbid")  # whoever edits a cassette is told of a slip


class _StoredRequest(_Stored):
    model: str
    system: str | None = None
    tools: dict[str, JsonObject] | None = None
    kept_messages: int = Field(default=0, ge=0)
    messages: list[JsonObject]


class _StoredAnswer(_Stored):
    content: list[AssistantBlock]
    stop_reason: Literal["stop", "length", "toolUse", "error"]
    usage: Usage = Field(default_factory=Usage)
    error_message: str | None = None


class _StoredExchange(_Stored):
    request: _StoredRequest
    answer: _StoredAnswer


class _StoredCassette(_Stored):
    format: str
    version: int
    exchanges: list[_StoredExchange]


def _with_texts(value: Any, change: Callable[[Any], Any]) -> Any:
    """``value`` with every text of a request or an answer changed."""
    if isinstance(value, list):
        return [_with_texts(item, change) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    changed: JsonObject = {}
    for key, item in cast("JsonObject", value).items():
        text = change(item) if key in _TEXTS else item
        changed[key] = text if key in _FOREIGN else _with_texts(text, change)
    return changed


def _folded(text: Any) -> Any:
    """Text as it stands in the file: several lines are a list of them."""
    return text.split("\n") if isinstance(text, str) and "\n" in text else text


def _unfolded(text: Any) -> Any:
    if not isinstance(text, list):
        return text
    lines = cast("list[Any]", text)
    return "\n".join(lines) if lines and all(isinstance(line, str) for line in lines) else lines


def _load(path: Path) -> list[_StoredExchange]:
    """The exchanges of the cassette at ``path``; raises ``UsageError`` when it cannot be played."""
    try:
        value = _with_texts(load_object(path.read_bytes()), _unfolded)
        if value.get("format") != _FORMAT:
            raise UsageError(f"{path} is no cassette. Name the file of one in INDUSAGI_CASSETTE. {_ANEW}")
        if value.get("version") != _VERSION:
            raise UsageError(
                f"{path} is a cassette of version {value.get('version')}, and only version {_VERSION} is understood "
                f"here. Update indus_nb, or record anew. {_ANEW}"
            )
        exchanges = _StoredCassette.model_validate(value).exchanges
    except FileNotFoundError as error:
        raise UsageError(f"There is no cassette at {path}. {_ANEW}") from error
    except OSError as error:
        raise UsageError(f"The cassette {path} cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        problem = first_problem(error)
        raise UsageError(f"The cassette {path} cannot be played: {problem}. Mend it by hand. {_ANEW}") from error
    except ValueError as error:
        raise UsageError(f"The cassette {path} is no JSON ({error}). Mend it by hand. {_ANEW}") from error
    if exchanges and None in (exchanges[0].request.system, exchanges[0].request.tools):
        raise UsageError(
            f"The cassette {path} cannot be played: its first request must name `system` and `tools`. {_ANEW}"
        )
    return exchanges


class _Exchange:
    """A request that is being answered, or was; ``content`` is portable."""

    def __init__(self, request: JsonObject, around: _Surroundings) -> None:
        self.request = request
        self.around = around
        self.content: list[AssistantBlock] = []
        self.answer: JsonObject | None = None
        self._after: _Exchange | None = None
        self._text: str | None = None

    def finish(self, message: AssistantMessage) -> None:
        """Take the answer, as it is to be kept."""
        portable = self.around.portable
        self.content = [_block_with(block, portable) for block in message.content]
        self.answer = {
            "content": [_stored_block(block) for block in self.content],
            "stopReason": message.stop_reason,
            **({"errorMessage": portable(message.error_message)} if message.error_message is not None else {}),
            "usage": message.usage.to_wire(),
        }

    def text(self, before: _Exchange | None) -> str:
        """Its JSON in the file; made again only if another exchange has come before it."""
        if self._text is None or self._after is not before:
            stored = {"request": self._told_after(before), "answer": self.answer}
            self._text = json.dumps(_with_texts(stored, _folded), ensure_ascii=False, indent=2).replace("\n", "\n    ")
            self._after = before
        return self._text

    def _told_after(self, before: _Exchange | None) -> JsonObject:
        if before is None:
            return self.request
        request = self.request
        known = _conversation(before.request, before.content, before.around)
        kept = _equal_at_the_beginning(known, request["messages"])
        return {
            "model": request["model"],
            **{name: request[name] for name in ("system", "tools") if request[name] != before.request[name]},
            **({"keptMessages": kept} if kept else {}),
            "messages": request["messages"][kept:],
        }


def _block_with(block: AssistantBlock, change: Callable[[str], str]) -> AssistantBlock:
    match block:
        case TextContent():
            return block.model_copy(update={"text": change(block.text)})
        case ThinkingContent():
            return block.model_copy(update={"thinking": change(block.thinking)})
        case ToolCall():
            named = {"id": clean_text(block.id), "name": clean_text(block.name)}
            malformed = None if block.malformed is None else change(block.malformed)
            arguments = _mapped(block.arguments, change)
            return block.model_copy(update={**named, "arguments": arguments, "malformed": malformed})


def _stored_block(block: AssistantBlock) -> JsonObject:
    malformed = block.malformed if isinstance(block, ToolCall) else None
    return block.to_wire() if malformed is None else {**block.to_wire(), "malformed": malformed}


class Recording:
    """A cassette that is being written; several ``RecordingProvider`` may share it."""

    def __init__(self, path: Path | str, *, rules: Sequence[Rule] = RULES) -> None:
        self.path = Path(path).expanduser().resolve()
        self._observer = _Observer(rules)
        self._exchanges: list[_Exchange] = []
        self._mutex = threading.Lock()
        self._release: Callable[[], object] | None = None

    def begin(self, model: Model, context: Context, options: StreamOptions) -> _Exchange:
        """A place for the answer of this request; raises ``UsageError`` when there can be none."""
        with self._mutex:
            if self._release is None:
                self._open()
            around = self._observer.around(model, context, options)
            request = _normal_request(model, context, around)
            if self._exchanges:
                request = _sharing(request, self._exchanges[-1].request)
            exchange = _Exchange(request, around)
            self._exchanges.append(exchange)
            return exchange

    def finish(self, exchange: _Exchange, message: AssistantMessage) -> None:
        """Write the answer; raises ``OSError`` when that failed, and the file is then as it was."""
        with self._mutex:
            if exchange not in self._exchanges:
                return  # it was asked for before the recording was closed
            exchange.finish(message)
            try:
                self._write()
            except BaseException:
                self._exchanges.remove(exchange)
                raise

    def leave(self, exchange: _Exchange) -> None:
        """Give up the place of a request that got no answer."""
        with self._mutex:
            if exchange.answer is None and exchange in self._exchanges:
                self._exchanges.remove(exchange)

    def close(self) -> None:
        """Let others record to the file."""
        with self._mutex:
            if self._release is not None:
                self._release()
            self._release = None
            self._exchanges.clear()

    def _open(self) -> None:
        from filelock import FileLock, Timeout

        path = self.path
        lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=0, thread_local=False)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            release = weakref.finalize(self, _unlock, lock, os.getpid())
        except Timeout as error:
            raise UsageError(
                f"The cassette {path} is being recorded by somebody else, in this process or another. Wait for the end "
                "of that, or record to another file."
            ) from error
        except (OSError, NotImplementedError) as error:
            raise UsageError(
                f"The cassette {path} cannot be locked for writing ({error}). Make its directory writable, or name "
                "another file."
            ) from error
        try:
            content = path.read_bytes() if path.exists() else b""
            ours = not content.strip() or load_object(content).get("format") == _FORMAT
        except (OSError, ValueError):
            ours = False
        if not ours:
            release()
            raise UsageError(f"{path} is no cassette, so it is left as it is. Name another file in its place.")
        self._release = release

    def _write(self) -> None:
        # The whole file, for it is replaced in one step; what was written before is only copied, not made again.
        texts: list[str] = []
        before: _Exchange | None = None
        for exchange in self._exchanges:
            if exchange.answer is not None:
                texts.append(exchange.text(before))
                before = exchange
        head = f'{{\n  "format": "{_FORMAT}",\n  "version": {_VERSION},\n  "exchanges": [\n    '
        content = head + ",\n    ".join(texts) + "\n  ]\n}\n"
        temporary = self.path.with_name(f".{self.path.name}.new")  # the lock makes this name ours
        try:
            temporary.unlink(missing_ok=True)
            with temporary.open("xb") as file:
                file.write(content.encode())
                file.flush()
                os.fsync(file.fileno())
            if self.path.exists():
                shutil.copymode(self.path, temporary)
            temporary.replace(self.path)
        except BaseException:
            with suppress(OSError):  # the first failure is the one to tell of
                temporary.unlink(missing_ok=True)
            raise


def _unlock(lock: BaseFileLock, owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked child: the lock is its parent's
    with suppress(OSError):  # where an open file cannot be removed it stays, which harms nobody
        Path(lock.lock_file).unlink()
    lock.release()


# --- the providers ---------------------------------------------------------------------------------------------------


class RecordingProvider:
    """Answers as ``inner`` does, and keeps every answer in a cassette, errors included.

    A recording begins with its first answer, which replaces what the cassette held before. From its first request until
    ``close``, or its end, nobody else can record to the file. An answer that is aborted is not kept. When an answer
    cannot be kept, it ends as an error that says so.
    """

    def __init__(self, inner: Provider, cassette: Path | str | Recording) -> None:
        self._inner = inner
        self._recording = cassette if isinstance(cassette, Recording) else Recording(cassette)

    def preload(self) -> None:
        """Import what the recorded provider needs."""
        self._inner.preload()

    async def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        """Ask ``inner`` once and yield its answer, which is in the file before its last event is told."""
        try:
            exchange = self._recording.begin(model, context, options)
        except UsageError as error:
            growing = GrowingMessage(api=model.api, provider=model.provider, model=model.id)
            yield growing.start()
            yield growing.fail(f"{_AT_FAULT} {error}")
            return
        try:
            async with aclosing(self._inner.stream(model, context, options)) as events:
                async for event in events:
                    yield self._kept(exchange, event)
        finally:
            self._recording.leave(exchange)

    def _kept(self, exchange: _Exchange, event: AssistantMessageEvent) -> AssistantMessageEvent:
        if not isinstance(event, StreamDone | StreamError) or (event.type == "error" and event.reason == "aborted"):
            return event
        message = event.message if isinstance(event, StreamDone) else event.error
        try:
            self._recording.finish(exchange, message)
        except OSError as error:
            problem = (
                f"{_AT_FAULT} The answer came, and could not be added to the cassette {self._recording.path} "
                f"({error.strerror or error}). Make room there, or name another file, and record anew."
            )
            failed = message.model_copy(update={"stop_reason": "error", "error_message": problem})
            return StreamError(reason="error", error=failed)
        return event

    def close(self) -> None:
        """Let others record to the file; the next request begins a new recording."""
        self._recording.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ReplayProvider:
    """Plays the answers of the cassette at ``path``, in their order, to requests that are those recorded.

    Another request, one too many, or a file that cannot be played is an answer with ``stop_reason="error"`` that shows
    the difference; the exchange that was expected stays the next one. The file is read at the first request.
    """

    def __init__(self, path: Path | str, *, rules: Sequence[Rule] = RULES) -> None:
        self._path = Path(path).expanduser().resolve()
        self._observer = _Observer(rules)
        self._stored: list[_StoredExchange] | None = None
        self._next = 0
        self._request: JsonObject = {}
        self._mutex = threading.Lock()

    @property
    def remaining(self) -> list[str]:
        """A line for each exchange that was not played yet; raises ``UsageError`` for a file that cannot be played."""
        with self._mutex:
            exchanges = self._exchanges()
            return [
                f"exchange {number}: {_summary(exchange.request)}"
                for number, exchange in enumerate(exchanges, 1)
                if number > self._next
            ]

    def preload(self) -> None:
        """Nothing is left to import."""

    async def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        """Play the next answer in small deltas."""
        growing = GrowingMessage(api=model.api, provider=model.provider, model=model.id)
        try:
            answer, around = self._take(model, context, options)
        except UsageError as error:
            yield growing.start()
            yield growing.fail(f"{_AT_FAULT} {error}")
            return
        growing.usage = answer.usage
        yield growing.start()
        for block in answer.content:
            for event in _played(growing, _block_with(block, around.local)):
                yield event
                await asyncio.sleep(0)  # between any two deltas others get their turn, and an abort its chance
        if answer.stop_reason == "error":
            yield growing.fail(around.local(answer.error_message or "The recorded answer failed."))
        else:
            yield growing.finish(answer.stop_reason)

    def _take(self, model: Model, context: Context, options: StreamOptions) -> tuple[_StoredAnswer, _Surroundings]:
        with self._mutex:
            exchanges = self._exchanges()
            if self._next >= len(exchanges):
                raise UsageError(
                    f"The cassette {self._path} is used up: all of its exchanges ({len(exchanges)}) were played, and "
                    "here is another request. A new process or a restarted kernel plays it from its beginning. "
                    f"{_ANEW}"
                )
            around = self._observer.around(model, context, options)
            expected = self._expected(exchanges, around)
            asked = _normal_request(model, context, around)
            if asked != expected:
                raise UsageError(
                    f"This request is not the one that was recorded as exchange {self._next + 1} of {self._path}. "
                    f"{_ANEW} What differs:\n{_difference(expected, asked)}"
                )
            self._request = expected
            self._next += 1
            return exchanges[self._next - 1].answer, around

    def _exchanges(self) -> list[_StoredExchange]:
        if self._stored is None:
            self._stored = _load(self._path)
        return self._stored

    def _expected(self, exchanges: Sequence[_StoredExchange], around: _Surroundings) -> JsonObject:
        stored, before = exchanges[self._next].request, self._request
        known = _conversation(before, exchanges[self._next - 1].answer.content, around) if before else []
        if stored.kept_messages > len(known):
            raise UsageError(
                f"The cassette {self._path} cannot be played: `exchanges.{self._next}.request.keptMessages` is "
                f"{stored.kept_messages}, and only {len(known)} messages were said before. Mend it by hand. {_ANEW}"
            )
        return {
            "model": stored.model,
            "system": before["system"] if stored.system is None else stored.system,
            "tools": before["tools"] if stored.tools is None else stored.tools,
            "messages": [*known[: stored.kept_messages], *stored.messages],
        }


def _played(growing: GrowingMessage, block: AssistantBlock) -> Iterator[AssistantMessageEvent]:
    signature: str | None = None
    redacted: bool | None = None
    match block:
        case TextContent():
            opened, text = growing.open_text(), block.text
        case ThinkingContent():
            opened, text = growing.open_thinking(), block.thinking
            signature, redacted = block.thinking_signature, block.redacted
        case ToolCall():
            opened = growing.open_tool_call(block.id, block.name)
            text = json.dumps(block.arguments, ensure_ascii=False) if block.malformed is None else block.malformed
    yield opened
    for start in range(0, len(text), _DELTA):
        yield growing.append(opened.content_index, text[start : start + _DELTA])
    closed = growing.close(opened.content_index, signature=signature, redacted=redacted)
    match growing.block(opened.content_index):
        case TextContent() as made if isinstance(block, TextContent):
            made.text_signature = block.text_signature
        case ToolCall() as made if isinstance(block, ToolCall):
            made.thought_signature = block.thought_signature
        case _:
            pass
    yield closed


def _summary(request: _StoredRequest) -> str:
    last = request.messages[-1] if request.messages else {}
    line = textcut.one_line_fit(json.dumps(last.get("content", ""), ensure_ascii=False), 80)
    return f"{last.get('role', 'no message')} {line}"


# --- what differs from the record ------------------------------------------------------------------------------------

_MOST_LINES = 80  # of a difference
_LONGEST_PART = 200  # lines of one part that are looked at behind their common beginning
_WIDTH = 120


def _difference(expected: JsonObject, asked: JsonObject) -> str:
    """A unified diff of two normal forms, part by part; its length and the time for it are bounded."""
    recorded, wanted = _parts(expected), _parts(asked)
    lines = ["--- recorded", "+++ asked now"]
    for name in dict.fromkeys((*recorded, *wanted)):
        if recorded.get(name) != wanted.get(name):
            lines += _part_difference(name, _lines(recorded.get(name)), _lines(wanted.get(name)))
        if len(lines) > _MOST_LINES:
            return "\n".join([*lines[:_MOST_LINES], "… (the rest of the difference is left out)"])
    return "\n".join(lines)


def _parts(request: JsonObject) -> Mapping[str, object]:
    tools = {f"tool {name}": schema for name, schema in request["tools"].items()}
    messages = {f"message {number}": message for number, message in enumerate(request["messages"], 1)}
    return {"model": request["model"], "system": {"system": request["system"]}, **tools, **messages}


def _lines(value: object) -> list[str]:
    if value is None:
        return []
    text = json.dumps(_with_texts(value, _folded), ensure_ascii=False, indent=1)
    return [line[start : start + _WIDTH] for line in text.split("\n") for start in range(0, len(line), _WIDTH)]


def _part_difference(name: str, recorded: list[str], asked: list[str]) -> list[str]:
    same = _equal_at_the_beginning(recorded, asked)
    window = slice(max(0, same - 2), same + _LONGEST_PART)
    found = list(difflib.unified_diff(recorded[window], asked[window], n=2, lineterm=""))[2:]
    numbered = [line if line[:1] in ("+", "-", " ") else "@@" for line in found]
    return [f"@@ {name} @@", *numbered[1:]]


# --- which of them ---------------------------------------------------------------------------------------------------


def cassette_provider(mode: Mode, path: Path | str, inner: Provider) -> RecordingProvider | ReplayProvider:
    """A provider that plays the cassette at ``path``, or records the answers of ``inner`` there.

    ``auto`` plays what is there, and records when nothing is. Raises ``UsageError`` for another mode.
    """
    cassette = _cassette(mode, path)
    return cassette if isinstance(cassette, ReplayProvider) else RecordingProvider(inner, cassette)


def _cassette(mode: str, path: Path | str) -> Recording | ReplayProvider:
    if mode not in get_args(Mode):
        raise UsageError(f"Unknown cassette mode: {mode}. Choose one of {', '.join(get_args(Mode))}.")
    plays = mode == "replay" or (mode == "auto" and Path(path).expanduser().exists())
    return ReplayProvider(path) if plays else Recording(path)


@dataclass(slots=True)
class _Switch:
    """The cassette that the environment names: a process has one place in it, whoever asks."""

    mutex: threading.Lock = field(default_factory=threading.Lock)
    setting: tuple[str, str] | None = None
    cassette: Recording | ReplayProvider | None = None

    def position(self) -> Recording | ReplayProvider | None:
        path = os.environ.get("INDUSAGI_CASSETTE")
        setting = (os.environ.get("INDUSAGI_CASSETTE_MODE") or "auto", path) if path else None
        with self.mutex:
            if setting != self.setting:
                if isinstance(self.cassette, Recording):
                    self.cassette.close()
                self.setting, self.cassette = None, None
                if setting is not None:
                    self.cassette = _cassette(*setting)
                    self.setting = setting
            return self.cassette


_switch = _Switch()


def provider_from_environment(inner: Provider) -> Provider:
    """``inner``, or the provider of the cassette that INDUSAGI_CASSETTE names.

    All sessions of a process share that cassette, in the order of their requests; it begins again when one of the two
    variables changes. Raises ``UsageError`` for an unknown INDUSAGI_CASSETTE_MODE.
    """
    cassette = _switch.position()
    return RecordingProvider(inner, cassette) if isinstance(cassette, Recording) else cassette or inner


def is_replaying() -> bool:
    """Whether the environment's cassette answers, and no model: neither keys nor headers are needed then."""
    return isinstance(_switch.position(), ReplayProvider)
