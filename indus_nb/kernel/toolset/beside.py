"""Code that runs in a copy of the kernel while the user works on, and whose values are brought back at its end.

What this module promises: the kernel is free meanwhile, and what the user has changed in that time is not overwritten.
A value of a variable that is another one by then gets a name of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from itertools import count
from keyword import iskeyword
from typing import Any, NamedTuple

from indus_nb.base import textcut
from indus_nb.base.events import ToolOutput
from indus_nb.base.wire import clean_text
from indus_nb.kernel.run.outputs import OutputBoard
from indus_nb.kernel.toolset.results import joined
from indus_nb.kernel.trials.trying import Trial
from indus_nb.kernel.undo import CheckpointBudget, read
from indus_nb.kernel.undo.reach import bound_in_source, names_in_source
from indus_nb.safety.effects import Effect
from indus_nb.safety.redaction import hide_known, labelled_secrets
from indus_nb.tools.jobs import Job, Jobs
from indus_nb.tools.tool import ToolContext

_TOOL = "python beside"
"""The name of such jobs: those of the tool's own name hold the kernel."""
_MAX_REASON_CHARACTERS = 160
_MAX_NAMED = 20
UNASKED = "would have got another value, and nobody could be asked"
"""Why a variable keeps the value that it has."""
ASKED_ANEW = "What it would change here was changed since you were asked, so you are asked anew.\n"
GONE = "Nothing of what the code made was taken over, and it is gone."
"""What the model reads behind a no."""


async def run_beside(
    work: Callable[[ToolContext], Awaitable[ToolOutput]],
    context: ToolContext,
    jobs: Jobs | None,
    code: str,
    outputs: OutputBoard,
) -> ToolOutput:
    """Run code as a job from the beginning; without jobs it is waited for.

    Args:
        outputs: Where the card of the call finds the job, whose end it shows while it can.

    Raises:
        ToolError: It failed at once.
    """
    if jobs is None:
        return await work(context)

    def begin(job: Job) -> None:
        if (shown := outputs.of(context.call_id)) is not None:
            shown.job = job

    return await jobs.run(work, context, tool=_TOOL, what=code, background=True, on_job=begin)


class Instead(NamedTuple):
    """What becomes of a value whose variable keeps the one that it has here.

    Attributes:
        name: The variable that gets it; empty for none.
        why: The reason, as it stands behind the variable's name.
    """

    name: str
    why: str


class SinceCopy:
    """What code reads and binds, as it was when the kernel was copied; for the main thread.

    >>> space, cells = {"a": 1, "rows": [1], "step": 2}, 0
    >>> since = SinceCopy(space, "a = b = step; rows = [*rows]", str, CheckpointBudget(), lambda: cells)
    >>> cells = 1
    >>> since.kept(["a", "b", "rows"])
    {}
    >>> space |= {"b": 3, "step": 4}
    >>> space["rows"].append(2)
    >>> since.kept(["a", "b", "rows"])
    {'b': 'was made here meanwhile', 'rows': 'was changed here meanwhile'}
    >>> since.read
    ['step']
    """

    def __init__(
        self,
        space: Mapping[str, Any],
        code: str,
        transform: Callable[[str], str],
        budget: CheckpointBudget,
        cells: Callable[[], int],
    ) -> None:
        """Remember the variables, those first that the code binds.

        Args:
            space: The variables of the kernel.
            transform: Makes Python of what a notebook allows besides.
            cells: Returns how many cells have run.
        """
        self._space = space
        self._cells, self._cells_before = cells, cells()
        bound, named = bound_in_source(code, transform), names_in_source(code, transform)
        held = self._held = [name for name in space if name.isidentifier() and not iskeyword(name)]
        self._bound = read(space, ", ".join(name for name in held if bound is None or name in bound), budget)
        others = [] if bound is None or named.everything else [name for name in held if name in named.names - bound]
        self._others = read(space, ", ".join(others), budget)

    @property
    def read(self) -> list[str]:
        """Return the variables that the code only reads, and that are not as they were."""
        return sorted(self._others.differing() & self._others.names)

    def kept(self, names: Collection[str]) -> dict[str, str]:
        """Return those variables that must not get another value, each with the reason.

        A variable whose content could not be remembered is among them once a cell has run.
        """
        now, remembered = self._space, (self._bound, self._others)
        differing = remembered[0].differing() | remembered[1].differing()
        known = self._bound.names | self._others.names
        unseen = {**self._others.left_out, **self._bound.left_out}
        unseen |= {name: "the code reaches it by another name" for name in self._held if name not in known}
        has_run = self._cells() > self._cells_before
        found: dict[str, str] = {}
        for name in sorted(names):
            if name not in known and name not in self._held:
                if name in now:
                    found[name] = "was made here meanwhile"
            elif name not in now:
                found[name] = "was deleted here meanwhile"
            elif name in differing:
                found[name] = "was changed here meanwhile"
            elif has_run and name in unseen:
                found[name] = f"may have been changed here meanwhile, which cannot be seen ({unseen[name]})"
        return found


