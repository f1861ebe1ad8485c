"""Answers that a notebook keeps: `%agent keep`, and what a run says of those that it found.

What this module promises: nothing is kept unless the notebook's own code or metadata, or the environment, names a file
for it.
"""

from __future__ import annotations

from pathlib import Path

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.variables import CASSETTE, CASSETTE_MODE, set_variable, variable
from indus_nb.front.notebook.magic.subcommands import CommandOutput
from indus_nb.models.cassettes.environment import environment_cassette

_NONE = "No answers are kept. `%agent keep answers.json` keeps them from the next prompt on."
_HOW = (
    "An equal request is answered from it, at no cost: in a fresh kernel, run all cells again. `%agent keep drop` "
    "forgets them, `%agent keep off` asks the model each time."
)


def keep(argument: str) -> CommandOutput:
    """Carry out `%agent keep`.

    Args:
        argument: A file, ``off``, ``drop``, or nothing for a list.

    Raises:
        UsageError: A cassette is in use already, the file is none, or none is in use.
        OSError: The file cannot be written.
    """
    kept = environment_cassette.kept
    if argument not in ("", "off", "drop"):
        return _begun(argument)
    if kept is None:
        if argument:
            raise UsageError(f"Nothing was done. {_NONE}")
        return CommandOutput(_NONE, "notice")
    if argument == "off":
        for name in (CASSETTE, CASSETTE_MODE):
            set_variable(name, None)
        return CommandOutput(f"The model is asked each time from now on. {kept.path} stays as it is.", "notice")
    if argument == "drop":
        return CommandOutput(f"{textcut.counted(kept.drop(), 'answer')} dropped from {kept.path}.", "notice")
    rows = [
        (prompt.text, textcut.counted(prompt.answers, "answer"), f"{prompt.used} used here" if prompt.used else "")
        for prompt in kept.prompts()
    ]
    if not rows:
        return CommandOutput(f"{kept.path} holds no answers yet.", "notice")
    return CommandOutput(f"Prompts with answers in {kept.path}. {_HOW}", "listing", rows)


def keep_as_noted(path: Path | None) -> str:
    """Keep answers in the file that the notebook's metadata name, unless they are kept or recorded already.

    Returns:
        A sentence; empty where there is nothing to say.
    """
    if path is None or variable(CASSETTE):
        return ""
    try:
        return f"{_begun(str(path)).text} The notebook says so (`indus_nb.keep` in its metadata)."
    except UsageError as error:
        return f"No answers are kept: the notebook's metadata (`indus_nb.keep`) name {path}. {error}"


def _begun(name: str) -> CommandOutput:
    path = Path(name).expanduser()
    before = variable(CASSETTE), variable(CASSETTE_MODE)
    if before[0] and environment_cassette.kept is None:
        raise UsageError(
            f"Nothing was done: INDUS_NB_{CASSETTE} names {before[0]} already, to be recorded or replayed. Unset it "
            "first."
        )
    set_variable(CASSETTE, str(path.absolute()))
    set_variable(CASSETTE_MODE, "keep")
    try:
        if (kept := environment_cassette.kept) is not None:
            kept.prompts()  # a file that cannot be used is rejected now
    except BaseException:
        set_variable(CASSETTE, before[0])
        set_variable(CASSETTE_MODE, before[1])
        raise
    # How many it has is another number with each run, and stands in the notebook's file.
    return CommandOutput(f"Answers are kept in {path}; `%agent keep` lists them.", "notice")


class KeptInRun:
    """What a run has found among the answers that are kept, or recorded."""

    def __init__(self) -> None:
        self._kept = environment_cassette.kept
        self._replayed = environment_cassette.replayed
        self._answered = 0 if self._replayed is None else self._replayed.answered
        if self._kept is not None:
            self._before = self._kept.reused, self._kept.asked, self._kept.changed

    def words(self) -> str:
        """Return a sentence about the requests since then; empty where no answers are kept or replayed."""
        if self._replayed is not None and self._replayed.answered > self._answered:
            return self._replayed.words
        if self._kept is None:
            return ""
        reused, asked = self._kept.reused - self._before[0], self._kept.asked - self._before[1]
        changed = self._kept.changed - self._before[2]
        new = [*self._kept.changes][-changed:] if changed else []
        parts = [f"{textcut.counted(reused, 'answer')} kept from before"] if reused else []
        parts += [f"{textcut.counted(asked, 'request')} asked"] if asked else []
        return ", ".join(parts) + (f": {new[0]}" if new else "")
