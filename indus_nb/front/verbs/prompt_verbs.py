"""Verbs about runs: messages to the agent and its queues, the user's shell commands, jobs."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import wire_field
from indus_nb.core.session.session import StreamingBehavior
from indus_nb.front.verbs.verb import MAX_NAME_CHARACTERS, Call, Verb, WithMessage


class Prompt(WithMessage):
    """Send a message to the agent. Answered once it is accepted; its effects are reported by events.

    Accepted is not saved yet: the message is in the session file when its `message_end` comes. The `disposition` in the
    response is `started` for a run of its own, `queued`, or `handled`: no run follows a command. It is left out with
    `--wire strict` and `--wire pi`.
    """

    names: ClassVar[tuple[str, ...]] = ("prompt",)
    streaming_behavior: StreamingBehavior | None = None

    async def run(self, call: Call) -> None:
        """Send the message; returns when its run is over."""
        await call.session.prompt(
            self.message,
            self.images,
            attachments=self.attachments,
            streaming_behavior=self.streaming_behavior,
            on_accepted=call.accept,
            source="rpc",
        )


class Steer(WithMessage):
    """Queue a message for after the tool call at hand; the `disposition` is `queued`."""

    names: ClassVar[tuple[str, ...]] = ("steer",)

    async def run(self, call: Call) -> JsonObject:
        """Queue the message."""
        await call.session.steer(self.message, self.images, self.attachments)
        return {"disposition": "queued"}


class FollowUp(WithMessage):
    """Queue a message for when the agent has finished; the `disposition` is `queued`."""

    names: ClassVar[tuple[str, ...]] = ("follow_up",)

    async def run(self, call: Call) -> JsonObject:
        """Queue the message."""
        await call.session.follow_up(self.message, self.images, self.attachments)
        return {"disposition": "queued"}


class AbortAndPrompt(WithMessage):
    """Abort the run, and send a message once the session is idle. Answered like a prompt."""

    names: ClassVar[tuple[str, ...]] = ("abort_and_prompt",)

    async def run(self, call: Call) -> None:
        """Abort the run and send the message; returns when its run is over."""
        await call.session.abort_and_prompt(
            self.message, self.images, attachments=self.attachments, on_accepted=call.accept
        )


class ClearQueue(Verb):
    """Remove the queued messages; returns both queues."""

    names: ClassVar[tuple[str, ...]] = ("clear_queue",)
    for_pages: ClassVar[bool] = True

    async def run(self, call: Call) -> JsonObject:
        """Empty both queues."""
        steering, follow_up = await call.session.clear_queue()
        return {"steering": steering, "followUp": follow_up}


class Abort(Verb):
    """Abort the run; answered when the session is idle."""

    names: ClassVar[tuple[str, ...]] = ("abort",)
    for_pages: ClassVar[bool] = True

    async def run(self, call: Call) -> None:
        """Abort the run."""
        await call.session.abort()


class AbortRetry(Verb):
    """End the wait before a retry."""

    names: ClassVar[tuple[str, ...]] = ("abort_retry",)

    async def run(self, call: Call) -> None:
        """End the wait."""
        await call.session.abort_retry()


class Bash(Verb):
    """Run a shell command; the model is shown it with the next prompt, unless it is excluded.

    Its output comes in `bash_execution_update` events that carry the command's `id`: the response differs by `type`.
    """

    names: ClassVar[tuple[str, ...]] = ("bash",)
    command: str
    exclude_from_context: bool = False

    async def run(self, call: Call) -> JsonObject:
        """Run the command to its end."""
        result = await call.session.bash(
            self.command, exclude_from_context=self.exclude_from_context, command_id=call.id
        )
        shown = result.truncation
        data: JsonObject = {"output": result.output}
        if result.exit_code is not None:
            data["exitCode"] = result.exit_code
        data |= {
            "cancelled": result.cancelled,
            "truncated": shown.truncated,
            "totalLines": shown.total_lines,
            "totalBytes": shown.total_bytes,
            "outputLines": shown.output_lines,
            "outputBytes": shown.output_bytes,
        }
        if shown.truncated and result.full_output_path is not None:
            data |= {"fullOutputPath": result.full_output_path, "artifactId": Path(result.full_output_path).stem}
        if shown.truncated and result.file_problem is not None:
            data["fullOutputProblem"] = result.file_problem
        return data


class AbortBash(Verb):
    """Kill the shell commands that were started by this client."""

    names: ClassVar[tuple[str, ...]] = ("abort_bash",)

    async def run(self, call: Call) -> None:
        """Kill the commands."""
        await call.session.abort_bash()


class GetJobs(Verb):
    """The calls that go on as jobs, and the newest of those that did: as in `job_update`, each with its `lastLines`."""

    names: ClassVar[tuple[str, ...]] = ("get_jobs",)

    def run(self, call: Call) -> JsonObject:
        """List the jobs."""
        jobs = call.session.settings.jobs
        hide = call.session.settings.vault.hide
        listed = [] if jobs is None else jobs.all
        return {"jobs": [{**job.info().to_wire(), "lastLines": hide(job.last_lines())} for job in listed]}


class StopJob(Verb):
    """Stop a job, by its id. Answered when it has ended, with the job; one that is over already stays as it is."""

    names: ClassVar[tuple[str, ...]] = ("stop_job",)
    for_pages: ClassVar[bool] = True
    job_id: str = wire_field(max_length=MAX_NAME_CHARACTERS)

    async def run(self, call: Call) -> JsonObject:
        """Stop the job.

        Raises:
            UsageError: There is no such job.
        """
        jobs = call.session.settings.jobs
        job = None if jobs is None else jobs.find(self.job_id)
        if jobs is None or job is None:
            raise UsageError(f"There is no job {self.job_id}. get_jobs lists those that there are.")
        await jobs.stop(job, by_user=True)
        return {"job": job.info().to_wire()}
