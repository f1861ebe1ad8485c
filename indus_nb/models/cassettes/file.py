"""The file of a cassette: its content, and how it is read and written.

A cassette is JSON, made to be read, compared and edited. It lists exchanges in the order of their requests. What
repeats the exchange before is left out, messages are counted then (``keptMessages``), so that an edited answer is
edited in one place. Text of several lines is a list of lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from indus_nb.base.errors import UsageError
from indus_nb.base.files import read_file, write_atomically
from indus_nb.base.messages import AssistantBlock, Usage
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.base.wire import JsonObject, load_object
from indus_nb.base.wire_model import WireModel, wire_field

_FORMAT = "indus_nb cassette"
_VERSION = 1
RECORD_ANEW = "To record anew, run once with INDUS_NB_CASSETTE_MODE=record, or through a RecordingProvider."
"""The last sentence of every error about a cassette that cannot be replayed."""
_TEXT_KEYS = frozenset({"system", "content", "text", "thinking", "malformed", "errorMessage"})
_FOREIGN_KEYS = frozenset({"arguments", "tools"})  # their JSON is others', in which a list of lines is a list


class _Stored(WireModel, unknown="refused"):
    """Part of a cassette; a slip in an edited one is reported."""


class StoredRequest(_Stored):
    """The normal form of a request; what is ``None`` is that of the exchange before."""

    model: str
    system: str | None = None
    tools: dict[str, JsonObject] | None = None
    kept_messages: int = wire_field(default=0, ge=0)
    messages: list[JsonObject]
    options: JsonObject | None = None
    """How it was asked, in a file of answers that are kept (``keeping``)."""


class StoredAnswer(_Stored):
    """A portable answer."""

    content: list[AssistantBlock]
    stop_reason: Literal["stop", "length", "toolUse", "error"]
    usage: Usage = wire_field(default_factory=Usage)
    error_message: str | None = None


class StoredExchange(_Stored):
    """A request and its answer."""

    request: StoredRequest
    answer: StoredAnswer


class _StoredCassette(_Stored):
    format: str
    version: int
    exchanges: list[StoredExchange]


def map_texts(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return ``value`` with every text of a request or an answer changed.

    Args:
        value: A JSON value. What tools and arguments hold of lists of texts is theirs and stays.
        change: Called with the value of each key that holds text.
    """
    if isinstance(value, list):
        return [map_texts(item, change) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    changed: JsonObject = {}
    for key, item in cast("JsonObject", value).items():
        text = change(item) if key in _TEXT_KEYS else item
        changed[key] = text if key in _FOREIGN_KEYS else map_texts(text, change)
    return changed


def fold_lines(text: Any) -> Any:
    """Return text as it is in the file: several lines are a list of them."""
    return text.split("\n") if isinstance(text, str) and "\n" in text else text


def unfold_lines(text: Any) -> Any:
    """Return text as it is used: join a list that ``fold_lines`` made."""
    if not isinstance(text, list):
        return text
    lines = cast("list[Any]", text)
    return "\n".join(lines) if lines and all(isinstance(line, str) for line in lines) else lines


def load(path: Path) -> list[StoredExchange]:
    """Read the exchanges of the cassette at ``path``.

    Raises:
        UsageError: It cannot be replayed; the message names the place and what to do.
    """
    try:
        value = map_texts(load_object(read_file(path)), unfold_lines)
        if value.get("format") != _FORMAT:
            raise UsageError(f"{path} is no cassette. Name the file of one in INDUS_NB_CASSETTE. {RECORD_ANEW}")
        if value.get("version") != _VERSION:
            raise UsageError(
                f"{path} is a cassette of version {value.get('version')}, and only version {_VERSION} is understood "
                f"here. Update indus_nb, or record anew. {RECORD_ANEW}"
            )
        exchanges = _StoredCassette.from_wire(value).exchanges
    except FileNotFoundError as error:
        raise UsageError(f"There is no cassette at {path}. {RECORD_ANEW}") from error
    except OSError as error:
        raise UsageError(f"The cassette {path} cannot be read ({error.strerror}).") from error
    except InvalidFieldsError as error:
        raise UsageError(
            f"The cassette {path} cannot be replayed: {error}. Correct it by hand. {RECORD_ANEW}"
        ) from error
    except ValueError as error:
        raise UsageError(f"The cassette {path} is no JSON ({error}). Correct it by hand. {RECORD_ANEW}") from error
    if exchanges and None in (exchanges[0].request.system, exchanges[0].request.tools):
        raise UsageError(
            f"The cassette {path} cannot be replayed: its first request must name `system` and `tools`. {RECORD_ANEW}"
        )
    return exchanges


def is_cassette(content: bytes) -> bool:
    """Return whether a file of this content may be recorded to: it is a cassette, or empty."""
    try:
        return not content.strip() or load_object(content).get("format") == _FORMAT
    except ValueError:
        return False


def exchange_text(request: JsonObject, answer: JsonObject | None) -> str:
    """Serialize one exchange as it is in the file.

    Args:
        request: The normal form of the request, without what repeats the exchange before.

    Returns:
        Its JSON, indented for its place in the list of exchanges.
    """
    stored = map_texts({"request": request, "answer": answer}, fold_lines)
    return json.dumps(stored, ensure_ascii=False, indent=2).replace("\n", "\n    ")


def write(path: Path, exchanges: Sequence[str]) -> None:
    """Replace the cassette at ``path`` in one step. The caller holds its lock.

    Args:
        path: The file; one that is there keeps its mode.
        exchanges: The texts of all exchanges, see ``exchange_text``.

    Raises:
        OSError: It cannot be written; it is then as it was.
    """
    head = f'{{\n  "format": "{_FORMAT}",\n  "version": {_VERSION},\n  "exchanges": [\n    '
    content = head + ",\n    ".join(exchanges) + "\n  ]\n}\n"
    write_atomically(path, content.encode(), mode=0o600, sync=True, exclusive=True)
