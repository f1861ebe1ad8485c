"""The extensions of one session: loaded, and asked at each hook of the session.

What this module promises: a defect of one extension is published as ``extension_error`` and harms neither the session
nor the other extensions, with one exception: where a handler of ``tool_call`` fails, the tool does not run. Nothing of
an extension outlives its session.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from indus_nb.base.errors import UsageError, failure_text
from indus_nb.base.events import AgentEnd, ModelChanged, SessionEvent, ThinkingLevelChanged, ToolOutput
from indus_nb.base.messages import CustomMessage, Message, ThinkingLevel, ToolCall
from indus_nb.base.textcut import byte_size
from indus_nb.base.wire import JsonObject, encodable
from indus_nb.core.loop import AbortSignal, RunAborted, Verdict
from indus_nb.core.session.compaction import Preparation
from indus_nb.core.session.hooks import (
    BranchChange,
    BranchPlan,
    CompactionPlan,
    InputSource,
    RunStart,
    SessionHooks,
    ShutdownReason,
    StartReason,
    UserPrompt,
)
from indus_nb.core.session.questions import caller
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage.entries import Entry
from indus_nb.extend import events as ev
from indus_nb.extend.api import ExtensionApi
from indus_nb.extend.calling import contained
from indus_nb.extend.context import CommandContext
from indus_nb.extend.dispatch import SHUTDOWN_SECONDS, Dispatcher
from indus_nb.extend.loader import Source, load
from indus_nb.extend.registered import Command, Extension
from indus_nb.extend.runtime import Runtime
from indus_nb.tools import Shell, ShellResult, Tool
from indus_nb.tools.tool import NOT_RUN
from indus_nb.tools.truncate import head

_COMPLETION_SECONDS = 2.0
"""Time limit of a completion: the user waits for a list meanwhile."""


class Extensions(SessionHooks):
    """All extensions of ``session``.

    ``sources`` is called for the list of them each time that they are loaded. ``seconds`` is how long a handler may
    run, without the time in which the user is asked.
    """

    def __init__(
        self,
        session: AgentSession,
        sources: Callable[[], Iterable[Source]],
        *,
        flag_values: Mapping[str, bool | str] = {},
        seconds: float = 30.0,
    ) -> None:
        self._session = session
        self._sources = sources
        self._seconds = seconds
        self._runtime = Runtime(session, flag_values)
        dispatcher = Dispatcher(self._runtime, seconds)
        self._ask, self._notify = dispatcher.ask, dispatcher.notify
        self._model = session.model
        self._level: ThinkingLevel = session.thinking_level

    # Loading

    async def load(self) -> None:
        await self._load(afresh=False)

    async def started(self, reason: StartReason, previous: Path | None = None) -> None:
        if reason != "startup" or self._runtime.generation == 0:
            await self._load(afresh=reason == "reload")
        self._model, self._level = self._session.model, self._session.thinking_level
        await self._notify(ev.SessionStart(reason, previous))
        if reason == "fork":
            await self._notify(ev.SessionBranch(reason, previous))
        elif reason in ("new", "resume"):
            await self._notify(ev.SessionSwitch(reason, previous))
        discover = ev.ResourcesDiscover(self._session.store.cwd, "reload" if reason == "reload" else "startup")
        answers = await self._ask(discover)
        skills = [path for answer in answers for path in answer.skill_paths]
        prompts = [path for answer in answers for path in answer.prompt_paths]
        if skills or prompts:
            self._session.equipment.look_again(skills, prompts)

    async def reload(self) -> None:
        await self.shutdown("reload")
        await self.started("reload")

    async def shutdown(self, reason: ShutdownReason, target: Path | None = None) -> None:
        await self._notify(ev.SessionShutdown(reason, target))
        self._session.ui.clear()
        if reason == "quit":
            await self._runtime.calls.end(SHUTDOWN_SECONDS)
            self._runtime.generation += 1
            self._runtime.extensions = []

    async def _load(self, *, afresh: bool) -> None:
        """Set all extensions up again; until they are, the earlier ones stay in force."""
        runtime = self._runtime
        runtime.renew()
        loaded: list[Extension] = []
        failed: list[Extension] = []
        for source in self._sources():
            extension = Extension(source)
            try:
                with contained():
                    result = load(source, afresh=afresh)(ExtensionApi(runtime, extension))
                    if inspect.isawaitable(result):
                        await runtime.calls.limited(result, self._seconds)
            except Exception as error:  # noqa: BLE001 - a defect of one must not reach the others
                failed.append(extension)
                await runtime.report(extension, "load", error)
            else:
                loaded.append(extension)
        runtime.extensions, runtime.failed = loaded, failed
        runtime.ready = True
        runtime.tools_changed()

    # What they have registered

    def problems(self) -> list[str]:
        return list(self._runtime.problems)

    def check_flags(self) -> None:
        known = [*self._runtime.extensions, *self._runtime.failed]
        flags = {flag.name: flag for each in known for flag in each.flags.values()}
        for name, value in self._runtime.flag_values.items():
            if name not in flags:
                raise UsageError(f"Unrecognized arguments: --{name}. `indus-nb --help` shows all options.")
            if (flags[name].type == "string") is not isinstance(value, str):
                form = f"--{name}=VALUE" if flags[name].type == "string" else f"--{name}"
                raise UsageError(f"The option --{name} of an extension is written {form}.")

    def tools(self) -> Mapping[str, Tool]:
        found: dict[str, Tool] = {}
        for extension in self._runtime.extensions:
            for name, tool in extension.tools.items():
                found.setdefault(name, tool)
        return found

    def renderer(self, custom_type: str) -> Callable[..., Any] | None:
        registered = (each.renderers.get(custom_type) for each in self._runtime.extensions)
        return next((renderer for renderer in registered if renderer is not None), None)

    def is_command(self, text: str) -> bool:
        return text.startswith("/") and text.partition(" ")[0][1:] in self._commands()

    async def command(self, text: str) -> None:
        name, _, arguments = text.partition(" ")
        extension, command = self._commands()[name[1:]]
        try:
            with contained():
                result = command.handler(arguments, CommandContext(self._runtime))
                if inspect.isawaitable(result):
                    await result
        except RunAborted:
            pass
        except Exception as error:  # noqa: BLE001 - an extension's defect is reported and affects nothing else
            await self._runtime.report(extension, "command", error)

    def _commands(self) -> dict[str, tuple[Extension, Command]]:
        """Return all commands; where names clash they are numbered in the order of loading."""
        listed = [(each, command) for each in self._runtime.extensions for command in each.commands.values()]
        names = [command.name for _, command in listed]
        found: dict[str, tuple[Extension, Command]] = {}
        counts: dict[str, int] = {}
        for extension, command in listed:
            counts[command.name] = counts.get(command.name, 0) + 1
            clashes = names.count(command.name) > 1
            found[f"{command.name}:{counts[command.name]}" if clashes else command.name] = extension, command
        return found

    async def complete_command(self, name: str, prefix: str) -> list[JsonObject]:
        extension, command = self._commands().get(name.removeprefix("/"), (None, None))
        if command is None or command.complete is None:
            return []
        try:
            answer = command.complete(prefix)
            if inspect.isawaitable(answer):
                answer = await self._runtime.calls.limited(answer, _COMPLETION_SECONDS)
            offers = [*map(_completion, answer or ())]
        except Exception as error:  # noqa: BLE001 - an extension's defect is reported and affects nothing else
            await self._runtime.report(extension, "complete", error)
            return []
        return [offer.to_wire() for offer in offers]

    def list_commands(self) -> list[JsonObject]:
        listed: list[JsonObject] = []
        for name, (extension, command) in self._commands().items():
            described = {"description": command.description} if command.description else {}
            path, scope = extension.source.path, extension.source.scope
            info = {"path": path, "source": "extension", "scope": scope, "origin": "top-level"}
            listed.append({"name": name, **described, "source": "extension", "path": path, "sourceInfo": info})
        return listed

    # What they are asked and notified of

    async def event(self, event: SessionEvent) -> None:
        if event.type == "message_update" and event.type not in self._runtime.heard:
            return  # by far the most frequent one
        match event:
            case ModelChanged():
                previous, self._model = self._model, self._session.model
                if self._model is not None:
                    await self._notify(ev.ModelSelect(self._model, previous, "set"))
            case ThinkingLevelChanged(level=level):
                previous_level, self._level = self._level, level
                await self._notify(ev.ThinkingLevelSelect(level, previous_level))
            case _:
                if isinstance(event, AgentEnd):
                    self._session.ui.set_working_message(None)
                if ev.EVENTS.get(event.type) is type(event):
                    await self._notify(event)

    async def input(self, prompt: UserPrompt, source: InputSource) -> UserPrompt | None:
        event = ev.UserInput(prompt.text, prompt.images, source)
        answers = await self._ask(event)
        return None if answers and answers[-1].ends else UserPrompt(event.text, event.images)

    async def before_run(self, prompt: UserPrompt, system_prompt: str) -> RunStart:
        event = self._runtime.run_start = ev.BeforeAgentStart(
            prompt.text, prompt.images, system_prompt, prompt.attachments
        )
        messages: list[CustomMessage] = []
        before: list[CustomMessage] = []
        for answer in await self._ask(event):
            if answer.message is not None:
                (before if answer.before_prompt else messages).append(answer.message)
        return RunStart(event.system_prompt, messages, before)

    async def context(self, messages: list[Message]) -> list[Message]:
        if not self._runtime.handlers("context"):
            return messages
        event = ev.ModelContext([copy.deepcopy(message) for message in messages])
        await self._ask(event)
        return event.messages

    async def request(self, payload: Any) -> Any:
        if not self._runtime.handlers("before_provider_request"):
            return payload
        event = ev.BeforeProviderRequest(copy.deepcopy(encodable(payload)))  # parts of it are the session's own
        await self._ask(event)
        return event.payload

    async def response(self, status: int, headers: Mapping[str, str]) -> None:
        await self._notify(ev.AfterProviderResponse(status, headers))

    async def message_end(self, message: Message) -> Message:
        event = ev.MessageFinal(message)
        await self._ask(event)
        return event.message

    async def tool_call(self, call: ToolCall, arguments: JsonObject) -> Verdict:
        event = ev.ToolCallEvent(call.id, call.name, arguments, caller=caller.get())
        try:
            answers = await self._ask(event, needed=True)
        except RunAborted:
            return Verdict("Not run: the run was stopped before this call started.", details={NOT_RUN: True})
        except Exception as error:  # noqa: BLE001 - whatever fails here, the tool must not run
            return Verdict(f"Not run: an extension that watches over tools failed ({failure_text(error)}).")
        if answers and answers[-1].block:
            blocked = answers[-1]
            return Verdict(blocked.reason or "An extension did not allow this call.", details=blocked.details)
        if event.input is not arguments:
            arguments.clear()
            arguments.update(event.input)
        return Verdict(target=event.target, gate=event.gate)

    async def tool_begins(self, call: ToolCall, verdict: Verdict) -> None:
        await self._notify(ev.ToolBegin(call.id, call.name, call.arguments, verdict.target, verdict.gate))

    async def tool_result(self, call: ToolCall, output: ToolOutput, *, is_error: bool) -> tuple[ToolOutput, bool]:
        event = ev.ToolResultEvent(
            call.id, call.name, call.arguments, output.content, output.details, is_error=is_error
        )
        await self._ask(event)
        changed = output.replace(content=list(event.content), details=event.details)
        return changed, event.is_error

    async def before_switch(self, reason: Literal["new", "resume"], target: Path | None) -> bool:
        return not await self._cancelled(ev.SessionBeforeSwitch(reason, target))

    async def before_fork(self, entry_id: str, position: Literal["before", "at"]) -> bool:
        return not (
            await self._cancelled(ev.SessionBeforeFork(entry_id, position))
            or await self._cancelled(ev.SessionBeforeBranch(entry_id, position))
        )

    async def _cancelled(self, event: ev.Asking[ev.CancelAnswer]) -> bool:
        return any(answer.cancel for answer in await self._ask(event))

    async def before_compact(
        self, preparation: Preparation, branch: Sequence[Entry], instructions: str | None, signal: AbortSignal
    ) -> CompactionPlan:
        answers = await self._ask(ev.SessionBeforeCompact(preparation, branch, instructions, signal))
        made = [answer.compaction for answer in answers if answer.compaction is not None]
        return CompactionPlan(cancel=any(answer.cancel for answer in answers), result=made[-1] if made else None)

    async def compacted(self, entry: Entry, *, by_hook: bool) -> None:
        await self._notify(ev.SessionCompact(entry, by_hook))

    async def before_branch(self, change: BranchChange, signal: AbortSignal) -> BranchPlan:
        answers = await self._ask(ev.SessionBeforeTree(change, signal))
        if not answers:
            return await super().before_branch(change, signal)
        answer = answers[-1]
        replace = answer.replace_instructions
        return BranchPlan(
            cancel=answer.cancel,
            summary=(answer.summary.summary, answer.summary.details) if answer.summary else None,
            custom_instructions=answer.custom_instructions or change.custom_instructions,
            replace_instructions=change.replace_instructions if replace is None else replace,
            label=answer.label or change.label,
        )

    async def branched(
        self, new_leaf_id: str | None, old_leaf_id: str | None, summary: Entry | None, *, by_hook: bool
    ) -> None:
        await self._notify(ev.SessionTree(new_leaf_id, old_leaf_id, summary, by_hook))

    async def user_bash(self, command: str, cwd: Path, *, exclude_from_context: bool) -> ShellResult | Shell | None:
        answers = await self._ask(ev.UserBash(command, exclude_from_context, cwd))
        answer = answers[-1] if answers else ev.UserBashAnswer()
        if answer.operations is not None or answer.result is None:
            return answer.operations
        result = answer.result
        whole = head(result.output, max_lines=None, max_bytes=byte_size(result.output))
        shown = whole.replace(truncated=result.truncated)
        return ShellResult(shown, exit_code=result.exit_code, cancelled=result.cancelled)


def _completion(offer: object) -> ev.Completion:
    """Return what a command offers to complete: a text, a dictionary, or an object with the attributes."""
    if isinstance(offer, str):
        return ev.Completion(value=offer)
    if isinstance(offer, dict):
        return ev.Completion.from_wire(offer)
    return ev.Completion.from_wire({name: getattr(offer, name, None) for name in ev.Completion.wire_fields})
