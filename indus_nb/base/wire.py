"""JSON lines in and out of the process."""

from __future__ import annotations

import gc
import json
import math
import os
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import Any, TypeAlias, cast

JsonObject: TypeAlias = dict[str, Any]
MAX_JSON_VALUES = 250_000
"""Most values in JSON of a server or of a model; to read as many takes up to 0.2 s and 30 MB."""
MAX_JSON_DEPTH = 200
"""Deepest arguments of a model: what is deeper can be read, but not be written again everywhere."""
_JSON_STRING = rb'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'


def to_camel(name: str) -> str:
    """Return a name as it is on the wire.

    >>> to_camel("to_camel")
    'toCamel'
    """
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


def to_snake(key: str) -> str:
    """Return the name of a key on the wire.

    >>> to_snake("toSnake")
    'to_snake'
    """
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key)


class Framed:
    """A value that knows what of it is on the wire."""

    def frame(self) -> JsonObject:
        """Return the JSON object with values that may be framed themselves; absent ones are left out."""
        raise NotImplementedError

    def to_wire(self) -> JsonObject:
        """Return the JSON object, absent values left out."""
        return cast("JsonObject", json.loads(dump(self)))


def random_hex(length: int) -> str:
    """Return random bytes in hexadecimal like ``secrets``, which imports what no start needs."""
    return os.urandom(length).hex()


def dump(value: object) -> bytes:
    r"""Serialize ``value`` (wire models included) as compact JSON on one line, without a line end.

    Non-finite numbers become ``null``, for JSON knows none; lone surrogates become replacement characters.
    Absent values of models are left out, ``None`` in plain
    dictionaries is kept:

    >>> dump({"model": None, "text": "größer\u2028"})
    b'{"model":null,"text":"gr\xc3\xb6\xc3\x9fer\xe2\x80\xa8"}'
    """
    try:
        text = _encoded(value)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    try:
        return text.encode()
    except UnicodeEncodeError:  # half characters, as in a file name that is no UTF-8
        return clean_text(text).encode()


def _encoded(value: object) -> str:
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError):
        # With keys that are no texts, or numbers that JSON does not know; any other defect shows again.
        return _ENCODER.encode(_as_plain(value))


def _plain_value(value: object) -> object:
    return value.frame() if isinstance(value, Framed) else _as_plain(value)


def _as_plain(value: object) -> object:
    """Return what pydantic makes of a value of others in JSON: a data class, a date, a set; raises ``ValueError``."""
    import pydantic_core

    return pydantic_core.to_jsonable_python(
        value, by_alias=True, exclude_none=True, inf_nan_mode="null", fallback=_frame_only
    )


def _frame_only(value: object) -> JsonObject:
    if isinstance(value, Framed):
        return value.frame()
    import pydantic_core

    raise pydantic_core.PydanticSerializationError(f"Unable to serialize unknown type: {type(value)}")


def from_json(text: str | bytes, *, allow_inf_nan: bool = True, allow_partial: bool = False) -> Any:
    """Return the value of JSON text.

    Args:
        text: The text, in UTF-8 if it is bytes.
        allow_inf_nan: Whether the numbers that JSON does not know are read.
        allow_partial: Whether the text may end early, in a string too.

    Raises:
        ValueError: It is no JSON.
    """
    with suppress(ValueError, RecursionError):  # what is odd is read, or refused in its words, by the library
        written = text if isinstance(text, str) else text.decode()
        if not _HALF_ESCAPES.search(written):
            return _decoded(written)
    import pydantic_core

    return pydantic_core.from_json(
        text, allow_inf_nan=allow_inf_nan, allow_partial="trailing-strings" if allow_partial else False
    )


def read_object(text: bytes) -> dict[str, Any]:
    """Parse the JSON object in a file that a user writes by hand: comments and trailing commas are allowed.

    Raises:
        ValueError: It is no JSON, or no object; the message is a predicate ("is no JSON (…)").
    """
    try:
        value: object = from_json(text)
    except ValueError:
        import json5  # many times slower, so only for files that need it

        try:
            value = json5.loads(text.decode())
        except (ValueError, RecursionError) as error:
            reason = str(error).removeprefix("<string>:") if isinstance(error, ValueError) else "nested too deeply"
            raise ValueError(f"is no JSON ({reason})") from error
    if not isinstance(value, dict):
        raise ValueError("must hold a JSON object")
    return cast("dict[str, Any]", value)


