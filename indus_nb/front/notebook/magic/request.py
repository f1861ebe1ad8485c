"""A line or cell of ``%agent``, parsed into a `Request`: options, and a prompt or a sub-command."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from keyword import iskeyword
from typing import Any

from indus_nb.base.errors import UsageError
from indus_nb.base.mistyped import near
from indus_nb.front.notebook.magic.options import (
    COMMANDS,
    MAP_OPTIONS,
    OPTION,
    OPTION_NAMES,
    OPTIONS,
    VALUE,
    Kind,
    Option,
    Subcommand,
    find_map_option,
    find_option,
)

_MAP = re.compile(r"\s*map(?=\s|$)")
_HELP = re.compile(r"\s*(?P<name>[a-z]+)\s+(?:--help|-h)\s*")
_OVER = re.compile(r"\s*(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)')\s+over\s+(?P<data>.+)", re.DOTALL)
_OVER_BELOW = re.compile(r"\s*over\s+(?P<data>.+)", re.DOTALL)
_UNQUOTED = re.compile(r"\s*(?![\"'\s])[^{]{0,2000}\{\w[^{}]{0,200}\}")
_OVER_DATA = re.compile(r"\sover\s+")
_MAX_BEHIND_COLUMN = 2000
_PROSE = (ast.Tuple, ast.BinOp, ast.Constant)
"""What words may be by accident, such as ``2020-2024, it is odd``."""
_WITHOUT_OVER = re.compile(r"\s*(\"[^\"]*\"|'[^']*')(?!\s+over\s)")
_COLUMN = re.compile(r"\{\w[^{}]*\}")
_MAX_NAME_WORDS = 4
_OF_STATE = re.compile(r"/?state\s+(save|back|diff|drop)\s+(.+)")
_EITHER = ("output", "result", "max_cost", "max_turns", "timeout")
"""The options of a prompt that stand in front of ``map`` or behind it."""
_CHOOSES = (
    "provider",
    "model",
    "thinking",
    "new",
    "continue_last",
    "session",
    "no_session",
    "name",
    "trust",
    "approve",
)
"""Options in front of ``map`` that hold for the conversation, whose model answers."""
_SHORT_ID = re.compile(r"(?=.*\d)[0-9a-f]{2,7}")


@dataclass(frozen=True, slots=True)
class Command:
    """A sub-command and its argument, without quotes; empty for none.

    ``slashed`` is its text if it was written as `/name`, which a command of the session may mean as well.
    """

    name: str
    argument: str = ""
    slashed: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """Arguments of ``%agent map``.

    Attributes:
        question: The prompt, in which ``{column}`` stands for a value of the row.
        result: The type of the answers, as an expression; ``None`` for texts.
        options: The other options of ``agent.map``, by their names.
    """

    question: str
    data: str
    output: str
    result: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Request:
    """A parsed line or cell: options, and a prompt or a sub-command.

    Attributes:
        text: The prompt; it may be empty.
        max_cost: In US dollars, above zero.
        max_turns: How many answers the model may give.
        values: Whether to put values of variables into the lines of a cell, too.
        rows: The arguments of ``map``, instead of a prompt.
        doubt: What to say if the prompt is no answer to a question: it probably is a sub-command with a typo.
        may_be_command: Whether it was typed where a command could be.
    """

    text: str = ""
    doubt: str = field(default="", compare=False)
    may_be_command: bool = field(default=False, compare=False)
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
    trust: bool | None = None
    sandbox: str | None = None
    cells: bool | None = None
    plan: bool = False
    check: str | None = None
    images: tuple[str, ...] = ()
    wait: bool = True
    max_cost: float | None = None
    max_turns: int | None = None
    timeout: float | None = None
    output: str | None = None
    result: str | None = None
    values: bool = False
    command: Command | None = None
    rows: Rows | None = None

    @property
    def empty(self) -> bool:
        """Return whether there is neither an option, a prompt nor a sub-command."""
        return self == Request()


def parse(line: str, cell: str | None = None) -> Request:
    """Parse the line behind ``%agent``, or that line and the lines below ``%%agent``.

    >>> request = parse('--model "opus 4.6" --new  say "$HOME"  --twice')
    >>> request.model, request.new, request.text
    ('opus 4.6', True, 'say "$HOME"  --twice')

    A line may hold a sub-command instead of a prompt:

    >>> parse("model sonnet").command, parse("model the sales").command, parse("-- compact").text
    (Command(name='model', argument='sonnet', slashed=''), None, 'compact')

    Args:
        cell: The lines below it; ``None`` for a line magic, which alone may hold a sub-command.

    Returns:
        The options, and a sub-command or the text of a prompt.

    Raises:
        UsageError: An option is unknown, lacks its value or has a wrong one, two exclude each other, or the line looks
            like a sub-command with a mistake in it.
    """
    given, rest, ended = _options(line, find_option, OPTION_NAMES)
    chosen = [option.usage.partition(" ")[0] for option in OPTIONS if option.starts_session and option.field in given]
    if len(chosen) > 1 and chosen != ["--new", "--no-session"]:
        raise UsageError(f"{' and '.join(chosen)} exclude each other: choose one conversation.")
    if not ended and cell is None and (asked := _HELP.fullmatch(rest)) and asked["name"] in COMMANDS:
        return Request(command=Command("map" if asked["name"] == "map" else "help"))
    if not ended and (mapped := _MAP.match(rest)):
        rows = _rows(rest[mapped.end() :], cell, given)
        if rows is not None:
            return rows
    may_be_command = cell is None and not ended
    text = rest.strip() if cell is None else f"{rest.strip()}\n{cell}".strip("\n")
    command = _command(text) if may_be_command else None
    for name in [name for name, declared in COMMANDS.items() if declared.as_option and given.pop(name, False)]:
        if text.strip():
            raise UsageError(f"--{name} goes with no prompt. Ask in a line of its own.")
        command = Command(name)
    if may_be_command and command is None and text:
        return replace(Request(text, _doubt(text), may_be_command=True), **given)
    return replace(Request(text="" if command else text, command=command), **given)


def _options(line: str, find: Callable[[str], Option | None], names: Sequence[str]) -> tuple[dict[str, Any], str, bool]:
    """Return the options at the start of a line, the rest, and whether ``--`` ended the options."""
    given: dict[str, Any] = {}
    rest = line
    while option := OPTION.match(rest):
        rest = rest[option.end() :]
        name = option["short"] or option["name"]
        if name is None:
            return given, rest, True
        shown = f"-{'' if option['short'] else '-'}{name}"
        known = find(name)
        if known is None:
            raise UsageError(_unknown(name, names))
        if not known.value:
            if rest.startswith("="):
                raise UsageError(f"{shown} takes no value. `%agent help` shows the options.")
            given[known.field] = known.sets
            continue
        value = VALUE.match(rest)
        if value is None:
            raise UsageError(f"{shown} needs a value: {shown} VALUE. `%agent help` shows the options.")
        text = value["double"] or value["single"] or value["bare"] or ""
        checked = _checked(known, shown, text)
        given[known.field] = (*given.get(known.field, ()), checked) if known.kind is Kind.IMAGE else checked
        rest = rest[value.end() :]
    return given, rest, False


def _rows(line: str, cell: str | None, before: Mapping[str, Any]) -> Request | None:
    """Parse the arguments of ``map``, or return ``None`` for a prompt that begins with that word.

    >>> parse('map -o kinds "What is {text}?" over df').rows
    Rows(question='What is {text}?', data='df', output='kinds', result=None, options={})
    >>> parse("map the sales over the years").text
    'map the sales over the years'
    """
    given, rest, _ = _options(line, find_map_option, [option.name for option in MAP_OPTIONS])
    written = (_OVER_BELOW if cell is not None else _OVER).fullmatch(rest)
    if written is None or _expression(written["data"]) is None:
        if cell is None and _is_unquoted_map(rest):
            raise UsageError(
                '`%agent map` takes the question in quotes: `%agent map -o NAME "QUESTION" over DATA`. '
                f"Nothing was sent. To say just that to the agent: `%agent -- map{line}`."
            )
        if cell is None and (asked := _WITHOUT_OVER.match(rest)) and _COLUMN.search(asked[1]):
            raise UsageError(_unsent(f"`over` is missing: `%agent map -o NAME {asked[1]} over DATA`.", f"map{line}"))
        if not given:
            return None
        behind = "over DATA, and the question in the lines below" if cell is not None else '"QUESTION" over DATA'
        raise UsageError(f"Behind the options of `map` comes {behind}. `%agent map` shows how.")
    question = (written["double"] or written["single"] or "") if cell is None else cell.strip("\n")
    given = {**{name: before[name] for name in _EITHER if name in before}, **given}
    if left := [field for field in before if field not in (*_EITHER, *_CHOOSES)]:
        name = next(option.name for option in OPTIONS if option.field == left[0])
        raise UsageError(f"`%agent map` cannot do with --{name}. `%agent map` shows its options.")
    output = given.pop("output", None)
    if output is None:
        raise UsageError("`%agent map` needs a variable for the answers, which are paid for: -o NAME.")
    rows = Rows(question, written["data"].strip(), output, given.pop("result", None), given)
    return replace(Request(rows=rows), **{name: before[name] for name in _CHOOSES if name in before})


def _is_unquoted_map(rest: str) -> bool:
    """Return whether arguments of ``map`` are a question without quotes that names a column, and DATA."""
    if (asked := _UNQUOTED.match(rest)) is None:
        return False
    overs = _OVER_DATA.finditer(rest, asked.end(), asked.end() + _MAX_BEHIND_COLUMN)
    found = (_expression(rest[over.end() :]) for over in overs)
    return any(each is not None and not isinstance(each, _PROSE) for each in found)


def _expression(text: str) -> ast.expr | None:
    """Return what a text is as an expression of Python; ``None`` if it is none."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _checked(option: Option, shown: str, text: str) -> str | float:
    """Validate and convert an option's value; raises ``UsageError`` if it is not of its kind."""
    match option.kind:
        case Kind.CHOICE if text not in option.choices:
            raise UsageError(f"{shown} {text}: choose {_either(option.choices)}.")
        case Kind.NAME if not text.strip():
            raise UsageError(f"{shown} needs a name that is not empty.")
        case Kind.VARIABLE if not text.isidentifier() or iskeyword(text):
            raise UsageError(f"{shown} {text}: that is no name of a variable. Choose one such as `answer`.")
        case Kind.DOLLARS:
            return _dollars(shown, text)
        case Kind.NUMBER:
            return _number(shown, text)
        case _:
            return text


