"""Rules behind an answer "always", such as ``writes_file: /work/out/``, by the effect and its object.

What this module promises: a rule covers no effect of another kind, and no file that leads elsewhere, that keeps secrets
or that programs run or follow, wherever it is, nor does a setting that allows to write files. No rule covers deleting,
running a program, sending or spending.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from indus_nb.base.visible import is_plain
from indus_nb.safety.effects import Effect, EffectKind
from indus_nb.tools.files.previews import may_be_written_unasked
from indus_nb.tools.files.reach import places_read_with
from indus_nb.tools.files.targets import look

_MAX_CHARACTERS = 120
"""Longest rule offered, in characters: a user would not read a longer one before allowing it for good."""
TOOL = "tool "
"""Prefix of the object of an effect that is a tool of which nothing else is known."""
_WHATEVER: Mapping[EffectKind, str] = {
    "new_names": "may make new variables",
    "draws_random": "may draw random numbers",
}
"""Kinds that are allowed or not, whatever the object is."""
_IN_SESSION_ONLY = ("changes_variable", "unknown")
"""Variables are those of one kernel, and another session may have another tool of that name."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule that may be allowed for good.

    Attributes:
        text: The rule as it is kept, ``KIND: object``; a directory ends with a slash, and all below it is meant.
        words: What it allows, for the user: ``may write below out/``.
        for_directory: Whether it can be kept for later sessions in the directory.
    """

    text: str
    words: str
    for_directory: bool


def covered(effects: Iterable[Effect], rules: Collection[str], cwd: Path, private: Sequence[Path] = ()) -> bool:
    """Return whether rules cover all of these effects; looks at files.

    Args:
        private: Directories of which no rule covers anything.
    """
    return all(any(rule.text in rules for rule in _rules(effect, cwd, private)) for effect in effects)


def can_be_allowed(effect: Effect, cwd: Path, private: Sequence[Path] = ()) -> bool:
    """Return whether a setting that allows all effects of a kind may allow this one; looks at files.

    Args:
        private: Directories of which no rule covers anything.

    Returns:
        Whether it may: of files that are written only those that a rule could cover.
    """
    return effect.kind != "writes_file" or bool(_rules(effect, cwd, private))


def offered(effects: Iterable[Effect], cwd: Path, private: Sequence[Path] = ()) -> Sequence[Rule]:
    """Return the rules that would cover all of these effects; looks at files.

    Args:
        private: Directories of which no rule covers anything.

    Returns:
        The rules, none where an effect cannot be covered by any.
    """
    found: dict[str, Rule] = {}
    for effect in sorted(effects, key=lambda effect: len(effect.what), reverse=True):  # a file before its directory
        rules = _rules(effect, cwd, private)
        if not rules or not _is_readable(rules[0]):
            return ()
        if not any(rule.text in found for rule in rules):
            found[rules[0].text] = rules[0]
    return list(found.values())


def _is_readable(rule: Rule) -> bool:
    return all(is_plain(text) and len(text) <= _MAX_CHARACTERS for text in (rule.text, rule.words))


def places_to_read(rules: Iterable[str]) -> list[Path]:
    """Return the files and directories that rules allow to read."""
    kind = "reads_outside: "
    return [Path(rule.removeprefix(kind)) for rule in rules if rule.startswith(kind)]


def _rules(effect: Effect, cwd: Path, private: Sequence[Path]) -> list[Rule]:
    """Return the rules that cover an effect, the one to be offered first."""
    kind, what = effect.kind, effect.what
    places: Sequence[str] = ()
    words = ""
    if kind == "writes_file" and what:
        places = _places_written(Path(what), cwd)
    elif kind == "reads_outside" and what:
        target = look(Path(os.path.realpath(what)))
        within = any(target.path.is_relative_to(os.path.realpath(place)) for place in private)
        places = () if within else places_read_with(target)
    elif kind == "changes_variable" and what.isidentifier():
        words = f"may change {what}"
    elif kind == "uses_network" and what:
        words = f"may connect to {what}"
    elif kind == "unknown" and what.startswith(TOOL):
        words = f"may call {what.removeprefix(TOOL)} with any arguments"
    elif kind in _WHATEVER:
        what, words = "any", _WHATEVER[kind]
    if words:
        return [Rule(f"{kind}: {what}", words, for_directory=kind not in _IN_SESSION_ONLY)]
    verb = "may write" if kind == "writes_file" else "may read"
    return [Rule(f"{kind}: {place}", f"{verb} {_shown(place, cwd)}", for_directory=True) for place in places]


def _places_written(path: Path, cwd: Path) -> Sequence[str]:
    """Return a file's directory, if in the project, and those above; in the project itself the file first."""
    target, here = look(Path(os.path.realpath(path))), Path(os.path.realpath(cwd))
    if not may_be_written_unasked(target, here):
        return ()
    inside = target.path.relative_to(here)
    above = [f"{here / each}/" for each in inside.parents]
    itself = [str(target.path), f"{target.path}/"]  # a directory is made before something is in it
    return [*above, *itself] if len(above) > 1 else [*itself, *above]


def _shown(place: str, cwd: Path) -> str:
    inside = place.removeprefix(f"{os.path.realpath(cwd)}/")
    return f"below {inside}" if place.endswith("/") else inside
