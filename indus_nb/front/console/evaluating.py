"""``indus-nb eval``: have a suite of tasks solved, and write the card; ``indus-nb eval compare``: two of them.

What this module promises: standard output holds the path of the card and nothing else; the exit status says whether
each trial has a result, not whether the agent was good.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from indus_nb.base.errors import CredentialsError, UsageError
from indus_nb.base.files import expand_user, write_atomically
from indus_nb.base.textcut import counted
from indus_nb.front.console.arguments import Parser
from indus_nb.front.console.stdio import complain, on_signals

if TYPE_CHECKING:
    from indus_nb.base.wire import JsonObject
    from indus_nb.evaluate import Attempt, BenchmarkTask, Series
    from indus_nb.start import SessionOptions

_EPILOG = """\
`indus-nb eval compare A B` compares two directories of results, trial by trial; --out FILE.html says where to.
The same command again goes on where it was stopped.

exit status: 0 each trial has a result, 1 some have none, 2 wrong usage, 128+N ended by signal N"""
_TURNS, _SECONDS = 50, 900.0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="indus-nb eval",
        description="Evaluate an agent on tasks about data.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("suite", metavar="SUITE", help="notebook, kramabench or dataagentbench")
    parser.add_argument("--data", metavar="DIR", help="where a suite lies that is not part of this package")
    parser.add_argument(
        "--harness", default="ours", metavar="NAME", help="ours, bare, pi, omp, oracle, idle or cheater"
    )
    parser.add_argument("--tasks", metavar="A,B", help="only tasks whose id or category begins so")
    parser.add_argument("--trials", type=int, default=1, metavar="N", help="how often each task is tried (1)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="what the data are made from (1)")
    parser.add_argument("--parallel", type=int, default=2, metavar="N", help="how many trials go on at once (2)")
    parser.add_argument("--out", metavar="DIR", help="where results, sessions and the card go")
    parser.add_argument("--unconfined", action="store_true", help="run kernels without a sandbox, in a container")
    limits = parser.add_argument_group("limits")
    limits.add_argument("--max-cost", type=float, metavar="USD", help="for all of it, what was spent before included")
    limits.add_argument(
        "--max-turns", type=int, default=_TURNS, metavar="N", help=f"answers to a prompt at most ({_TURNS})"
    )
    limits.add_argument(
        "--timeout", type=float, default=_SECONDS, metavar="SECONDS", help=f"for a prompt at most ({_SECONDS:g})"
    )
    model = parser.add_argument_group("model")
    model.add_argument("--provider", metavar="NAME", help="anthropic, openai, …")
    model.add_argument("--model", metavar="ID", help="an id, provider/id or part of a name; :LEVEL sets the thinking")
    model.add_argument("--thinking", metavar="LEVEL", help="off, minimal, low, medium, high or xhigh")
    model.add_argument("--api-key", metavar="KEY", help="the provider's key, instead of the environment's")
    return parser


def evaluate(arguments: Sequence[str]) -> int:
    """Run ``indus-nb eval``.

    Args:
        arguments: The arguments behind ``eval`` on the command line.

    Raises:
        IndusError: Nothing could be evaluated, or results could not be read.
    """
    gc.enable()
    if arguments[:1] == ["compare"]:
        return _compare(arguments[1:])
    options = _parser().parse_args(arguments)
    for name in ("trials", "parallel", "max_turns"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} is a number above zero.")
    return asyncio.new_event_loop().run_until_complete(_evaluate(options))


async def _evaluate(options: argparse.Namespace) -> int:
    from indus_nb.evaluate import Conditions, read_series, run_series
    from indus_nb.evaluate.card import card
    from indus_nb.evaluate.harnesses import HARNESSES
    from indus_nb.evaluate.sandboxed_kernel import check_confinement
    from indus_nb.evaluate.series import RESULTS
    from indus_nb.evaluate.suites import open_suite
    from indus_nb.version import __version__

    if options.harness not in HARNESSES:
        raise UsageError(f"There is no harness {options.harness!r}. Known are {', '.join(HARNESSES)}.")
    suite = open_suite(options.suite, None if options.data is None else expand_user(options.data).absolute())
    tasks = _chosen(suite.tasks, options.tasks)
    if not options.unconfined:
        check_confinement()
    out = expand_user(options.out or f"evaluation-{options.suite}-{options.harness}").absolute()
    chosen = _session_options(options, out)
    about: JsonObject = {
        "suite": options.suite,
        "harness": options.harness,
        "model": _model(chosen, options.harness, options.max_cost),
        "seed": options.seed,
        "version": __version__,
        "confined": not options.unconfined,
        "max_turns": options.max_turns,
        "timeout": options.timeout,
    }
    conditions = Conditions(
        harness=HARNESSES[options.harness],
        options=chosen,
        seed=options.seed,
        hidden=(out, *suite.hidden),
        confined=not options.unconfined,
    )
    whole = len(tasks) * options.trials
    reported = [0]

    def report(result: Attempt) -> None:
        reported[0] += 1
        why = f" ({result.why})" if result.why else ""
        complain(f"{reported[0]}/{whole} {result.task}, trial {result.trial}: {result.ending}{why}")

    running = asyncio.ensure_future(
        run_series(
            tasks,
            conditions,
            about,
            out=out,
            trials=options.trials,
            parallel=options.parallel,
            max_cost=options.max_cost,
            on_attempt=report,
        )
    )
    ended: list[int] = []

    def end(status: int) -> None:
        ended.append(status)
        running.cancel()

    on_signals(end)
    try:
        series = await running
    except asyncio.CancelledError:
        if not (out / RESULTS).exists():
            return max(ended, default=130)
        series = read_series(out / RESULTS)
    shown = _of_this_command(series, tasks, options.trials)
    if running.cancelled():
        shown.problems.append(f"Stopped after {len(shown.attempts)} of {counted(whole, 'trial')}.")
    _tell(shown, out / RESULTS)
    _write(card(shown, whole, options.tasks), out / "card")
    return max(ended, default=130) if running.cancelled() else int(len(shown.attempts) < whole)


def _chosen(tasks: Sequence[BenchmarkTask], wanted: str | None) -> list[BenchmarkTask]:
    names = [name.strip() for name in (wanted or "").split(",") if name.strip()]
    for name in names:
        if not any(each.id.startswith(name) or each.category.startswith(name) for each in tasks):
            raise UsageError(f"No task and no category of the suite begins with {name!r}.")
    return [
        each for each in tasks if not names or any(each.id.startswith(n) or each.category.startswith(n) for n in names)
    ]


def _of_this_command(series: Series, tasks: Sequence[BenchmarkTask], trials: int) -> Series:
    """Return a series without the results of tasks and trials that are not asked for."""
    from dataclasses import replace

    names = {task.id for task in tasks}
    chosen = [each for each in series.attempts if each.task in names and each.trial <= trials]
    return replace(series, attempts=chosen)


def _tell(series: Series, path: Path) -> None:
    """Say what kept results from being there, and how they can be had."""
    for problem in series.problems:
        complain(problem)
    if series.problems:
        complain(f"The same command {'with a higher --max-cost' if series.is_spent else 'again'} goes on from here.")
    if series.unread:
        complain(f"{path}: what is no result of a trial is left out ({counted(series.unread, 'line')}).")


def _session_options(options: argparse.Namespace, out: Path) -> SessionOptions:
    from indus_nb.evaluate.series import SESSIONS
    from indus_nb.start import SessionOptions

    return SessionOptions(
        provider=options.provider,
        model=options.model,
        thinking=options.thinking,
        api_key=options.api_key,
        session_dir=out / SESSIONS,
        use_extensions=False,
        use_skills=False,
        use_prompt_templates=False,
        use_context_files=False,
        approve="never",
        trust=False,
        max_turns=options.max_turns,
        timeout=options.timeout,
        jobs_after=0,
    )


def _model(options: SessionOptions, harness: str, max_cost: float | None) -> str:
    """Return the name of the model that a harness will use; raises where it could not be asked."""
    from dataclasses import replace

    from indus_nb.core.limits import Budget
    from indus_nb.core.limits.paying import check_price
    from indus_nb.evaluate.harnesses import ASKS_NO_MODEL, OTHER_PROGRAMS
    from indus_nb.evaluate.other_programs import installed
    from indus_nb.start import open_session

    budget = Budget(max_cost)
    if harness in ASKS_NO_MODEL:
        return ""
    if harness in OTHER_PROGRAMS:  # which look for it themselves
        installed(harness)
        return ":".join(filter(None, ["/".join(filter(None, [options.provider, options.model])), options.thinking]))
    with open_session(replace(options, no_session=True), definable=False) as session:
        try:
            model = session.models.required
            session.models.stream_options(model)  # which looks for the key
        except CredentialsError as error:
            raise UsageError(str(error)) from error
        check_price(model, budget)
        return f"{model.provider}/{model.id}:{session.thinking_level}"


def _write(card: str, place: Path) -> None:
    from indus_nb.evaluate.card import card_html

    for suffix, text in ((".md", card), (".html", card_html(card))):
        write_atomically(place.with_suffix(suffix), text.encode())
    sys.stdout.write(f"{place.with_suffix('.html')}\n")
    sys.stdout.flush()


def _comparing_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="indus-nb eval compare", allow_abbrev=False)
    parser.add_argument("first", metavar="A", help="a directory of results, or the file of them")
    parser.add_argument("second", metavar="B", help="another one")
    parser.add_argument("--out", default="comparison.html", metavar="FILE.html", help="where the card goes")
    return parser


def _compare(arguments: Sequence[str]) -> int:
    from indus_nb.evaluate import read_series
    from indus_nb.evaluate.card import comparison
    from indus_nb.evaluate.series import RESULTS

    options = _comparing_parser().parse_args(arguments)
    both: list[Series] = []
    for given in (options.first, options.second):
        path = expand_user(given)
        path = path / RESULTS if path.is_dir() else path
        both.append(read_series(path))
        _tell(both[-1], path)
    out = expand_user(options.out).absolute()
    try:
        _write(comparison(both[0], both[1]), out)
    except OSError as error:
        raise UsageError(f"--out {out} cannot be written: {error.strerror}.") from error
    return 0
