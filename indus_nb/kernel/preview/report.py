"""Tasks of a copy, and what it sends of them: frames over a pipe, the last of which is a report."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NoReturn, Protocol, TypeAlias, cast, get_args

from indus_nb.base.wire import JsonObject
from indus_nb.kernel.preview.words import reason, worded
from indus_nb.safety.effects import Effect, EffectKind, cut

MAX_FRAME_BYTES = 64 << 20
MAX_TEXT_BYTES = 16 << 20
MAX_BYTES = 512 << 20
"""Most bytes that are read of one frame, of the part of it that is JSON, and of one copy."""
MAX_DIGITS = 4300
_HEAD = struct.Struct(">II")
_MAX_EFFECTS = 1000
_MAX_CHARACTERS = 4000
_MAX_NAME = 1000
_KINDS = frozenset(get_args(EffectKind))

Stop: TypeAlias = Callable[[Effect], NoReturn]
"""Callback that ends the copy with what the code was about to do."""
Send: TypeAlias = Callable[[JsonObject, bytes], None]
"""Callback that sends a frame: an object, and bytes."""


class CopyTask(Protocol):
    """A task that runs in a copy."""

    def run(self, stop: Stop, send: Send, effects: list[Effect]) -> None:
        """Run the task. Called in the copy; an exception ends it without a result.

        Args:
            stop: Ends the copy with what the code was about to do.
            effects: Effects so far on files of the copy's own, and those that cannot be seen.
        """
        ...

    def report(self) -> Report:
        """Return the result so far. Called in the copy, on any thread, also in the middle of ``run``."""
        ...


@dataclass
class Report:
    """Result of a task in a copy.

    Attributes:
        how: It ended, raised something, or was about to do something that a copy cannot; ``none``: there is no copy.
        why: The error or effect that ended it, or why there is no copy.
        effects: Effects that it would have, or has had on what is the copy's alone.
        outcome: Changes of variables, as a sentence without subject.
        dropped: New variables that are of no use outside of the copy.
        kept: Variables whose values were sent.
        modules: Those whose values are modules.
        inside: Those that were changed in themselves.
        renewed: Those of them whose values were sent, which are new objects where they are received.
        is_late: Whether it was ended at its time limit.
    """

    how: Literal["done", "failed", "stopped", "none"] = "done"
    why: str = ""
    effects: list[Effect] = field(default_factory=list[Effect])
    outcome: str = ""
    dropped: list[str] = field(default_factory=list[str])
    kept: list[str] = field(default_factory=list[str])
    modules: list[str] = field(default_factory=list[str])
    renewed: list[str] = field(default_factory=list[str])
    inside: list[str] = field(default_factory=list[str])
    is_late: bool = False

    def to_json(self) -> JsonObject:
        """Return the report as it is sent, shortened to what is shown of it."""
        effects = [*{(each.kind, each.what, each.words): each for each in self.effects}.values()]
        effects, rest = cut(effects, _MAX_EFFECTS)
        if rest:
            effects.append(Effect("unknown", "", f"has {len(rest):,} more effects"))
        return {
            **vars(self),
            "why": self.why[:_MAX_CHARACTERS],
            "outcome": self.outcome[:_MAX_CHARACTERS],
            "effects": [asdict(each) for each in effects],
            "inside": self.inside[:_MAX_EFFECTS],  # with more there are more effects, too
        }


def parsed(data: JsonObject) -> Report | None:
    """Parse a copy's report into trusted wording (`indus_nb.kernel.preview.words`); ``None`` if it is none."""
    how: Any = data.get("how")
    texts: list[Any] = [data.get(name) for name in ("why", "outcome")]
    names: list[Any] = [data.get(name) for name in ("dropped", "kept", "modules", "renewed", "inside")]
    effects: Any = data.get("effects")
    if how not in ("done", "failed", "stopped", "none") or not all(isinstance(text, str) for text in texts):
        return None
    if not isinstance(effects, list) or not all(map(_are_texts, names)):
        return None
    if len(cast("list[Any]", effects)) > _MAX_EFFECTS + len(_KINDS) or any(len(each) > _MAX_EFFECTS for each in names):
        return None
    read = [_effect(each) for each in cast("list[Any]", effects)]
    if None in read:
        return None
    found = [(each.words, worded(each.kind, each.what, each.words)) for each in read if each is not None]
    why = reason(how, texts[0][:_MAX_CHARACTERS], found)
    effects, outcome = [effect for _, effect in found], texts[1][:_MAX_CHARACTERS]
    dropped, kept, modules, renewed, inside = (
        [name for name in each if name.isidentifier() and len(name) <= _MAX_NAME] for each in names
    )
    return Report(how, why, effects, outcome, dropped, kept, modules, renewed, inside)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in cast("list[Any]", value))


def _effect(value: Any) -> Effect | None:
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    kind, what, words = (fields.get(name) for name in ("kind", "what", "words"))
    if kind not in _KINDS or not isinstance(what, str) or not isinstance(words, str):
        return None
    return Effect(cast("EffectKind", kind), what[:_MAX_CHARACTERS], words[:_MAX_CHARACTERS])


def whole_number() -> Callable[[str], int] | None:
    """Return a parser of integers in JSON; ``None`` where Python's own limit of their digits is in force.

    Without it the time that a number takes grows with the square of its digits.
    """
    return None if 0 < sys.get_int_max_str_digits() <= MAX_DIGITS else _short_number


def _short_number(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError("it sent a number of too many digits")
    return int(text)


def packed(data: JsonObject, blob: bytes = b"") -> bytes:
    """Return the bytes of a frame.

    Args:
        blob: Bytes that go with it.

    Returns:
        The bytes, which ``Frames`` reads.
    """
    text = json.dumps(data, default=str).encode(errors="replace")
    return _HEAD.pack(len(text), len(blob)) + text + blob


class Frames:
    """Decoder of the frames in the bytes of a pipe."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._read = 0

    def feed(self, data: bytes) -> Iterator[tuple[JsonObject, bytes]]:
        """Return the frames that are complete with this chunk.

        Args:
            data: The next bytes; hostile.

        Yields:
            The object, and the bytes.

        Raises:
            ValueError: They are no frames, or too many bytes.
        """
        self._read += len(data)
        self._data += data
        if self._read > MAX_BYTES:
            raise ValueError("it sent too much")
        while len(self._data) >= _HEAD.size:
            text, blob = _HEAD.unpack_from(self._data)
            if text > MAX_TEXT_BYTES or text + blob > MAX_FRAME_BYTES:
                raise ValueError("it sent too much at once")
            end = _HEAD.size + text + blob
            if len(self._data) < end:
                return
            try:
                found: object = json.loads(self._data[_HEAD.size : _HEAD.size + text], parse_int=whole_number())
            except RecursionError as error:
                raise ValueError("it sent what cannot be read") from error
            if not isinstance(found, dict):
                raise ValueError("it sent what cannot be read")
            yield cast("JsonObject", found), bytes(self._data[_HEAD.size + text : end])
            del self._data[:end]
