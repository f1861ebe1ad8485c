"""The console program: arguments in, one of the modes on."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from indus_nb.errors import IndusError, ModelNotFoundError, UsageError
from indus_nb.own_imports import keep_out_working_directory
from indus_nb.version import __version__

if TYPE_CHECKING:
    from indus_nb.answers import FinalAnswer
    from indus_nb.session.session import AgentSession
    from indus_nb.start import SessionOptions

_MAX_NAME_CHARACTERS = 200
_DESCRIPTION = "A coding agent: answers a prompt, or serves other programs over standard input and output."
_EPILOG = """\
@FILE arguments are put before the first prompt, images are attached.
`indusagi map DATA --prompt TEXT --out FILE` asks one question about each row: see `indusagi map --help`.
Without a key, --provider offline answers: it needs no network and is no language model.

exit status: 0 the answer ended well, 1 it failed or a limit ended it, 2 wrong usage, 128+N ended by signal N"""


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
    parser.add_argument(
        "--mode", choices=("text", "json", "rpc", "acp", "mcp"), default="text", help="what goes to standard output"
    )
    parser.add_argument(
        "--wire",
        choices=("snapshot", "delta", "strict"),
        default="snapshot",
        help="the shape of events: whole answers with each delta, deltas alone, or only what the first documents name",
    )
    parser.add_argument(
        "--schema",
        metavar="FILE|TYPE",
        help="answer the last prompt with a value: a JSON schema, MODULE:NAME, FILE.py:NAME, int, list[str], frame, …",
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
    trust.add_argument("--trust", action="store_true", default=None, help="use what the project here brings, this time")
    trust.add_argument("--no-trust", dest="trust", action="store_false", default=None, help="ignore it, and do not ask")
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
    parser.add_argument("-v", "--version", action="version", version=__version__)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and leave with its exit status."""
    keep_out_working_directory()  # which PYTHONPATH may hold
    gc.disable()  # what imports make is no garbage; see _open
    gc.set_threshold(20_000, 20, 20)  # a process of its own may let more lie
    _open_standard_descriptors()
    from indus_nb.console.stdio import complain, leave
    from indus_nb.redaction import hide_shapes, secrets_of  # not when it failed: there may be no descriptor left
    from indus_nb.textcut import one_line

    try:
        status = _run_with(sys.argv[1:] if arguments is None else arguments)
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


