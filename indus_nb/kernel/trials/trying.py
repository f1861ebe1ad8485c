"""The agent's code, run in a confined copy of the kernel: its outputs, its effects, and the values it makes.

What this module promises: whatever the code is, nothing of it happens in the kernel. The copy is forked on the main
thread, which is busy for that alone; there the code runs as it would here (`Execution`), and what it changes is found
by comparing (`undo`, `preview.world`). What the copy sends is shown as far as it does nothing in a page (`inert`); its
values are data (`preview.values`), and are taken over by `Trial.take_over` alone.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from keyword import iskeyword
from pathlib import Path
from typing import Any, cast

from indus_nb.base import textcut
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.core.resources.settings import agent_directory
from indus_nb.kernel.preview import Copy, Report, obstacle, working_thread
from indus_nb.kernel.preview.values import RefusedValueError, loaded
from indus_nb.kernel.run.execution import Routes, Shown
from indus_nb.kernel.run.main_thread import Job, MainThread
from indus_nb.kernel.run.outputs import received
from indus_nb.kernel.trials.definitions import definitions, imported, maker
from indus_nb.kernel.trials.trial import NUMPY_RANDOM, RANDOM, TEXTS, VALUES, TrialTask, shadowed
from indus_nb.kernel.undo.reach import names_in_source
from indus_nb.kernel.values.describe import MAX_TEXT_CHARACTERS
from indus_nb.kernel.values.interpolation import Computed, code_of
from indus_nb.safety.effects import Effect
from indus_nb.safety.redaction import hide_known, is_distinct, labelled_secrets
from indus_nb.safety.sandbox import landlock
from indus_nb.safety.sandbox.looks import look_policy
from indus_nb.safety.sandbox.policy import ProtectedPaths, SandboxError
from indus_nb.tools.jobs import duration
from indus_nb.tools.tool import ToolError

_PAUSES = (0.01, 0.025, 0.05, 0.0)
"""Pauses between looks whether a thread of a library has ended its work, in seconds."""
_FORK_SECONDS = 10.0
_COMPUTE_SECONDS = 10.0
_LOOK_SECONDS = 10.0
"""Time for the expressions of one answer: half of it for one copy with all, and all if each has to have its own."""
_WORDS = 624
"""Number of words in the state of a Mersenne twister."""
_MAX_LINES = 12
_MAX_OUTCOME_CHARACTERS = 600
_MAX_LINE_CHARACTERS = 160
_MAX_EFFECTS = 5
_BEGINNING = "Preview \N{EM DASH} not run yet: "
_BEGINNING_OF_RUN = "It has run beside you: "
_STOPPED = "Its trial ended there: what it would do after that is not known."
_STILL_RUNS = (
    "It still runs in a copy of the kernel. So far it has started no program and connected to nothing; which variables "
    "and files it changes is not known before its end."
)
_TOOK = "Tried in a copy: {}. A yes runs it once more.\n"
_WORTH_A_WORD_SECONDS = 2.0
_CACHES = (".cache/matplotlib", ".config/matplotlib", ".matplotlib", ".cache/fontconfig")
"""Caches of libraries in the home directory, which are made anew where they cannot be read."""


class Trials:
    """Factory of copies of one kernel that run code."""

    def __init__(self, shell: Any, main: MainThread, routes: Routes) -> None:
        """Start without copies.

        Args:
            routes: Where prints and displays go.
        """
        self._shell = shell
        self._main = main
        self._routes = routes

    async def begin(  # noqa: PLR0913 - what a copy is made with, each by itself
        self,
        code: str,
        seconds: float,
        *,
        cwd: Path,
        readable: Sequence[Path],
        own: Mapping[str, int],
        keys: Mapping[str, str],
        on_text: Callable[[], None],
        renews: bool = False,
    ) -> Trial:
        """Fork a copy of the kernel that runs code.

        Called on the agent's loop; if that task is cancelled the copy is ended.

        Args:
            seconds: How long it may run.
            cwd: The project, which it may read.
            readable: Other paths that it may read.
            own: Variables of the agent's own, with the ids of their values.
            keys: Values that it must not see, with their placeholders.
            on_text: Called when it shows more: once, until ``text`` is called.
            renews: Whether what it changes in itself is to be taken over as well, as new values.

        Returns:
            The copy at work, or one that never began, with the reason in its report.
        """
        if any(is_distinct(key) and key in code for key in keys):
            return Trial.without(code, "it holds a key, which a copy does not have")
        if why := await self._obstacle(code):
            return Trial.without(code, why)
        try:
            rules = await asyncio.to_thread(_rules, cwd, readable)
        except SandboxError as error:
            return Trial.without(code, str(error))
        problem = ""
        for pause in _PAUSES:
            try:
                copy = await Copy.made(seconds, rules)
            except OSError as error:
                return Trial.without(code, f"it cannot be prepared ({error.strerror})")
            fork = await self._forked(TrialTask(self._shell, self._routes, code, own, keys, renews=renews), copy)
            if copy.begun and not fork.problem:
                return Trial(code, copy, on_text)
            fork.abandon()
            problem = fork.problem
            if not fork.waits_for_thread:
                break
            await asyncio.sleep(pause)
        return Trial.without(code, problem)

    async def compute(self, placeholders: Sequence[str], *, cwd: Path, keys: Mapping[str, str]) -> dict[str, Computed]:
        """Compute the values of a prompt's placeholders in one copy; what has an effect has no value.

        Where there is one of several that has, each is computed in a copy of its own.

        Args:
            cwd: The project, which it may read.
            keys: Values that it must not see, with their placeholders.
        """
        sources = {placeholder: code_of(placeholder) for placeholder in placeholders}
        ends = asyncio.get_running_loop().time() + _COMPUTE_SECONDS
        together = await self._computed(VALUES, sources, _COMPUTE_SECONDS, cwd=cwd, keys=keys)
        if not (effects := _shown_effects(together)):
            return together.computed
        if len(sources) == 1:
            return dict.fromkeys(sources, Computed(problem=f"it {effects[0]}"))
        found = dict.fromkeys(sources, Computed(problem=f"what this prompt computes {effects[0]}"))
        for placeholder, source in sources.items():
            if (left := ends - asyncio.get_running_loop().time()) <= 0:
                break
            trial = await self._computed(VALUES, {placeholder: source}, left, cwd=cwd, keys=keys)
            effects = _shown_effects(trial)
            found[placeholder] = Computed(problem=f"it {effects[0]}") if effects else trial.computed[placeholder]
        return found

    async def look(self, sources: Mapping[str, str], *, cwd: Path, keys: Mapping[str, str]) -> dict[str, Computed]:
        """Compute the texts of expressions; one that has an effect, or does not end, has none, and spoils no other.

        Args:
            sources: Python expressions that can stand between brackets, each under the key of its value.
            cwd: The project, which they may read.
            keys: Values that they must not see, with their placeholders.

        Returns:
            A value or a problem for each.
        """
        ends = asyncio.get_running_loop().time() + _LOOK_SECONDS
        found = dict.fromkeys(sources, Computed(problem="there was no time left for it", is_late=True))
        with suppress(TimeoutError):
            async with asyncio.timeout_at(ends):
                together = await self._computed(TEXTS, sources, _LOOK_SECONDS / 2, cwd=cwd, keys=keys)
                if not together.was_made or len(sources) == 1:
                    return {key: _shown(together, key) for key in sources}
                if not _shown_effects(together):
                    return together.computed
                for number, (key, source) in enumerate(sources.items(), 1):
                    left = ends - asyncio.get_running_loop().time()
                    share = left if number == len(sources) else left / 2  # one that does not end leaves time for others
                    found[key] = _shown(await self._computed(TEXTS, {key: source}, share, cwd=cwd, keys=keys), key)
        return found

    async def _computed(
        self, function: str, sources: Mapping[str, str], seconds: float, *, cwd: Path, keys: Mapping[str, str]
    ) -> Trial:
        """Compute expressions in one copy, which has ended then; their values stand under the keys of ``sources``.

        Args:
            function: Name in the copy of the function that sends values: ``VALUES`` or ``TEXTS``.
        """
        pairs = ", ".join(f"({key!r}, lambda: ({source}))" for key, source in sources.items())
        code = f"{function}({pairs})"
        trial = await self.begin(code, seconds, cwd=cwd, readable=(), own={}, keys=keys, on_text=lambda: None)
        trial.computed = dict.fromkeys(sources, Computed(problem="it ended its copy of the kernel"))
        try:
            await trial.follow()
        finally:
            trial.discard()
        return trial

    async def _forked(self, task: TrialTask, copy: Copy) -> _Fork:
        fork = _Fork(task, copy)
        try:
            async with asyncio.timeout(_FORK_SECONDS):  # `wait_for` of Python 3.11 may swallow that it is cancelled
                await self._main.do(fork)
        except TimeoutError:
            fork.problem = "the kernel is busy"
        except ToolError as error:
            fork.problem = str(error)
        except BaseException:
            fork.abandon()
            raise
        return fork

    async def _obstacle(self, code: str) -> str:
        """Return why there can be no copy now; empty if there can."""
        if sys.platform != "linux":
            return "this system cannot confine one"
        if self._main.busy:
            return "a cell of yours runs"
        return await asyncio.to_thread(obstacle, lambda package: self._uses(code, package))

    def _uses(self, code: str, package: str) -> bool:
        reached = names_in_source(code, self._shell.transform_cell)
        held = dict(self._shell.user_ns)
        names = held if reached.everything else reached.names & held.keys()
        return any(package in (_package(held[name]), _package(type(held[name]))) for name in names) or package in code


def _shown(trial: Trial, key: str) -> Computed:
    """Return what a trial has computed under a key, or what else it does instead."""
    is_late = trial.report is not None and trial.report.is_late
    effects = _shown_effects(trial)
    return Computed(problem=effects[0], is_late=is_late) if effects else trial.computed[key]


def _shown_effects(trial: Trial) -> list[str]:
    """Return what a trial does besides drawing random numbers, each in a line."""
    effects = (effect.words for effect in trial.effects if effect.kind != "draws_random")
    return [textcut.one_line(words, _MAX_LINE_CHARACTERS) for words in effects]


def _package(value: Any) -> str:
    name = getattr(value, "__module__", None) or getattr(value, "__name__", None)
    return name.partition(".")[0] if isinstance(name, str) else ""


def _rules(cwd: Path, readable: Sequence[Path]) -> list[tuple[str, bool | None]]:
    """Return the Landlock rules of a copy: the paths that it may read, none of which it may write."""
    try:
        home = Path("~").expanduser()
    except RuntimeError:  # the user has none
        home = cwd
    own = agent_directory()
    hidden = [] if cwd.is_relative_to(own) else [own]
    policy = look_policy(cwd, [*readable, *(home / name for name in _CACHES)], hidden=hidden)
    found = landlock.rules(policy, ProtectedPaths(), None)
    return [(path, None if rule is None else False) for path, rule in found if not path.startswith("/dev/")]


class _Fork:
    """The fork, as work for the main thread."""

    def __init__(self, task: TrialTask, copy: Copy) -> None:
        self.problem = ""
        self.waits_for_thread = False
        self._task = task
        self._copy = copy
        self._abandoned = False

    def prepare(self) -> bool:
        return False

    async def run(self, job: Job) -> None:
        with job.interrupts.postponed():  # else an orphaned process could be left
            if self._abandoned:
                return
            if at_work := working_thread():
                self.waits_for_thread = True
                self.problem = f"the thread {textcut.one_line(at_work, 60)} is at work"
                return
            try:
                self._copy.fork(self._task)
            except OSError as error:
                self.problem = f"there can be no other process ({error.strerror})"

    def abandon(self) -> None:
        """Kill the copy, and discard what it sent."""
        self._abandoned = True
        self._copy.abandon()


class Trial(Shown):
    """Code in a copy: its output so far, and its effects in the end.

    Attributes:
        report: Its result; ``None`` while it runs.
        runs: `Journal.runs` when it was copied.
        warning: What could not be undone of it, as the user was warned.
        changed: The values that were taken over, as a line.
        not_undoable: Why they cannot be undone; empty if it can.
        computed: Values of a prompt's placeholders, if it is to compute some.
    """

    def __init__(self, code: str, copy: Copy | None, on_text: Callable[[], None]) -> None:
        """Follow the output of a copy.

        Args:
            on_text: Called when there is more to read: once, until ``text`` is called.
        """
        super().__init__(on_text)
        self.report: Report | None = None
        self.runs = 0
        self.warning = ""
        self.code = code
        self.seconds: float = 0.0
        self.ran = False
        self.changed = ""
        self.not_undoable = ""
        self.computed: dict[str, Computed] = {}
        self._copy = copy
        self._prefix = secrets.token_hex(4)
        self._values = b""

    @classmethod
    def without(cls, code: str, why: str) -> Trial:
        """Return a trial that could not be made.

        Args:
            why: The reason; of a whole sentence the full stop is dropped, for others follow where it is shown.
        """
        trial = cls(code, None, lambda: None)
        trial.report = Report("none", why.removesuffix("."))
        return trial

    @property
    def shown(self) -> object:
        """Return what the user is shown of it in a question; ``None`` if that is of no state of the kernel."""
        if self._copy is None or self.report is None:
            return None
        # ipykernel names the files of cells by the process, which is another one in each copy: warnings show them.
        return self.effects, self.warning, lines(self).replace(f"ipykernel_{self._copy.process_id}", "ipykernel")

    @property
    def was_made(self) -> bool:
        """Return whether there was a copy, however it ended."""
        return self._copy is not None

    async def follow(self) -> None:
        """Receive the copy's output until it ends; cancelling this ends the copy."""
        if self._copy is None:
            return
        began = time.monotonic()
        report = await self._copy.follow(self._on_frame)
        self.seconds = time.monotonic() - began
        self.report = report

    def _on_frame(self, data: JsonObject, blob: bytes) -> None:
        if "text" in data:
            self.add_text(str(data["text"]))
        elif "clear" in data:
            self.clear(waits=bool(data["clear"]))
        elif "of" in data:
            if (placeholder := str(data["of"])) in self.computed:
                value, problem = (clean_text(str(data.get(name, ""))) for name in ("value", "problem"))
                known = labelled_secrets()
                shown = textcut.head(hide_known(value, known), MAX_TEXT_CHARACTERS + _MAX_LINE_CHARACTERS)
                why = textcut.one_line(hide_known(problem, known), _MAX_LINE_CHARACTERS)
                self.computed[placeholder] = Computed(shown, why)
        elif "values" in data:
            self._values = blob
        elif "display" in data:
            display, text, shown = received(data, self._prefix)
            self.add_display(display, text, shown, update=bool(data.get("update")))

    @property
    def effects(self) -> list[Effect]:
        """Return the effects of the code beside its output."""
        report = self.report
        if report is None:
            return []
        if report.how == "none":
            return [Effect("unknown", "", f"could not be tried in a copy of the kernel: {report.why}")]
        if report.how == "stopped" and all(effect.words != report.why for effect in report.effects):
            return [Effect("unknown", "", report.why), *report.effects]
        return report.effects

    @property
    def names(self) -> frozenset[str]:
        """Return the variables that the code is known to add or change."""
        kinds = ("new_names", "changes_variable", "unknown")
        dropped = self.report.dropped if self.report is not None else ()
        return frozenset((*dropped, *(effect.what for effect in self.effects if effect.kind in kinds)))

    @property
    def tells_all(self) -> bool:
        """Return whether the code ran to its end, and nothing of what it changes remained unknown."""
        report = self.report
        ended = report is not None and report.how in ("done", "failed")
        return ended and all(effect.kind != "unknown" for effect in self.effects)

    @property
    def inside(self) -> Collection[str] | None:
        """Return the variables that the code changes in themselves; ``None`` where it did not show all that it does."""
        report = self.report
        return report.inside if report is not None and report.how == "done" and self.tells_all else None

    @property
    def unnamed(self) -> Collection[str]:
        """Return the variables that are not worth a word: modules, and what is of no use outside of the copy."""
        return () if self.report is None else {*self.report.modules, *self.report.dropped}

    @property
    def holds(self) -> bool:
        """Return whether the code only makes values, which can be taken over without running anything."""
        report = self.report
        if report is None or report.how not in ("done", "failed"):
            return False
        kinds = {effect.kind for effect in report.effects}
        if not all(_is_plain(name) for name in report.kept):
            return False
        named = {effect.what for effect in report.effects if effect.kind in ("new_names", "changes_variable")}
        return kinds <= {"new_names", "changes_variable", "draws_random"} and named <= {*report.kept}

    def leave_out(self) -> list[Effect]:
        """Leave out the variables whose values could not be sent, if the code does nothing but change variables.

        Returns:
            Their effects, which the trial has no more.
        """
        report = self.report
        if report is None or report.how not in ("done", "failed"):
            return []
        if any(effect.kind not in ("new_names", "changes_variable", "draws_random") for effect in report.effects):
            return []
        lost = [each for each in report.effects if each.kind != "draws_random" and each.what not in report.kept]
        report.effects = [each for each in report.effects if each not in lost]
        return lost

    def drop(self) -> None:
        """Have nothing that the code has defined taken over."""
        if self.report is not None:
            self.report.dropped[:] = sorted(self.names)

    def take_over(self, shell: Any, own: Mapping[str, int], instead: Mapping[str, str] | None = None) -> None:
        """Assign the values that the code has made to the kernel's variables; called on the main thread.

        Args:
            own: Variables of the agent's own, with the ids of their values.
            instead: Names that are not taken, with new ones that are; empty for none.

        Raises:
            ToolError: They are not what was asked about, or cannot be read; nothing was changed.
        """
        space, instead = cast("dict[str, Any]", shell.user_ns), instead or {}
        asked = {effect.what: effect.kind for effect in self.effects}
        source = shell.transform_cell(self.code)
        file = shell.compile.cache(source, "agent", raw_code=self.code)
        functions = {name: maker(node, file, space) for name, node in definitions(source).items()}
        try:
            values = loaded(self._values, space, functions, imported(source))
            put_random = random_states({name: values.pop(name) for name in (RANDOM, NUMPY_RANDOM) if name in values})
        except RefusedValueError as error:
            raise ToolError(f"Nothing was kept: {error}. Run it again.") from error
        may = (name in instead or _may_take(name, value, asked.get(name), shell, own) for name, value in values.items())
        if (put_random and "draws_random" not in asked.values()) or not (all(map(_is_plain, values)) and all(may)):
            raise ToolError("Nothing was kept: it makes other variables than what was found before. Run it again.")
        for put in put_random:
            put()
        space.update({new: value for name, value in values.items() if (new := instead.get(name, name))})


