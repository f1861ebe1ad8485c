"""Rules behind an answer "always", such as ``writes_file: /work/out/``, by the effect and its object, and their file.

What this module promises: a rule covers no effect of another kind, and no file that leads elsewhere, that keeps secrets
or that programs run or follow, wherever it is, nor does a setting that allows to write files. No rule covers deleting,
running a program, sending or spending.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from indus_nb.base.files import (
    is_link_of_others,
    make_private_directory,
    others_can_write,
    read_file,
    write_atomically,
)
from indus_nb.base.locks import FileLock
from indus_nb.base.visible import is_plain
from indus_nb.base.wire import load_object
from indus_nb.core.session.dialogs import Ui
from indus_nb.safety.effects import Effect, EffectKind
from indus_nb.tools.files.previews import may_be_written_unasked
from indus_nb.tools.files.reach import places_read_with
from indus_nb.tools.files.targets import look

RULES_FILE = "approved.json"
_LOCK_SECONDS = 5.0
_MAX_CHARACTERS = 120
"""Longest rule offered, in characters: a user would not read a longer one before allowing it for good."""
TOOL = "tool "
"""Prefix of the object of an effect that is a tool of which nothing else is known."""
_WHATEVER: Mapping[EffectKind, str] = {
    "new_names": "may make new variables, and change its own",
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


class KeptRules:
    """The rules of the file in ``agent_dir``; ``problem`` is what was wrong with it when it was read last, or empty."""

    def __init__(self, agent_dir: Path) -> None:
        self.problem: str = ""
        self._path = agent_dir / RULES_FILE
        self._reported: set[str] = set()

    async def of(self, directory: Path, ui: Ui) -> Sequence[str]:
        """Read the rules for a directory; a problem with the file is shown once.

        Args:
            ui: Where to show the problem.
        """
        rules, self.problem = await asyncio.to_thread(self._read)
        if self.problem:
            self._report(self.problem, ui)
        return rules.get(str(directory), ())

    async def add(self, directory: Path, rules: Sequence[str]) -> None:
        """Keep rules for ``directory``; where that is not possible they count for this once."""
        await asyncio.to_thread(self._change, str(directory), lambda before: [*before, *rules])

    async def remove(self, directory: Path, rules: Collection[str]) -> bool:
        """Keep rules for ``directory`` no more; returns whether the file was written."""

        def without(before: Sequence[str]) -> Sequence[str]:
            return [rule for rule in before if rule not in rules]

        return await asyncio.to_thread(self._change, str(directory), without)

    def _report(self, problem: str, ui: Ui) -> None:
        if problem not in self._reported:
            self._reported.add(problem)
            ui.notify(problem, "warning")

    def _read(self) -> tuple[Mapping[str, Sequence[str]], str]:
        advice = "No rule in it counts, and none is added, until you mend or remove it."
        try:
            if (objection := _objection(self._path)) is not None:
                return {}, f"{objection} {advice}"
            rules = load_object(read_file(self._path))
        except FileNotFoundError:
            return {}, ""
        except OSError as error:
            return {}, f"{self._path}: cannot be read ({error.strerror}). {advice}"
        except ValueError as error:
            return {}, f"{self._path}: is no JSON ({error}). {advice}"
        for directory, kept in rules.items():
            if not isinstance(kept, list) or not all(isinstance(rule, str) for rule in cast("list[object]", kept)):
                return {}, f"{self._path}: `{directory}` must be a list of texts. {advice}"
        return rules, ""

    def _change(self, directory: str, changed: Callable[[Sequence[str]], Sequence[str]]) -> bool:
        try:
            make_private_directory(self._path.parent)
            with FileLock(self._path, _LOCK_SECONDS):
                before, problem = self._read()
                if problem:
                    return False
                rules = {**before, directory: [*dict.fromkeys(changed(before.get(directory, [])))]}
                rules = {name: kept for name, kept in rules.items() if kept}
                text = json.dumps(rules, indent=2, ensure_ascii=False) + "\n"
                write_atomically(self._path, text.encode(), mode=0o600, exclusive=True)
                self._path.chmod(0o600)  # whatever it was before
        except OSError:
            return False  # it will be asked again
        return True


def _objection(path: Path) -> str | None:
    """Return why a file is perhaps not what the user wrote; raises ``OSError`` where there is none."""
    if is_link_of_others(path):
        return f"{path}: it is a link that another user made."
    for place, found in ((path, path.stat()), (path.parent, path.parent.stat())):
        if found.st_uid not in (os.geteuid(), 0):
            return f"{place}: it belongs to another user."
        # A sticky directory keeps others from replacing what is not theirs.
        if not (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX) and others_can_write(found):
            return f"{place}: others than you can write to it: `chmod go-w {place}`."
    return None
