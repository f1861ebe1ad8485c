"""The console program: arguments in, one of the modes on."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from indus_nb.base.errors import IndusError, ModelNotFoundError, UsageError
from indus_nb.base.own_imports import keep_out_working_directory

if TYPE_CHECKING:
    import argparse

    from indus_nb.core.answers import FinalAnswer
    from indus_nb.core.session.session import AgentSession
    from indus_nb.start import SessionOptions

_MAX_NAME_CHARACTERS = 200


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and leave with its exit status."""
    keep_out_working_directory()  # which PYTHONPATH may hold
    gc.disable()  # what imports make is no garbage; see _open
    gc.set_threshold(20_000, 20, 20)  # a process of its own may let more lie
    _open_standard_descriptors()
    from indus_nb.base.textcut import one_line
    from indus_nb.front.console.stdio import UNREAD_STATUS, complain, in_words, leave
    from indus_nb.safety.redaction import hide_shapes, secrets_of  # not when it failed: there may be no descriptor left

    try:
        status = _run_with(sys.argv[1:] if arguments is None else arguments)
    except ModelNotFoundError as error:
        complain(f"{error} `indus-nb --list-models` shows the known ones.")
        status = 2
    except UsageError as error:
        complain(str(error))
        status = 2
    except IndusError as error:
        complain(in_words(error))
        status = 1
    except BrokenPipeError:
        status = UNREAD_STATUS
    except OSError as error:
        # What stands in the place of a path may be anything, such as a key that was set by mistake.
        place = f": {one_line(hide_shapes(str(error.filename), secrets_of()), 200)}" if error.filename else ""
        complain(f"The program cannot go on, for the system refused something ({error.strerror}{place}).")
        status = 1
    except KeyboardInterrupt:
        status = 130
    leave(status)


