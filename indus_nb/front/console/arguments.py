"""The arguments of the console program: its own options, and those that clients of other programs pass.

What this module promises: an argument that is not understood ends the program before anything is served. Options that
only an extension can know are kept in ``flags`` and checked once the extensions are there.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shlex
from collections.abc import Sequence
from typing import NoReturn

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.mistyped import near
from indus_nb.safety.policy import MODES
from indus_nb.version import __version__

VERSION_AS = "INDUS_NB_VERSION_AS"
"""Variable with the output of ``--version``, for clients that start nothing older than a version of their program."""
_COMMANDS = {
    "map": True,
    "eval": True,
    "list-models": True,
    "setup": False,
    "doctor": False,
    "help": False,
    "version": False,
}
"""Words that are no prompts as the first argument, and whether another may follow: behind the others options alone."""
_MEANT = {"login": "setup"}
"""Commands of other programs, and what they are here."""
_MAX_SHOWN_CHARACTERS = 80
_DOCTOR = "Prints what is set up and what is wrong: model, key, sandbox, tools, files that are read, extensions."
_DOCTOR_EPILOG = (
    "It takes the options of `indus-nb`, such as --provider, --kernel or -e, and asks no model: `indus-nb --help`."
)
_DESCRIPTION = "A coding agent: answers a prompt, or serves other programs over standard input and output."
_EPILOG = """\
@FILE arguments are put before the first prompt, images are attached.
`indus-nb map DATA --prompt TEXT --out FILE` asks one question about each row: see `indus-nb map --help`.
`indus-nb setup` asks for an API key, tests it and keeps it: see `indus-nb setup --help`.
`indus-nb doctor` prints what is set up and what is wrong.
`indus-nb eval SUITE` has an agent solve tasks about data, and writes a card: see `indus-nb eval --help`.
Without a key, --provider offline answers: it needs no network and is no language model.

exit status: 0 the answer ended well, 1 it failed or a limit ended it, 2 wrong usage, 128+N ended by signal N"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the options of the command line.

    Returns:
        The options; ``flags`` are those that only an extension could know.

    Raises:
        UsageError: An option is wrong or can be none, or the first word nearly is a command.
    """
    if (command := _command(arguments)) is not None:
        if command == "doctor" and {"-h", "--help"} & {*itertools.takewhile(lambda each: each != "--", arguments)}:
            shown = Parser(prog="indus-nb doctor", description=_DOCTOR, epilog=_DOCTOR_EPILOG)
            shown.print_help()
            shown.exit()
        arguments = [f"--{command}", *arguments[1:]]
    _check_approve(arguments)
    options, others = _parser().parse_known_args(arguments)
    options.flags = _extension_flags(others)
    return options


def without_help(arguments: Sequence[str]) -> Sequence[str]:
    """Return ``help NAME`` as the call that prints the help of that command; other arguments as they are.

    Raises:
        UsageError: There is no such command, so that the words could be a prompt.
    """
    if arguments[:1] != ["help"] or len(arguments) < 2 or arguments[1].startswith("-"):
        return arguments
    name, *rest = arguments[1:]
    if name not in _COMMANDS:
        raise UsageError(
            f"There is no command {_shown([name])} to help with. There are {', '.join(_COMMANDS)}. "
            f"{_as_prompt(arguments)}"
        )
    return ["help"] if name == "help" else [name, *rest, "--help"]


def _shown(arguments: Sequence[str]) -> str:
    return textcut.one_line(" ".join(arguments), _MAX_SHOWN_CHARACTERS)


def _as_prompt(arguments: Sequence[str]) -> str:
    words = itertools.takewhile(lambda each: not each.startswith("-"), arguments)
    return f"A prompt of these words stands in quotes: indus-nb {shlex.quote(_shown([*words]))}"


def _command(arguments: Sequence[str]) -> str | None:
    """Return the command that the first argument is; ``None`` if it is a prompt, a file or an option.

    Raises:
        UsageError: It nearly is one, or is one before words that it does not take: as prompts these would cost money.
    """
    word = arguments[0] if arguments else ""
    if word.startswith("@"):
        return None
    is_alone = len(arguments) < 2 or arguments[1].startswith("-")
    names = [name for name, more_may_follow in _COMMANDS.items() if more_may_follow or is_alone]
    if word in names:
        return word
    if word in _COMMANDS:
        raise UsageError(
            f"`indus-nb {word}` takes options alone, not {_shown(arguments[1:2])}. {_as_prompt(arguments)}"
        )
    if meant := [
        *filter(None, [_MEANT.get(word)]),
        *near(word, names),
        *(name for name in names if near(name, [word])),
    ]:
        raise UsageError(
            f"There is no command {word}. Did you mean indus-nb {meant[0]}? A prompt of that word stands behind --: "
            f"indus-nb -- {word}"
        )
    return None


def _check_approve(arguments: Sequence[str]) -> None:
    """Reject ``--approve`` without a value: pi's clients mean trust by it, all others that they are asked."""
    options = itertools.takewhile(lambda argument: argument != "--", arguments)
    for argument, following in itertools.pairwise([*options, "--"]):
        if argument == "--approve" and following.startswith("-"):
            raise UsageError(
                "--approve needs a value: never, effects, writes, always or looks, the tool calls to ask about. "
                "What pi means by --approve alone, to use what the project brings, is --trust here."
            )


