"""JSON files that a user writes by hand: comments and trailing commas are allowed."""

from __future__ import annotations

from typing import Any, cast

from indus_nb.base.wire import from_json


def read_object(text: bytes) -> dict[str, Any]:
    """Parse the JSON object in ``text``.

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
