"""A line or cell of ``%agent``, parsed into a `Request`: options, and a prompt or a sub-command."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from keyword import iskeyword
from typing import Any

from indus_nb.errors import UsageError
from indus_nb.notebook.magic.options import (
    COMMANDS,
    OPTION,
    OPTION_NAMES,
    OPTIONS,
    VALUE,
    Kind,
    Option,
    find_option,
)

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
class Request:
    """What a line or cell asks for: options, and a prompt or a sub-command.

    Attributes:
        text: The prompt; it may be empty.
        images: Paths or names of variables.
        max_cost: In US dollars, above zero.
        output: An identifier.
        result: The type of the answer, as an expression.
        values: Whether to put values of variables into the lines of a cell, too.
        command: The sub-command, in the place of a prompt.
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
    trust: bool | None = None
    sandbox: str | None = None
    images: tuple[str, ...] = ()
    wait: bool = True
    max_cost: float | None = None
    output: str | None = None
    result: str | None = None
    values: bool = False
    command: Command | None = None

    @property
    def empty(self) -> bool:
        """Whether it asks for nothing at all."""
        return self == Request()


def parse(line: str, cell: str | None = None) -> Request:
    """Parse the line behind ``%agent``, or that line and the lines below ``%%agent``.

    >>> request = parse('--model "opus 4.6" --new  say "$HOME"  --twice')
    >>> request.model, request.new, request.text
    ('opus 4.6', True, 'say "$HOME"  --twice')

    A line may hold a sub-command in the place of a prompt:

    >>> parse("model sonnet").command, parse("model the sales").command, parse("-- compact").text
    (Command(name='model', argument='sonnet', slashed=''), None, 'compact')

    Args:
        line: What follows the magic's name.
        cell: The lines below it; ``None`` for a line magic, which alone may hold a sub-command.

    Returns:
        The options, and a sub-command or the text of a prompt.

    Raises:
        UsageError: An option is unknown, lacks its value or has a wrong one, two exclude each other, or the line looks
            like a sub-command with a mistake in it.
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
        known = find_option(name)
        if known is None:
            raise UsageError(_unknown(name))
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
    text = rest.strip() if cell is None else f"{rest.strip()}\n{cell}".strip("\n")
    command = _command(text) if may_be_command else None
    for name in [name for name, declared in COMMANDS.items() if declared.as_option and given.pop(name, False)]:
        if text.strip():
            raise UsageError(f"--{name} goes with no prompt. Ask in a line of its own.")
        command = Command(name)
    chosen = [option.usage.partition(" ")[0] for option in OPTIONS if option.starts_session and option.field in given]
    if len(chosen) > 1 and chosen != ["--new", "--no-session"]:
        raise UsageError(f"{' and '.join(chosen)} exclude each other: choose one conversation.")
    return replace(Request(text="" if command else text, command=command), **given)


def _checked(option: Option, shown: str, text: str) -> str | float:
    """The value of an option; raises ``UsageError`` if it is not of its kind."""
    match option.kind:
        case Kind.CHOICE if text not in option.choices:
            raise UsageError(f"{shown} {text}: choose {_either(option.choices)}.")
        case Kind.NAME if not text.strip():
            raise UsageError(f"{shown} needs a name that is not empty.")
        case Kind.VARIABLE if not text.isidentifier() or iskeyword(text):
            raise UsageError(f"{shown} {text}: that is no name of a variable. Choose one such as `answer`.")
        case Kind.DOLLARS:
            return _dollars(shown, text)
        case _:
            return text


def _dollars(shown: str, text: str) -> float:
    try:
        amount = float(text.removeprefix("$"))
    except ValueError:
        amount = math.nan
    if not 0 < amount < math.inf:
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
    """Reject what costs a request and was hardly meant for the model: a word or two that nearly are a command."""
    words = text.split()
    if not 0 < len(words) <= 2:
        return
    first = words[0]
    is_option = first.startswith("-") and find_option(first.lstrip("-")) is not None
    misses = len(words) == 2 and first in ("tree", "fork") and _SHORT_ID.fullmatch(words[1])
    is_word = len(words) == 1 and first.isalpha() and first.islower()
    near = _near_commands(first) if is_word else []
    if is_option:
        hint = f"Options begin with two dashes: --{first.lstrip('-')}."
    elif misses:
        hint = f"An entry's id has at least eight characters: `%agent {first}` lists them."
    elif near:
        hint = f"Did you mean `%agent {near[0]}`?"
    else:
        return
    raise UsageError(f"{hint} Nothing was sent. To say just that to the agent: `%agent -- {text}`.")


def _near_commands(word: str) -> list[str]:
    """The sub-command that a word nearly is: a letter too many, too few or wrong, or letters in another order."""
    swapped = [name for name in COMMANDS if sorted(name) == sorted(word) and name != word]
    return swapped or get_close_matches(word, COMMANDS, n=1, cutoff=0.9)


def _unknown(name: str) -> str:
    near = get_close_matches(name, OPTION_NAMES, n=1)
    hint = f" Did you mean --{near[0]}?" if near else ""
    return (
        f"There is no option --{name}.{hint} `%agent help` shows all of them. "
        "A prompt that begins with dashes goes behind `-- `."
    )
