"""A cassette while it is written: the exchanges so far, and the lock that keeps others from its file.

What this module promises: the exchanges are in the order of their requests, whichever answer comes first; an answer
is in the file before its last event is emitted; and from the first request until ``close`` no other recording to
the file can begin, in this process or another.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from indus_nb.base.errors import UsageError
from indus_nb.base.files import read_file
from indus_nb.base.locks import FileLock, HeldError
from indus_nb.base.messages import AssistantBlock, AssistantMessage, ToolCall, Usage
from indus_nb.base.wire import JsonObject
from indus_nb.models import Context, Model, StreamOptions
from indus_nb.models.cassettes.file import RECORD_ANEW, StoredRequest, exchange_text, is_cassette, write
from indus_nb.models.cassettes.normal_form import (
    RULES,
    Observer,
    Rule,
    Surroundings,
    common_prefix_length,
    conversation,
    map_block,
    map_strings,
    normal_request,
    share_parts,
)

if TYPE_CHECKING:
    pass


class Exchange:
    """A request with its answer, or one that is being answered.

    Attributes:
        request: The normal form of the request.
        content: The portable blocks of the answer; empty until ``finish``.
        answer: The answer as it is stored; ``None`` until ``finish``.
    """

    def __init__(self, request: JsonObject, around: Surroundings) -> None:
        self.request = request
        self.around = around
        self.content: list[AssistantBlock] = []
        self.answer: JsonObject | None = None
        self._after: Exchange | None = None
        self._text: str | None = None

    def finish(self, message: AssistantMessage) -> None:
        """Set the answer, made portable."""
        portable = self.around.portable
        error = None if message.error_message is None else portable(message.error_message)
        self.restore(
            [map_block(block, portable) for block in message.content], message.stop_reason, error, message.usage
        )

    def restore(self, content: list[AssistantBlock], stop_reason: str, error: str | None, usage: Usage) -> None:
        """Set the answer, which is portable."""
        self.content = content
        self.answer = {
            "content": [_stored_block(block) for block in content],
            "stopReason": stop_reason,
            **({"errorMessage": error} if error is not None else {}),
            "usage": usage.to_wire(),
        }

    def text(self, before: Exchange | None) -> str:
        """Return its JSON in the file, cached until another exchange comes before it."""
        if self._text is None or self._after is not before:
            self._text = exchange_text(self._request_after(before), self.answer)
            self._after = before
        return self._text

    def _request_after(self, before: Exchange | None) -> JsonObject:
        if before is None:
            return self.request
        request = self.request
        known = conversation(before.request, before.content, before.around)
        kept = common_prefix_length(known, request["messages"])
        return {
            "model": request["model"],
            **{name: request[name] for name in ("system", "tools") if request[name] != before.request[name]},
            **({"keptMessages": kept} if kept else {}),
            "messages": request["messages"][kept:],
            **({"options": request["options"]} if "options" in request else {}),
        }


def whole_request(
    stored: StoredRequest,
    before: tuple[JsonObject, Sequence[AssistantBlock]] | None,
    around: Surroundings,
    place: tuple[Path, int],
) -> JsonObject:
    """Return the normal form of a request from what its file holds of it: the inverse of what is left out there.

    Args:
        before: The request before it, and its answer; ``None`` for the first.
        place: The file, and which of its exchanges it is, for the message of the error.

    Raises:
        UsageError: It repeats more than what came before.
    """
    request = {} if before is None else before[0]
    known = [] if before is None else conversation(*before, around)
    if stored.kept_messages > len(known):
        raise UsageError(
            f"The cassette {place[0]} cannot be replayed: `exchanges.{place[1]}.request.keptMessages` is "
            f"{stored.kept_messages}, and only {len(known)} messages came before. Correct it by hand. {RECORD_ANEW}"
        )
    return {
        "model": stored.model,
        "system": request["system"] if stored.system is None else around.recorded(stored.system),
        "tools": request["tools"] if stored.tools is None else map_strings(stored.tools, around.recorded),
        "messages": [*known[: stored.kept_messages], *map_strings(stored.messages, around.recorded)],
    }


def _stored_block(block: AssistantBlock) -> JsonObject:
    malformed = block.malformed if isinstance(block, ToolCall) else None
    return block.to_wire() if malformed is None else {**block.to_wire(), "malformed": malformed}


class Recording:
    """A cassette that is being written; several ``RecordingProvider`` may share it.

    Args:
        path: The file. A cassette that is there is replaced with the first answer; any other file is left alone.
        rules: What of a request's texts does not count.
    """

    asks_nobody: ClassVar[bool] = False
    may_answer: ClassVar[bool] = False

    def __init__(self, path: Path | str, *, rules: Sequence[Rule] = RULES) -> None:
        self.path: Path = Path(path).expanduser().resolve()
        self._observer = Observer(rules)
        self._exchanges: list[Exchange] = []
        self._mutex = threading.Lock()
        self._release: Callable[[], object] | None = None

    def begin(self, model: Model, context: Context, options: StreamOptions) -> Exchange:
        """Begin to record a request, and lock the file if that was not done.

        Args:
            options: How it is asked; the key is a secret.

        Returns:
            The exchange to hand to ``finish`` or ``leave``.

        Raises:
            UsageError: The file is none of ours, is being recorded by others, or cannot be locked.
        """
        with self._mutex:
            if self._release is None:
                self._open()
            around = self._observer.around(model, context, options)
            request = normal_request(model, context, around)
            if self._exchanges:
                request = share_parts(request, self._exchanges[-1].request)
            exchange = Exchange(request, around)
            self._exchanges.append(exchange)
            return exchange

    def finish(self, exchange: Exchange, message: AssistantMessage) -> None:
        """Write the answer to the file.

        It is left out if the recording was closed since its request.

        Args:
            exchange: What ``begin`` returned.

        Raises:
            OSError: It cannot be written; the file is then as it was, and the exchange is dropped.
        """
        with self._mutex:
            if exchange not in self._exchanges:
                return  # its request came before the recording was closed
            exchange.finish(message)
            try:
                self._write()
            except BaseException:
                self._exchanges.remove(exchange)
                raise

    def leave(self, exchange: Exchange) -> None:
        """Remove a request that got no answer."""
        with self._mutex:
            if exchange.answer is None and exchange in self._exchanges:
                self._exchanges.remove(exchange)

    def close(self) -> None:
        """Release the lock of the file."""
        with self._mutex:
            if self._release is not None:
                self._release()
            self._release = None
            self._exchanges.clear()

    def _open(self) -> None:
        path = self.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            release = weakref.finalize(self, FileLock(path).release)
        except HeldError as error:
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
            ours = is_cassette(read_file(path) if path.exists() else b"")
        except OSError:
            ours = False
        if not ours:
            release()
            raise UsageError(f"{path} is no cassette, so it is left as it is. Name another file in its place.")
        self._release = release

    def _write(self) -> None:
        # The whole file, for it is replaced in one step; what was written before is only copied, not made again.
        texts: list[str] = []
        before: Exchange | None = None
        for exchange in self._exchanges:
            if exchange.answer is not None:
                texts.append(exchange.text(before))
                before = exchange
        write(self.path, texts)
