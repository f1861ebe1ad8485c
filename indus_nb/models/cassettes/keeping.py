"""Answers that are kept: a cassette whose exchanges are found by their requests, whatever their order.

What this module promises: an answer is reused only where all that the model was shown is the same, results of tools
and their images among it, but for where the kernel runs: directories, versions, the date of the system prompt, ids of
calls, addresses of objects. Several processes may keep answers in one file, and none loses those of another.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import threading
from collections import Counter, deque
from pathlib import Path
from typing import ClassVar, NamedTuple

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.files import read_file
from indus_nb.base.locks import FileLock
from indus_nb.base.messages import AssistantMessage
from indus_nb.base.wire import JsonObject
from indus_nb.models import Context, Model, StreamOptions
from indus_nb.models.cassettes.file import StoredAnswer, is_cassette, load, write
from indus_nb.models.cassettes.normal_form import (
    RULES,
    Observer,
    Surroundings,
    common_prefix_length,
    normal_request,
    share_parts,
)
from indus_nb.models.cassettes.recording import Exchange, whole_request

_OF_THE_PLACE = ("current-date", "current-directory", "kernel", "notebook", "versions")
_ADDRESSES = tuple(rule for rule in RULES if rule.name == "memory-address")
_PLACES = (*(rule for rule in RULES if rule.name in _OF_THE_PLACE), *_ADDRESSES)
MAX_ANSWERS = 1000
"""Most answers in a file; the oldest that were not used go first."""
_MAX_CHANGES = 20
_MAX_LINE = 100
_LOCK_SECONDS = 10.0
_NOTHING_LIKE_IT = "no answer to such a prompt is kept"


class KeptPrompt(NamedTuple):
    """A prompt with answers that are kept.

    Attributes:
        text: Its first line.
        answers: How many requests of its runs have one.
        used: How many of them were used or made since the file was opened here.
    """

    text: str
    answers: int
    used: int


class Kept:
    """The answers that a file keeps.

    Args:
        path: The file, a cassette; it is made with the first answer.

    Attributes:
        reused: How many requests were answered from it.
        asked: How many were not.
        changes: Why, where a request of a prompt with kept answers was another one; the newest last.
        changed: How many such requests there were.
    """

    asks_nobody: ClassVar[bool] = False
    may_answer: ClassVar[bool] = True

    def __init__(self, path: Path | str) -> None:
        self.path: Path = Path(path).expanduser().resolve()
        self.reused: int = 0
        self.asked: int = 0
        self.changed: int = 0
        self.changes: deque[str] = deque(maxlen=_MAX_CHANGES)
        self._observer = Observer(_PLACES, ignores_temporary=False)
        self._of_results = Observer(_ADDRESSES, ignores_temporary=False)
        self._mutex = threading.Lock()
        self._state: tuple[int, int, int] | None = None
        self._exchanges: list[Exchange] = []
        self._found: dict[str, list[Exchange]] = {}
        self._used: set[Exchange] = set()

    def close(self) -> None:
        """Do nothing: nothing is held open."""

    def find(self, model: Model, context: Context, options: StreamOptions) -> tuple[Exchange, StoredAnswer | None, str]:
        """Look for the answer to a request.

        Args:
            model: The model that is asked.
            context: What it is shown.
            options: How it is asked: what changes the answer counts, and the key is a secret.

        Returns:
            The request, to ``keep`` its answer; the answer, or ``None``; and why there is none.

        Raises:
            UsageError: The file is none of ours, or cannot be read.
        """
        with self._mutex:
            around = self._observer.around(model, context, options)
            self._read(around)
            results = self._of_results.around(model, context, options)
            request = {**normal_request(model, context, around, results), "options": _options(model, context, options)}
            if self._exchanges:
                request = share_parts(request, self._exchanges[-1].request)
            exchange = Exchange(request, around)
            kept = self._kept(request)
            if kept is not None:
                self.reused += 1
                self._used.add(kept)
                return exchange, StoredAnswer.from_wire(kept.answer), ""
            self.asked += 1
            why = self._why(request)
            if why is not None:
                self._note(why)
            return exchange, None, f"({self.path} does not have this answer: {why or _NOTHING_LIKE_IT}.)"

    def keep(self, exchange: Exchange, message: AssistantMessage) -> None:
        """Add an answer to the file; where that fails, ``changes`` says so.

        Args:
            exchange: What ``find`` returned.
            message: The whole answer.
        """
        with self._mutex:
            exchange.finish(message)
            try:
                self._write(exchange)
            except (OSError, UsageError, NotImplementedError) as error:  # a lock that times out is an OSError
                self._add(exchange)  # for this process
                self._note(f"the answer could not be written to {self.path} ({error})")

    def _note(self, change: str) -> None:
        self.changes.append(change)
        self.changed += 1

    def drop(self) -> int:
        """Forget all answers, and empty the file.

        Returns:
            How many there were.

        Raises:
            UsageError: The file is none of ours.
            OSError: It cannot be written.
        """
        with self._mutex, FileLock(self.path, _LOCK_SECONDS):
            count = len(load(self.path)) if self._is_there() else 0
            if count:
                write(self.path, [])
            self._forget()
            return count

    def prompts(self) -> list[KeptPrompt]:
        """List the prompts that have answers, in their order.

        Raises:
            UsageError: The file is none of ours, or cannot be read.
        """
        with self._mutex:
            self._read(None)
            counts: Counter[str] = Counter()
            used: Counter[str] = Counter()
            for exchange in self._exchanges:
                text = _prompt(exchange.request)
                counts[text] += 1
                used[text] += exchange in self._used
            return [KeptPrompt(textcut.one_line(text, _MAX_LINE), count, used[text]) for text, count in counts.items()]

    # The file

    def _is_there(self) -> bool:
        try:
            content = read_file(self.path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read ({error.strerror or error}). Name another file.") from error
        if not is_cassette(content):
            raise UsageError(f"{self.path} is no cassette, so it is left as it is. Name another file in its place.")
        return bool(content.strip())

    def _read(self, around: Surroundings | None) -> None:
        """Read the file again if it has changed."""
        try:
            found = self.path.stat()
        except OSError:
            state = None
        else:
            state = (found.st_ino, found.st_size, found.st_mtime_ns)
        if state == self._state:
            return
        used = [exchange.request for exchange in self._used]
        self._forget()
        if self._is_there():
            try:
                self._load(around or self._observer.latest())
            except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
                self._forget()
                raise UsageError(
                    f"The answers in {self.path} cannot be used, for it was not written here ({error!r:.100}). Name "
                    "another file, or remove it."
                ) from error
        self._used = {kept for request in used if (kept := self._kept(request)) is not None}
        self._state = state

    def _load(self, around: Surroundings) -> None:
        before: Exchange | None = None
        for number, stored in enumerate(load(self.path)):
            known = None if before is None else (before.request, before.content)
            request = whole_request(stored.request, known, around, (self.path, number))
            before = Exchange({**request, "options": stored.request.options or {}}, around)
            answer = stored.answer
            before.restore(answer.content, answer.stop_reason, answer.error_message, answer.usage)
            _check_messages(before.request)
            self._add(before)

    def _write(self, new: Exchange) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path, _LOCK_SECONDS):
            self._read(new.around)
            self._used.add(new)
            self._add(new)
            while len(self._exchanges) > MAX_ANSWERS:
                unused = (each for each in self._exchanges if each not in self._used)
                self._remove(next(unused, self._exchanges[0]))
            texts: list[str] = []
            before: Exchange | None = None
            for exchange in self._exchanges:
                texts.append(exchange.text(before))
                before = exchange
            write(self.path, texts)
            found = self.path.stat()
            self._state = (found.st_ino, found.st_size, found.st_mtime_ns)

    def _forget(self) -> None:
        self._state = None
        self._exchanges, self._found, self._used = [], {}, set()

    def _kept(self, request: JsonObject) -> Exchange | None:
        return next((each for each in self._found.get(_place(request), ()) if each.request == request), None)

    def _add(self, exchange: Exchange) -> None:
        """Add an exchange behind the one that it goes on from: a file holds what differs from the one before."""
        if exchange in self._exchanges:
            return
        messages = exchange.request["messages"]
        lengths = [common_prefix_length(each.request["messages"], messages) for each in self._exchanges]
        longest = max(lengths, default=0)
        at = len(lengths) - lengths[::-1].index(longest) if longest else len(lengths)
        self._exchanges.insert(at, exchange)
        self._found.setdefault(_place(exchange.request), []).append(exchange)

    def _remove(self, exchange: Exchange) -> None:
        self._exchanges.remove(exchange)
        self._used.discard(exchange)
        self._found[_place(exchange.request)].remove(exchange)

    # What differs

    def _why(self, request: JsonObject) -> str | None:
        """Say how a request differs from the most similar one of the same prompt; ``None`` if there is none."""
        prompt, messages = _prompt(request), request["messages"]
        asked = [each.request for each in self._exchanges if _prompt(each.request) == prompt]
        alike = [each for each in asked if len(each["messages"]) == len(messages)]
        if not alike:
            counts, count = [_before(each) for each in asked], _before(request)
            return None if not counts or count in counts else f"{_messages(counts[-1])}, and now {_messages(count)}"
        nearest = max(alike, key=lambda other: common_prefix_length(other["messages"], messages))
        if nearest["model"] != request["model"]:
            return f"the model was {nearest['model']} and is {request['model']}"
        for name, value in request["options"].items():
            if value != (before := nearest["options"].get(name)):
                return f"{name} changed" if name == "descriptions of tools" else f"{name} was {before} and is {value}"
        for name, what in (("system", "the system prompt"), ("tools", "the tools")):
            if nearest[name] != request[name]:
                return f"{what} changed: {_first_difference(nearest[name], request[name])}"
        for old, new in zip(nearest["messages"], messages, strict=True):
            if old != new:
                return f"{_named(new)} changed: {_first_difference(old.get('content'), new.get('content'))}"
        return None


def _check_messages(request: JsonObject) -> None:
    """Raise an error of some kind where messages have not the shape that all else here relies on."""
    for message in request["messages"]:
        content = message.get("content")
        blocks = [{"type": "text"}] if isinstance(content, str) else content
        kinds = [block["type"] for block in blocks]
        if message["role"] not in ("user", "assistant", "toolResult") or not all(
            isinstance(kind, str) for kind in kinds
        ):
            raise ValueError(f"a message of the role {message['role']}")


def _options(model: Model, context: Context, options: StreamOptions) -> JsonObject:
    described = json.dumps([[tool.name, tool.description] for tool in context.tools]).encode()
    return {
        "the thinking level": options.thinking,
        "the provider": model.provider,
        "the longest answer": options.max_tokens,
        "the tool that must be called": options.must_call,
        "descriptions of tools": hashlib.sha256(described).hexdigest()[:16],
    }


def _place(request: JsonObject) -> str:
    """Return what requests must have in common to be compared; computed from the newest message alone."""
    newest = json.dumps(request["messages"][-1:], sort_keys=True)
    return f"{request['model']} {len(request['messages'])} {hashlib.sha256(newest.encode()).hexdigest()}"


def _prompt(request: JsonObject) -> str:
    """Return the text of the last message that is the user's."""
    users = [message for message in request["messages"] if message["role"] == "user"]
    return "\n".join(_texts(users[-1].get("content"))) if users else ""


