"""Background jobs: tool calls that go on after their result, and the tool ``job`` that controls them.

What this module promises:

- **A call that takes long becomes a job** (`Jobs.run`): its result says so, with a handle and the last lines, and the
  work goes on. Time in which its gate asks the user does not count. Its tool (`indus_nb.tools.commands.bash`, the
  notebook's Python) reports and ends as in any other call.
- **Every job ends once**: by itself, or because it was stopped, which cancels its work and waits for the end of that.
  The jobs of a session end with it.
- **The model is told once** how a job ended: by the tool ``job``, or by the caller of `Jobs.untold`.
- **Bounded.** A job keeps its newest report, which is within the limits of a tool's output, and the table keeps the
  newest jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from indus_nb.base import textcut
from indus_nb.base.deadline import Deadline
from indus_nb.base.events import JobInfo, JobState, ToolOutput
from indus_nb.base.messages import ImageContent, TextContent, text_of
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import wire_field
from indus_nb.tools.description import CallDescription, title_of
from indus_nb.tools.timed_gate import TimedGate
from indus_nb.tools.tool import JOB, Arguments, FunctionTool, ToolContext, ToolError, text_output

_FIRST_SECONDS = 1.0
"""Time that a call waits for a job from the beginning, so that an early failure is its result."""
_MAX_KEPT = 50
_MAX_LAST_LINES = 20
_MAX_LAST_CHARACTERS = 2000
_MAX_WAIT_SECONDS = 3600.0
_WAIT_SECONDS = 60.0
_REPORT_EVERY = 1.0
_END_SECONDS = 10.0


@dataclass(eq=False)
class Job:
    """Background job that a tool call began.

    Attributes:
        id: Its handle, such as ``job-1``.
        tool: The tool that was called.
        state: State in its life cycle.
        output: Its newest report; in the end its result.
        told: True once the model was told how it ended, or need not be.
        over: True once its work is over, and what it made is not kept yet.
        waits: True while the user is asked whether it may run, or about what it made.
        in_background: Whether it was begun as a job, which nothing waits for.
        ended: Set when it has ended.
    """

    id: str
    tool: str
    what: str
    output: ToolOutput = field(default_factory=lambda: ToolOutput(content=[]))
    state: JobState = "running"
    told: bool = False
    by_user: bool = False
    over: bool = False
    waits: bool = False
    in_background: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _began: float = field(default_factory=time.monotonic)
    _took: float | None = None

    @property
    def running(self) -> bool:
        """Return whether the job is still running."""
        return self.state == "running"

    @property
    def asks(self) -> bool:
        """Return whether the user is asked about what it made."""
        return self.over and self.waits

    @property
    def seconds(self) -> float:
        """Return how long it has run, or ran; the user's time for an answer, or for a cell, does not count."""
        return time.monotonic() - self._began if self._took is None else self._took

    @property
    def text(self) -> str:
        """Return its output, as far as its newest report holds it."""
        return text_of([block for block in self.output.content if isinstance(block, TextContent)])

    @property
    def images(self) -> list[ImageContent]:
        """Return the images of its newest report."""
        return [block for block in self.output.content if isinstance(block, ImageContent)]

    def last_lines(self) -> str:
        """Return the end of its output; of a progress bar that is its newest state."""
        lines = self.text.rstrip("\n").rsplit("\n", _MAX_LAST_LINES)
        left_out = len(lines) > _MAX_LAST_LINES
        shown = textcut.tail("\n".join(lines[1:] if left_out else lines), _MAX_LAST_CHARACTERS)
        return f"…\n{shown}" if left_out and not shown.startswith("…") else shown

    def describe(self, *, to_user: bool = False) -> str:
        """Return a sentence on the job and its state, for the model or for the user."""
        ran, whose, who = duration(self.seconds), *(("your", "you") if to_user else ("the user's", "the user"))
        running = f"has run for {ran}"
        if self.asks:
            running = f"ended after {ran}, and waits for {whose} answer"
        elif self.over:
            running = f"ended after {ran}, and waits until the kernel is free for what it made"
        elif self.waits:
            running = f"waits for {whose} answer: nothing has run yet, but for a try in a copy"
        how = {
            "running": running,
            "ended": f"ended after {ran}",
            "failed": f"failed after {ran}",
            "stopped": f"was stopped{f' by {who}' if self.by_user else ''} after {ran}",
        }[self.state]
        return f"{self.id} ({self.tool}: {self.what}) {how}."

    def details(self) -> JsonObject:
        """Return the fields for front ends."""
        return {"id": self.id, "tool": self.tool, "state": self.state, "seconds": round(self.seconds, 3)}

    def info(self) -> JobInfo:
        """Return the fields for events."""
        return JobInfo(id=self.id, tool=self.tool, title=self.what, state=self.state, seconds=round(self.seconds, 3))

    def end_work(self) -> None:
        """Mark its work as over, but for what becomes of what it made."""
        self._took, self.over = self.seconds, True

    @contextlib.contextmanager
    def asking(self, *, goes_on: bool) -> Generator[None]:
        """Have it wait within this context, in which the user is asked.

        Args:
            goes_on: Whether its code runs meanwhile, so that its time does not stand still.
        """
        self.waits = not goes_on
        if goes_on:
            yield
            return
        self._took = self.seconds
        try:
            yield
        finally:
            self.waits = False
            if self.running and not self.over:
                self._began, self._took = time.monotonic() - self._took, None

    def report(self, output: ToolOutput) -> None:
        """Take its newest report; where it does not run in a trial any more, its time is counted from now on."""
        if _in_trial(self.output) and not _in_trial(output):
            self._began = time.monotonic()
        self.output = output

    def finish(self, state: JobState, output: ToolOutput | None) -> None:
        """Mark the job as ended.

        Args:
            output: Its result, if it has one.
        """
        self._took = self.seconds
        self.state = state
        self.output = self.output if output is None else output
        self.ended.set()


