"""What a user types behind ``%agent``: options, a prompt with values put into it, or a sub-command."""

from __future__ import annotations

import ast
import builtins
import math
import re
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from keyword import iskeyword
from typing import Any, NamedTuple, cast

from indus_nb.errors import UsageError
from indus_nb.notebook.kernel.effects import touched
from indus_nb.start import THINKING_LEVELS

HELP = """\
%agent [options] PROMPT     ask the agent
%%agent [options]           the same, with the prompt in the lines below
%agent [options]            set the conversation up

--provider NAME     anthropic, openai, google …, or offline (needs neither key nor network)
--model NAME        an id or a part of a name, such as sonnet
--thinking LEVEL    off, minimal, low, medium, high or xhigh
--new               start a new conversation with the model and tools of the one before
--continue          go on with the last conversation in this folder
--session ID        go on with that conversation: a path, or the beginning of an id
--no-session        start a conversation that is not saved
--name NAME         talk to the conversation of that name, or start it; the first is called main
--tools NAMES       its tools from the start, such as read,grep,ls; "" for none
--approve WHEN      ask before: writes (as usual), always, or never
--image FILE        show the model an image, or the one in a variable; may be repeated
-o NAME             put the answer's text into the variable NAME (also --output)
--max-cost USD      stop when this cell has cost so many US dollars
--no-wait           let the agent work on while other cells run

In a prompt {expression} and $name stand for values of your variables: {df.shape}, {mean:.2f}, $df.
What names no variable of yours stays as it is, and so do code in `…` or ```…``` and formulas in $…$.
{{name}} and $$name are sent as {name} and $name.

Commands, in a line of their own:

%agent model [NAME]         the models that can be used; or talk to another one
%agent thinking [LEVEL]     how much it thinks
%agent compact [-- TEXT]    put a summary in the place of the older part; TEXT says what matters
%agent fork [ENTRY]         your messages; or go on before one of them, in a new conversation
%agent tree [ENTRY]         the conversation with its branches; or go on from another entry
%agent sessions [WORD]      the conversations of this folder, or those with a word in them
%agent stats                messages, tokens and cost
%agent export [FILE]        write the conversation to FILE.html or FILE.jsonl
%agent abort                stop what goes on
%agent steer TEXT           say something to the agent while it works
%agent queue [clear]        what waits to be said to it; or take it back
%agent panel                the conversation as a chat
%agent cell                 what the agent ran last in your kernel, as a cell of yours
%agent doctor               what is set up, and what is wrong with it
%agent help                 this text

It is a command only if nothing else stands in the line: `%agent model the sales` is a prompt.
`--` ends the options and makes a prompt of what follows: `%agent -- compact`.
The conversation goes on from cell to cell. Interrupt the cell to stop the agent."""

OPTION = re.compile(r"\s*(?:--(?P<name>[A-Za-z][\w-]*)?|-(?P<short>o))(?=[\s=]|$)")
"""An option in front of what follows; without a name the ``--`` that ends the options."""
VALUE = re.compile(r"(?:=|\s+)(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>(?!--)\S+))(?=\s|$)")
FLAGS: Mapping[str, tuple[str, bool]] = {
    "new": ("new", True),
    "continue": ("continue_last", True),
    "no-session": ("no_session", True),
    "no-wait": ("wait", False),
    "doctor": ("doctor", True),
    "help": ("help", True),
}
"""The options without a value: the field that each sets, and to what."""
VALUES: Mapping[str, str] = {
    **{name: name for name in ("provider", "model", "thinking", "session", "name", "tools", "approve")},
    "image": "images",
    "max-cost": "max_cost",
    "output": "output",
    "o": "output",
}
"""The options with a value: the field that each sets."""
APPROVE = ("never", "writes", "always")
_ENTRY = r"(?P<argument>[0-9a-f][0-9a-f-]{7,})?"
_NOTHING = r""
_WORD = r"(?P<argument>\S+)?"
COMMANDS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(what, re.DOTALL)
    for name, what in {
        "model": _WORD,
        "thinking": rf"(?P<argument>{'|'.join(THINKING_LEVELS)})?",
        "compact": r"(?:--(?:\s+(?P<argument>.+))?)?",
        "fork": _ENTRY,
        "tree": _ENTRY,
        "sessions": _WORD,
        "stats": _NOTHING,
        "export": r"(?P<quote>[\"'])?(?P<argument>(?(quote).+|\S+)\.(?:html|jsonl))?(?(quote)(?P=quote))",
        "abort": _NOTHING,
        "steer": r"(?P<argument>.*)",
        "queue": r"(?P<argument>clear)?",
        "panel": _NOTHING,
        "cell": _NOTHING,
        "doctor": _NOTHING,
        "help": _NOTHING,
    }.items()
}
"""The sub-commands, and what may follow each for it to be one."""