def _open_standard_descriptors() -> None:
    """Open the null device for each closed standard descriptor, so that no file of ours gets its number.

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
    from indus_nb.front.console.arguments import parse, without_help

    arguments = without_help(arguments)
    if arguments[:1] == ["map"]:
        from indus_nb.front.console.rows import ask_rows

        return ask_rows(arguments[1:])
    if arguments[:1] == ["eval"]:
        from indus_nb.front.console.evaluating import evaluate

        return evaluate(arguments[1:])
    if arguments[:1] == ["setup"]:
        from indus_nb.front.console.setup import set_up

        return set_up(arguments[1:])
    return _main(parse(arguments))


def _main(options: argparse.Namespace) -> int:
    if options.list_models is not None:
        return _list_models(options.list_models)
    if options.export is not None:
        return _export(options)
    from indus_nb.front.console.arguments import check

    check(options)
    if options.mode in ("acp", "json", "rpc"):
        from indus_nb.base.variables import take_from_host

        take_from_host()
    import asyncio

    return asyncio.new_event_loop().run_until_complete(_run(options))


def _export(options: argparse.Namespace) -> int:
    from indus_nb.base.files import current_directory
    from indus_nb.core.resources.settings import agent_directory, load_settings
    from indus_nb.core.storage import SessionStore, find_session
    from indus_nb.render.session_page import export_html, page_name
    from indus_nb.start import SessionOptions
    from indus_nb.start.stores import Stores

    if len(options.prompts) > 1:
        raise UsageError("--export writes one page: indus-nb --export SESSION [FILE.html]")
    cwd, agent_dir = current_directory(), agent_directory()
    settings = load_settings(cwd, agent_dir).settings
    stores = Stores(SessionOptions(session_dir=options.session_dir), settings, cwd, agent_dir)
    store = SessionStore.read(find_session(options.export, stores.directory))
    sys.stdout.write(f"{export_html(store, cwd / (options.prompts or [page_name(store)])[0])}\n")
    sys.stdout.flush()
    return 0


async def _run(options: argparse.Namespace) -> int:
    if options.doctor:
        return await _print_diagnosis(options)
    if options.mode == "acp":
        return await _serve_clients(options)
    if options.mode == "mcp":
        return await _serve_tools(options)
    if options.mode == "rpc":
        from indus_nb.front.console.hosting import serve

        return await serve(*await _open(options), options.wire)
    from indus_nb.front.console.once import answer_all, read_prompts

    prompts = read_prompts(options.prompts, options.flags)
    answer = _typed_answer(options.schema)
    session, _, descriptor_out = await _open(options)
    session.toolbox.takes_answers = answer is not None and len(prompts) > 1
    return await answer_all(session, prompts, options.mode, descriptor_out, options.wire, answer)


def _typed_answer(schema: str | None) -> FinalAnswer | None:
    """Return the answer type of ``--schema``; looked up before anything is sent."""
    if schema is None:
        return None
    from contextlib import redirect_stdout

    from indus_nb.core.answers import FinalAnswer
    from indus_nb.core.answers.naming import kind_of_option

    with redirect_stdout(sys.stderr):  # what a module prints that is imported for it
        return FinalAnswer(kind_of_option(schema))


async def _print_diagnosis(options: argparse.Namespace) -> int:
    from indus_nb.start.doctor import diagnosis

    session, _, descriptor_out = await _open(options)
    with session, os.fdopen(descriptor_out, "w", buffering=1, encoding="utf-8", errors="backslashreplace") as out:
        async for line in diagnosis(session):
            out.write(f"{line}\n")
    return 0


async def _open(options: argparse.Namespace) -> tuple[AgentSession, int, int]:
    """Return the session, and the descriptors to read from and write to."""
    from indus_nb.front.console.stdio import claim, complain
    from indus_nb.start import open_session

    chosen = _session_options(options)
    if options.kernel is not None:
        from indus_nb.kernel.attached import working_in

        chosen = working_in(options.kernel, chosen)
    session = open_session(chosen, definable=options.doctor)  # a diagnosis loads extensions, and starts none
    if options.mode == "text" and not options.doctor:
        await _ask_about_project(session)
    for problem in session.problems:
        complain(problem)
    descriptors = claim()
    try:
        if options.name is not None:
            await session.set_name(options.name)
        if options.flags:
            await session.load()
            session.hooks.check_flags()
    except BaseException:
        session.close()
        raise
    # What is there by now counts as old: it is looked through with all the rest, and not at once.
    gc.freeze()
    gc.unfreeze()
    gc.enable()
    return session, *descriptors


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
        builtin_tools=not options.no_builtin_tools,
        exclude_tools=[name for names in options.exclude_tools for name in _listed(names) or ()],
        session=options.session,
        session_id=options.session_id,
        fork=options.fork,
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
    from indus_nb.front.console.acp import serve
    from indus_nb.front.console.stdio import claim

    chosen, descriptors = _session_options(options), claim()
    gc.enable()
    if options.flags:
        await _check_flags(chosen)
    return await serve(chosen, *descriptors, kernel=options.kernel)


async def _check_flags(chosen: SessionOptions) -> None:
    """Raise ``UsageError`` for an option that no extension of the working directory has registered."""
    from dataclasses import replace

    from indus_nb.start import open_session

    session = open_session(replace(chosen, no_session=True), definable=False)
    try:
        await session.load()
        session.hooks.check_flags()
    finally:
        await session.end()


async def _serve_tools(options: argparse.Namespace) -> int:
    from indus_nb.front.console.stdio import on_signals
    from indus_nb.front.serving.clients import check_library
    from indus_nb.kernel.attached.attached_kernel import AttachedKernel

    check_library()
    from indus_nb.front.serving.stdio import serve_stdio

    options.no_session, options.approve = True, options.approve or "writes"
    session, *descriptors = await _open(options)
    return await serve_stdio(session, AttachedKernel.names, (descriptors[0], descriptors[1]), on_signals)


async def _ask_about_project(session: AgentSession) -> None:
    """Ask the user of a terminal about an undecided project, before anything of it is used."""
    while (project := session.trusting.undecided) is not None:
        from indus_nb.front.console.terminal import can_ask, choose

        options = project.options()
        chosen = choose(session.trusting.question(project), list(options)) if can_ask() else None
        if chosen is None:
            return
        await session.trusting.decide(options[chosen], project)


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def _list_models(pattern: str) -> int:
    from indus_nb.base.terminal import plain
    from indus_nb.base.textcut import one_line
    from indus_nb.core.resources.settings import agent_directory, model_registry
    from indus_nb.front.console.stdio import complain

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
    except BrokenPipeError:
        raise
    except OSError as error:
        complain(f"The output could not be written: {error.strerror}.")
        return 1
    return 0
