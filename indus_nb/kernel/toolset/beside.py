"""Code that runs in a copy of the kernel while the user works on, and whose values are brought back at its end.

What this module promises: the kernel is free meanwhile, and what the user has changed in that time is not overwritten.
A value of a variable that is another one by then gets a name of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Any

from indus_nb.base import textcut
from indus_nb.base.events import ToolOutput
from indus_nb.base.wire import clean_text
from indus_nb.kernel.toolset.results import joined
from indus_nb.kernel.trials.trying import Trial
from indus_nb.safety.effects import Effect
from indus_nb.safety.redaction import hide_known, labelled_secrets
from indus_nb.tools.jobs import Jobs
from indus_nb.tools.tool import ToolContext

_TOOL = "python beside"
"""The name of such jobs: those of the tool's own name hold the kernel."""
_MAX_REASON_CHARACTERS = 160
_UNCHANGING = (str, bytes, bool, int, float, complex, type(None))


async def run_beside(
    work: Callable[[ToolContext], Awaitable[ToolOutput]], context: ToolContext, jobs: Jobs | None, code: str
) -> ToolOutput:
    """Run code as a job from the beginning; without jobs it is waited for.

    Raises:
        ToolError: It failed at once.
    """
    if jobs is None:
        return await work(context)
    return await jobs.run(work, context, tool=_TOOL, what=code, background=True)


def names_beside(
    names: Collection[str],
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    *,
    cells_ran: bool,
    asked: Collection[str] = (),
) -> dict[str, str]:
    """Return other names for variables that may have been changed since the copy was made.

    Args:
        names: Variables that the code in the copy has made or bound anew.
        before: Those of its variables that were there then.
        now: The variables of now.
        cells_ran: Whether cells have run since, which may have changed a list or a frame in itself.
        asked: Variables of which the user was told that they stay.

    >>> names_beside(["a", "b", "c"], {"a": 1, "b": 2}, {"a": 1, "b": 3, "b_beside": 4}, cells_ran=True)
    {'b': 'b_beside_2'}
    >>> listed = [1]
    >>> names_beside(["a"], {"a": listed}, {"a": listed}, cells_ran=False)
    {}
    >>> names_beside(["a"], {"a": listed}, {"a": listed}, cells_ran=True)
    {'a': 'a_beside'}
    >>> names_beside(["a"], {"a": 1}, {"a": 1}, cells_ran=False, asked=["a"])
    {'a': 'a_beside'}
    """
    missing = object()
    changed = (
        name
        for name in sorted(names)
        if name in asked
        or now.get(name, missing) is not (value := before.get(name, missing))
        or (cells_ran and value is not missing and type(value) not in _UNCHANGING)
    )
    return {name: _free_name(f"{name}_beside", now) for name in changed}


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    others = (f"{name}_{number}" for number in count(2))
    return name if name not in taken else next(other for other in others if other not in taken)


def renamed(effects: Sequence[Effect], instead: Mapping[str, str]) -> list[Effect]:
    """Return the effects of taking values over, some of them under other names.

    >>> [each.words for each in renamed([Effect("changes_variable", "a", "changes a 1 → 2")], {"a": "a_beside"})]
    ['makes a_beside (a stays as it is)']
    """
    return [
        Effect("new_names", new, f"makes {new} ({effect.what} stays as it is)")
        if (new := instead.get(effect.what)) is not None
        else effect
        for effect in effects
    ]


def question_of(job: str) -> str:
    """Return what is asked once the code has run.

    Args:
        job: The id of the job that it was; empty if it had none yet.
    """
    return (
        f"{job or 'The code'} has ended: take its variables over? It does not run again; with No they are left out, "
        "and the result is gone."
    )


def not_kept(trial: Trial, effects: Sequence[Effect]) -> str:
    """Return what the model reads of code whose effects a copy cannot hand over."""
    why = textcut.one_line(effects[0].words, _MAX_REASON_CHARACTERS)
    text = f"It ran in a copy of the kernel, of which nothing was kept: it {why}. Run it without beside."
    return clean_text(hide_known(joined(trial.text().content, text), labelled_secrets()))