def _decoded(text: str) -> Any:
    if text[:1] == "{":  # else there may be blanks before it
        value, end = _DECODER.raw_decode(text)
        if end == len(text):
            return value
    return _DECODER.decode(text)


def load_object(line: bytes) -> JsonObject:
    r"""Parse the JSON object on ``line``.

    Raises ``ValueError`` with a reason fit for a user when the line holds no JSON or JSON of another kind. Programs
    that count text in UTF-16 cut characters in half and write the halves as escapes. Those lines are read, with
    replacement characters:

    >>> load_object(rb'{"text": "cut \ud83d"}')
    {'text': 'cut �'}
    """
    try:
        value: object = from_json(line, allow_inf_nan=False)
    except ValueError as error:
        value = _read_tolerantly(line, error)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {_kind(value)}")
    return cast("JsonObject", value)


def check_json_values(text: bytes | str) -> None:
    """Check that JSON does not blow up when parsed: a value of two bytes takes fifty in memory.

    Args:
        text: JSON, or what should be some, or its beginning.

    Raises:
        ValueError: It holds more than ``MAX_JSON_VALUES``.
    """
    # Nearly always one of these is so, and the strings need not be left out.
    if len(text) <= MAX_JSON_VALUES or _signs_before_values(text) <= MAX_JSON_VALUES:
        return
    if _signs_before_values(_without_strings(text)) > MAX_JSON_VALUES:
        raise ValueError(f"it holds more than {MAX_JSON_VALUES:,} values of JSON")


def check_json_depth(text: str) -> None:
    """Check that JSON can be written again wherever it is kept.

    Raises:
        ValueError: It is nested deeper than ``MAX_JSON_DEPTH``.
    """
    if text.count("[") + text.count("{") <= MAX_JSON_DEPTH:
        return
    steps = (1 if sign in b"[{" else -1 for sign in re.findall(rb"[\[\]{}]", _without_strings(text)))
    if max(accumulate(steps), default=0) > MAX_JSON_DEPTH:
        raise ValueError(f"it is nested more than {MAX_JSON_DEPTH} deep")


def _without_strings(text: bytes | str) -> bytes:
    return re.sub(_JSON_STRING, b"", text.encode(errors="replace") if isinstance(text, str) else text)


def _signs_before_values(text: bytes | str) -> int:
    if isinstance(text, bytes):
        return sum(map(text.count, (b",", b"[", b"{")))
    return sum(map(text.count, (",", "[", "{")))


def _read_tolerantly(line: bytes, defect: ValueError) -> object:
    """Parse a line with lone surrogates or deep nesting; raise ``defect`` when something else is wrong."""
    try:
        text = json.dumps(json.loads(line.decode(), parse_constant=_refuse), ensure_ascii=False)
        return json.loads(clean_text(text))
    except (ValueError, RecursionError):
        raise defect from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain_value)
_HALF_ESCAPES = re.compile(r"\\u[dD][89a-fA-F]")


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names: dict[type, str] = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}
    return names.get(type(value), "something else")


@contextmanager
def collection_paused() -> Generator[None]:
    """Pause garbage collection while many objects are made, which it would slow down."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def clean_text(text: str) -> str:
    r"""Replace lone surrogates in ``text``, so that it can be encoded.

    >>> clean_text("a\ud83d b")
    'a� b'
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def encodable(value: Any) -> Any:
    """Replace lone surrogates and non-finite numbers in ``value``.

    Returns it unchanged if it has none.
    """
    return value if _is_encodable(value) else _cleaned(value)


def _is_encodable(value: Any) -> bool:
    if isinstance(value, str):
        return value.isascii() or clean_text(value) is value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return all(map(_is_encodable, fields)) and all(map(_is_encodable, fields.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_encodable, cast("list[Any]", value)))
    return not isinstance(value, float) or math.isfinite(value)


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return clean_text(value)
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {_cleaned(key): _cleaned(item) for key, item in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [_cleaned(item) for item in cast("list[Any]", value)]
        case _:
            return value
