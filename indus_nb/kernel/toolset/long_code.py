"""The agent's code that continues as a job: it holds the kernel's main thread, one piece at a time.

What this module promises: while such code runs, no other code of the agent's waits for the main thread; it is rejected
with a sentence that names what runs. A caller that waits for the kernel can wait for the code and for what
its end begins.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias

from indus_nb.base.events import AgentSettled, AgentStart, MessageStart, SessionEvent, ToolOutput
from indus_nb.base.messages import UserMessage
from indus_nb.core.session.job_reports import JOB_MESSAGE
from indus_nb.core.session.session import AgentSession
from indus_nb.kernel.run.outputs import OutputBoard
from indus_nb.tools.jobs import Job, Jobs, duration
from indus_nb.tools.tool import ToolContext, ToolError

Running: TypeAlias = Callable[[], Job | None]
"""Function that returns the job that a call has become, or ``None``."""
_TOOL = "python"


@dataclass(slots=True)
class Elsewhere:
    """Where a call belongs whose session is in another process, which decides whether it goes on as a job.

    Attributes:
        is_job: Whether it has become a job.
    """

    is_job: bool = False


elsewhere: ContextVar[Elsewhere | None] = ContextVar("indus_nb call of another process", default=None)


class LongCode:
    """Code that continues as a job in one kernel, of any session."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._jobs: Jobs | None = None

    def check(self, jobs: Jobs | None) -> None:
        """Check that the main thread is free.

        Args:
            jobs: The jobs of the session that wants to use it.

        Raises:
            ToolError: Code goes on there.
        """
        job = self._job
        if job is None or not job.running:
            return
        ran = f"{job.what}, for {duration(job.seconds)}"
        if jobs is self._jobs:
            raise ToolError(
                f"Nothing was run: the user's kernel still runs {job.id} ({ran}), and one thing at a time. Wait for it "
                "or stop it with the tool job; commands and files can be used meanwhile."
            )
        raise ToolError(
            f"Nothing was run: the user's kernel still runs code of another conversation ({ran}), and one thing at a "
            "time. Commands and files can be used meanwhile."
        )

    async def run(
        self,
        work: Callable[[ToolContext, Running], Awaitable[ToolOutput]],
        context: ToolContext,
        jobs: Jobs | None,
        *,
        code: str,
        waits: bool,
        outputs: OutputBoard,
    ) -> ToolOutput:
        """Run code, which continues as a job if it takes long.

        Args:
            jobs: The session's jobs; without them it is waited for.
            waits: Whether it is waited for, however long it takes.

        Raises:
            ToolError: It failed, or other code goes on.
        """
        self.check(jobs)
        if jobs is None:
            return await work(context, lambda: None)
        mine: list[Job] = []

        def begin(job: Job) -> None:
            mine.append(job)
            self._job, self._jobs = job, jobs
            if (shown := outputs.of(context.call_id)) is not None:
                shown.job = job

        return await jobs.run(
            lambda context: work(context, lambda: mine[0] if mine else None),
            context,
            tool=_TOOL,
            what=code,
            waits=waits,
            on_job=begin,
        )


def code_of(session: AgentSession) -> list[Job]:
    """Return the code of a session that continues as a job."""
    jobs = session.settings.jobs
    return [] if jobs is None else [job for job in jobs.running if job.tool == _TOOL]


async def stop_code(session: AgentSession) -> None:
    """Stop the code of a session that continues as a job, at the user's request."""
    for job in code_of(session):
        if session.settings.jobs is not None:
            await session.settings.jobs.stop(job, by_user=True)


class CodeOfCell:
    """Code that continues since a cell began, and the session's events that belong to the cell.

    Attributes:
        prompt_over: Whether the cell's own prompt is answered: then only runs that the end of a job begins are the
            cell's, and others belong to the caller that began them.
    """

    def __init__(self, session: AgentSession) -> None:
        self.prompt_over: bool = False
        self._jobs = session.settings.jobs
        self._before = frozenset(self._jobs.unsettled if self._jobs is not None else ())
        self._held: list[SessionEvent] | None = None
        self._ours = False

    @property
    def has_run(self) -> bool:
        """Return whether a run that is active now belongs to the cell."""
        return not self.prompt_over or self._ours

    def _open(self) -> list[Job]:
        unsettled = self._jobs.unsettled if self._jobs is not None else ()
        return [job for job in unsettled if job.tool == _TOOL and job not in self._before]

    async def follow(self) -> None:
        """Wait for the end of the code, and of the run that this begins."""
        self.prompt_over = True
        while self._jobs is not None and (jobs := self._open()):
            for job in jobs:
                await self._jobs.settled(job)

    async def stop(self) -> None:
        """Stop the code, at the user's request."""
        for job in self._open():
            if self._jobs is not None:
                await self._jobs.stop(job, by_user=True)

    def events(self, event: SessionEvent) -> Sequence[SessionEvent]:
        """Return the cell's event to show by now.

        Returns:
            The event, none, or with it those before it: whose a run is shows in its first message.
        """
        if self.has_run:
            self._ours = self._ours and not isinstance(event, AgentSettled)
            return [event]
        if isinstance(event, AgentStart):
            self._held = []
        if self._held is None:
            return []
        self._held.append(event)
        if isinstance(event, MessageStart) and isinstance(event.message, UserMessage):
            self._held = None
        elif isinstance(event, MessageStart) and getattr(event.message, "custom_type", "") == JOB_MESSAGE:
            held, self._held, self._ours = self._held, None, True
            return held
        return []