_SHORT_ID = re.compile(r"(?=.*\d)[0-9a-f]{2,7}")
_AGENT_LINE = re.compile(r"^(?P<indent>[ \t]*)%agent[ \t]+(?P<text>[^\n]*[^\n\\])(?P<end>\n?)$")


@dataclass(frozen=True, slots=True)
class Command:
    """A sub-command and what stands behind its name, without quotes; empty for nothing."""

    name: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """What a line or cell asks for: options, and a prompt, which may be empty, or a sub-command.

    ``images`` are paths or names of variables. ``output`` is an identifier, ``max_cost`` in US dollars and above zero.
    """

    text: str = ""
    provider: str | None = None
    model: str | None = None
    thinking: str | None = None
    new: bool = False
    continue_last: bool = False
    session: str | None = None
    no_session: bool = False
    name: str | None = None
    tools: str | None = None
    approve: str | None = None
    images: tuple[str, ...] = ()
    wait: bool = True
    max_cost: float | None = None
    output: str | None = None
    command: Command | None = None

    @property
    def empty(self) -> bool:
        """Whether it asks for nothing at all."""
        return self == Request()


def literal_lines(lines: list[str]) -> list[str]:
    r"""The lines of a cell, those that begin with ``%agent`` made into calls that Python and IPython cannot misread.

    Otherwise a question mark at the end would ask for help on the last word, and a bracket or quote that is not closed
    would swallow the lines below.

    >>> literal_lines(["%agent isn't it (odd?\n"])
    ['get_ipython().run_line_magic(\'agent\', "isn\'t it (odd?")\n']

    A cell with triple quotes is left to IPython: the line may stand within a string.
    """
    text = "".join(lines)
    if "%agent" not in text or '"""' in text or "'''" in text or text.lstrip().startswith("%%"):
        return lines
    return [_AGENT_LINE.sub(_as_call, line) for line in lines]


def _as_call(match: re.Match[str]) -> str:
    return f"{match['indent']}get_ipython().run_line_magic('agent', {match['text'].strip()!r}){match['end']}"


def parse(line: str, cell: str | None = None) -> Request:
    """The request in the line behind ``%agent``, or in that line and the lines below ``%%agent``.

    >>> request = parse('--model "opus 4.6" --new  say "$HOME"  --twice')
    >>> request.model, request.new, request.text
    ('opus 4.6', True, 'say "$HOME"  --twice')

    A line may hold a sub-command in the place of a prompt:

    >>> parse("model sonnet").command, parse("model the sales").command, parse("-- compact").text
    (Command(name='model', argument='sonnet'), None, 'compact')

    Raises ``UsageError`` for options that are unknown, lack their value, or exclude each other, and for a line that
    looks like a sub-command with a mistake in it.
    """
    given: dict[str, Any] = {}
    rest = line
    may_be_command = cell is None
    while option := OPTION.match(rest):
        rest = rest[option.end() :]
        name = option["short"] or option["name"]
        if name is None:
            may_be_command = False
            break
        shown = f"-{'' if option['short'] else '-'}{name}"
        if name in FLAGS:
            if rest.startswith("="):
                raise UsageError(f"{shown} takes no value. `%agent help` shows the options.")
            field, setting = FLAGS[name]
            given[field] = setting
        elif name in VALUES:
            value = VALUE.match(rest)
            if value is None:
                raise UsageError(f"{shown} needs a value: {shown} VALUE. `%agent help` shows the options.")
            text = value["double"] or value["single"] or value["bare"] or ""
            _take(given, VALUES[name], text)
            rest = rest[value.end() :]
        else:
            raise UsageError(_unknown(name))
    text = rest.strip() if cell is None else f"{rest.strip()}\n{cell}".strip("\n")
    command = _command(text) if may_be_command else None
    for alone in ("doctor", "help"):
        if given.pop(alone, False):
            if text.strip():
                raise UsageError(f"--{alone} goes with no prompt. Ask in a line of its own.")
            command = Command(alone)
    request = replace(Request(text="" if command else text, command=command), **given)
    _check(request)
    return request


def _take(given: dict[str, Any], field: str, text: str) -> None:
    match field:
        case "images":
            given[field] = (*given.get(field, ()), text)
        case "max_cost":
            given[field] = _dollars(text)
        case "output":
            if not text.isidentifier() or iskeyword(text):
                raise UsageError(f"-o {text}: that is no name of a variable. Choose one such as `answer`.")
            given[field] = text
        case _:
            given[field] = text


def _dollars(text: str) -> float:
    try:
        amount = float(text.removeprefix("$"))
    except ValueError:
        amount = math.nan
    if not 0 < amount < math.inf:
        raise UsageError(f"--max-cost {text}: give an amount of US dollars above zero, such as 0.50.")
    return amount