def _number(shown: str, text: str) -> float:
    amount = _above_zero(text)
    if amount is None:
        raise UsageError(f"{shown} {text}: give a number above zero.")
    return int(amount) if amount.is_integer() else amount


def _above_zero(text: str) -> float | None:
    try:
        amount = float(text)
    except ValueError:
        return None
    return amount if 0 < amount < math.inf else None


def _dollars(shown: str, text: str) -> float:
    amount = _above_zero(text.removeprefix("$"))
    if amount is None:
        raise UsageError(f"{shown} {text}: give an amount of US dollars above zero, such as 0.50.")
    return amount


def _either(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"


def _command(text: str) -> Command | None:
    if text in ("-h", "?"):
        return Command("help")
    written, *following = text.split(maxsplit=1)[:2] or ("",)
    name = written.removeprefix("/")
    argument = COMMANDS[name].argument(following[0] if following else "") if name in COMMANDS else None
    if argument is None:
        _check_for_mistakes(text)
        return None
    return Command(name, argument, text if written != name else "")


def _check_for_mistakes(text: str) -> None:
    """Reject what is no sentence to a model: an option with one dash, or the id of an entry that is too short."""
    words = text.split()
    if not 0 < len(words) <= 2:
        return
    first = words[0]
    if first.startswith("-") and find_option(first.lstrip("-")) is not None:
        hint = f"Options begin with two dashes: --{first.lstrip('-')}."
    elif len(words) == 2 and first in ("tree", "fork") and _SHORT_ID.fullmatch(words[1]):
        hint = f"An entry's id has at least eight characters: `%agent {first}` lists them."
    else:
        return
    raise UsageError(_unsent(hint, text))


def _doubt(text: str) -> str:
    """Return what to say if a prompt probably is a sub-command with a typo; empty for no doubt.

    That is one of a word or two; or of more, if with another first or second word it would be an action with a name.
    """
    words = text.split()
    if not words or not words[0].isalpha() or not words[0].islower():
        return ""
    first, *behind = words
    if len(words) > 2:
        meant = _meant_actions(*text.split(maxsplit=2)) or _meant_name(*text.split(maxsplit=2))
    elif first in COMMANDS:
        meant = [f"{first} {word}" for word in near(behind[0], _words_of(COMMANDS[first]))] if behind else []
        if behind == ["list"] and not meant:
            takes = f"takes {COMMANDS[first].usage}" if COMMANDS[first].usage else "takes nothing"
            return _unsent(f"`%agent {first}` {takes}, and no `{behind[0]}`.", text)
    elif words == ["list"]:
        meant = [f"{name} {first}" for name, each in COMMANDS.items() if first in each.choices]
    else:
        names = [name for name in near(first, COMMANDS) if COMMANDS[name].argument(" ".join(behind)) is not None]
        meant = [" ".join([name, *behind]) for name in names]
    return _unsent(f"Did you mean `%agent {meant[0]}`?", text) if meant else ""


def _meant_actions(first: str, action: str, behind: str) -> list[str]:
    """Return the sub-commands with an action, such as ``state back NAME``, of which one word was mistyped.

    >>> _meant_actions("state", "bakc", "raw"), _meant_actions("state", "bakc", "to what it was")
    (['state back raw'], [])
    """
    named = [(first, word) for word in near(action, COMMANDS[first].choices)] if first in COMMANDS else []
    named += [(name, action) for name in near(first, COMMANDS) if action in COMMANDS[name].choices]
    return [
        f"{name} {word} {behind}" for name, word in named if COMMANDS[name].argument(f"{word} {behind}") is not None
    ]


def _meant_name(first: str, action: str, behind: str) -> list[str]:
    """Return the sub-command whose new name of a few words lacks its quotes; more are a sentence.

    Other actions than saving want a name that exists, for which there is `unquoted_state`.

    >>> _meant_name("state", "save", "two words"), _meant_name("state", "back", "to the start")
    (['state save "two words"'], [])
    """
    if action != "save" or len(behind.split()) > _MAX_NAME_WORDS:
        return []
    quoted = f'{action} "{behind}"'
    is_one = first in COMMANDS and action in COMMANDS[first].choices and COMMANDS[first].argument(quoted) is not None
    return [f"{first} {quoted}"] if is_one else []


def unquoted_state(request: Request, states: Callable[[], Collection[str]]) -> str:
    """Return what to say if a prompt is a sub-command with the name of a state that lacks its quotes; else nothing.

    >>> unquoted_state(parse("state back two words over"), lambda: ["two words"]).partition("?")[0]
    'Did you mean `%agent state back "two words" over`'

    Args:
        states: Returns the names that there are.
    """
    found = _OF_STATE.fullmatch(request.text) if request.may_be_command else None
    if found is None:
        return ""
    words, known = found[2].split(), states()
    for count in (len(words), len(words) - 1):  # the last one may be `over` and the like
        name = " ".join(words[:count])
        meant = " ".join([found[1], f'"{name}"', *words[count:]])
        if name in known and COMMANDS["state"].argument(meant) is not None:
            return _unsent(f"Did you mean `%agent state {meant}`?", request.text)
    return ""


def _unsent(hint: str, text: str) -> str:
    return f"{hint} Nothing was sent. To say just that to the agent: `%agent -- {text}`."


def _words_of(command: Subcommand) -> Sequence[str]:
    """Return the words that may follow a sub-command."""
    return [*command.choices, *re.findall(r"[a-z]{3,}", command.usage)]


def _unknown(name: str, names: Sequence[str]) -> str:
    near = get_close_matches(name, names, n=1)
    hint = f" Did you mean --{near[0]}?" if near else ""
    return (
        f"There is no option --{name}.{hint} `%agent help` shows all of them. "
        "A prompt that begins with dashes goes behind `-- `."
    )
