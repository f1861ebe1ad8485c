"""Values of the user's variables in a prompt: ``{expression}`` and ``$name``.

The text is scanned once, from left to right. Code in backticks, formulas and LaTeX groups are skipped; so the work is
linear in the length of the text, whatever signs it holds.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, cast

from indus_nb.errors import UsageError
from indus_nb.notebook.kernel.effects import touched

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
        (?:.?[<>=^])?[-+\ ]?z?\#?0?\d*[_,]?(?:\.\d+)?[bcdeEfFgGnosxX%]? | [^{}]*%[A-Za-z][^{}]*
    )))?
    """,
    re.VERBOSE,
)
_CONVERSIONS: Mapping[str, Callable[[object], str]] = {"r": repr, "s": str, "a": ascii}
_REFUSED = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


@dataclass(frozen=True, slots=True)
class Interpolated:
    """A prompt with values put in.

    Attributes:
        text: The prompt.
        missing: The expressions in braces that stayed because they name something that is not defined.
    """

    text: str
    missing: list[str]


class _Expression(NamedTuple):
    source: str
    tree: ast.Expression
    names: set[str]
    conversion: str | None
    spec: str | None


def interpolate(text: str, namespace: dict[str, Any], render: Callable[[object], str]) -> Interpolated:
    r"""Put the values of variables that a prompt names into it.

    ``{expression}`` stands for a value when it stands on one line without blanks at its ends, is a Python expression,
    and names something in ``namespace`` and nothing that is not defined; ``!r`` and a format behind ``:`` are those of
    an f-string. ``$name`` stands for the value of a variable, unless it is a part of a word or of a formula:

    >>> values = {"x": 2, "price": 2.5, "name": "Ada"}
    >>> interpolate("$name pays {price:.2f} for {x + 1}, not {this} or {'x': 1}", values, repr)
    Interpolated(text="Ada pays 2.50 for 3, not {this} or {'x': 1}", missing=['this'])

    ``{{x}}`` and ``$$x`` become ``{x}`` and ``$x``. Code in backticks, ``${x}`` and LaTeX stay as they are:

    >>> interpolate(r"`{x}` {{x}} $$x ${x} $x + y$ \frac{x}{x} x^{x} \{x}", values, repr).text
    '`{x}` {x} $x ${x} $x + y$ \\frac{x}{x} x^{x} \\{x}'

    Args:
        text: The prompt as it was typed.
        namespace: The user's variables.
        render: Writes a value that is not a string.

    Returns:
        The prompt to send.

    Raises:
        UsageError: An expression fails, or would change a variable; the message names it.
    """
    pieces: list[str] = []
    missing: dict[str, None] = {}
    code_ends = _code_ends(text)
    copied = at = 0
    while sign := _SIGN.search(text, at):
        at = sign.end()
        value: str | None = None
        match sign.lastgroup:
            case "fence":
                at = _fence_end(text, sign)
            case "code":
                at = code_ends.get(sign.start(), at)
            case "group":
                at = _group_end(text, at)
            case "name":
                value = _of_dollar(sign, namespace, render)
            case "braces":
                value, at = _of_braces(text, sign, namespace, render, missing)
            case _:
                pass
        if value is not None:
            pieces += text[copied : sign.start()], value
            copied = at
    return Interpolated("".join((*pieces, text[copied:])), list(missing))


def _of_dollar(sign: re.Match[str], namespace: dict[str, Any], render: Callable[[object], str]) -> str | None:
    name = sign["name"]
    if name not in namespace or name.startswith("_") or name in _SHELLS_OWN:
        return None
    if sign["dollars"] == "$$":
        return f"${name}"
    with _naming_errors(f"${name}", f"$${name}"):
        return _written(namespace[name], render)


def _of_braces(
    text: str,
    sign: re.Match[str],
    namespace: dict[str, Any],
    render: Callable[[object], str],
    missing: dict[str, None],
) -> tuple[str | None, int]:
    """The replacement of the expression behind the brace or braces, if there is one, and where the scan goes on."""
    inside, count = sign.end(), len(sign["braces"])
    end = _closing(text, inside)
    if end is None or count > 2:
        return None, inside
    source = text[inside:end]
    expression = _expression(source)
    if expression is None:
        return None, inside
    undefined = {name for name in expression.names if name not in namespace and not hasattr(builtins, name)}
    known = not undefined and not expression.names.isdisjoint(namespace)
    if count == 2:
        closed = known and text.startswith("}}", end)
        return (f"{{{source}}}", end + 2) if closed else (None, inside)
    if not known:
        if undefined:
            missing[source] = None
        return None, inside
    if (change := touched(expression.source, namespace).warning()) is not None:
        raise UsageError(
            f"{{{source}}} in the prompt: {change} Nothing was sent. "
            f"Do that in a cell, or write {{{{{source}}}}} to send it as it stands."
        )
    with _naming_errors(f"{{{source}}}", f"{{{{{source}}}}}"):
        value = eval(compile(expression.tree, "<prompt>", "eval"), namespace)  # noqa: S307 - the user's own code
        if expression.conversion is not None:
            value = _CONVERSIONS[expression.conversion](value)
        return (format(value, expression.spec) if expression.spec else _written(value, render)), end + 1


@contextmanager
def _naming_errors(where: str, literally: str) -> Generator[None]:
    """Raise an error of the user's code with its place in the prompt, and how to send that as it stands."""
    try:
        yield
    except Exception as error:
        raise UsageError(
            f"{where} in the prompt: {type(error).__name__}: {error}. Nothing was sent. "
            f"Correct it, or write {literally} to send it as it stands."
        ) from error


def _written(value: object, render: Callable[[object], str]) -> str:
    # By its type: `isinstance` would ask the value, which may load something to answer.
    return cast("str", value) if issubclass(type(value), str) else render(value)


def _expression(source: str) -> _Expression | None:
    """The expression in braces whose inside is ``source``; ``None`` when it is to be left alone."""
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
    return _Expression(source, tree, used - own, conversion, spec) if used - own else None


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
    """Where the brace closes that was opened in front of ``start``, if it does so soon and on the same line."""
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
    """Where the arguments in braces and brackets end that stand at ``at``, which is there when there are none."""
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
    """For each run of backticks that begins code within a paragraph, where that code ends."""
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
