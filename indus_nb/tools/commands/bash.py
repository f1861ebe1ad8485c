"""The ``bash`` tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indus_nb.base.events import ToolOutput
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import wire_field
from indus_nb.tools.commands.shell import Shell, ShellResult
from indus_nb.tools.description import Approval, CallDescription
from indus_nb.tools.tool import JOB, Arguments, CallGate, FunctionTool, ToolContext, ToolError, text_output
from indus_nb.tools.truncate import size_text

if TYPE_CHECKING:
    from indus_nb.safety.sandbox import Machine, Sandbox
    from indus_nb.safety.sandbox.trials import CommandTrial
    from indus_nb.tools.commands.trying import Tries
    from indus_nb.tools.jobs import Jobs

_JOBS = (
    f"What takes longer than {{seconds:g}} seconds, and has no timeout, goes on as a job, which the tool {JOB} waits "
    "for, shows and stops."
)


@dataclass(frozen=True, slots=True)
class Looks:
    """Settings for trials of commands.

    Attributes:
        seconds: Time for a trial before the user is asked whether to wait for it.
        hidden: Paths that it must not read meanwhile.
        here: Abilities of this machine; by default they are probed.
    """

    seconds: float = 10.0
    hidden: Sequence[Path] = ()
    here: Machine | None = None


class BashArguments(Arguments):
    """What the model gives."""

    command: str = wire_field(description="The command, for bash")
    timeout: float | None = wire_field(
        default=None, gt=0, finite=True, description="Seconds after which it is killed; no limit by default"
    )


class BackgroundBashArguments(BashArguments):
    """The same where a command may go on as a job."""

    background: bool = wire_field(default=False, description="Let it go on as a job: for a server, or what takes long")


def bash_tool(cwd: Path, shell: Shell, jobs: Jobs | None = None, looks: Looks | None = None) -> FunctionTool[Any]:
    """Make the ``bash`` tool.

    Args:
        jobs: Jobs that long commands become; without it they are waited for.
    """
    looks = looks or Looks()
    tries: Tries | None = None

    async def begin(arguments: BashArguments, context: ToolContext) -> ToolOutput:
        if context.gate is not None and (tried := await try_first(arguments, context, context.gate)) is not None:
            return _output(arguments, tried)
        if jobs is None:
            return await run(arguments, context)
        return await jobs.run(
            partial(run, arguments),
            context,
            tool="bash",
            what=arguments.command,
            background=isinstance(arguments, BackgroundBashArguments) and arguments.background,
            waits=arguments.timeout is not None,
        )

    async def try_first(arguments: BashArguments, context: ToolContext, gate: CallGate) -> ShellResult | None:
        nonlocal tries
        from indus_nb.safety.effects import Effect
        from indus_nb.safety.redaction import is_distinct
        from indus_nb.safety.sandbox.trials import CommandTrials
        from indus_nb.tools.commands.trying import Command, Tries, in_background  # with what only a gate needs

        if isinstance(arguments, BackgroundBashArguments) and arguments.background:
            await gate.ask([in_background(arguments.command)])
            return None
        keys = shell.vault.known() if shell.vault is not None else dict[str, str]()
        if any(is_distinct(key) and key in arguments.command for key in keys):
            await gate.ask([Effect("unknown", "", "is given a key, and nothing that is tried gets one")])
            return None

        def start(trial: CommandTrial, on_output: Callable[[ShellResult], None]) -> Awaitable[ShellResult]:
            tried = replace(shell, sandbox=None, trial=trial.confined)
            return tried.run(arguments.command, cwd=cwd, timeout=arguments.timeout, on_output=on_output)

        tries = tries or Tries(CommandTrials(cwd, hidden=looks.hidden, here=looks.here), looks.seconds)
        words = shell.arguments(arguments.command)
        return await tries.run(Command(words, shell.environment(), start, partial(_report, context), keys), gate)

    async def run(arguments: BashArguments, context: ToolContext) -> ToolOutput:
        report = partial(_report, context)
        return _output(
            arguments, await shell.run(arguments.command, cwd=cwd, timeout=arguments.timeout, on_output=report)
        )

    def describe(default: CallDescription, arguments: BashArguments) -> CallDescription:
        described = replace(default, approval=lambda: _approval(arguments, cwd, shell), tries=shell.is_here)
        return described if shell.sandbox is None else _confined_call(described, shell.sandbox)

    return FunctionTool(
        name="bash",
        description=(
            "Run a command with bash in the working directory and get what it prints on stdout and stderr. Of long "
            "output you get beginning and end; all of it is kept in a file that is named then. The command gets no "
            "input."
            + ("" if shell.sandbox is None else f" {shell.sandbox.describe()}")
            + ("" if jobs is None else f" {_JOBS.format(seconds=jobs.after)}")
        ),
        arguments=BashArguments if jobs is None else BackgroundBashArguments,
        run=begin,
        starts_jobs=jobs is not None,
        snippet="Run shell commands",
        describe=describe,
        secret_arguments=("command",),
    )


def _report(context: ToolContext, result: ShellResult) -> None:
    content = text_output(result.output).content if result.output else []
    # The protocol's documents print both keys in updates, null while nothing is left out.
    details = {"truncation": None, "fullOutputPath": None, **(_details(result) or {})}
    context.report(ToolOutput(content=content, details=details))


def _output(arguments: BashArguments, result: ShellResult) -> ToolOutput:
    """Return the result of a command for the model; raises ``ToolError`` if it failed."""
    from indus_nb.tools.shortening import with_beginning  # which no start needs

    notice = _notice(result)
    text = "\n\n".join(filter(None, [result.output + notice, *result.sandbox_notes]))
    if result.cancelled:
        status = "Command aborted"
    elif result.timed_out:
        status = f"Command timed out after {arguments.timeout:.10g} seconds"
    elif result.exit_code:
        status = f"Command exited with code {result.exit_code}"
    else:
        return with_beginning(text_output(text or "(no output)", _details(result)), result.truncation, notice)
    failure = ToolError(f"{text}\n\n{status}" if text else status, _details(result))
    failure.output = with_beginning(failure.output, result.truncation, notice)
    raise failure


def _approval(arguments: BashArguments, cwd: Path, shell: Shell) -> Approval:
    """Build the question before a command: with its shell, prefix and directory, where these are not the usual."""
    from indus_nb.tools.files.previews import started_elsewhere  # with modules that only a question needs

    notes: list[str] = []
    if started_elsewhere(cwd):
        notes.append(f"It runs in {cwd}.")
    if shell.path is not None:
        notes.append(f"It is run by {shell.path}, as the setting shellPath has it.")
    preview = arguments.command
    if shell.prefix:
        notes.append("The first lines are those of the setting shellCommandPrefix.")
        preview = f"{shell.prefix}\n{preview}"
    return Approval("Run this command?", preview, warning=" ".join(notes) or None, language="bash")


def _confined_call(described: CallDescription, sandbox: Sandbox) -> CallDescription:
    """Describe the call as confined; a sandbox that keeps its effects in the workspace leaves nothing to ask."""
    details = {**described.details, "sandbox": sandbox.mode}
    asks = not sandbox.asks_nothing
    return replace(
        described, details=details, has_effects=described.has_effects and asks, tries=described.tries and asks
    )


def _details(result: ShellResult) -> JsonObject | None:
    details = result.truncation.details()
    if details is not None and result.full_output_path:
        details["fullOutputPath"] = result.full_output_path
    return details if result.ran is None else {**(details or {}), "ran": result.ran}


def _notice(result: ShellResult) -> str:
    shown = result.truncation
    if not shown.truncated:
        return ""
    if shown.last_line_partial:
        what = f"only the last {size_text(shown.output_bytes)} of line {shown.total_lines} are shown"
    else:
        what = (
            f"lines {shown.total_lines - shown.output_lines + 1}-{shown.total_lines} of {shown.total_lines} are shown"
        )
    limit = f"{shown.max_lines} lines" if shown.truncated_by == "lines" else size_text(shown.max_bytes)
    if result.full_output_path is None:
        where = f"The full output could not be kept: {result.file_problem}"
    elif result.file_problem:
        where = f"Output until a failure ({result.file_problem}): {result.full_output_path}"
    else:
        where = f"Full output: {result.full_output_path}"
    return f"\n\n[Long output: {what} (limit: {limit}). {where}]"