class Parser(argparse.ArgumentParser):
    """A parser whose errors are those of the package."""

    def error(self, message: str) -> NoReturn:
        """Raise ``UsageError``."""
        raise UsageError(f"{message[0].upper()}{message[1:]}. `{self.prog} --help` shows all options.")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="indus-nb",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("prompts", nargs="*", metavar="PROMPT", help="what to say; several are said one after another")
    parser.add_argument(
        "--mode", choices=("text", "json", "rpc", "acp", "mcp"), default="text", help="what goes to standard output"
    )
    parser.add_argument(
        "--wire",
        choices=("snapshot", "delta", "strict", "pi", "omp"),
        default="snapshot",
        help="the shape of events: whole answers with each delta, deltas alone, only what the first documents name, or "
        "as clients of pi 0.73 or of omp expect it",
    )
    parser.add_argument(
        "--schema",
        metavar="FILE|TYPE",
        help="answer the last prompt with a value: a JSON schema, MODULE:NAME, FILE.py:NAME, int, list[str], frame, …",
    )
    parser.add_argument(
        "-p", "--print", action="store_true", help="answer and leave, as the modes text (the default) and json do"
    )
    model = parser.add_argument_group("model")
    model.add_argument("--provider", metavar="NAME", help="anthropic, openai, …, or offline: see --list-models")
    model.add_argument("--model", metavar="ID", help="an id, provider/id or part of a name; :LEVEL sets the thinking")
    model.add_argument(
        "--models", metavar="A,B", help="the models to cycle through; * stands for anything, :LEVEL as above"
    )
    model.add_argument("--thinking", metavar="LEVEL", help="off, minimal, low, medium, high or xhigh")
    model.add_argument("--api-key", metavar="KEY", help="the provider's key, instead of the environment's")
    model.add_argument("--list-models", nargs="?", const="", metavar="TEXT", help="list the known models and leave")
    session = parser.add_argument_group("session")
    session.add_argument("-c", "--continue", dest="continue_last", action="store_true", help="go on with the last one")
    session.add_argument("--session", metavar="PATH|ID", help="go on with this one")
    session.add_argument("--session-dir", metavar="DIR", help="where session files lie")
    session.add_argument("--session-id", metavar="ID", help="go on with the session of exactly this id, or begin it")
    session.add_argument("--fork", metavar="PATH|ID", help="go on with a copy of this one")
    session.add_argument("--no-session", action="store_true", help="keep the conversation in memory only")
    session.add_argument("-n", "--name", metavar="NAME", help="give the session this name")
    session.add_argument("--export", metavar="PATH|ID", help="write this one as a web page (to PROMPT), and leave")
    agent = parser.add_argument_group("agent")
    agent.add_argument("--system-prompt", metavar="TEXT|FILE", help="replaces the built-in system prompt")
    agent.add_argument("--append-system-prompt", metavar="TEXT|FILE", action="append", default=[], help="adds to it")
    agent.add_argument("-t", "--tools", metavar="A,B", help="the tools that may be used")
    agent.add_argument("-nt", "--no-tools", action="store_true", help="use no tools")
    agent.add_argument(
        "-nbt", "--no-builtin-tools", action="store_true", help="use only the tools of extensions and of the client"
    )
    agent.add_argument(
        "-xt", "--exclude-tools", metavar="A,B", action="append", default=[], help="never offer these tools"
    )
    agent.add_argument("--approve", choices=MODES, help="which tool calls to ask about first")
    agent.add_argument(
        "--sandbox",
        choices=("off", "workspace", "read-only"),
        help="confine commands and MCP servers to the working directory, or to reading",
    )
    agent.add_argument(
        "--kernel",
        metavar="FILE|ID|auto|any",
        help="work in a running Jupyter kernel: a connection file, an id, an open notebook, the one that runs (auto), "
        "or one that is looked for when it is needed (any)",
    )
    limits = parser.add_argument_group("limits")
    limits.add_argument("--max-cost", type=float, metavar="USD", help="send no request that could cost more in all")
    limits.add_argument("--max-turns", type=int, metavar="N", help="how many answers the model may give to a prompt")
    limits.add_argument("--timeout", type=float, metavar="SECONDS", help="how long a prompt may take")
    trust = agent.add_mutually_exclusive_group()
    trust.add_argument(
        "-a", "--trust", action="store_true", default=None, help="use what the project here brings, this time"
    )
    trust.add_argument(
        "-na",
        "--no-trust",
        "--no-approve",
        dest="trust",
        action="store_false",
        default=None,
        help="ignore it, and do not ask about it; --no-approve is pi's name for that, and leaves --approve as it is",
    )
    found = parser.add_argument_group("extensions, skills and prompt templates")
    for flags, dest, what in (
        (("-e", "--extension"), "extensions", "load this extension too"),
        (("--skill",), "skills", "look for skills here too"),
        (("--prompt-template",), "prompt_templates", "look for prompt templates here too"),
    ):
        found.add_argument(*flags, dest=dest, metavar="PATH", action="append", default=[], help=what)
    for flags, dest, what in (
        (("-ne", "--no-extensions"), "use_extensions", "load only those given with -e"),
        (("-ns", "--no-skills"), "use_skills", "know only skills given with --skill"),
        (("-np", "--no-prompt-templates"), "use_prompt_templates", "know only those given with --prompt-template"),
        (("-nc", "--no-context-files"), "use_context_files", "do not read AGENTS.md and its like"),
    ):
        found.add_argument(*flags, dest=dest, action="store_false", help=what)
    parser.add_argument("--doctor", action="store_true", help="print what is set up and what is wrong, and leave")
    for ignored in ("--no-themes", "--offline", "--verbose"):
        parser.add_argument(ignored, action="store_true", help=argparse.SUPPRESS)  # hosts of other programs give it
    parser.add_argument("--theme", action="append", help=argparse.SUPPRESS)
    parser.add_argument("-v", "--version", action="version", version=os.environ.get(VERSION_AS) or __version__)
    return parser


