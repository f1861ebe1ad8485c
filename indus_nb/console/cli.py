"""The console program: arguments in, one of the modes on."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from indus_nb.errors import IndusError, ModelNotFoundError, UsageError
from indus_nb.version import __version__

if TYPE_CHECKING:
    from indus_nb.session.session import AgentSession

_DESCRIPTION = "A coding agent: answers a prompt, or serves other programs over standard input and output."
_EPILOG = """\
@FILE arguments are put before the first prompt, images are attached.
Without a key, --provider offline answers: it needs no network and is no language model.

exit status: 0 the answer ended well, 1 it failed, 2 wrong usage, 128+N ended by signal N"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[0].upper()}{message[1:]}. `indusagi --help` shows all options.")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="indusagi",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("prompts", nargs="*", metavar="PROMPT", help="what to say; several are said one after another")
    parser.add_argument("--mode", choices=("text", "json", "rpc"), default="text", help="what goes to standard output")
    parser.add_argument(
        "--wire",
        choices=("snapshot", "delta", "strict"),
        default="snapshot",
        help="the shape of events: whole answers with each delta, deltas alone, or only what the first documents name",
    )
    parser.add_argument("-p", "--print", action="store_true", help="text mode, which is the default anyway")
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
    session.add_argument("--no-session", action="store_true", help="keep the conversation in memory only")
    agent = parser.add_argument_group("agent")
    agent.add_argument("--system-prompt", metavar="TEXT|FILE", help="replaces the built-in system prompt")
    agent.add_argument("--append-system-prompt", metavar="TEXT|FILE", action="append", default=[], help="adds to it")
    agent.add_argument("-t", "--tools", metavar="A,B", help="the tools that may be used")
    agent.add_argument("-nt", "--no-tools", action="store_true", help="use no tools")
    agent.add_argument("--approve", choices=("never", "writes", "always"), help="which tool calls to ask about first")
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
    for ignored in ("--no-themes", "--offline", "--verbose"):
        parser.add_argument(ignored, action="store_true", help=argparse.SUPPRESS)  # hosts of other programs give it
    parser.add_argument("-v", "--version", action="version", version=__version__)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and leave with its exit status."""
    gc.set_threshold(20_000, 20, 20)  # what imports make is no garbage, and a process of its own may let more lie
    _open_standard_descriptors()
    from indus_nb.console.stdio import complain, leave
    from indus_nb.redaction import hide_shapes, secrets_of  # not when it failed: there may be no descriptor left
    from indus_nb.textcut import one_line

    try:
        options, others = _parser().parse_known_args(arguments)
        options.flags = _extension_flags(others)
        status = _main(options)
    except ModelNotFoundError as error:
        complain(f"{error} `indusagi --list-models` shows the known ones.")
        status = 2
    except UsageError as error:
        complain(str(error))
        status = 2
    except IndusError as error:
        complain(str(error))
        status = 1
    except OSError as error:
        # What stands in the place of a path may be anything, such as a key that was set by mistake.
        place = f": {one_line(hide_shapes(str(error.filename), secrets_of()), 200)}" if error.filename else ""
        complain(f"The program cannot go on, for the system refused something ({error.strerror}{place}).")
        status = 1
    except KeyboardInterrupt:
        status = 130
    leave(status)


def _open_standard_descriptors() -> None:
    """Put nothing in the place of what the caller closed, so that no file of ours gets such a number.

    Nothing can be written to what stands for a closed standard output: an answer must not be lost without a word.
    """
    while (descriptor := os.open(os.devnull, os.O_RDONLY)) < 3:
        if descriptor == 2:
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - it accepts no keyword
    os.close(descriptor)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - it stays open
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 - it stays open


def _main(options: argparse.Namespace) -> int:
    if options.list_models is not None:
        return _list_models(options.list_models)
    _check(options)
    import asyncio

    return asyncio.new_event_loop().run_until_complete(_run(options))


def _extension_flags(others: Sequence[str]) -> dict[str, bool | str]:
    """Options that an extension may understand: ``--name`` and ``--name=value``."""
    flags: dict[str, bool | str] = {}
    for other in others:
        name, equals, value = other.removeprefix("--").partition("=")
        if not other.startswith("--") or not name:
            raise UsageError(f"Unrecognized arguments: {other}. `indusagi --help` shows all options.")
        flags[name] = value if equals else True
    return flags


def _check(options: argparse.Namespace) -> None:
    if options.mode == "rpc" and options.prompts:
        what = "@file arguments" if options.prompts[0].startswith("@") else "prompts"
        raise UsageError(f"In RPC mode {what} come as commands on standard input, not on the command line.")
    if options.print and options.mode != "text":
        raise UsageError(f"-p means text mode; it cannot be combined with --mode {options.mode}.")
    if options.tools is not None and options.no_tools:
        raise UsageError("Choose one of --tools and --no-tools.")


async def _run(options: argparse.Namespace) -> int:
    if options.mode == "rpc":
        from indus_nb.console.rpc import serve

        return await serve(*_open(options), options.wire)
    from indus_nb.console.once import answer_all, read_prompts

    prompts = read_prompts(options.prompts)
    session, _, descriptor_out = _open(options)
    return await answer_all(session, prompts, options.mode, descriptor_out, options.wire)


def _open(options: argparse.Namespace) -> tuple[AgentSession, int, int]:
    """The session, and the descriptors to read from and write to."""
    from indus_nb.console.stdio import claim, complain
    from indus_nb.start import SessionOptions, open_session

    session = open_session(
        SessionOptions(
            provider=options.provider,
            model=options.model,
            thinking=options.thinking,
            models=_listed(options.models),
            api_key=options.api_key,
            system_prompt=options.system_prompt,
            append_system_prompt=options.append_system_prompt,
            tools=() if options.no_tools else _listed(options.tools),
            session=options.session,
            continue_last=options.continue_last,
            no_session=options.no_session,
            session_dir=options.session_dir,
            extensions=options.extensions,
            use_extensions=options.use_extensions,
            flags=options.flags,
            skills=options.skills,
            use_skills=options.use_skills,
            prompt_templates=options.prompt_templates,
            use_prompt_templates=options.use_prompt_templates,
            use_context_files=options.use_context_files,
            approve=options.approve,
        ),
        definable=False,
    )
    for problem in session.problems:
        complain(problem)
    return session, *claim()


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def _list_models(pattern: str) -> int:
    from indus_nb.console.stdio import complain
    from indus_nb.resources.settings import agent_directory, model_registry

    registry = model_registry(agent_directory())
    for problem in registry.problems:
        complain(problem)
    wanted = pattern.casefold()
    shown = [model for model in registry.models if wanted in f"{model.provider}/{model.id} {model.name}".casefold()]
    if not shown:
        raise UsageError(f"No known model matches {pattern!r}.")
    rows = [("provider", "model", "context", "max output", "$/M in", "$/M out", "thinking", "key")]
    rows += [
        (
            model.provider,
            model.id,
            f"{model.context_window:,}",
            f"{model.max_tokens:,}",
            f"{model.cost.input:g}",
            f"{model.cost.output:g}",
            "yes" if model.reasoning else "no",
            "none needed" if registry.is_keyless(model) else "yes" if registry.has_key(model) else "missing",
        )
        for model in shown
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    try:
        for row in rows:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            sys.stdout.write(line.rstrip() + "\n")
        sys.stdout.flush()
    except OSError as error:
        complain(f"The output could not be written: {error.strerror}.")
        return 1
    return 0