def names_beside(kept: Mapping[str, str], now: Collection[str], modules: Collection[str]) -> dict[str, Instead]:
    """Return what becomes of the values of variables that keep what they have here.

    Args:
        kept: The variables, each with the reason.
        now: The names of all variables of now.
        modules: Those variables whose new values are modules, which get no other name.

    >>> names_beside({"a": "was made here", "time": "was made here"}, ["a", "a_beside", "time"], ["time"])
    {'a': Instead(name='a_beside_2', why='was made here'), 'time': Instead(name='', why='was made here')}
    """
    return {
        name: Instead("" if name in modules else _free_name(f"{name}_beside", now), why)
        for name, why in sorted(kept.items())
    }


def _free_name(name: str, taken: Collection[str]) -> str:
    others = (f"{name}_{number}" for number in count(2))
    return name if name not in taken else next(other for other in others if other not in taken)


def renamed(effects: Sequence[Effect], instead: Mapping[str, Instead]) -> list[Effect]:
    """Return the effects of taking values over, some of them under other names.

    >>> a = {"a": Instead("a_beside", "")}
    >>> [each.words for each in renamed([Effect("changes_variable", "a", "changes a 1 → 2")], a)]
    ['makes a_beside (a stays as it is)']
    """
    found: list[Effect] = []
    for effect in effects:
        if (new := instead.get(effect.what)) is None:
            found.append(effect)
        elif new.name:
            found.append(Effect("new_names", new.name, f"makes {new.name} ({effect.what} stays as it is)"))
    return found


def what_came(trial: Trial, instead: Mapping[str, Instead], read: Sequence[str]) -> str:
    """Write for the model and the user what was taken over, under which names, and what was not, and why.

    Args:
        read: Variables that the code has read and that are others by now.
    """
    effects = [effect for effect in trial.effects if effect.what not in instead and effect.what not in trial.unnamed]
    new = [effect.what for effect in effects if effect.words.startswith("adds ")]
    changed = [
        effect.words.removeprefix("changes ")
        for effect in effects
        if effect.kind in ("new_names", "changes_variable") and not effect.words.startswith("adds ")
    ]
    sentences = [f"{head}: {_listed(parts)}." for head, parts in (("New", new), ("Changed", changed)) if parts]
    beside = [(name, *each) for name, each in instead.items() if each.name]
    sentences += [
        f"{name} {why}, so the new value is in {other}; {name} itself stays as it is here."
        for name, other, why in beside[:_MAX_NAMED]
    ]
    if more := beside[_MAX_NAMED:]:
        sentences.append(f"So it is with {_listed([f'{name} ({other})' for name, other, _ in more])}.")
    if not sentences:
        sentences.append("It left no variables here.")
    if renewed := [] if trial.report is None else [name for name in trial.report.renewed if name not in instead]:
        new = "is a new object" if len(renewed) == 1 else "are new objects"
        sentences.append(f"{_listed(renewed)} {new} here, and what else held the old one still has that.")
    if read:
        sentences.append(f"It began before {_listed(read)} changed here, and has read what was there then.")
    return f"[It ran in a copy of the kernel. {' '.join(sentences)}]"


def _listed(parts: Sequence[str]) -> str:
    shown = [textcut.one_line(part, _MAX_REASON_CHARACTERS) for part in parts[:_MAX_NAMED]]
    return ", ".join([*shown, *([f"{len(parts) - _MAX_NAMED} more"] if len(parts) > _MAX_NAMED else [])])


def question_of(job: str) -> str:
    """Return what is asked once the code has run.

    Args:
        job: The id of the job that it was; empty if it had none yet.
    """
    return (
        f"{job or 'The code'} has ended: take its variables over? It does not run again; with No they are left out, "
        "and the result is gone."
    )


def not_brought(lost: Sequence[Effect]) -> str:
    """Return what the model and the user read of changes that could not be taken over, as the others were.

    >>> not_brought([Effect("new_names", "model", "adds model (a Model)")])
    '[Not brought back, so it is missing here: it adds model (a Model). Run that without beside.]'
    """
    if not lost:
        return ""
    words = "; ".join(textcut.one_line(each.words, _MAX_REASON_CHARACTERS) for each in lost[:_MAX_NAMED])
    more = f"; and {len(lost) - _MAX_NAMED} more" if len(lost) > _MAX_NAMED else ""
    text = f"[Not brought back, so it is missing here: it {words}{more}. Run that without beside.]"
    return clean_text(hide_known(text, labelled_secrets()))


def not_kept(trial: Trial, effects: Sequence[Effect]) -> str:
    """Return what the model reads of code whose effects a copy cannot hand over."""
    why = textcut.one_line(effects[0].words, _MAX_REASON_CHARACTERS)
    text = f"It ran in a copy of the kernel, of which nothing was kept: it {why}. Run it without beside."
    return clean_text(hide_known(joined(trial.text().content, text), labelled_secrets()))
