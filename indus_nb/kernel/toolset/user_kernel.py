"""The user's own kernel, as the agent may use it: code in the user's namespace, its variables, and the cells that ran.

Code runs on the main thread, where figures, magics and thread-bound objects work. What it prints and displays goes to
the model, and to the card of the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar, cast

from indus_nb.base import textcut
from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import TextContent
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.core.resources.settings import NotebookSettings, Settings, agent_directory, load_settings
from indus_nb.core.session.questions import caller
from indus_nb.core.storage.entries import Entry
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.events import ToolBegin, ToolResultEvent
from indus_nb.kernel.preview import Report
from indus_nb.kernel.run.agent_thread import Inbox
from indus_nb.kernel.run.execution import Execution
from indus_nb.kernel.run.main_thread import Job
from indus_nb.kernel.run.outputs import CallOutputs, OutputBoard
from indus_nb.kernel.run.watch import Watch
from indus_nb.kernel.toolset.arguments import GUIDELINES, PythonArguments, VariablesArguments, described, time_limit
from indus_nb.kernel.toolset.long_code import LongCode, Running, elsewhere
from indus_nb.kernel.toolset.results import Signal, joined, output_of, reported, without_secrets
from indus_nb.kernel.toolset.undoing import Steps
from indus_nb.kernel.trials.trying import Trial, Trials, lines
from indus_nb.kernel.undo.reach import bound_in_source
from indus_nb.kernel.values import overview
from indus_nb.kernel.values.interpolation import Computed
from indus_nb.render.context import CONTEXT_TYPE
from indus_nb.safety.redaction import hide_known, labelled_secrets
from indus_nb.tools.description import Approval, CallDescription
from indus_nb.tools.jobs import Jobs
from indus_nb.tools.tool import CallGate, FunctionTool, ToolContext, ToolError, in_thread, text_output

T = TypeVar("T")
_MAX_NAMES = 50
_MAX_NAME_CHARACTERS = 100
_MAX_TRIAL_SECONDS = 3600.0
_NO_EFFECT_SO_FAR = "It runs in a copy of the kernel, and had no effect so far."
_ALWAYS_HIDDEN = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})

_NAME = re.compile(r"\b[^\W\d]\w*")


class UserKernel:
    """The kernel of one shell, with its tools ``python`` and ``variables``.

    Attributes:
        outputs: The outputs of the calls of ``python`` for the user.
    """

    tools = ("python", "variables")

    def __init__(self, shell: Any, watch: Watch) -> None:
        """Make the tools of a shell."""
        self._shell = shell
        self._id = secrets.token_hex(4)
        self._settings = Settings()
        self._main = watch.main
        self._routes = watch.routes
        self._journal = watch.journal
        self._agents: dict[str, int] = {}
        self._bound_by_others: set[str] = set()
        """Names that code of the user's or of another program's binds, wherever it does: no variable of these is the
        agent's, for what they are bound to may be the same object again."""
        self._knowing = threading.Lock()
        self._cwd = Path()
        self._keys: Callable[[], Mapping[str, str]] = dict
        self._numbers = count(1)
        """Of pieces of code, for tracebacks: they take no numbers of the user's cells."""
        self._long = LongCode()
        self.steps = Steps(shell.user_ns, shell.transform_cell)
        self.open_notebooks: OpenNotebooks | None = None
        """Knows the notebooks that pages show."""
        self.outputs = OutputBoard()
        self.trials = Trials(shell, watch.main, watch.routes)

    @property
    def inbox(self) -> Inbox | None:
        """Return the inbox of the main thread while a cell waits for the agent; else ``None``."""
        return self._main.inbox

    @property
    def settings(self) -> NotebookSettings:
        """Return the settings in force for notebooks."""
        return self._settings.notebook

    def disown(self) -> None:
        """Treat the agent's variables as the user's: a conversation that was rewound does not know them."""
        self._agents.clear()

    def own(self) -> dict[str, int]:
        """Return the agent's own variables, with the ids of their values."""
        with self._knowing:
            while self._journal.begun:
                self._forget(self._journal.begun[0])
                self._journal.begun.popleft()
            return dict(self._agents)

    def _forget(self, code: str) -> None:
        """Stop counting variables as the agent's once other code binds them."""
        bound = bound_in_source(code, self._shell.transform_cell)
        self._bound_by_others |= bound or set()
        for name in [*self._agents] if bound is None else bound:
            self._agents.pop(name, None)

    @contextlib.contextmanager
    def serving(self, inbox: Inbox) -> Generator[None]:
        """Place jobs in ``inbox``, which the calling thread serves within this context."""
        with self._main.serving(inbox):
            yield

    async def run(self, work: Callable[[], T]) -> T:
        """Run something short on the main thread, between cells or within the one that waits."""
        look = _Look(work)
        await self._main.do(look)
        if look.error is not None:
            raise look.error
        return look.found[0]

    async def compute(self, placeholders: Sequence[str]) -> dict[str, Computed]:
        """Compute the values of a prompt's placeholders in a copy of the kernel."""
        return await self.trials.compute(placeholders, cwd=self._cwd.absolute(), keys=self._keys())

    def __call__(self, api: ExtensionApi) -> None:
        """Add the tools to a session.

        Its model is sent the cells that ran since it was last asked.
        """
        session: list[Context] = []

        def configure(_event: object, ctx: Context) -> None:
            session[:] = [ctx]
            self._configure(ctx)

        def jobs() -> Jobs | None:
            return session[0].settings.jobs if session else None

        async def run(arguments: PythonArguments, context: ToolContext) -> ToolOutput:
            limited = jobs() is None and elsewhere.get() is None
            return await self._long.run(
                lambda context, job: self._run(arguments, context, job, limited=limited),
                context,
                jobs(),
                code=arguments.code,
                waits=arguments.timeout is not None,
                outputs=self.outputs,
            )

        async def look(arguments: VariablesArguments, _: ToolContext) -> ToolOutput:
            self._long.check(jobs())
            return await self._list(arguments)

        api.register_tool(
            FunctionTool(
                name="python",
                description=(
                    "Run Python code in the user's notebook kernel: its variables are there, and what it defines "
                    "stays. Returns what it prints and displays, figures as images, tables in short. What programs "
                    "print is seen with !command, not with subprocess alone."
                ),
                arguments=PythonArguments,
                run=run,
                starts_jobs=True,
                describe=self._describe,
                secret_arguments=("code",),
                snippet="Run code in the user's kernel, on the live objects",
                guidelines=GUIDELINES,
            )
        )
        api.register_tool(
            FunctionTool(
                name="variables",
                description=(
                    "List the variables of the user's kernel: name, type, shape, types of columns, a short view; one "
                    "of them more closely, with its first rows."
                ),
                arguments=VariablesArguments,
                run=look,
                read_only=True,
                snippet="See which variables the user's kernel holds",
            )
        )
        api.on("session_start", configure)
        api.on("before_agent_start", self._add_context)
        api.on("tool_begin", self._begin_call)
        api.on("tool_result", self._end_call)

    def _configure(self, ctx: Context) -> None:
        self._cwd = ctx.cwd
        self._keys = lambda: ctx.settings.vault.known()  # noqa: PLW0108 - the settings may be others by then
        self._settings = load_settings(ctx.cwd, agent_directory(), trusted=ctx.is_project_trusted()).settings
        self.steps.settings = self._settings.notebook
        self.steps.open_book(ctx.session, agent_directory())

    # Changes by calls

    async def _begin_call(self, event: ToolBegin, ctx: Context) -> None:
        described = ctx.describe_call(event.tool_name, event.input)
        if not described.has_effects:
            return
        if self.open_notebooks is not None:
            shown = await self.open_notebooks.paths()
            hold = partial(self.steps.hold_notebooks, event.tool_call_id, ctx.session.session_id, shown)
            await in_thread(lambda _: hold())
        self.steps.announce(event.tool_call_id, ctx.session.session_id)
        if event.tool_name == "python":
            return  # may wait for a cell first: it remembers right before it runs
        target = event.target or (await asyncio.to_thread(described.approval)).target
        targets = [] if target is None else [target.path]
        await in_thread(lambda _: self.steps.begin_files(event.tool_call_id, targets))

    async def _end_call(self, event: ToolResultEvent, ctx: Context) -> Mapping[str, Any] | None:
        answer: JsonObject = {}
        details: object = event.details
        if event.tool_name != "python":
            changes = _change_details(*(await in_thread(lambda _: self.steps.end(event.tool_call_id)))[:2])
            if changes and (details is None or isinstance(details, dict)):
                answer["details"] = {**cast("JsonObject", details or {}), **changes}
        if warning := await self._overwritten(event.tool_call_id, ctx):
            answer["content"] = [*event.content, TextContent(text=warning)]
        return answer or None

    async def _overwritten(self, call: str, ctx: Context) -> str:
        """Notify the user if a call has written an open notebook as a file; return the text for the model."""
        shown = self.open_notebooks
        changed = await in_thread(lambda _: self.steps.changed_notebooks(call)) if shown is not None else []
        overwritten = [path for path in changed if shown is not None and not await shown.has_saved(path)]
        problem = await in_thread(lambda _: self.steps.keep_notebooks(call, overwritten))
        if not overwritten:
            return ""
        names = ", ".join(path.name for path in overwritten)
        remedy = f"That cannot be undone ({problem})." if problem else "`%agent undo` brings the file back."
        written = f"{names}, a notebook that is open, was written as a file while this call ran."
        ctx.ui.notify(f"⚠ {written} The page does not show that, and asks at its next save. {remedy}", "warning")
        return f"[{written} The user's page does not show that. Change its cells with propose_cell instead.]"

    # python

    async def _run(
        self, arguments: PythonArguments, context: ToolContext, job: Running, *, limited: bool
    ) -> ToolOutput:
        outputs = self.outputs.begin(context.call_id, lambda value: without_secrets(value, context.hide))
        preview: Collection[str] | None = None
        if context.gate is not None:
            try:
                trial = await self._tried(arguments, context, context.gate, outputs, limited=limited)
            except ToolError as error:
                self.steps.forget(context.call_id)
                outputs.show(str(error), [])  # in place of what it showed in the copy
                raise
            if trial.report is not None and trial.ran:
                self.steps.forget(context.call_id)
                return await self._of_trial(trial, outputs)
            preview = trial.names
            outputs.show("", [])
        return await self._in_kernel(arguments, context, job, outputs, preview, limited=limited)

    async def _tried(
        self,
        arguments: PythonArguments,
        context: ToolContext,
        gate: CallGate,
        outputs: CallOutputs,
        *,
        limited: bool,
    ) -> Trial:
        """Run code in a copy of the kernel; its result counts if it ``ran`` there for good, else it may run here."""
        code = arguments.code
        changed = Signal()
        seconds = arguments.timeout or time_limit(self._settings.notebook, goes_on=not limited) or _MAX_TRIAL_SECONDS
        own = self.own()
        trial = await self.trials.begin(
            code, seconds, cwd=self._cwd, readable=gate.readable, own=own, keys=self._keys(), on_text=changed.set
        )
        following = asyncio.create_task(trial.follow())
        reporting = asyncio.create_task(reported(trial, changed, context, outputs, lambda: _details(code, trial)))
        try:
            await asyncio.wait([following], timeout=self._settings.looks_seconds)
            if not following.done() and await gate.ask([], outcome=_NO_EFFECT_SO_FAR, trial=following) == "run":
                return trial
            await following
            reporting.cancel()
            effects = trial.effects
            if await gate.covers(effects) and (trial.holds or not effects):
                if effects:
                    await self.run(lambda: self._take_over(trial, context.call_id, code))
                trial.ran = True
            else:
                await gate.ask(effects, outcome=hide_known(lines(trial), labelled_secrets()), holds=trial.holds)
            return trial
        finally:
            reporting.cancel()
            following.cancel()
            await asyncio.wait([following])
            if trial.ran:
                trial.tail.close()
            else:
                trial.discard()

    def _take_over(self, trial: Trial, call: str, code: str) -> None:
        """Take over the values from a copy as an undoable step; on the main thread."""
        before = self.names()
        self.before_code(call, code, trial.names)
        try:
            trial.take_over(self._shell, self.own())
        finally:
            trial.changed, trial.not_undoable, _ = self.steps.end(call)
            if not caller.get():
                self.note_names(before, self.names())
            else:
                self._journal.begun.append(code)

    async def _of_trial(self, trial: Trial, outputs: CallOutputs) -> ToolOutput:
        """Build the output of code that ran in a copy."""
        report = trial.report or Report()
        details = _details(trial.code, trial)
        ending = ""
        if report.dropped:
            more = len(report.dropped) - _MAX_NAMES
            named = [textcut.head(name, _MAX_NAME_CHARACTERS) for name in report.dropped[:_MAX_NAMES]]
            names = ", ".join([*named, *([f"{more:,} more"] if more > 0 else [])])
            ending = (
                f"[It ran in a copy of the kernel: {names} {'is' if len(report.dropped) == 1 else 'are'} not kept.]"
            )
        how: Literal["done", "failed"] = "done" if report.how == "done" else "failed"
        return await output_of(trial, how, ending, details, self._settings, outputs)

    async def _in_kernel(
        self,
        arguments: PythonArguments,
        context: ToolContext,
        job: Running,
        outputs: CallOutputs,
        preview: Collection[str] | None,
        *,
        limited: bool,
    ) -> ToolOutput:
        """Run code in the kernel, and report changes that were not in its preview."""
        changed = Signal()
        execution = Execution(
            self._shell,
            arguments.code,
            name=f"agent {next(self._numbers)}",
            routes=self._routes,
            on_text=changed.set,
            on_start=lambda execution: self.before_code(context.call_id, execution.code, preview or ()),
            on_end=partial(self._keep, context.call_id, for_agent=not caller.get()),
        )
        seconds = arguments.timeout or time_limit(self._settings.notebook, goes_on=not limited)
        began = time.monotonic()

        def details() -> JsonObject:
            ran = {"code": arguments.code, "executionSeconds": round(time.monotonic() - began, 3)}
            unseen = sorted({*execution.changed_names} - {*preview}) if preview is not None else []
            return {**ran, **_change_details(execution.changed, execution.not_undoable), **_unseen(unseen)}

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
            if not execution.begun:
                self.steps.forget(context.call_id)

    def _describe(self, default: CallDescription, arguments: PythonArguments) -> CallDescription:
        tries = self._settings.notebook.preview
        return described(default, arguments, tries=tries, approval=partial(self.approval, arguments.code))

    def approval(self, code: str) -> Approval:
        """Build the question before code, with those of its changes that could not be undone."""
        outlook = self.steps.outlook(code, ())
        large = outlook.large
        return Approval(
            "Run this code in your kernel?",
            code,
            warning=outlook.unable or None,
            language="python",
            also={f"keep {large} for undo": partial(self.steps.keep_large, code)} if large else {},
        )

    def before_code(self, call: str, code: str, changing: Collection[str] = ()) -> None:
        """Take a checkpoint of what code can change, right before it runs.

        Args:
            changing: Variables that it is known to change, which are remembered before others.
        """
        self.steps.begin(call, code, changing)

    def _keep(self, call: str, execution: Execution, *, for_agent: bool) -> None:
        """Record the code's changes and which names are the agent's; those of another program are not."""
        execution.changed, execution.not_undoable, execution.changed_names = self.steps.end(call)
        if for_agent:
            self.note_names(execution.before, execution.after)
        else:
            self._journal.begun.append(execution.code)

    def note_names(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Record which names are the agent's.

        Args:
            before: The names before its code ran, with the ids of what they were bound to.
            after: The same, after it ran.
        """
        own = self.own()
        for name, identity in after.items():
            held = before.get(name)
            if held != identity and (held is None or own.get(name) == held) and name not in self._bound_by_others:
                self._agents[name] = identity

    # variables

    async def _list(self, arguments: VariablesArguments) -> ToolOutput:
        return text_output(await self.run(lambda: self.listing(arguments.pattern)))

    def listing(self, pattern: str) -> str:
        """Describe variables for the model, on the main thread."""
        return overview.listing(self._namespace(), _ALWAYS_HIDDEN, pattern, self.own())

    def names(self) -> dict[str, int]:
        """Return all names of the namespace, with the ids of their values."""
        held = dict(self._shell.user_ns)
        return dict(zip(held, map(id, held.values()), strict=True))

    def _namespace(self) -> Mapping[str, object]:
        """Return the variables that the user or the agent defined, as ``%who`` lists them."""
        shell = self._shell
        hidden: Mapping[str, object] = shell.user_ns_hidden
        return {
            name: value
            for name, value in dict(shell.user_ns).items()
            if not name.startswith("_") and name not in _ALWAYS_HIDDEN and hidden.get(name, shell) is not value
        }

    def _users(self) -> Mapping[str, object]:
        """Return the user's own variables, without those that the agent's code bound last."""
        held = self._namespace()
        self._agents = {name: known for name, known in self.own().items() if id(held.get(name)) == known}
        return {name: value for name, value in held.items() if name not in self._agents}

    # Context of a prompt

    async def _add_context(self, _event: object, ctx: Context) -> Mapping[str, Any] | None:
        """Return the cells that this conversation does not know yet, and the variables if they changed.

        Its own messages hold what it knows: so a fork, or another branch, gets what is new to it.
        """
        await self.steps.begin_run(ctx.session.session_id)
        found = self.untold(ctx.session.newest_first())
        if found is None:
            return None
        content, details = found
        message = {"customType": CONTEXT_TYPE, "content": content, "display": False, "details": details}
        return {"message": message, "beforePrompt": True}

    def untold(self, newest_first: Iterable[Entry]) -> tuple[str, JsonObject] | None:
        """Write the context of the next message: cells and variables that a conversation does not know yet.

        Returns:
            The text, and what it is about; ``None`` if there is nothing new.
        """
        wanted = self._settings.notebook
        known = self._known(newest_first)
        last = known.get("cell")
        cells, new_cells = self._journal.since(last if isinstance(last, int) else 0) if wanted.tell_cells else ("", 0)
        held, count = self._variables_for_prompt(_NAME.findall(cells)) if wanted.tell_variables else ("", 0)
        digest = hashlib.sha256(held.encode(errors="replace")).hexdigest()[:16] if held else ""
        parts = [cells] if cells else []
        if held and digest != known.get("variables"):
            parts.append(f"The user's variables now:\n{held}")
        else:
            count = 0
        if not parts:
            return None
        details = {"kernel": self._id, "cell": self._journal.count, "variables": digest}
        details |= {"toldCells": new_cells, "toldVariables": count}
        return clean_text("\n\n".join(parts)), details

    def _variables_for_prompt(self, recent: Sequence[str]) -> overview.Summary:
        """List the variables for a prompt; if there are very many, those first that the last cells mention."""
        space, hidden, agents = self._shell.user_ns, self._shell.user_ns_hidden, self.own()

        def is_users(name: str, value: object) -> bool:
            return hidden.get(name, space) is not value and agents.get(name) != id(value)

        return overview.summary(space, _ALWAYS_HIDDEN, is_users=is_users, recent=recent)

    def _known(self, newest_first: Iterable[Entry]) -> JsonObject:
        for entry in newest_first:
            if entry.type == "custom_message" and entry.data.get("customType") == CONTEXT_TYPE:
                details: object = entry.data.get("details")
                if isinstance(details, dict) and cast("JsonObject", details).get("kernel") == self._id:
                    return cast("JsonObject", details)
        return {}


def _change_details(changed: str, problem: str) -> JsonObject:
    """Build the details on what a call changed, for the user."""
    details: JsonObject = {"changed": changed} if changed else {}
    return {**details, "notUndoable": problem} if problem else details


class OpenNotebooks(Protocol):
    """Notebooks that pages show. Used on the agent's thread."""

    async def paths(self) -> Collection[Path]:
        """Return the files of the notebooks, as far as they are known."""
        ...

    async def has_saved(self, path: Path) -> bool:
        """Return whether the file's content is what its page has saved."""
        ...


class _Look(Generic[T]):
    """A short look at the namespace."""

    def __init__(self, look: Callable[[], T]) -> None:
        self.found: list[T] = []
        self.error: Exception | None = None
        self._look = look

    def prepare(self) -> bool:
        return False

    async def run(self, job: Job) -> None:  # noqa: ARG002 - nothing of it is to be put off
        try:
            self.found.append(self._look())
        except Exception as error:  # noqa: BLE001 - the caller gets it, on another thread
            self.error = error


def _details(code: str, trial: Trial) -> JsonObject:
    ran = {"code": code, "executionSeconds": round(trial.seconds, 3), "ran": "copy"}
    return {**ran, **_change_details(trial.changed, trial.not_undoable)}


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
