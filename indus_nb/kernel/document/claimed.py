"""Values in the answers of a saved notebook, compared with those that they have in a fresh kernel.

An expression is text of a file, which others may have written and nobody sees. So it is never run as a cell is: the
fresh kernel looks it up in a confined copy of itself, as when the answer came.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from indus_nb.base.textcut import one_line
from indus_nb.base.wire import JsonObject

_MAX_CLAIMS = 100
"""Values of one cell that are looked up; more are not compared."""
_MAX_TEXT_CHARACTERS = 1_000
_MAX_SHOWN_CHARACTERS = 120
_LOOK = "__import__('indus_nb.front.notebook', fromlist=['notebook']).values_of_claims({})"

Evaluate = Callable[[str], Awaitable[str | None]]
"""Evaluates an expression of ours in a kernel; returns its value as Python writes it, ``None`` where it fails."""


class Claimed(NamedTuple):
    """A value in an answer, and its expression."""

    expression: str
    value: str


def claimed(outputs: Iterable[Mapping[str, Any]]) -> list[Claimed]:
    """Return the values in the outputs of a cell, by their metadata, which is untrusted."""
    found: list[Claimed] = []
    for output in outputs:
        ours = _object(_object(output.get("metadata")).get("indus_nb"))
        values: object = ours.get("values")
        for each in cast("list[object]", values) if isinstance(values, list) else ():
            match each:
                case {"expression": str(expression), "value": str(value)}:
                    if max(len(expression), len(value)) <= _MAX_TEXT_CHARACTERS:
                        found.append(Claimed(expression, value))
                case _:
                    pass
    return list(dict.fromkeys(found))[:_MAX_CLAIMS]


class Compared(NamedTuple):
    """A value in an answer, whether it could be computed now, and how it differs; empty where it is the same."""

    claim: Claimed
    is_computed: bool
    difference: str


async def compared_now(claims: Sequence[Claimed], evaluate: Evaluate) -> list[Compared]:
    """Compare values with those that their expressions have in a kernel now."""
    if not claims:
        return []
    expressions = json.dumps([each.expression for each in claims])
    pairs = _pairs(await evaluate(_LOOK.format(repr(expressions))))
    if len(pairs) != len(claims):
        pairs = [("", "the fresh kernel did not answer")] * len(claims)
    return [Compared(claim, not pair[1], _difference(claim, *pair)) for claim, pair in zip(claims, pairs, strict=True)]


def _difference(claim: Claimed, value: str, problem: str) -> str:
    if not problem and value == claim.value:
        return ""
    shown = one_line(claim.value, _MAX_SHOWN_CHARACTERS)
    return f"{shown} is {_now(value, problem)}: {one_line(claim.expression, _MAX_SHOWN_CHARACTERS)}"


def _now(value: str, problem: str) -> str:
    return f"not computed ({problem})" if problem else one_line(value, _MAX_SHOWN_CHARACTERS)


def _pairs(answer: str | None) -> list[tuple[str, str]]:
    """Read what a kernel has answered: the text of a list of pairs, as Python writes a text."""
    try:
        listed = json.loads(ast.literal_eval(answer or ""))
    except (SyntaxError, ValueError, TypeError):
        return []
    pairs = cast("list[object]", listed) if isinstance(listed, list) else []
    return [(str(pair[0]), str(pair[1])) for pair in map(_texts, pairs) if len(pair) == 2]


def _texts(pair: object) -> list[object]:
    return cast("list[object]", pair) if isinstance(pair, list) else []


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