def _before(request: JsonObject) -> int:
    """Return how many messages go before the last one that is the user's."""
    return max((at for at, message in enumerate(request["messages"]) if message["role"] == "user"), default=0)


def _messages(count: int) -> str:
    return "nothing went before it" if not count else f"{textcut.counted(count, 'message')} went before it"


def _named(message: JsonObject) -> str:
    if message["role"] == "toolResult":
        return f"a result of {message['toolName']}"
    return "what goes along with the prompt" if message["role"] == "user" else "an answer before it"


def _texts(value: object) -> list[str]:
    """Return the lines of a part of a request."""
    if isinstance(value, str):
        return value.split("\n")
    return json.dumps(value, ensure_ascii=False, indent=1).replace("\\n", "\n").split("\n")


def _first_difference(old: object, new: object) -> str:
    before, now = _texts(old), _texts(new)
    same = common_prefix_length(before, now)
    there, here = before[same : same + 50], now[same : same + 50]
    for _, begin, end, first, last in difflib.SequenceMatcher(None, there, here, autojunk=False).get_opcodes():
        lost, found = _quoted(there[begin:end]), _quoted(here[first:last])
        if lost != found:
            return f"{lost} → {found}" if lost and found else f"{found} is new" if found else f"{lost} is gone"
    return ""


def _quoted(lines: list[str]) -> str:
    text = textcut.one_line("\n".join(lines), _MAX_LINE)
    return repr(text) if text else ""
