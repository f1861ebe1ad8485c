"""Effects of a tool call beside its result: a closed vocabulary that tools, gate, rules and settings share.

A tool that can try a call where nothing can happen (Python in a confined copy of the kernel, commands in a sandbox that
writes nothing) finds out which effects it has. A call without any is done with that; the others are decided by kind and
object, by settings, rules and the user (``indus_nb.extend.approval.permission_gate``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

EffectKind: TypeAlias = Literal[
    "reads_outside",
    "new_names",
    "draws_random",
    "changes_variable",
    "changes_setting",
    "writes_file",
    "deletes",
    "runs_program",
    "uses_network",
    "sends_message",
    "spends_money",
    "unknown",
]
"""Kinds of effects.

``reads_outside``: reads what is not of the project, the environment or the system. ``new_names``: adds variables that
take the place of none, or gives the agent's own other values. ``draws_random``: moves a generator of random numbers
on. ``changes_variable``: changes, rebinds or removes a variable, or what it holds. ``changes_setting``: of the process
or of a library. ``writes_file``: writes, moves or makes a file or directory. ``deletes`` one. ``runs_program``: one
that is not confined. ``uses_network``. ``sends_message``: to a front end, a person, another process. ``spends_money``.
``unknown``: it reached something whose changes cannot be seen, or could not be tried at all.
"""


NOT_UNDOABLE = "cannot be undone"
"""Words of an effect that cannot be taken back; the reason stands behind them."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of a call.

    Attributes:
        what: The object, as a rule names it: a variable, the absolute path of a file, ``host:port``, a program, a
            setting; empty where it has no name.
        words: A sentence without subject for the user, such as ``writes out.csv``.
    """

    kind: EffectKind
    what: str
    words: str

    @property
    def is_irreversible(self) -> bool:
        """Return whether it deletes a file, or its words say that it cannot be undone."""
        return self.kind == "deletes" or NOT_UNDOABLE in self.words


def cut(effects: Iterable[Effect], most: int) -> tuple[list[Effect], list[Effect]]:
    """Divide effects into the first ones, with at least one of each kind, and the rest.

    Args:
        most: How many are kept, apart from those that are the first of their kind.
    """
    kept: list[Effect] = []
    rest: list[Effect] = []
    kinds: set[EffectKind] = set()
    for effect in effects:
        (kept if len(kept) < most or effect.kind not in kinds else rest).append(effect)
        kinds.add(effect.kind)
    return kept, rest


def files_changed(effects: Iterable[Effect]) -> list[str]:
    """Return the paths of the files that effects write or delete."""
    return [effect.what for effect in effects if effect.kind in ("writes_file", "deletes") and effect.what]