def _may_take(name: str, value: Any, asked: str | None, shell: Any, own: Mapping[str, int]) -> bool:
    """Return whether a variable may get a value, by the effects that were found and allowed before."""
    space = shell.user_ns
    if asked != "new_names":
        return asked == "changes_variable"
    if name not in space:
        return not shadowed(name, value, shell)
    return own.get(name) == id(space[name]) and not (callable(value) or callable(space[name]))


def _is_plain(name: str) -> bool:
    """Return whether nothing but the user's code looks up a name."""
    return name in (RANDOM, NUMPY_RANDOM) or (name.isidentifier() and not name.startswith("_") and not iskeyword(name))


def had_no_effect(details: object) -> bool:
    """Return whether the details of a call say that it changed nothing, in a copy of the kernel or in the kernel."""
    fields: dict[str, Any] = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
    return fields.get("looked") is True or (fields.get("ran") == "copy" and not fields.get("changed"))


def random_states(draws: Mapping[str, Any]) -> list[Callable[[], object]]:
    """Return a function that sets random number generators to states that a copy has sent.

    Raises:
        RefusedValueError: One is no state: numpy takes any position in its numbers, also one behind them.
    """
    found: list[Callable[[], object]] = []
    if RANDOM in draws:
        match draws[RANDOM]:
            case (3, numbers, None | float()) if _are_words(numbers[:-1]) and _is_place(numbers[-1:]):
                found.append(partial(random.setstate, draws[RANDOM]))
            case _:
                raise RefusedValueError("the random numbers cannot be read")
    numpy: Any = sys.modules.get("numpy")
    if NUMPY_RANDOM in draws and numpy is not None:
        match draws[NUMPY_RANDOM]:
            case ("MT19937", array, int() as place, 0 | 1, float()) if (
                type(array) is numpy.ndarray
                and array.shape == (_WORDS,)
                and _are_words(tuple(array.tolist()))
                and _is_place((place,))
            ):
                found.append(partial(numpy.random.set_state, draws[NUMPY_RANDOM]))
            case _:
                raise RefusedValueError("the random numbers cannot be read")
    return found


