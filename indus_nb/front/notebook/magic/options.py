"""Options and sub-commands of ``%agent``, declared once.

`OPTIONS` and `SUBCOMMANDS` are all there is to know of them. The help text is made of them here, ``request`` parses by
them, ``completion`` offers them, and the tables in ``docs/notebook.md`` are written from them by their test.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from indus_nb.safety.policy import MODES
from indus_nb.start import THINKING_LEVELS


class Kind(Enum):
    """What a value is.

    It decides how the parser checks the value and what Tab offers for it.
    """

    TEXT = auto()
    CHOICE = auto()
    """One of the ``choices``."""
    PROVIDER = auto()
    MODEL = auto()
    LEVEL = auto()
    """A thinking level that the session's model knows."""
    SESSION = auto()
    NAME = auto()
    """A conversation's name, not empty."""
    ENTRY = auto()
    """The id of an entry of the session."""
    STATE = auto()
    """One of the ``choices``, behind most of which a state's name stands."""
    EXPORT = auto()
    """A path to export to."""
    TOOLS = auto()
    """Names with commas."""
    IMAGE = auto()
    """A path or a variable; the option may be repeated."""
    VARIABLE = auto()
    """An identifier."""
    TYPE = auto()
    """A type of answers: an expression in the user's variables, or `frame`."""
    DOLLARS = auto()
    """An amount above zero."""
    NUMBER = auto()
    """A number above zero."""
    PATH = auto()
    """A path of any file."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option in front of a prompt.

    Attributes:
        name: As it is written behind ``--``.
        field: The field of ``Request`` that it sets.
        help: What it does, for the help text and the manual; empty to leave it out there.
        value: The placeholder of its value in the help text; empty for a flag.
        choices: What a value of the kind ``CHOICE`` may be.
        short: One letter that may be written behind ``-`` instead; the help text prefers it.
        starts_session: Whether it decides which session is talked to: these exclude each other.
        page: The page of the manual that says more, without ``.md``.
    """

    name: str
    field: str
    help: str = ""
    value: str = ""
    kind: Kind = Kind.TEXT
    choices: Sequence[str] = ()
    sets: bool = True
    short: str = ""
    starts_session: bool = False
    page: str = ""

    @property
    def usage(self) -> str:
        """Return the option as it is written, with a placeholder for its value."""
        name = f"-{self.short}" if self.short else f"--{self.name}"
        return f"{name} {self.value}" if self.value else name


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A sub-command: a line of it is used in place of a prompt.

    Attributes:
        usage: The placeholder of its argument in the help text.
        pattern: What may follow the name for the line to be this sub-command; ``argument`` is the group that counts.
        choices: What an argument of the kind ``CHOICE`` may be.
        as_option: Whether ``--name`` means the same.
        page: The page of the manual that says more, without ``.md``.
    """

    name: str
    help: str
    usage: str = ""
    pattern: str = ""
    kind: Kind = Kind.TEXT
    choices: Sequence[str] = ()
    as_option: bool = False
    page: str = ""

    def argument(self, text: str) -> str | None:
        """Return the argument in the text behind the name, empty for none.

        ``None`` if the line is not this sub-command.
        """
        match = re.fullmatch(self.pattern, text, re.DOTALL)
        return None if match is None else match.groupdict().get("argument") or ""


OPTIONS = (
    Option(
        "provider",
        "provider",
        "who answers from now on: `anthropic`, `openai` …, or `offline` (no key, no network)",
        "NAME",
        Kind.PROVIDER,
        page="models",
    ),
    Option("model", "model", "the model from now on: an id or a part of a name, such as `sonnet`", "NAME", Kind.MODEL),
    Option(
        "thinking",
        "thinking",
        "how much it thinks from now on: `off`, `minimal`, `low`, `medium`, `high` or `xhigh`",
        "LEVEL",
        Kind.CHOICE,
        THINKING_LEVELS,
    ),
    Option(
        "new",
        "new",
        "start a new conversation with the model and tools of the one before",
        starts_session=True,
    ),
    Option(
        "continue",
        "continue_last",
        "go on with the last conversation of this notebook, else of this folder",
        starts_session=True,
    ),
    Option(
        "session",
        "session",
        "go on with that conversation: a path, or the beginning of an id",
        "ID",
        Kind.SESSION,
        starts_session=True,
    ),
    Option("no-session", "no_session", "start a conversation that is not saved", starts_session=True),
    Option(
        "name",
        "name",
        "talk to the conversation of that name, or start it; the first is called main",
        "NAME",
        Kind.NAME,
    ),
    Option(
        "tools", "tools", 'the tools of a new conversation, such as `read,grep,ls`; `""` for none', "NAMES", Kind.TOOLS
    ),
    Option(
        "approve",
        "approve",
        "ask before `effects` (as usual), `writes`, `always`, or `never`; `looks`: change nothing",
        "WHEN",
        Kind.CHOICE,
        MODES,
        page="approval",
    ),
    Option("trust", "trust", "use what the project in this folder brings, this time", page="trust"),
    Option(
        "no-trust",
        "trust",
        "ignore what the project in this folder brings, and do not ask",
        sets=False,
    ),
    Option(
        "sandbox",
        "sandbox",
        "confine commands and servers of a new conversation: `workspace`, `read-only`, `off`",
        "MODE",
        Kind.CHOICE,
        ("off", "workspace", "read-only"),
        page="sandbox",
    ),
    Option("cells", "cells", "from now on write code that changes something as cells below"),
    Option("no-cells", "cells", "from now on show such code in its card, as usual", sets=False),
    Option("plan", "plan", "look first, and carry out the steps that you said go to"),
    Option(
        "check",
        "check",
        "`numbers`: ask the model once how it got numbers that no result shows; `none`: do not",
        "WHAT",
        Kind.CHOICE,
        ("numbers", "none"),
        page="claims",
    ),
    Option(
        "image",
        "images",
        "show the model an image: a file, or a variable with a figure, an array …; repeatable",
        "FILE",
        Kind.IMAGE,
    ),
    Option(
        "output",
        "output",
        "put the answer's text into the variable NAME (also `--output`)",
        "NAME",
        Kind.VARIABLE,
        short="o",
    ),
    Option(
        "result",
        "result",
        "answer with a value, for `-o` or `value = %agent …`: `int`, `list[Invoice]`, `frame` …",
        "TYPE",
        Kind.TYPE,
        page="typed_answers",
    ),
    Option(
        "values", "values", "put values of variables into the lines below `%%agent`, too (also `--values`)", short="i"
    ),
    Option(
        "max-cost",
        "max_cost",
        "send no request that could make this cell, its code included, cost more US dollars",
        "USD",
        Kind.DOLLARS,
        page="limits",
    ),
    Option("max-turns", "max_turns", "stop after so many answers of the model", "N", Kind.NUMBER),
    Option("timeout", "timeout", "stop after so many seconds", "SECONDS", Kind.NUMBER),
    Option("no-wait", "wait", "let the agent work on while other cells run", sets=False),
)

_ENTRY = r"(?P<argument>[0-9a-f][0-9a-f-]{7,})?"
_WORD = r"(?P<argument>\S+)?"
_KEEP = r"(?P<argument>off|drop|\S+\.json)?"
_STEPS = r"(?P<argument>(?:(?:\d{1,3}|prompt)(?:\s+(?:keep|over|both))?|keep|over|both|list)?)"
_STATE_NAME = r"""(?:"[^"\n]+"|'[^'\n]+'|[^\s"']+)"""
_STATE = (
    rf"(?P<argument>(?:on|off|list|(?:save|diff|drop)\s+{_STATE_NAME}"
    rf"|back\s+{_STATE_NAME}(?:\s+(?:keep|over|both))?)?)"
)