def _command(text: str) -> Command | None:
    if text in ("-h", "?"):
        return Command("help")
    name, *behind = text.split(maxsplit=1)[:2] or ("",)
    fits = COMMANDS[name].fullmatch(behind[0] if behind else "") if name in COMMANDS else None
    if fits is None:
        _check_for_mistakes(text)
        return None
    return Command(name, fits.groupdict().get("argument") or "")


def _check_for_mistakes(text: str) -> None:
    """Refuse what costs a request and was hardly meant for the model: a word or two that nearly are a command."""
    words = text.split()
    if not 0 < len(words) <= 2:
        return
    first = words[0]
    is_option = first.startswith("-") and first.lstrip("-") in (*VALUES, *FLAGS)
    misses = len(words) == 2 and first in ("tree", "fork") and _SHORT_ID.fullmatch(words[1])
    is_word = len(words) == 1 and first.isalpha() and first.islower()
    near = get_close_matches(first, COMMANDS, n=1, cutoff=0.9) if is_word else []
    if is_option:
        hint = f"Options begin with two dashes: --{first.lstrip('-')}."
    elif misses:
        hint = f"An entry's id has at least eight characters: `%agent {first}` lists them."
    elif near:
        hint = f"Did you mean `%agent {near[0]}`?"
    else:
        return
    raise UsageError(f"{hint} Nothing was sent. To say just that to the agent: `%agent -- {text}`.")


def _unknown(name: str) -> str:
    options = [name for name in (*VALUES, *FLAGS) if len(name) > 1]
    near = get_close_matches(name, options, n=1)
    hint = f" Did you mean --{near[0]}?" if near else ""
    known = ", ".join(f"--{option}" for option in options)
    return f"There is no option --{name}.{hint} Options: {known}. A prompt that begins with dashes goes behind `-- `."


def _check(request: Request) -> None:
    chosen = [
        name
        for name, is_chosen in (
            ("--new", request.new),
            ("--continue", request.continue_last),
            ("--session", request.session is not None),
            ("--no-session", request.no_session),
        )
        if is_chosen
    ]
    if len(chosen) > 1 and chosen != ["--new", "--no-session"]:
        raise UsageError(f"{' and '.join(chosen)} exclude each other: choose one conversation.")
    if request.approve not in (None, *APPROVE):
        raise UsageError(f"--approve {request.approve}: choose never, writes or always.")
    if request.thinking is not None and request.thinking not in THINKING_LEVELS:
        raise UsageError(f"Unknown thinking level: {request.thinking}. Choose one of {', '.join(THINKING_LEVELS)}.")
    if request.name is not None and not request.name.strip():
        raise UsageError("--name needs a name that is not empty.")


# Values in a prompt

_LONGEST_EXPRESSION = 300
_MOST_MARKS = 32  # braces and strings within it
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
    """A prompt with values put in, and the expressions in braces that stayed because they name what is not defined."""

    text: str
    missing: list[str]


class _Expression(NamedTuple):
    source: str
    tree: ast.Expression
    names: set[str]
    conversion: str | None
    spec: str | None


def interpolate(text: str, namespace: dict[str, Any], render: Callable[[object], str]) -> Interpolated:
    r"""``text`` with the values of the variables in ``namespace`` that it names; ``render`` writes what is no string.

    ``{expression}`` stands for a value when it stands on one line without blanks at its ends, is a Python expression,
    and names something in ``namespace`` and nothing that is not defined; ``!r`` and a format behind ``:`` are those of
    an f-string. ``$name`` stands for the value of a variable, unless it is a part of a word or of a formula:

    >>> values = {"x": 2, "price": 2.5, "name": "Ada"}
    >>> interpolate("$name pays {price:.2f} for {x + 1}, not {this} or {'x': 1}", values, repr)
    Interpolated(text="Ada pays 2.50 for 3, not {this} or {'x': 1}", missing=['this'])

    ``{{x}}`` and ``$$x`` become ``{x}`` and ``$x``. Code in backticks, ``${x}`` and LaTeX stay as they are:

    >>> interpolate(r"`{x}` {{x}} $$x ${x} $x + y$ \frac{x}{x} x^{x} \{x}", values, repr).text
    '`{x}` {x} $x ${x} $x + y$ \\frac{x}{x} x^{x} \\{x}'

    Raises ``UsageError``, which names the expression, when an evaluation fails, or would change a variable.
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
    """What replaces the expression behind the brace or braces, if anything does, and where the text goes on."""
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
    """Say where in the prompt the user's code failed, and how to send that as it stands."""
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
    for mark in islice(_INSIDE.finditer(text, start, start + _LONGEST_EXPRESSION), _MOST_MARKS):
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
            found = text.find("]", at, at + _LONGEST_EXPRESSION)
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
