"""The user's own kernel, as the agent may use it: code in the user's namespace, its variables, and the cells that ran.

Code runs on the main thread, where figures, magics and thread-bound objects work. What it prints and displays goes to
the model, and to the card of the call.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeVar

from indus_nb.base import textcut
from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import TextContent, text_of
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.core.resources.settings import NotebookSettings, Settings, agent_directory, load_settings
from indus_nb.core.session.questions import caller
from indus_nb.core.storage.entries import Entry
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.events import BeforeAgentStart
from indus_nb.kernel.preview import Report
from indus_nb.kernel.run.execution import Execution
from indus_nb.kernel.run.main_thread import Job, running
from indus_nb.kernel.run.namespace import ShortWork
from indus_nb.kernel.run.outputs import CallOutputs, OutputBoard
from indus_nb.kernel.run.watch import Watch
from indus_nb.kernel.toolset.beside import (
    ASKED_ANEW,
    GONE,
    UNASKED,
    Instead,
    SinceCopy,
    names_beside,
    not_brought,
    not_kept,
    question_of,
    renamed,
    run_beside,
    what_came,
)
from indus_nb.kernel.toolset.call_steps import CallSteps, change_details
from indus_nb.kernel.toolset.cell_steps import CellSteps
from indus_nb.kernel.toolset.declarations import (
    LiveArguments,
    PythonArguments,
    VariablesArguments,
    python_tool,
    time_limit,
    variables_tool,
)
from indus_nb.kernel.toolset.long_code import LongCode, Running, elsewhere
from indus_nb.kernel.toolset.prompt_context import PromptContext
from indus_nb.kernel.toolset.results import Signal, joined, output_of, reported, without_secrets
from indus_nb.kernel.toolset.states import KernelStates, StateTool
from indus_nb.kernel.toolset.undoing import Steps, line
from indus_nb.kernel.toolset.variables import KernelVariables
from indus_nb.kernel.trials.trying import Trial, Trials, lines, lines_so_far, time_taken
from indus_nb.kernel.undo import Maker
from indus_nb.kernel.values.describe import views
from indus_nb.kernel.values.interpolation import Computed
from indus_nb.safety.effects import Effect
from indus_nb.safety.redaction import hide_known, labelled_secrets
from indus_nb.tools.description import Approval
from indus_nb.tools.jobs import Jobs
from indus_nb.tools.tool import CallGate, ToolContext, ToolError, text_output

T = TypeVar("T")
CarryOut = Callable[[Awaitable[ToolOutput], Context, ToolContext, str], Awaitable[ToolOutput]]
"""Carries out a call that runs code, and may say more in its result."""
_MAX_NAMES = 50
_MAX_NAME_CHARACTERS = 100
_MAX_TRIAL_SECONDS = 3600.0
_AGAIN = "Other code has run in your kernel since you were asked, so this was tried again.\n"


class _OutdatedError(ToolError):
    """What the user was shown of code before it runs may not be so any more."""


class UserKernel:
    """The kernel of one shell, with its tools ``python``, ``variables`` and ``state``.

    Attributes:
        outputs: The outputs of the calls of ``python`` for the user.
        carry_out: Given each call of ``python``, with its session and code.
        go_back: Goes to a named state for the session with an id, and returns a sentence.
        offers_states: Whether sessions have the tool ``state`` from their next prompt on. It is none of the usual ones,
            as each costs every request something, and most work has no use for it.
    """

    tools: tuple[str, ...] = ("python", "variables")

    def __init__(self, shell: Any, watch: Watch) -> None:
        """Make the tools of a shell."""
        self._shell = shell
        self._settings = Settings()
        self._main = watch.main
        self._routes = watch.routes
        self.variables: KernelVariables = KernelVariables(shell, watch.journal)
        self._journal = watch.journal
        self._cwd = Path()
        self._keys: Callable[[], Mapping[str, str]] = dict
        self._numbers = count(1)
        """Of pieces of code, for tracebacks: they take no numbers of the user's cells."""
        self._long = LongCode()
        self._inside: dict[str, Collection[str] | None] = {}
        """By code that is asked about, the variables that its trial has seen it change in themselves; see `_known`."""
        self.steps: Steps = Steps(shell.user_ns, shell.transform_cell)
        self.cells: CellSteps = CellSteps(shell, self.steps)
        self.states: KernelStates = KernelStates(self.steps, self.cells)
        self.go_back: Callable[[str, str], Awaitable[str]] = self._go_back
        self.offers_states: bool = False
        self.elsewhere: Callable[[str | None], str] = lambda _cell: ""
        self.calls: CallSteps = CallSteps(self.steps)
        self._context = PromptContext(
            watch.journal,
            self.variables,
            lambda: watch.main.busy or bool(running),
            lambda: self.calls.asked_in(),  # noqa: PLW0108 - it is set later
            lambda cell: self.elsewhere(cell),  # noqa: PLW0108 - the same
        )
        self.outputs: OutputBoard = OutputBoard()
        self.carry_out: CarryOut = lambda work, _ctx, _call, _code: work
        self.trials: Trials = Trials(shell, watch.main, watch.routes)

    @property
    def settings(self) -> NotebookSettings:
        """Return the settings in force for notebooks."""
        return self._settings.notebook

    async def run(self, work: Callable[[], T]) -> T:
        """Run something short on the main thread, between cells or within the one that waits."""
        short = ShortWork(work)
        await self._main.do(short)
        return short.result()

    async def run_whole(self, work: Callable[[], T], *, completes: bool = False) -> T:
        """Run something like ``run`` that changes much or nothing: an interrupt comes too late for it.

        Args:
            completes: Whether it completes what others have begun: an interrupt before it comes too late as well.
        """
        short = ShortWork(work, whole=True)
        self._journal.runs += 1
        await self._main.do(short, completes=completes)
        return short.result()

    async def made(self, session: str) -> dict[str, tuple[Maker, str]]:
        """Return the variables that calls changed whose code stands in no cell: the call, and a view of each.

        Args:
            session: The session whose last prompt counts.
        """
        makers = self.steps.makers(session)
        shown = await self.run(lambda: views(self._shell.user_ns, makers)) if makers else {}
        return {name: (makers[name], view) for name, view in shown.items()}

    async def compute(self, placeholders: Sequence[str]) -> dict[str, Computed]:
        """Compute the values of a prompt's placeholders in a copy of the kernel."""
        return await self.trials.compute(placeholders, cwd=self._cwd.absolute(), keys=self._keys())

    async def look(self, sources: Mapping[str, str]) -> dict[str, Computed]:
        """Compute the texts of expressions in a copy of the kernel; see `Trials.look`."""
        return await self.trials.look(sources, cwd=self._cwd.absolute(), keys=self._keys())

    def __call__(self, api: ExtensionApi) -> None:
        """Add the tools to a session.

        Its model is sent the cells that ran since it was last asked.
        """
        session: list[Context] = []

        def configure(_event: object, ctx: Context) -> None:
            session[:] = [ctx]
            self._configure(ctx)
            declare()  # which says whether calls can be undone

        def jobs() -> Jobs | None:
            return session[0].settings.jobs if session else None

        async def run(arguments: LiveArguments, context: ToolContext) -> ToolOutput:
            if arguments.beside:
                self._long.check(jobs())
                in_copy = partial(self._beside, arguments)
                return await run_beside(in_copy, context, jobs(), arguments.code, self.outputs)
            limited = jobs() is None and elsewhere.get() is None

            def work(context: ToolContext, job: Running) -> Awaitable[ToolOutput]:
                work = self._run(arguments, context, job, limited=limited)
                return self.carry_out(work, session[0], context, arguments.code)

            return await self._long.run(
                work,
                context,
                jobs(),
                code=arguments.code,
                waits=arguments.timeout is not None,
                outputs=self.outputs,
            )

        def declare() -> None:
            tool = python_tool(
                "the user's live kernel",
                LiveArguments,
                run=run,
                approval=self.approval,
                tries=lambda: self._settings.notebook.preview,
                undo=self._settings.notebook.undo,
            )
            api.register_tool(tool)

        async def look(arguments: VariablesArguments, _: ToolContext) -> ToolOutput:
            self._long.check(jobs())
            return text_output(await self.run(lambda: self.variables.listing(arguments.pattern)))

        declare()
        api.register_tool(variables_tool("the user's kernel", look))

        def offer(_event: object, ctx: Context) -> None:
            if self.offers_states:  # anew: what the user was asked in an earlier run allows and forbids nothing now
                go_back = partial(self.go_back, ctx.session.session_id)
                api.register_tool(StateTool(self.states, self.run_whole, go_back).tool())

        api.on("session_start", configure)
        api.on("before_agent_start", offer)
        api.on("before_agent_start", self._add_context)
        self.calls.follow(api)

    async def _go_back(self, _session: str, name: str) -> str:
        return f"Gone back: {line(await self.run_whole(lambda: self.states.back(name)))}."

    def _configure(self, ctx: Context) -> None:
        self._cwd = ctx.cwd
        self._keys = ctx.settings.vault.known
        self._settings = load_settings(ctx.cwd, agent_directory(), trusted=ctx.is_project_trusted()).settings
        self.steps.settings = self._settings.notebook
        self.steps.open_book(ctx.session, agent_directory())
        ctx.settings.is_own_file = partial(self.steps.history.has_made, ctx.session.session_id)

    # python

    async def _run(
        self, arguments: PythonArguments, context: ToolContext, job: Running, *, limited: bool
    ) -> ToolOutput:
        outputs = self.outputs.begin(context.call_id, lambda value: without_secrets(value, context.hide))
        trial: Trial | None = None
        while True:
            if context.gate is not None:
                try:
                    trial = await self._tried(arguments, context, context.gate, outputs, trial, limited=limited)
                except ToolError as error:
                    self.steps.forget(context.call_id)
                    outputs.show(str(error), [])  # in place of what it showed in the copy
                    raise
                if trial.report is not None and trial.ran:
                    self.steps.forget(context.call_id)
                    return await self._of_trial(trial, outputs)
                outputs.show("", [])
                context.report(ToolOutput(content=[]))  # nothing of the trial is true here
            with suppress(_OutdatedError):
                return await self._in_kernel(arguments, context, job, outputs, trial, limited=limited)
            while self._main.busy:
                await self.run(lambda: None)

    async def _tried(
        self,
        arguments: PythonArguments,
        context: ToolContext,
        gate: CallGate,
        outputs: CallOutputs,
        allowed: Trial | None,
        *,
        limited: bool,
    ) -> Trial:
        """Run code in a copy of the kernel; its result counts if it ``ran`` there for good, else it may run here.

        Args:
            allowed: The trial that the user said yes to, if other code ran in the kernel since.
        """
        again = _AGAIN if allowed is not None else ""
        seconds = arguments.timeout or time_limit(self._settings.notebook, goes_on=not limited) or _MAX_TRIAL_SECONDS
        async with self._trial(arguments.code, seconds, context, outputs) as (trial, following):
            await asyncio.wait([following], timeout=self._settings.looks_seconds)
            if allowed is not None and not trial.was_made and self._main.busy:
                return allowed  # cells that were queued run now: it is tried again after them
            if not following.done():
                so_far = hide_known(lines_so_far(trial), labelled_secrets())
                if await gate.ask([], outcome=again + so_far, trial=following) == "run":
                    return trial
            await following
            effects = trial.effects
            if await gate.covers(effects) and (trial.holds or not effects or gate.looks_only):
                if gate.looks_only:
                    trial.drop()
                elif effects:
                    await self.run(lambda: self._take_over(trial, context.call_id))
                trial.ran = True
                return trial
            with self._known(arguments.code, trial.inside):
                trial.warning = self.approval(arguments.code).warning or ""
                if allowed is None or gate.looks_only or trial.shown != allowed.shown:
                    outcome = again + time_taken(trial) + hide_known(lines(trial), labelled_secrets())
                    await gate.ask(effects, outcome=outcome, holds=trial.holds)
            return trial

    @contextmanager
    def _known(self, code: str, inside: Collection[str] | None) -> Generator[None]:
        """Have questions within this context know which variables code changes in themselves; ``None``: not known."""
        self._inside[code] = inside
        try:
            yield
        finally:
            self._inside.pop(code, None)

    async def _beside(self, arguments: LiveArguments, context: ToolContext) -> ToolOutput:  # noqa: C901 - one exchange
        """Run code in a copy of the kernel, and take over its values at its end."""
        outputs = self.outputs.begin(context.call_id, lambda value: without_secrets(value, context.hide))
        space, transform = self._shell.user_ns, self._shell.transform_cell
        since = await self.run(
            lambda: SinceCopy(space, arguments.code, transform, self.steps.budget(1), lambda: self._journal.count)
        )
        seconds = arguments.timeout or _MAX_TRIAL_SECONDS
        came = ""
        async with self._trial(arguments.code, seconds, context, outputs, renews=True) as (trial, following):

            def names(kept: Mapping[str, str]) -> dict[str, Instead]:
                modules = () if trial.report is None else trial.report.modules
                return names_beside({**since.kept(trial.names), **kept}, space, modules)

            def is_outdated(shown: Mapping[str, Instead]) -> bool:
                return names({name: why for name, (_, why) in shown.items()}) != shown

            def take(shown: Mapping[str, Instead], *, agreed: bool) -> tuple[dict[str, Instead], str]:
                """Take the values over if that has not come to be another thing than what was shown."""
                now = names({name: why for name, (_, why) in shown.items()})
                if now != shown or not agreed:
                    return now, ""
                if trial.effects:
                    self._take_over(trial, context.call_id, {name: new for name, (new, _) in now.items()})
                return now, what_came(trial, now, [name for name in since.read if name not in trial.names])

            await following
            context.on_over()
            lost, gate = trial.leave_out(), context.gate
            effects = trial.effects
            if (effects and not trial.holds) or (lost and not trial.names):
                text = not_kept(trial, [*lost, *effects])
                outputs.show(text, [])
                raise ToolError(text, _details(arguments.code, trial))
            instead, again, agreed = await self.run(lambda: names({})), "", True
            if gate is not None and not gate.can_ask and not await gate.covers(renamed(effects, instead)):
                unasked = dict.fromkeys(trial.names & space.keys() - instead.keys(), UNASKED)
                instead = await self.run(lambda: names(unasked))  # else all of it would be lost
            while not came:
                shown = renamed(effects, instead)
                if gate is not None and not (agreed and await gate.covers(shown)):
                    agreed = await self._ask_beside(trial, context, gate, shown, again, partial(is_outdated, instead))
                if gate is not None and gate.looks_only:
                    trial.drop()
                    break
                instead, came = await self.run(partial(take, instead, agreed=agreed))
                again = ASKED_ANEW
            trial.ran = True
        self.steps.forget(context.call_id)
        return await self._of_trial(trial, outputs, came, lost)

    async def _ask_beside(
        self,
        trial: Trial,
        context: ToolContext,
        gate: CallGate,
        shown: Sequence[Effect],
        again: str,
        is_outdated: Callable[[], bool],
    ) -> bool:
        """Ask the user whether the values of code that ran in a copy are taken over.

        Args:
            is_outdated: Whether it has come to be another thing than what is shown; for the main thread.

        Returns:
            Whether they said yes; not where the question was withdrawn, as a cell has made it outdated.

        Raises:
            ToolError: They are not.
        """
        outcome = again + hide_known(lines(trial, has_run=True), labelled_secrets())
        question = question_of(context.job_id())
        asking = asyncio.ensure_future(gate.ask(shown, question=question, outcome=outcome, holds=True))
        outdated = asyncio.create_task(self._outdated(is_outdated))
        outdated.add_done_callback(lambda _: asking.cancel())
        try:
            await asking
        except asyncio.CancelledError:
            if not outdated.done():  # the call itself is stopped
                raise
            return False
        except ToolError as error:
            raise ToolError(joined(str(error), GONE), error.output.details) from error
        finally:
            outdated.cancel()
        return True

    async def _outdated(self, is_outdated: Callable[[], bool]) -> None:
        """Return once that is so after a cell."""
        ended = Signal()

        def end(_result: object) -> None:
            ended.set()

        self._shell.events.register("post_run_cell", end)
        try:
            while not await self.run(is_outdated):
                await ended.wait()
        finally:
            self._shell.events.unregister("post_run_cell", end)

    @asynccontextmanager
    async def _trial(
        self, code: str, seconds: float, context: ToolContext, outputs: CallOutputs, *, renews: bool = False
    ) -> AsyncGenerator[tuple[Trial, asyncio.Task[None]]]:
        """Run code in a copy of the kernel, and report its output, until the caller is done with what it made.

        Yields the copy, and the task that follows it to its end.
        """
        changed, runs = Signal(), self._journal.runs
        trial = await self.trials.begin(
            code,
            seconds,
            cwd=self._cwd,
            readable=() if context.gate is None else context.gate.readable,
            own=self.variables.own(),
            keys=self._keys(),
            on_text=changed.set,
            renews=renews,
        )
        trial.runs = runs
        following = asyncio.create_task(trial.follow())
        reporting = asyncio.create_task(reported(trial, changed, context, outputs, lambda: _details(code, trial)))
        following.add_done_callback(lambda _: reporting.cancel())
        try:
            yield trial, following
        finally:
            reporting.cancel()
            following.cancel()
            await asyncio.wait([following])
            if trial.ran:
                trial.tail.close()
            else:
                trial.discard()

    def _take_over(self, trial: Trial, call: str, instead: Mapping[str, str] | None = None) -> None:
        """Take over the values from a copy as an undoable step; on the main thread.

        Args:
            instead: Names that are not taken, with new ones that are; empty for none.
        """
        before, code, instead = self.variables.names(), trial.code, instead or {}
        self.steps.begin(call, code, trial.names | {*instead.values()})
        self._journal.runs += 1
        try:
            trial.take_over(self._shell, self.variables.own(), instead)
        finally:
            trial.changed, trial.not_undoable, _ = self.steps.end(call)
            self.variables.note(code, before, self.variables.names(), by_agent=not caller.get())

    async def _of_trial(
        self, trial: Trial, outputs: CallOutputs, came: str = "", lost: Sequence[Effect] = ()
    ) -> ToolOutput:
        """Build the output of code that ran in a copy.

        Args:
            came: What was taken over, where code ran beside the user.
            lost: What could not be.

        Raises:
            ToolError: The code failed.
        """
        report = trial.report or Report()
        details = _details(trial.code, trial)
        if lost:
            details["notBrought"] = _named([each.what for each in lost])
        ending = ""
        if report.dropped:
            details["notKept"] = names = _named(report.dropped)
            ending = (
                f"[It ran in a copy of the kernel: {names} {'is' if len(report.dropped) == 1 else 'are'} not kept: "
                f"only a cell that the user runs keeps {'it' if len(report.dropped) == 1 else 'them'}.]"
            )
        how: Literal["done", "failed"] = "done" if report.how == "done" else "failed"
        ending = joined(came, not_brought(lost), ending)
        return await output_of(trial, how, ending, details, self._settings, outputs)

    async def _in_kernel(
        self,
        arguments: PythonArguments,
        context: ToolContext,
        job: Running,
        outputs: CallOutputs,
        trial: Trial | None,
        *,
        limited: bool,
    ) -> ToolOutput:
        """Run code in the kernel, and report changes that were not in its preview.

        Raises:
            _OutdatedError: Other code ran since its trial; nothing was run.
        """
        changed = Signal()
        preview = None if trial is None or not trial.tells_all else trial.names
        execution = Execution(
            self._shell,
            arguments.code,
            name=f"agent {next(self._numbers)}",
            routes=self._routes,
            on_text=changed.set,
            on_start=lambda execution: self.steps.begin(
                context.call_id, execution.code, () if trial is None else trial.names
            ),
            on_end=partial(self._keep, context.call_id, by_agent=not caller.get()),
        )
        execution.check = partial(self._check_runs, None if trial is None or not trial.was_made else trial.runs)
        seconds = arguments.timeout or time_limit(self._settings.notebook, goes_on=not limited)
        began = time.monotonic()

        def details() -> JsonObject:
            ran = {"code": arguments.code, "executionSeconds": round(time.monotonic() - began, 3)}
            unseen = sorted({*execution.changed_names} - {*preview}) if preview is not None else []
            return {**ran, **change_details(execution.changed, execution.not_undoable), **_unseen(unseen)}

        if self._main.busy:
            context.report(text_output("(waits for the cell that runs)", details()))
        reporting = asyncio.create_task(reported(execution, changed, context, outputs, details))
        try:
            done = await self._main.do(execution, seconds)
            if done.ended_by == "user" and (goes_on := job()) is not None:
                goes_on.by_user = True
            how, ending = _ended(execution, done, seconds)
            found = details()
            if self._settings.notebook.undo and not execution.changed_names and not execution.changed:
                found["looked"] = True
            if execution.how == "interrupted":
                found["interrupted"] = _why(done, seconds)
            return await output_of(execution, how, ending, found, self._settings, outputs)
        except asyncio.CancelledError:
            if not execution.begun:
                raise
            asked = elsewhere.get()
            was_job = job() is not None if asked is None else asked.is_job
            text = _stopped(execution, outputs, was_job=was_job)
            raise ToolError(text, {**details(), "interrupted": "stopped"}) from None
        finally:
            reporting.cancel()
            execution.tail.close()
            if not (execution.begun or isinstance(sys.exception(), _OutdatedError)):
                self.steps.forget(context.call_id)

    def _check_runs(self, known: int | None) -> None:
        if known is not None and self._journal.runs != known:
            raise _OutdatedError("Nothing was run: other code ran since it was tried.")

    def approval(self, code: str) -> Approval:
        """Build the question before code, with those of its changes that could not be undone."""
        outlook = self.steps.outlook(code, (), self._inside.get(code))
        large = outlook.large
        return Approval(
            "Run this code in your kernel?",
            code,
            warning=outlook.unable or None,
            language="python",
            irreversible=bool(outlook.unable),
            also={f"keep {large} for undo": partial(self.steps.keep_large, code)} if large else {},
        )

    def _keep(self, call: str, execution: Execution, *, by_agent: bool) -> None:
        """Record the code's changes and which names are the agent's; those of another program are not."""
        execution.changed, execution.not_undoable, execution.changed_names = self.steps.end(call)
        self.variables.note(execution.code, execution.before, execution.after, by_agent=by_agent)

    # Context of a prompt

    async def _add_context(self, event: BeforeAgentStart, ctx: Context) -> Mapping[str, Any] | None:
        await self.steps.begin_run(ctx.session.session_id)
        prompt = text_of([TextContent(text=event.prompt), *(each.as_read() for each in event.attachments)])
        message = self._context.message(prompt, ctx.session.newest_first(), self._settings.notebook)
        return {"message": message, "beforePrompt": True} if message is not None else None

    def untold(self, newest_first: Iterable[Entry]) -> tuple[str, JsonObject] | None:
        """Write the context of the next message: what a conversation does not know yet of the kernel.

        Returns:
            The text, and what it is about; ``None`` if there is nothing new.
        """
        return self._context.untold(newest_first, self._settings.notebook)


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    named = [textcut.head(name, _MAX_NAME_CHARACTERS) for name in names[:_MAX_NAMES]]
    return ", ".join([*named, *([f"{more:,} more"] if more > 0 else [])])