@dataclass(eq=False)
class Jobs:
    """Background jobs of one session, used on its event loop.

    Attributes:
        after: Seconds after which a call goes on as a job.
        on_change: Awaited with a job that begins, and when it has ended.
        on_end: Awaited with a job that has ended, unless the model knows of it.
        starts_turn: Whether a job's end may begin a turn that reports it to the model.
    """

    after: float
    on_change: Callable[[Job], Awaitable[None]] | None = None
    on_end: Callable[[Job], Awaitable[None]] | None = None
    starts_turn: Callable[[], bool] = lambda: True
    _table: dict[str, Job] = field(default_factory=dict[str, Job])
    _tasks: dict[Job, asyncio.Task[None]] = field(default_factory=dict["Job", "asyncio.Task[None]"])
    _work: dict[Job, asyncio.Task[ToolOutput]] = field(default_factory=dict["Job", "asyncio.Task[ToolOutput]"])
    _count: int = 0

    @property
    def all(self) -> list[Job]:
        """Return the jobs that are known, oldest first."""
        return [*self._table.values()]

    @property
    def running(self) -> list[Job]:
        """Return the running jobs."""
        return [job for job in self._table.values() if job.running]

    @property
    def unsettled(self) -> list[Job]:
        """Return the running jobs, and those whose end is being reported."""
        return [*self._tasks]

    def find(self, job_id: str) -> Job | None:
        """Return a job by its id, or the number in it."""
        return self._table.get(job_id if job_id.startswith("job-") else f"job-{job_id}")

    async def run(
        self,
        work: Callable[[ToolContext], Awaitable[ToolOutput]],
        context: ToolContext,
        *,
        tool: str,
        what: str,
        background: bool = False,
        waits: bool = False,
        on_job: Callable[[Job], None] = lambda _: None,
    ) -> ToolOutput:
        """Run the work of a call, which goes on as a job if it takes long.

        Args:
            work: Does it; what it reports is what it has printed so far. Cancelling it ends what it has begun.
            tool: The tool that was called.
            background: Start it as a job from the beginning.
            waits: Wait for it, however long it takes.
            on_job: Called when it goes on as a job.

        Raises:
            ToolError: The work failed before it became a job.
        """
        job = Job("", tool, title_of(str(context.hide(what))), in_background=background)

        def report(output: ToolOutput) -> None:
            job.report(output)
            if not job.id:
                context.report(output)

        deadline = Deadline(_FIRST_SECONDS if background else None if waits else self.after)

        @contextlib.contextmanager
        def asking(goes_on: bool) -> Generator[None]:  # noqa: FBT001 - as `TimedGate` calls it
            with job.asking(goes_on=goes_on), contextlib.nullcontext() if background else deadline.paused():
                yield

        gate = None if context.gate is None else TimedGate(context.gate, asking)
        task = asyncio.ensure_future(
            work(replace(context, report=report, on_over=job.end_work, job_id=lambda: job.id, gate=gate))
        )
        try:
            async with deadline:
                await asyncio.wait([task])
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            return await task  # what it says of its end counts, if it says something
        if task.done():
            return await task
        self._count += 1
        job.id = f"job-{self._count}"
        self._table[job.id] = job
        self._work[job] = task
        self._tasks[job] = asyncio.create_task(self._follow(job, task), name=f"indus_nb {job.id}")
        self._forget()
        on_job(job)
        if self.on_change is not None:
            await self.on_change(job)
        return _goes_on(job)

    async def _follow(self, job: Job, task: asyncio.Task[ToolOutput]) -> None:
        """Wait for the end of a job, and report it."""
        output: ToolOutput | None = None
        state: JobState = "ended"
        try:
            await asyncio.wait([task])
            output = task.result()
        except ToolError as error:
            state, output = "failed", error.output
        except asyncio.CancelledError:
            state = "stopped"
            task.cancel()
        except Exception as error:  # noqa: BLE001 - a defect of the tool: the model reads it, as in a call
            state, output = "failed", text_output(f"{type(error).__name__}: {error}")
        stopped = job.by_user or job not in self._work
        self._work.pop(job, None)
        job.finish("stopped" if stopped else state, output)
        try:
            if self.on_change is not None:
                await self.on_change(job)
            if self.on_end is not None and not job.told:
                await self.on_end(job)
        finally:
            self._tasks.pop(job, None)

    def _forget(self) -> None:
        ended = [job for job in self._table.values() if not job.running and job.told]
        for job in ended[: max(len(self._table) - _MAX_KEPT, 0)]:
            del self._table[job.id]

    def untold(self) -> list[Job]:
        """Return the ended jobs that the model was not told of, and mark them as told."""
        found = [job for job in self._table.values() if not job.running and not job.told]
        for job in found:
            job.told = True
        return found

    async def settled(self, job: Job) -> None:
        """Wait until a job has ended, and the turn that its end begins."""
        task = self._tasks.get(job)
        if task is not None:
            await asyncio.wait([task])

    async def stop(self, job: Job, *, by_user: bool = False) -> None:
        """Stop a job; returns when it has ended, or does not within some seconds."""
        work = self._work.pop(job, None)
        if work is None:
            return
        job.by_user = by_user
        work.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await job.ended.wait()

    def cancel(self) -> None:
        """Cancel all jobs without waiting for their end, and without reports."""
        for job in self.running:
            job.told = True
            if (work := self._work.pop(job, None)) is not None:
                with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the work
                    work.cancel()

    async def close(self) -> None:
        """Stop all jobs, and return when they have ended; none is reported."""
        open_jobs = [*self._tasks]
        self.cancel()
        for job in open_jobs:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await job.ended.wait()
        for job in self.all:
            job.told = True