def _are_words(numbers: Any) -> bool:
    listed = cast("tuple[Any, ...]", numbers) if isinstance(numbers, tuple) else ()
    return len(listed) == _WORDS and all(type(each) is int and 0 <= each < 1 << 32 for each in listed)


def _is_place(numbers: Any) -> bool:
    listed = cast("tuple[Any, ...]", numbers)
    return all(type(each) is int and 0 <= each <= _WORDS for each in listed)


def lines(trial: Trial, *, has_run: bool = False) -> str:
    """Write the preview above a question: the changes and outputs of a trial, and how it ended.

    Args:
        has_run: Whether it ran for good, and the question is about its values, whose names are decided elsewhere.
    """
    report = trial.report or Report()
    beginning = _BEGINNING_OF_RUN if has_run else _BEGINNING
    if report.how == "none":
        return f"No preview: {textcut.one_line(report.why, _MAX_LINE_CHARACTERS)}."
    parts = [textcut.one_line(report.outcome, _MAX_OUTCOME_CHARACTERS)] if report.outcome and not has_run else []
    effects = [
        textcut.one_line(effect.words, _MAX_LINE_CHARACTERS)
        for effect in report.effects
        if effect.kind not in ("new_names", "changes_variable") and effect.words != report.why
    ]
    parts += effects[:_MAX_EFFECTS]
    if (more := len(effects) - _MAX_EFFECTS) > 0:
        parts.append(f"has {more:,} more effect{'s' * (more != 1)}")
    titles = trial.displays.titles
    parts += [
        f"shows a {title}" if titles.count(title) == 1 else f"shows a {title} {titles.count(title)} times"
        for title in dict.fromkeys(titles)
    ]
    if report.how != "done":
        verb = "stopped at:" if report.how == "stopped" else "raises"
        parts.append(f"{verb} {textcut.one_line(report.why, _MAX_LINE_CHARACTERS)}")
    after = [_STOPPED] if report.how == "stopped" else []
    printed = _printed(trial)
    if len(printed) > 1:
        told = [f"{beginning}{'; '.join([*parts, 'prints:'])}", *(f"    {line}" for line in printed)]
        return "\n".join([*told, *after])
    if printed:
        parts.append(f"prints {printed[0].strip()}")
    return "\n".join([f"{beginning}{'; '.join(parts) or 'prints nothing'}", *after])


def time_taken(trial: Trial) -> str:
    """Return a line that says how long a trial took, which a yes costs again; empty where that was short."""
    return _TOOK.format(duration(trial.seconds)) if trial.seconds >= _WORTH_A_WORD_SECONDS else ""


def lines_so_far(trial: Trial) -> str:
    """Write what is known of a trial that still runs: of what it changes that is little, as the end compares."""
    printed = _printed(trial)
    return "\n".join([_STILL_RUNS, *(["It has printed:", *(f"    {line}" for line in printed)] if printed else [])])


def _printed(trial: Trial) -> list[str]:
    """Return the lines that are shown of what a trial has printed; none for blanks."""
    text = "\n".join(line for line in trial.card_text().split("\n") if not line.startswith("\N{DOWNWARDS ARROW} "))
    if not text.strip():
        return []
    shown = textcut.middle_lines(text.strip("\n"), _MAX_LINES, "… {left} lines …").split("\n")
    return [textcut.head(line.rstrip(), _MAX_LINE_CHARACTERS) for line in shown]
