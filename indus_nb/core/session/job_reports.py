"""Reports to the model of a session about jobs that have ended: in its run, or by a turn of its own.

What this module promises: the model gets one report. While a run goes on it gets it when that would end, and the run
goes on. While the session is idle, the report begins a run, unless no user is there to see it, the settings do not want
it, or the user has stopped the job or the run: then it joins the next prompt. Of a job whose end was never reported, as
it ended with an earlier kernel, the model is told with the first prompt after that.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from indus_nb.base.errors import IndusError
from indus_nb.base.events import JobUpdate
from indus_nb.base.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ToolResultMessage,
)
from indus_nb.base.wire import JsonObject
from indus_nb.core.loop.watchers import RunWatcher
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage import SessionStore
from indus_nb.models.cassettes.environment import is_in_use
from indus_nb.tools.jobs import Job, Jobs, end_of

JOB_MESSAGE = "job"
"""The type of the messages."""


def reported_jobs(after: float) -> ReportedJobs | None:
    """Build the reporter of a session's jobs.

    Returns ``None`` where every call is waited for.

    Args:
        after: Seconds after which a call goes on as a job; ``0`` for never.
    """
    # When a call goes on as a job depends on time, of which nothing may be in a recorded conversation.
    return ReportedJobs(after) if after and not is_in_use() else None


class ReportedJobs(Jobs):
    """Reports to the model of a session about jobs that have ended."""

    def attach(self, session: AgentSession, starts_turn: Callable[[], bool]) -> None:
        """Attach to a session, whose model gets the reports.

        Args:
            starts_turn: Whether the settings want a report while it is idle.
        """
        reports = _JobReports(session, self, starts_turn)
        self.on_change: Callable[[Job], Awaitable[None]] | None = reports.on_change
        self.on_end: Callable[[Job], Awaitable[None]] | None = reports.on_end
        session.watchers.append(reports)


class _JobReports(RunWatcher):
    def __init__(self, session: AgentSession, jobs: Jobs, starts_turn: Callable[[], bool]) -> None:
        self._session = session
        self._jobs = jobs
        self._starts_turn = starts_turn
        self._looked_through: SessionStore | None = None

    def before_answer(self) -> Sequence[CustomMessage]:
        """Return reports of jobs that the conversation has begun elsewhere, as in an earlier kernel, and not ended."""
        if self._looked_through is self._session.store:
            return ()
        self._looked_through = self._session.store
        here = {job.id for job in self._jobs.running}
        newest: dict[str, JsonObject] = {}
        for message in reversed(self._session.messages):
            if (found := _job_of(message)) is not None:
                newest.setdefault(found["id"], found)
        return [
            _message_on_lost(found)
            for job_id, found in reversed(newest.items())
            if found.get("state") == "running" and job_id not in here
        ]

    async def after_turn(self, answer: AssistantMessage) -> Sequence[CustomMessage]:
        """Return reports of the jobs that have ended meanwhile, unless the run has failed."""
        if answer.stop_reason != "stop":
            return ()
        return [_message(job) for job in self._jobs.untold()]

    async def on_change(self, job: Job) -> None:
        """Publish that a job begins or has ended."""
        if not self._session.closed:
            await self._session.emit(JobUpdate(job=job.info()))

    async def on_end(self, job: Job) -> None:
        """Report a job once the session is idle, if the run has not done so by then."""
        session = self._session
        stopped_until_then = session.turns.ticket
        await session.wait_until_idle()
        if job.told or session.closed:
            return
        job.told = True
        message = _message(job)
        if job.by_user or session.turns.aborted_since(stopped_until_then) or not self._wants_turn():
            session.queues.keep_for_next_prompt(message)
            return
        try:
            await session.send_message(message, trigger_turn=True, deliver_as="followUp")
        except IndusError:  # it was aborted before it began, or there is no model by now
            session.queues.keep_for_next_prompt(message)

    def _wants_turn(self) -> bool:
        return self._starts_turn() and self._jobs.starts_turn() and self._session.model is not None


def _message(job: Job) -> CustomMessage:
    content: list[TextContent | ImageContent] = [TextContent(text=end_of(job)), *job.images]
    return CustomMessage(custom_type=JOB_MESSAGE, content=content, display=True, details={"job": job.details()})


def _job_of(message: Message) -> JsonObject | None:
    """Return what a message says of a job: as a session's file holds it."""
    details: object = message.details if isinstance(message, (CustomMessage, ToolResultMessage)) else None
    job: object = cast("JsonObject", details).get("job") if isinstance(details, dict) else None
    found = cast("JsonObject", job) if isinstance(job, dict) else {}
    is_ours = not isinstance(message, CustomMessage) or message.custom_type == JOB_MESSAGE
    is_known = isinstance(found.get("tool"), str) and re.fullmatch(r"job-\d{1,9}", str(found.get("id"))) is not None
    return found if is_ours and is_known else None


def _message_on_lost(job: JsonObject) -> CustomMessage:
    text = (
        f"{job['id']} ({job['tool']}) is over: it ended with the kernel or the program that it ran in, or when this "
        "conversation was left.\n\n"
        "What came of it is not known. Look whether its results are there before you rely on them."
    )
    return CustomMessage(
        custom_type=JOB_MESSAGE, content=text, display=True, details={"job": {**job, "state": "stopped"}}
    )