SUBCOMMANDS = (
    Subcommand("model", "the models that can be used; or talk to another one", "[NAME]", _WORD, Kind.MODEL),
    Subcommand(
        "thinking",
        "how much it thinks; or change that",
        "[LEVEL]",
        f"(?P<argument>{'|'.join(THINKING_LEVELS)})?",
        Kind.LEVEL,
        THINKING_LEVELS,
    ),
    Subcommand(
        "compact",
        "put a summary in the place of the older part; TEXT says what matters",
        "[-- TEXT]",
        r"(?:--(?:\s+(?P<argument>.+))?)?",
    ),
    Subcommand(
        "fork", "your messages; or go on before one of them, in a new conversation", "[ENTRY]", _ENTRY, Kind.ENTRY
    ),
    Subcommand(
        "tree", "the conversation with its branches; or go on from another entry", "[ENTRY]", _ENTRY, Kind.ENTRY
    ),
    Subcommand("sessions", "the conversations of this folder, or those with a word in them", "[WORD]", _WORD),
    Subcommand("stats", "messages, tokens, cost, how full the context is, and where the file lies"),
    Subcommand(
        "claims",
        "the values in answers, and which may be stale; or compute those again, or drop all",
        "[check|drop]",
        r"(?P<argument>check|drop)?",
        Kind.CHOICE,
        ("check", "drop"),
        page="claims",
    ),
    Subcommand("context", "what the model is told next, with tokens, cells and variables"),
    Subcommand(
        "export",
        "write the conversation to a page, FILE.html, or as JSON lines, FILE.jsonl",
        "[FILE]",
        "(?P<quote>[\\\"'])?(?P<argument>(?(quote).+|\\S+)\\.(?:html|jsonl))?(?(quote)(?P=quote))",
        Kind.EXPORT,
    ),
    Subcommand("answer", "the questions of a run in the background, asked in this cell"),
    Subcommand("abort", "stop what goes on in the background"),
    Subcommand("steer", "say something to the agent while it works", "TEXT", r"(?P<argument>.*)"),
    Subcommand(
        "queue",
        "what waits to be said to it; or take it back",
        "[clear]",
        r"(?P<argument>clear)?",
        Kind.CHOICE,
        ("clear",),
    ),
    Subcommand(
        "jobs",
        "what goes on in the background, with its last lines; or stop one of it",
        "[stop N]",
        "(?:stop\\s+(?:job-)?(?P<argument>\\d+))?",
        page="jobs",
    ),
    Subcommand(
        "trust",
        "what the project here brings; or decide: directory, parent, session, no",
        "[DECISION]",
        "(?P<argument>directory|parent|session|no)?",
        Kind.CHOICE,
        ("directory", "parent", "session", "no"),
        page="trust",
    ),
    Subcommand(
        "approved",
        "what your answers always allow here; or have it asked about again",
        "[forget N|all]",
        r"(?P<argument>forget (?:\d{1,9}|all))?",
        Kind.CHOICE,
        ("forget all",),
        page="approval",
    ),
    Subcommand(
        "undo",
        "take back what its last call changed, the last N, or a prompt",
        "[N|prompt|list] [keep|over|both]",
        _STEPS,
        page="undo",
    ),
    Subcommand("redo", "do once more what was taken back", "[N|prompt|list] [keep|over|both]", _STEPS),
    Subcommand(
        "state",
        "states under names, to go back to; on: your cells are steps",
        "[save|back|diff|drop NAME|on|off]",
        _STATE,
        Kind.STATE,
        ("save", "back", "diff", "drop", "list", "on", "off"),
        page="undo",
    ),
    Subcommand("fix", "have the agent mend the cell that failed last; it proposes the new source"),
    Subcommand("explain", "have it explain why that cell failed"),
    Subcommand(
        "verify",
        "run the notebook's cells in a fresh kernel, and compare; --fix: ask the agent",
        "[--fix]",
        "(?P<argument>--fix)?",
        Kind.CHOICE,
        ("--fix",),
    ),
    Subcommand("panel", "the conversation as a chat"),
    Subcommand(
        "cell",
        "what the agent ran last, as a cell of yours; all: as cells with their outputs",
        "[all]",
        "(?P<argument>all)?",
        Kind.CHOICE,
        ("all",),
    ),
    Subcommand(
        "keep",
        "keep answers in FILE, and reuse them where nothing read has changed",
        "[FILE|drop|off]",
        _KEEP,
        Kind.CHOICE,
        ("drop", "off"),
        page="notebook",
    ),
    Subcommand("map", "ask one question about each row of DATA; alone: its options", "… over DATA", page="map"),
    Subcommand(
        "serve",
        "offer the kernel's tools to other agents over MCP",
        "[stop|status|--approve MODE]",
        "(?P<argument>stop|status|--approve(?:\\s+|=)\\S+)?",
        Kind.CHOICE,
        ("stop", "status", "--approve"),
        page="serve",
    ),
    Subcommand("key", "ask for an API key, test it, and keep it where you choose"),
    Subcommand("doctor", "what is set up, and what is wrong with it", as_option=True),
    Subcommand("help", "all options and commands", as_option=True),
)