def _run_with(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["map"]:
        from indus_nb.console.rows import ask_rows

        return ask_rows(arguments[1:])
    options, others = _parser().parse_known_args(arguments)
    options.flags = _extension_flags(others)
    if options.prompts == ["doctor"]:  # as in `%agent doctor`
        options.doctor, options.prompts = True, []
    return _main(options)


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
    if options.mode in ("rpc", "acp", "mcp") and options.prompts:
        what = "@file arguments" if options.prompts[0].startswith("@") else "prompts"
        mode = options.mode.upper()
        raise UsageError(f"In {mode} mode {what} come as commands on standard input, not on the command line.")
    if options.mode in ("rpc", "acp", "mcp") and options.schema is not None:
        raise UsageError("--schema is for the modes text and json, which end with an answer.")
    if options.mode == "acp" and (options.session is not None or options.continue_last or options.models):
        raise UsageError("In ACP mode the client opens sessions: leave out --session, --continue and --models.")
    if options.mode == "mcp" and options.kernel is None:
        raise UsageError("In MCP mode say which running kernel is served: --kernel auto, or its connection file.")
    if options.print and options.mode != "text":
        raise UsageError(f"-p means text mode; it cannot be combined with --mode {options.mode}.")
    if options.tools is not None and options.no_tools:
        raise UsageError("Choose one of --tools and --no-tools.")


async def _run(options: argparse.Namespace) -> int:
    if options.doctor:
        return await _print_diagnosis(options)
    if options.mode == "acp":
        return await _serve_clients(options)
    if options.mode == "mcp":
        return await _serve_tools(options)
    if options.mode == "rpc":
        from indus_nb.console.rpc import serve

        return await serve(*await _open(options), options.wire)
    from indus_nb.console.once import answer_all, read_prompts

    prompts = read_prompts(options.prompts, options.flags)
    answer = _typed_answer(options.schema)
    session, _, descriptor_out = await _open(options)
    return await answer_all(session, prompts, options.mode, descriptor_out, options.wire, answer)


def _typed_answer(schema: str | None) -> FinalAnswer | None:
    """What ``--schema`` asks for; looked up before anything is sent."""
    if schema is None:
        return None
    from contextlib import redirect_stdout

    from indus_nb.answers import FinalAnswer
    from indus_nb.answers.naming import kind_of_option

    with redirect_stdout(sys.stderr):  # what a module prints that is imported for it
        return FinalAnswer(kind_of_option(schema))


async def _print_diagnosis(options: argparse.Namespace) -> int:
    from indus_nb.doctor import diagnosis

    options.no_session = options.session is None and not options.continue_last
    session, _, descriptor_out = await _open(options)
    with session, os.fdopen(descriptor_out, "w", encoding="utf-8", errors="backslashreplace") as out:
        out.writelines(f"{line}\n" for line in diagnosis(session))
    return 0


async def _open(options: argparse.Namespace) -> tuple[AgentSession, int, int]:
    """The session, and the descriptors to read from and write to."""
    from indus_nb.console.stdio import claim, complain
    from indus_nb.start import open_session

    chosen = _session_options(options)
    if options.kernel is not None:
        from indus_nb.attached import working_in

        chosen = working_in(options.kernel, chosen)
    session = open_session(chosen, definable=False)
    if options.mode == "text" and not options.doctor:
        await _ask_about_project(session)
    for problem in session.problems:
        complain(problem)
    # What is there by now counts as old: it is looked through with all the rest, and not at once.
    gc.freeze()
    gc.unfreeze()
    gc.enable()
    return session, *claim()


def _session_options(options: argparse.Namespace) -> SessionOptions:
    from indus_nb.start import SessionOptions

    return SessionOptions(
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
        trust=options.trust,
        sandbox=options.sandbox,
        max_cost=options.max_cost,
        max_turns=options.max_turns,
        timeout=options.timeout,
        jobs_after=None if options.mode in ("rpc", "acp") else 0,  # the other modes end with the answer
    )


async def _serve_clients(options: argparse.Namespace) -> int:
    from indus_nb.console.acp import serve
    from indus_nb.console.stdio import claim

    chosen = _session_options(options)
    gc.enable()
    return await serve(chosen, *claim(), kernel=options.kernel)


async def _serve_tools(options: argparse.Namespace) -> int:
    from indus_nb.attached.tools import AttachedKernel
    from indus_nb.console.stdio import on_signals
    from indus_nb.serving.clients import check_library

    check_library()
    from indus_nb.serving.stdio import serve_stdio

    options.no_session, options.approve = True, options.approve or "writes"
    session, *descriptors = await _open(options)
    return await serve_stdio(session, AttachedKernel.names, (descriptors[0], descriptors[1]), on_signals)


async def _ask_about_project(session: AgentSession) -> None:
    """Ask the user of a terminal about a project that is not decided about, before anything of it is used."""
    while (project := session.trusting.undecided) is not None:
        from indus_nb.console.terminal import can_ask, choose

        options = project.options()
        chosen = choose(session.trusting.question(project), list(options)) if can_ask() else None
        if chosen is None:
            return
        await session.trusting.decide(options[chosen], project)


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def _list_models(pattern: str) -> int:
    from indus_nb.console.stdio import complain
    from indus_nb.resources.settings import agent_directory, model_registry
    from indus_nb.terminal import plain
    from indus_nb.textcut import one_line

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
            one_line(plain(model.provider), _MAX_NAME_CHARACTERS),
            one_line(plain(model.id), _MAX_NAME_CHARACTERS),
            f"{model.context_window:,}",
            f"{model.max_tokens:,}",
            f"{model.cost.input:g}" if model.cost.known else "unknown",
            f"{model.cost.output:g}" if model.cost.known else "unknown",
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
