"""Trials of commands where they can change nothing, before the user is asked about them.

What this module promises: a command without effects is done with its trial, without a question; one with effects runs
only when the gate allows them, and where that was not the user himself, it can do nothing else. Stopped, it leaves
nothing running.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from indus_nb.base import textcut
from indus_nb.safety.effects import Effect
from indus_nb.safety.redaction.patterns import names_secret
from indus_nb.safety.sandbox.sandbox import looks_refused
from indus_nb.safety.sandbox.trials import CommandTrial, CommandTrials
from indus_nb.tools import truncate
from indus_nb.tools.tool import CallGate, ToolError

if TYPE_CHECKING:
    from indus_nb.tools.commands.shell import ShellResult

_SECONDS_AFTER_EFFECT = 1.0
"""Time that a trial goes on after its first effect, for the question to name more of them."""
_MAX_OUTCOME_LINES = 5
_MAX_LINE_CHARACTERS = 160
_STOPPED = (
    "Its trial ended at \N{LEFT DOUBLE QUOTATION MARK}{}\N{RIGHT DOUBLE QUOTATION MARK}: "
    "what it would do after that is not known."
)
_PRETENDED = (
    "After \N{LEFT DOUBLE QUOTATION MARK}{}\N{RIGHT DOUBLE QUOTATION MARK} it was tried with the files as they are: "
    "what depends on that change may do more."
)
_DIRECTORIES = ("PWD", "OLDPWD")
"""Variables whose names look like those of passwords and are not."""
READ_ONLY, HELD = "read-only", "held"
"""The ways in which a command ran, in the details of its result."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command for a trial.

    ``arguments`` are the shell and what it is given, ``environment`` its variables. ``run`` runs it by what a trial has
    prepared, and ``report`` shows what it has printed so far. ``keys`` are values that it must not see in variables,
    with their placeholders.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    run: Callable[[CommandTrial, Callable[[ShellResult], None]], Awaitable[ShellResult]]
    report: Callable[[ShellResult], None]
    keys: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class Tries:
    """Trials of the commands of one tool.

    Args:
        seconds: After how long without an effect the user is asked whether to wait.
    """

    trials: CommandTrials
    seconds: float
    _outputs: list[Path] = field(default_factory=list[Path])
    """Files with the whole of long output, which later commands may read."""

    async def run(self, command: Command, gate: CallGate) -> ShellResult | None:
        """Try a command, and ask about its effects.

        Returns:
            Its result; ``None`` if the user allowed it to run as usual.

        Raises:
            ToolError: It must not run.
        """
        if self.trials.backend is None:
            await gate.ask([Effect("unknown", "", "cannot be tried on this machine, so what it does is not known")])
            return None
        result, effects, trial = await self._tried(command, gate)
        if result is not None and not effects and result.exit_code and looks_refused(result.output):
            # It changed nothing, so it can be tried once more: slower, and what it may not read is named.
            result, effects, trial = await self._tried(command, gate, names_reads=True)
        if result is None:
            return None
        if result.cancelled and not effects:
            return result
        if not effects:
            if not await gate.covers([]):
                await gate.ask([], outcome=_outcome(result))
            return self._kept(result, READ_ONLY)
        files = await asyncio.to_thread(self.trials.files_to_hold, trial)
        if files is not None and await gate.covers(effects):
            return await self._held(command, gate, files)
        # It was held up, and what it printed is not so.
        command.report(replace(result, truncation=truncate.head(""), ran=READ_ONLY))
        await gate.ask(effects, outcome=_reserve(command, result, effects, trial), holds=files is not None)
        return None

    async def _tried(
        self, command: Command, gate: CallGate, *, names_reads: bool = False
    ) -> tuple[ShellResult | None, list[Effect], CommandTrial]:
        """Return the trial's result (``None`` if it was not waited for), its effects, and the trial."""
        woken = asyncio.Event()
        trial = await self._begin(command, gate, names_reads=names_reads, on_effect=woken.set)
        work = asyncio.ensure_future(command.run(trial, lambda so_far: command.report(replace(so_far, ran=READ_ONLY))))
        waking = asyncio.ensure_future(woken.wait())
        try:
            await asyncio.wait([work, waking], timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not woken.is_set():
                over = asyncio.ensure_future(asyncio.wait([work, waking], return_when=asyncio.FIRST_COMPLETED))
                answer = await gate.ask([], outcome="It goes on, and had no effect so far.", trial=over)
                if answer == "run":
                    await _ended(trial, work)
                    return None, [], trial
                await over
            if not work.done():
                await asyncio.wait([work], timeout=_SECONDS_AFTER_EFFECT)
                await _ended(trial, work)
            result = await work
        except BaseException as error:
            await _ended(trial, work)
            if isinstance(error, asyncio.CancelledError) and not work.cancelled() and work.exception() is None:
                return work.result(), [], trial  # what it says of its end counts
            raise
        finally:
            waking.cancel()
        return result, _effects(trial, result), trial

    async def _begin(
        self,
        command: Command,
        gate: CallGate,
        *,
        held: Sequence[Path] = (),
        names_reads: bool = False,
        on_effect: Callable[[], None],
    ) -> CommandTrial:
        from indus_nb.safety.sandbox import SandboxError

        changed: dict[str, str | None] = {}
        for name, value in command.environment.items():
            if names_secret(name) and name not in _DIRECTORIES:
                changed[name] = None
            elif (shown := _without_keys(value, command.keys)) != value:
                changed[name] = shown
        readable = [*gate.readable, *self._outputs]
        try:
            return await self.trials.begin(
                command.arguments,
                command.environment,
                readable=readable,
                held=held,
                changed=changed,
                names_reads=names_reads,
                on_effect=on_effect,
            )
        except (SandboxError, OSError) as error:
            raise ToolError(f"The command could not be tried: {error} Nothing was run.") from error

    async def _held(self, command: Command, gate: CallGate, files: Sequence[Path]) -> ShellResult:
        """Run a command where it can write to some files and do nothing else."""
        trial = await self._begin(command, gate, held=files, on_effect=lambda: None)
        work = asyncio.ensure_future(command.run(trial, command.report))
        try:
            result = await asyncio.shield(work)
        except asyncio.CancelledError:
            await _ended(trial, work)
            return await work
        refused = ", ".join(effect.words for effect in trial.effects)
        where = ", ".join(map(str, files))
        notes = (f"[It could write to {where} only. Refused: {refused}.]",) if refused else ()
        return self._kept(replace(result, sandbox_notes=notes), HELD)

    def _kept(self, result: ShellResult, ran: str) -> ShellResult:
        if result.full_output_path is not None:
            self._outputs.append(Path(result.full_output_path))
        return replace(result, ran=ran)


def _without_keys(value: str, keys: Mapping[str, str]) -> str:
    for key, placeholder in keys.items():
        value = value.replace(key, placeholder)
    return value


async def _ended(trial: CommandTrial, work: asyncio.Future[ShellResult]) -> None:
    """Cancel a trial, and wait for its end."""
    if not work.done():
        trial.kill()
        work.cancel()
        await asyncio.wait([work])


def _effects(trial: CommandTrial, result: ShellResult) -> list[Effect]:
    effects = trial.effects
    if effects or result.timed_out:
        return effects
    if trial.problem is not None:
        return [Effect("unknown", "", f"may do anything: {trial.problem}")]
    return []


def _reserve(command: Command, result: ShellResult, effects: Sequence[Effect], trial: CommandTrial) -> str:
    """Return what a question has to say of its effects where they may not be all; empty where they are."""
    if result.exit_code != 0 or result.cancelled or trial.problem is not None:
        return _STOPPED.format(textcut.one_line((trial.last or effects[-1]).words, _MAX_LINE_CHARACTERS))
    first = trial.pretends_from
    if first is not None and (trial.ran_on or _is_several(command.arguments[-1])):
        return _PRETENDED.format(textcut.one_line(first.words, _MAX_LINE_CHARACTERS))
    return ""


def _is_several(text: str) -> bool:
    """Return whether a text for a shell is more than one command: what a shell does by itself a trial does not see."""
    plain = text.strip().replace("#", "_")  # with a comment its reader would lose all that follows
    words = shlex.shlex(plain.replace("\\\n", " ").replace("\n", ";"), punctuation_chars=";&|<>")
    try:
        return any(not word.strip(";&|") for word in words)
    except ValueError:  # quotes that it reads otherwise than the shell
        return True


def _outcome(result: ShellResult) -> str:
    lines = result.output.rstrip("\n").split("\n")
    shown = "\n".join(lines[:_MAX_OUTCOME_LINES])
    return f"{shown}\n…" if len(lines) > _MAX_OUTCOME_LINES else shown


def in_background(command: str) -> Effect:
    """Return the effect of a command that goes on after its call."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    program = words[0] if words else ""
    return Effect("runs_program", program, f"runs {program} in the background")
