"""Values of the user's variables in a prompt: ``{expression}`` and ``$name``.

A prompt may hold text from elsewhere, so no expression is run in the kernel: ``evaluation`` looks its value up, or it
is computed in a confined copy of the kernel, from which its text alone comes back. The text is scanned once, from left
to right. Code in backticks, formulas and LaTeX groups are skipped; so the work is linear in the length of the text,
whatever signs it holds.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from indus_nb.base import textcut
from indus_nb.kernel.values.describe import MAX_TEXT_CHARACTERS
from indus_nb.kernel.values.evaluation import NotHeldError, can_format, evaluate

_MAX_EXPRESSION_CHARACTERS = 300
_MAX_MARKS = 32  # braces and strings within it
_SHELLS_OWN = ("In", "Out", "exit", "quit", "open", "get_ipython")
_SIGN = re.compile(
    r"""
      ^[ \t]*(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})
    | (?P<code>`+)
    | (?P<formula>\$\$[^$]+\$\$(?![\w$]) | \$(?=[^\s$])[^$\n]*(?<=[^\s\\])\$(?![\w$]))
    | (?P<group>\\[A-Za-z]+\*? | [$^](?=\{))
    | (?P<escaped>\\[^\n])
    | (?<![\w$])(?P<dollars>\$\$?)(?P<name>[^\W\d]\w*+)(?!\$)
    | (?P<braces>\{+)
    """,
    re.MULTILINE | re.VERBOSE,
)
_CODE_MARK = re.compile(r"^[ \t]*(?:`{3,}[^`\n]*|~{3,}.*)$|\n[ \t]*\n|(?P<code>`+)", re.MULTILINE)
_INSIDE = re.compile(r"'(?:[^'\\\n]|\\.)*+'|\"(?:[^\"\\\n]|\\.)*+\"|[{}\n]")
_FORMATTED = re.compile(
    r"""
    (?P<source>.+?)(?:!(?P<conversion>[rsa]))?
    (?::(?P<spec>(?=[^\s])(?:
        (?:.?[<>=^])?[-+\ ]?z?\#?0?\d{0,3}[_,]?(?:\.\d{1,3})?[bcdeEfFgGnosxX%]? | [^{}]*%[A-Za-z][^{}]*
    )))?
    """,
    re.VERBOSE,
)
_CONVERSIONS: Mapping[str, Callable[[object], str]] = {"r": repr, "s": str, "a": ascii}
_REFUSED = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
_MAX_VALUES = 500
_MAX_VALUES_CHARACTERS = 1_000_000
_TO_COMPUTE = "it has to be computed"
_TOO_MUCH = "there are too many values in this prompt"


@dataclass(frozen=True, slots=True)
class Interpolated:
    """A prompt with values filled in.

    Attributes:
        missing: The expressions in braces that stayed because they name something that is not defined.
        kept: Other placeholders that stayed, as written, and why.
        to_compute: Those of them whose values no object holds.
    """

    text: str
    missing: list[str]
    kept: dict[str, str]
    to_compute: list[str]


class Computed(NamedTuple):
    """Value of an expression that was computed in a copy of the kernel, as text; or why there is none.

    Attributes:
        is_late: Whether there is none for lack of time alone, so that another try may have one.
    """

    text: str = ""
    problem: str = ""
    is_late: bool = False


NONE: Mapping[str, Computed] = {}


class _Expression(NamedTuple):
    tree: ast.expr
    names: set[str]
    conversion: str | None
    spec: str | None


class _Place(NamedTuple):
    """Position of a placeholder in a prompt, and the expression for it.

    ``end`` is where it ends, ``source`` how it is written; ``literal`` is what takes its place whatever the value,
    ``missing`` whether it names what is not defined.
    """

    start: int
    end: int
    source: str
    expression: _Expression | None = None
    literal: str | None = None
    missing: bool = False


def interpolate(
    text: str,
    namespace: Mapping[str, Any],
    render: Callable[[object], str],
    computed: Mapping[str, Computed] = NONE,
    *,
    put: Callable[[str, str], str] = lambda _, value: value,
) -> Interpolated:
    r"""Put the values of variables that a prompt names into it.

    ``{expression}`` stands for a value when it stands on one line without blanks at its ends, is a Python expression
    that names something in ``namespace`` and nothing that is not defined; ``!r`` and a format behind ``:`` are those of
    an f-string. What fails, or has to be computed and is not in ``computed``, stays as it was typed. ``$name`` stands
    for the value of a variable, unless it is a part of a word or of a formula:

    >>> values = {"x": [2], "price": 2.5, "name": "Ada"}
    >>> interpolate("$name pays {price:.2f} for {x[0]}, not {this} or {'x': 1}", values, repr)
    Interpolated(text="Ada pays 2.50 for 2, not {this} or {'x': 1}", missing=['this'], kept={}, to_compute=[])

    ``{{x}}`` and ``$$x`` become ``{x}`` and ``$x``. Code in backticks, ``${x}`` and LaTeX stay as they are:

    >>> interpolate(r"`{x}` {{x}} $$x ${x} $x + y$ \frac{x}{x} x^{x} \{x}", values, repr).text
    '`{x}` {x} $x ${x} $x + y$ \\frac{x}{x} x^{x} \\{x}'

    Args:
        render: Writes a value that is not a string.
        computed: Values that a copy of the kernel has computed, by their placeholders.
        put: Given a placeholder and its value as text, returns what takes its place.

    Returns:
        The prompt to send, and what stayed as it was typed.
    """
    pieces: list[str] = []
    missing: dict[str, None] = {}
    kept: dict[str, str] = {}
    to_compute: list[str] = []
    copied = count = characters = 0
    for place in _places(text, namespace):
        value = place.literal
        if place.missing:
            missing[place.source[1:-1]] = None
        elif place.expression is not None and place.source not in kept:
            count += 1
            if count > _MAX_VALUES or characters > _MAX_VALUES_CHARACTERS:
                kept[place.source] = _TOO_MUCH
                continue
            try:
                value = _looked_up(place.expression, namespace, render)
            except NotHeldError:
                if (found := computed.get(place.source)) is None:
                    to_compute.append(place.source)
                    kept[place.source] = _TO_COMPUTE
                elif found.problem:
                    kept[place.source] = found.problem
                else:
                    value = found.text
            except Exception as error:  # noqa: BLE001 - whatever an operation on the user's data raises
                kept[place.source] = f"{type(error).__name__}: {textcut.one_line(str(error), 200)}"
        if value is not None:
            characters += len(value)
            pieces += text[copied : place.start], put(place.source, value) if place.literal is None else value
            copied = place.end
    return Interpolated("".join((*pieces, text[copied:])), list(missing), kept, to_compute)


def named_values(text: str, namespace: Mapping[str, Any]) -> list[str]:
    """List the placeholders in a text, as written, each once.

    Returns:
        Expressions with their braces, and names with their dollar sign.
    """
    return list(dict.fromkeys(place.source for place in _places(text, namespace) if place.expression is not None))


def _places(text: str, namespace: Mapping[str, Any]) -> Iterator[_Place]:
    code_ends = _code_ends(text)
    at = 0
    while sign := _SIGN.search(text, at):
        at = sign.end()
        place: _Place | None = None
        match sign.lastgroup:
            case "fence":
                at = _fence_end(text, sign)
            case "code":
                at = code_ends.get(sign.start(), at)
            case "group":
                at = _group_end(text, at)
            case "name":
                place = _of_dollar(sign, namespace)
            case "braces":
                place = _of_braces(text, sign, namespace)
            case _:
                pass
        if place is not None:
            yield place
            at = place.end


def _of_dollar(sign: re.Match[str], namespace: Mapping[str, Any]) -> _Place | None:
    name = sign["name"]
    if name not in namespace or name.startswith("_") or name in _SHELLS_OWN:
        return None
    if sign["dollars"] == "$$":
        return _Place(sign.start(), sign.end(), sign[0], literal=f"${name}")
    return _Place(sign.start(), sign.end(), sign[0], _Expression(ast.Name(name, ast.Load()), {name}, None, None))


def _of_braces(text: str, sign: re.Match[str], namespace: Mapping[str, Any]) -> _Place | None:
    """Parse the expression behind the brace or braces, if there is one."""
    inside, count = sign.end(), len(sign["braces"])
    end = _closing(text, inside)
    if end is None or count > 2:
        return None
    source = text[inside:end]
    expression = _expression(source)
    if expression is None:
        return None
    undefined = {name for name in expression.names if name not in namespace and not hasattr(builtins, name)}
    known = not undefined and not expression.names.isdisjoint(namespace)
    if count == 2:
        closed = known and text.startswith("}}", end)
        return _Place(sign.start(), end + 2, f"{{{{{source}}}}}", literal=f"{{{source}}}") if closed else None
    if known:
        return _Place(sign.start(), end + 1, f"{{{source}}}", expression)
    # What is not replaced is read on within.
    return _Place(sign.start(), inside, f"{{{source}}}", missing=True) if undefined else None


def code_of(placeholder: str) -> str:
    """Return the expression of a placeholder, as code in a line."""
    expression = _expression(placeholder[1:-1])
    return "None" if expression is None else ast.unparse(expression.tree)


def written(placeholder: str, value: Any, render: Callable[[object], str]) -> str:
    """Write the value of a placeholder's expression as it stands in a prompt; may run code of the value's class."""
    expression = _expression(placeholder[1:-1])
    return "" if expression is None else _written(expression, value, render)


def _looked_up(expression: _Expression, namespace: Mapping[str, Any], render: Callable[[object], str]) -> str:
    value = evaluate(expression.tree, namespace)
    if (expression.conversion or expression.spec) and not can_format(value):
        raise NotHeldError
    return _written(expression, value, render)


def _written(expression: _Expression, value: Any, render: Callable[[object], str]) -> str:
    if expression.conversion is not None:
        value = _CONVERSIONS[expression.conversion](value)
    if expression.spec:
        value = format(value, expression.spec)
    # By its type: `isinstance` would ask the value, which may load something to answer.
    is_text = issubclass(type(value), str)
    shown = textcut.head(
        str.__str__(value) if is_text else render(value), MAX_TEXT_CHARACTERS, "… ({left} more characters)"
    )
    if isinstance(expression.tree, ast.Name) and not is_text and "\n" in shown:
        return f"{expression.tree.id} ({shown})"  # a description of the object, in which the sentence needs its name
    return shown


def _expression(source: str) -> _Expression | None:
    """Parse the inside of braces as an expression; ``None`` if the text is to be left alone."""
    conversion = spec = None
    tree = _parsed(source)
    if tree is None and (parts := _FORMATTED.fullmatch(source)):
        tree, conversion, spec = _parsed(parts["source"]), parts["conversion"], parts["spec"]
    if tree is None or isinstance(
        tree.body, ast.Tuple | ast.Starred
    ):  # several values are a set, or the bounds of {2,3}
        return None
    nodes = list(ast.walk(tree))
    if any(isinstance(node, _REFUSED) for node in nodes):
        return None
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    own = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return _Expression(tree.body, used - own, conversion, spec) if used - own else None


def _parsed(source: str) -> ast.Expression | None:
    if source != source.strip():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of text that may be no code at all
        try:
            return ast.parse(source, mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _closing(text: str, start: int) -> int | None:
    """Find the closing brace for the one in front of ``start``, if it is near and on the same line."""
    depth = 0
    for mark in islice(_INSIDE.finditer(text, start, start + _MAX_EXPRESSION_CHARACTERS), _MAX_MARKS):
        if mark[0] == "\n":
            return None
        if mark[0] == "{":
            depth += 1
        elif mark[0] == "}":
            if depth == 0:
                return mark.start()
            depth -= 1
    return None


def _group_end(text: str, at: int) -> int:
    """Find the end of the arguments in braces and brackets at ``at``; ``at`` itself if there are none."""
    while at < len(text) and text[at] in "{[":
        if text[at] == "{":
            end = _closing(text, at + 1)
        else:
            found = text.find("]", at, at + _MAX_EXPRESSION_CHARACTERS)
            end = found if found >= 0 else None
        if end is None:
            break
        at = end + 1
    return at


def _fence_end(text: str, sign: re.Match[str]) -> int:
    mark = sign["fence"]
    closing = re.compile(rf"^[ \t]*{mark[0]}{{{len(mark)},}}[ \t]*$", re.MULTILINE).search(text, sign.end())
    return closing.end() if closing else len(text)


def _code_ends(text: str) -> dict[int, int]:
    """Map the start of each run of backticks that begins inline code to where that code ends."""
    ends: dict[int, int] = {}
    later: dict[str, int] = {}
    for mark in reversed(list(_CODE_MARK.finditer(text))):
        run = mark["code"]
        if run is None:  # where a paragraph ends
            later.clear()
            continue
        if run in later:
            ends[mark.start()] = later[run]
        later[run] = mark.end()
    return ends