def _extension_flags(others: Sequence[str]) -> dict[str, bool | str]:
    """Read options that an extension may understand: ``--name`` and ``--name=value``."""
    flags: dict[str, bool | str] = {}
    for other in others:
        name, equals, value = other.removeprefix("--").partition("=")
        if not other.startswith("--") or not name:
            raise UsageError(f"Unrecognized arguments: {other}. `indus-nb --help` shows all options.")
        flags[name] = value if equals else True
    return flags


def check(options: argparse.Namespace) -> None:
    """Raise ``UsageError`` for options that contradict each other or the mode."""
    mode = options.mode.upper()
    serves = options.mode in ("rpc", "acp", "mcp")
    if serves and options.prompts:
        what = "@file arguments" if options.prompts[0].startswith("@") else "prompts"
        if options.flags:
            unknown = " ".join([*(f"--{name}" for name in options.flags), *options.prompts])
            raise UsageError(
                f"Unrecognized arguments: {unknown}. `indus-nb --help` shows all options; an extension's is written "
                "--NAME or --NAME=VALUE."
            )
        raise UsageError(f"In {mode} mode {what} come as commands on standard input, not on the command line.")
    if serves and options.schema is not None:
        raise UsageError("--schema is for the modes text and json, which end with an answer.")
    if options.mode == "acp" and (_names_session(options) or options.models):
        raise UsageError(
            "In ACP mode the client opens sessions: leave out --session, --session-id, --continue, --fork, --name and "
            "--models."
        )
    if options.mode == "mcp" and options.kernel is None:
        raise UsageError("In MCP mode say which running kernel is served: --kernel auto, or its connection file.")
    if serves and options.print:
        raise UsageError(f"-p ends with an answer; it cannot be combined with --mode {options.mode}.")
    if sum((options.tools is not None, options.no_tools, options.no_builtin_tools)) > 1:
        raise UsageError("Choose one of --tools, --no-tools and --no-builtin-tools.")


def _names_session(options: argparse.Namespace) -> bool:
    named = (options.session, options.session_id, options.fork, options.name)
    return options.continue_last or any(each is not None for each in named)