_ALSO_OF_MAP = ("provider", "model", "thinking")
MAP_OPTIONS = (
    Option(
        "output", "output", "the variable that the answers go into (also --output)", "NAME", Kind.VARIABLE, short="o"
    ),
    Option("result", "result", "answer with values: int, Invoice, list[str] …", "TYPE", Kind.TYPE),
    *(option for option in OPTIONS if option.name in _ALSO_OF_MAP),
    Option("max-cost", "max_cost", "US dollars for all of it, what the journal says included", "USD", Kind.DOLLARS),
    Option("max-turns", "max_turns", "how many answers a row may have (50)", "N", Kind.NUMBER),
    Option("timeout", "timeout", "how many seconds a row may take", "SECONDS", Kind.NUMBER),
    Option("tools", "tools", "the tools that rows may use; none unless they are named", "NAMES", Kind.TOOLS),
    Option("parallel", "parallel", "how many rows are asked at once (8)", "N", Kind.NUMBER),
    Option("rpm", "rpm", "how many requests may begin in a minute", "N", Kind.NUMBER),
    Option("tpm", "tpm", "how many tokens requests may use in a minute", "N", Kind.NUMBER),
    Option("max-tokens", "max_tokens", "the longest answer to one request (4096)", "N", Kind.NUMBER),
    Option("files", "files", "columns that hold paths of images or texts in this directory", "COLUMNS"),
    Option("batch", "batch", "let Anthropic take up to a day for the answers, for half the price"),
    Option("cheap", "cheap", "ask this model first, and the other where it is not sure", "MODEL", Kind.MODEL),
    Option("sure", "sure", "when its answer is taken: a probability (0.9), twice, or a function", "P|twice|EXPRESSION"),
    Option("sample", "sample", "ask for this many rows only, and show what all will cost", "N", Kind.NUMBER),
    Option("estimate", "estimate", "ask nothing, and show what it would cost"),
    Option("no-dedupe", "dedupe", "ask for each of several rows with the same prompt", sets=False),
    Option("no-sessions", "sessions", "keep no session files of rows", sets=False),
    Option("engine", "over", "an executor that runs the functions of tools", "EXPRESSION"),
    Option("journal", "journal", "a file of what is done: the next call asks for what is missing", "FILE", Kind.PATH),
)
"""Options of ``%agent map``, where ``--model`` and the like hold for the rows alone."""