def _details(code: str, trial: Trial) -> JsonObject:
    ran = {"code": code, "executionSeconds": round(trial.seconds, 3), "ran": "copy"}
    return {**ran, **change_details(trial.changed, trial.not_undoable)}


def _unseen(names: Sequence[str]) -> JsonObject:
    """Build the details on variables that changed although the preview had not named them."""
    if not names:
        return {}
    return {"notInPreview": f"{', '.join(names)} changed too, which the preview had not named."}


def _why(job: Job, seconds: float | None) -> str:
    return f"after {seconds:g} seconds" if job.ended_by == "time" and seconds else "by the user"


def _ended(execution: Execution, job: Job, seconds: float | None) -> tuple[Literal["done", "failed"], str]:
    """Return how code in the kernel ended, and a sentence on that."""
    if execution.how == "interrupted":
        return "failed", f"The code was interrupted {_why(job, seconds)}."
    if execution.how == "done" and job.ended_by == "time":
        return "done", f"[It was interrupted after {seconds:g} seconds, but went on to its end.]"
    return ("done" if execution.how == "done" else "failed"), ""


def _stopped(execution: Execution, outputs: CallOutputs, *, was_job: bool) -> str:
    """Return the text for the model on code that was aborted with the run, or stopped as a job."""
    why = "was interrupted" if execution.ended else "did not end when it was interrupted, and may still run"
    ending = f"It was stopped: the code {why}." if was_job else f"The run was aborted: the code {why}."
    outputs.show(joined(execution.card_text(), ending), execution.displays.outputs)
    return clean_text(hide_known(joined(execution.text().content, ending), labelled_secrets()))