def duration(seconds: float) -> str:
    """Format a time for a reader.

    >>> duration(5.4), duration(130), duration(7300)
    ('5 s', '2 min 10 s', '2 h 1 min')
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def end_of(job: Job) -> str:
    """Return the report on an ended job for the model."""
    return f"{job.describe()}\n\n{job.text or '(no output)'}"


def _in_trial(output: ToolOutput) -> bool:
    details: object = output.details
    return isinstance(details, dict) and "ran" in details


def _goes_on(job: Job) -> ToolOutput:
    lines = job.last_lines()
    text = (
        (job.describe() if job.over or job.waits else f"It still runs, and goes on as {job.id}.")
        + (f" Its last lines:\n{lines}" if lines else " It has printed nothing yet.")
        + f"\n\n[You are told when it ends. With the tool {JOB} you can wait for it, look at it or stop it.]"
    )
    details: object = job.output.details
    reported = cast("JsonObject", details) if isinstance(details, dict) else {}
    return text_output(text, {**reported, "job": {**job.details(), "lastLines": lines}})


class JobArguments(Arguments):
    """What the model gives."""

    action: Literal["list", "look", "wait", "stop"] = wire_field(
        description="look: see its last lines; wait: until it ends; stop: end it now"
    )
    id: str | None = wire_field(default=None, description="As job-1; needed when several run")
    seconds: float = wire_field(default=_WAIT_SECONDS, gt=0, le=_MAX_WAIT_SECONDS, description="Longest wait")


def job_tool(jobs: Jobs) -> FunctionTool[JobArguments]:
    """Make the tool ``job``.

    Args:
        jobs: The jobs that it looks after.
    """

    async def run(arguments: JobArguments, context: ToolContext) -> ToolOutput:
        if arguments.action == "list":
            return text_output("\n".join(job.describe() for job in jobs.all) or "There are no jobs.")
        job = _named(jobs, arguments.id)
        if arguments.action == "wait":
            await _wait(job, arguments.seconds, context)
        elif arguments.action == "stop" and job.running:
            job.told = True
            await jobs.stop(job)
        return _output_of(job)

    return FunctionTool(
        name=JOB,
        description=(
            "See, wait for and stop jobs: calls that go on in the background. Wait for a job instead of looking again "
            "and again. If nothing else is left to do, end your answer: a message comes when a job ends."
        ),
        arguments=JobArguments,
        run=run,
        describe=_describe,
        secret_arguments=(),
    )


def _describe(default: CallDescription, arguments: JobArguments) -> CallDescription:
    # What a job does was allowed when it began; to end it does less.
    summary = " ".join(filter(None, (arguments.action, arguments.id)))
    return replace(default, has_effects=False, summary=summary, details={})


def _named(jobs: Jobs, job_id: str | None) -> Job:
    if job_id is not None and (found := jobs.find(job_id)) is not None:
        return found
    likely = jobs.running or jobs.all[-1:]
    if job_id is None and len(likely) == 1:
        return likely[0]
    known = ", ".join(job.id for job in jobs.all)
    what = f"There is no job {job_id}." if job_id is not None else "Name the job by its id."
    raise ToolError(f"{what} {f'There are {known}.' if known else 'There are no jobs.'} Nothing was done.")


async def _wait(job: Job, seconds: float, context: ToolContext) -> None:
    until = time.monotonic() + seconds
    shown = None
    while job.running and (left := until - time.monotonic()) > 0:
        if (lines := job.last_lines()) != shown:
            context.report(text_output(lines))
            shown = lines
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left, _REPORT_EVERY)):
                await job.ended.wait()


def _output_of(job: Job) -> ToolOutput:
    if job.running:
        lines = job.last_lines()
        last = f"Its last lines:\n{lines}" if lines else "It has printed nothing yet."
        return text_output(f"{job.describe()} {last}", {"job": job.details()})
    job.told = True
    output = text_output(end_of(job), {"job": job.details()})
    output.content.extend(job.images)
    return output