COMMANDS: Mapping[str, Subcommand] = {command.name: command for command in SUBCOMMANDS}
"""The sub-commands by their names."""
OPTION_NAMES = (
    *(option.name for option in OPTIONS),
    *(command.name for command in SUBCOMMANDS if command.as_option),
)
"""All names that may be written behind ``--``."""
_BY_NAME: Mapping[str, Option] = {
    **{option.name: option for option in OPTIONS},
    **{option.short: option for option in OPTIONS if option.short},
    **{command.name: Option(command.name, command.name) for command in SUBCOMMANDS if command.as_option},
}

OPTION = re.compile(
    rf"\s*(?:--(?P<name>[A-Za-z][\w-]*)?|-(?P<short>[{''.join(option.short for option in OPTIONS)}]))(?=[\s=]|$)"
)
"""An option in front of what follows; without a name the ``--`` that ends the options."""
VALUE = re.compile(r"(?:=|\s+)(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>(?!--)\S+))(?=\s|$)")
"""The value behind an option."""


def find_option(name: str) -> Option | None:
    """Return the option of that name, long or short.

    For a sub-command that may be written as an option it is a flag.
    """
    return _BY_NAME.get(name)


def find_map_option(name: str) -> Option | None:
    """Return the option of ``%agent map`` of that name, long or short."""
    return next((option for option in MAP_OPTIONS if name in (option.name, option.short)), None)


def _lines(options: Sequence[Option]) -> str:
    return "\n".join(f"{option.usage:<19} {option.help}" for option in options).replace("`", "")


_OPTION_LINES = _lines(OPTIONS)
MAP_HELP = f"""\
%agent map [options] -o NAME "QUESTION" over DATA
%%agent map [options] -o NAME over DATA     the same, with the question in the lines below

{_lines(MAP_OPTIONS)}

In the question {{column}} stands for a value of the row; {{{{ and }}}} are braces. DATA is any expression: a frame, a
list of rows, or anything to iterate over. NAME holds the answers: NAME.frame, NAME.failed, NAME.cost, NAME.retry().
Stop, or an interruption, lets no more rows begin; what is done is kept. `indus_nb.agent.map` is the same in Python."""

_COMMAND_LINES = "\n".join(f"%agent {f'{each.name} {each.usage}':<20} {each.help}" for each in SUBCOMMANDS)
HELP = f"""\
%agent [options] PROMPT     ask the agent
%%agent [options]           the same, with the prompt in the lines below
%agent [options]            set the conversation up

{_OPTION_LINES}

In a prompt {{expression}} and $name stand for values of your variables: {{df.shape}}, {{mean:.2f}}, $df.
In the lines below %%agent they do so with -i only, for text that is pasted may be of others.
What names no variable of yours stays as it is, and so do code in `…` or ```…``` and formulas in $…$.
{{{{name}}}} and $$name are sent as {{name}} and $name.

Commands, in a line of their own:

{_COMMAND_LINES}

It is a command only if nothing else stands in the line: `%agent model the sales` is a prompt.
`--` ends the options and makes a prompt of what follows: `%agent -- compact`.
The conversation goes on from cell to cell. Interrupt the cell to stop the agent."""
