"""The extensions of one session: loaded, called at each event in their order.

What this module promises: a defect of one extension is published as ``extension_error`` and harms neither the session
nor the other extensions, with one exception: where a handler of ``tool_call`` fails, the tool does not run. A handler
has a time limit, which does not count while the user is asked. Nothing of an extension outlives its session.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from indus_nb.base import textcut
from indus_nb.base.errors import IndusError, UsageError
from indus_nb.base.events import (
    AgentEnd,
    ExtensionError,
    MessageEnd,
    ModelChanged,
    SessionEvent,
    ThinkingLevelChanged,
    ToolOutput,
    TurnEnd,
    TurnStart,
)
from indus_nb.base.messages import CustomMessage, Message, ThinkingLevel, ToolCall, now_ms
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.base.wire import JsonObject, encodable
from indus_nb.core.loop import AbortSignal, RunAborted, Verdict
from indus_nb.core.session.compaction import CompactionResult, Preparation
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
from indus_nb.extend.api import ExtensionApi, Handler
from indus_nb.extend.bus import EventBus
from indus_nb.extend.calling import HandlerCalls
from indus_nb.extend.context import CommandContext, Context
from indus_nb.extend.loader import Source, load
from indus_nb.extend.registered import Command, Extension
from indus_nb.safety.redaction import hide
from indus_nb.tools import Shell, ShellResult, Tool
from indus_nb.tools.description import Target
from indus_nb.tools.truncate import Truncation

_log = logging.getLogger("indus_nb")
AnswerT = TypeVar("AnswerT", bound=ev.Answer)
_SHUTDOWN_SECONDS = 2.0
_COMPLETION_SECONDS = 2.0
"""Time limit of a completion: the user waits for a list meanwhile."""
_INTERRUPTED = (ev.UserInput, ev.BeforeAgentStart, ev.ModelContext, ev.BeforeProviderRequest, ev.ToolCallEvent)
"""Events that an abort need not wait for."""
_SHOWN_PATH_CHARACTERS = 200
_KEPT_PROBLEMS = 50


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
        self.session = session
        self.generation = 0
        self.ready = False
        self.flag_values = flag_values
        self.listening: set[str] = set()
        self.system_prompt = ""
        self.bus = EventBus(self.report_soon)
        self._sources = sources
        self._seconds = seconds
        self._extensions: list[Extension] = []
        self._failed: list[Extension] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None
        self._providers: list[str] = []
        self._problems: list[str] = []
        self._calls = HandlerCalls()
        self._turn = -1
        self._model = session.model
        self._level: ThinkingLevel = session.thinking_level

    # Loading

    async def load(self) -> None:
        await self._load(afresh=False)

    async def started(self, reason: StartReason, previous: Path | None = None) -> None:
        if reason != "startup" or self.generation == 0:
            await self._load(afresh=reason == "reload")
        self._model, self._level = self.session.model, self.session.thinking_level
        await self._notify(ev.SessionStart(reason, previous))
        if reason == "fork":
            await self._notify(ev.SessionBranch(previous))
        elif reason in ("new", "resume"):
            await self._notify(ev.SessionSwitch(reason, previous))
        await self._discover_resources("reload" if reason == "reload" else "startup")

    async def reload(self) -> None:
        """Load all extensions and resources again, from their files."""
        await self.shutdown("reload")
        await self.started("reload")

    async def _load(self, *, afresh: bool) -> None:
        """Set all extensions up again; until they are, the earlier ones stay in force."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self.generation += 1
        self.ready = False
        self._problems.clear()
        self.bus = EventBus(self.report_soon)
        for name in self._providers:
            self.session.registry.unregister(name)
        self._providers.clear()
        loaded: list[Extension] = []
        failed: list[Extension] = []
        for source in self._sources():
            extension = Extension(source)
            try:
                setup = load(source, afresh=afresh)
                result = setup(ExtensionApi(self, extension))
                if inspect.isawaitable(result):
                    await self._calls.limited(result, self._seconds)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a defect of one must not reach the others
                failed.append(extension)
                await self.report(extension, "load", error)
            else:
                loaded.append(extension)
        self._extensions, self._failed = loaded, failed
        self.listening = {name for extension in loaded for name in extension.handlers}
        self.ready = True
        self.tools_changed()

    async def _discover_resources(self, reason: Literal["startup", "reload"]) -> None:
        skills: list[str] = []
        prompts: list[str] = []
        cwd = self.session.store.cwd
        async for _, answer in self._ask(ev.ResourcesDiscover(cwd, reason), ev.ResourcesAnswer):
            skills += answer.skill_paths
            prompts += answer.prompt_paths
        if skills or prompts:
            self.session.equipment.look_again(skills, prompts)

    def origin(self, name: str, tool: Tool | None) -> str | None:
        """Return the origin of a tool, if it is a user's extension that offers it."""
        for extension in self._extensions:
            if extension.tools.get(name) is tool and extension.source.is_foreign:
                return f"the extension {extension.source.path}"
        return None

    def tools_changed(self) -> None:
        """Offer the registered tools, from the next request on."""
        if self.ready:
            self.session.refresh_equipment()

    def register_provider(self, extension: Extension, name: str, config: Mapping[str, Any]) -> None:
        """Let an extension add models, or change how known ones are reached.

        Args:
            extension: The one that registers it; a configuration that is wrong is reported as its defect.
            config: The keys of a provider in ``models.json``.
        """
        try:
            self.session.registry.register(name, config)
        except IndusError as error:
            self.report_soon("register_provider", error, extension)
        else:
            self._providers.append(name)

    def problems(self) -> list[str]:
        return list(self._problems)

    def check_flags(self) -> None:
        known = [*self._extensions, *self._failed]
        flags = {flag.name: flag for each in known for flag in each.flags.values()}
        for name, value in self.flag_values.items():
            if name not in flags:
                raise UsageError(f"Unrecognized arguments: --{name}. `indusagi --help` shows all options.")
            if (flags[name].type == "string") is not isinstance(value, str):
                form = f"--{name}=VALUE" if flags[name].type == "string" else f"--{name}"
                raise UsageError(f"The option --{name} of an extension is written {form}.")

    def renderer(self, custom_type: str) -> Callable[..., Any] | None:
        return next((each.renderers[custom_type] for each in self._extensions if custom_type in each.renderers), None)

    def handler_context(self) -> Context:
        """Build the context that handlers and tools get."""
        return Context(self)

    # Asking

    async def _ask(self, event: ev.ExtensionEvent, kind: type[AnswerT]) -> AsyncGenerator[tuple[Extension, AnswerT]]:
        """Yield every handler's answer, as it comes; failures are reported, and the next handler is called."""
        async for extension, answer in self._results(event):
            try:
                parsed = answer.checked() if isinstance(answer, kind) else kind.from_wire(answer)
            except InvalidFieldsError as error:
                wrong = error.problems[0]
                problem = (
                    f"the answer is wrong at `{wrong.path}`: {wrong.reason}"
                    if wrong.path
                    else f"{answer!r} is no answer"
                )
                await self.report(extension, event.type, TypeError(problem))
            else:
                yield extension, parsed

    async def _results(self, event: Any) -> AsyncGenerator[tuple[Extension, Any]]:
        for extension, handler in self._handlers(event.type):
            try:
                answer = await self._call(handler, event, self._context_for(event))
            except RunAborted:
                continue  # the next handler may have something to clean up
            except Exception as error:  # noqa: BLE001 - an extension's defect is reported and affects nothing else
                await self.report(extension, event.type, error)
            else:
                if answer is not None:
                    yield extension, answer

    async def _notify(self, event: Any) -> None:
        async for extension, answer in self._results(event):
            await self.report(extension, event.type, TypeError(f"{answer!r} is no answer: {event.type} has none"))

    def _handlers(self, name: str) -> list[tuple[Extension, Handler]]:
        if name not in self.listening:
            return []
        return [(each, handler) for each in self._extensions for handler in each.handlers.get(name, ())]

    def _context_for(self, event: Any) -> Context:
        if isinstance(event, ev.BeforeAgentStart):
            self.system_prompt = event.system_prompt
        return Context(self)

    async def _call(self, handler: Callable[..., Any], event: Any, ctx: Context) -> Any:
        """Return a handler's answer; raises ``RunAborted`` when an abort ends its thinking, if it may."""
        try:
            result = handler(event, ctx)
            if not inspect.isawaitable(result):
                return result
            signal = self.session.abort_signal
            if signal is None or not isinstance(event, _INTERRUPTED):
                aborted = signal is not None and signal.requested
                seconds = _SHUTDOWN_SECONDS if aborted or isinstance(event, ev.SessionShutdown) else self._seconds
                return await self._calls.limited(result, seconds)
            if signal.requested and inspect.iscoroutine(result):
                result.close()
            with signal.interruptible():
                return await self._calls.limited(result, self._seconds)
        except SystemExit as error:
            raise RuntimeError(f"it wanted to exit ({error.code})") from error
        except asyncio.CancelledError as error:
            task = cast("asyncio.Task[Any]", asyncio.current_task())
            if task.cancelling():
                raise
            raise RuntimeError("something that it waited for was cancelled") from error

    async def report(self, extension: Extension | None, event: str, error: BaseException) -> None:
        """Publish a defect of an extension.

        Args:
            extension: The extension, if it is known.
            event: What it was called for.
        """
        await self.session.emit(self._noted(extension, event, error))

    def report_soon(self, event: str, error: BaseException, extension: Extension | None = None) -> None:
        """Publish a defect from where nothing can be awaited.

        Args:
            event: What the extension was called for.
            extension: The extension, if it is known.
        """
        self.background(self.session.emit(self._noted(extension, event, error)), event)

    def _noted(self, extension: Extension | None, event: str, error: BaseException) -> ExtensionError:
        whole = str(extension.source.path) if extension is not None else "extensions"
        path = textcut.middle(hide(whole), _SHOWN_PATH_CHARACTERS)
        text = (str(error) or type(error).__name__).replace(whole, path)
        problem = f"{path} failed on {event}: {text}"
        self._problems = [*self._problems[-_KEPT_PROBLEMS:], *([] if problem in self._problems else [problem])]
        _log.debug("The extension %s failed on %s", path, event, exc_info=error)
        return ExtensionError(extension_path=path, event=event, error=text)

    def background(self, work: Coroutine[Any, Any, Any], event: str, extension: Extension | None = None) -> None:
        """Run work in the background, from any thread.

        Args:
            extension: The one that started it, if it is known.
        """

        async def carry_out() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - nothing awaits it
                await self.report(extension, event, error)

        if self._thread == threading.get_ident():
            self._calls.start(carry_out())
        elif self._loop is not None and not self._loop.is_closed():
            # A tool's function works in a thread of its own.
            self._loop.call_soon_threadsafe(lambda: self._calls.start(carry_out()))
        else:
            work.close()

    # What the session asks

    def tools(self) -> Mapping[str, Tool]:
        found: dict[str, Tool] = {}
        for extension in self._extensions:
            for name, tool in extension.tools.items():
                found.setdefault(name, tool)
        return found

    async def event(self, event: SessionEvent) -> None:
        name = event.type
        if name == "message_update" and name not in self.listening:
            return  # by far the most frequent one
        if isinstance(event, AgentEnd):
            self.session.ui.set_working_message(None)
        if isinstance(event, ModelChanged):
            previous, self._model = self._model, self.session.model
            if self._model is not None:
                await self._notify(ev.ModelSelect(self._model, previous, "set"))
        elif isinstance(event, ThinkingLevelChanged):
            previous_level, self._level = self._level, event.level
            await self._notify(ev.ThinkingLevelSelect(event.level, previous_level))
        elif isinstance(event, TurnStart):
            self._turn += 1
            await self._notify(ev.TurnBegins(self._turn, now_ms()))
        elif isinstance(event, TurnEnd):
            await self._notify(ev.TurnEnds(self._turn, event.message, event.tool_results))
        elif isinstance(event, MessageEnd | ExtensionError):
            return  # asked in a place of its own; a defect's report must not make another
        elif name in self.listening:
            await self._notify(event)

    def is_command(self, text: str) -> bool:
        return text.startswith("/") and text.partition(" ")[0][1:] in self._commands()

    async def command(self, text: str) -> None:
        name, _, arguments = text.partition(" ")
        extension, command = self._commands()[name[1:]]
        try:
            result = command.handler(arguments, CommandContext(self))
            if inspect.isawaitable(result):
                await result
        except RunAborted:
            pass
        except (SystemExit, asyncio.CancelledError) as error:
            if cast("asyncio.Task[Any]", asyncio.current_task()).cancelling():
                raise
            await self.report(extension, "command", RuntimeError(f"{type(error).__name__}: {error}"))
        except Exception as error:  # noqa: BLE001 - an extension's defect is reported and affects nothing else
            await self.report(extension, "command", error)

    def _commands(self) -> dict[str, tuple[Extension, Command]]:
        """Return all commands; where names clash they are numbered in the order of loading."""
        listed = [(extension, command) for extension in self._extensions for command in extension.commands.values()]
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
                answer = await self._calls.limited(answer, _COMPLETION_SECONDS)
            offers = [*map(_completion, answer or ())]
        except Exception as error:  # noqa: BLE001 - an extension's defect is reported and affects nothing else
            await self.report(extension, "complete", error)
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

    async def input(self, prompt: UserPrompt, source: InputSource) -> UserPrompt | None:
        event = ev.UserInput(prompt.text, prompt.images, source)
        async for _, answer in self._ask(event, ev.InputAnswer):
            if answer.action == "handled":
                return None
            if answer.action == "transform":
                event.text = event.text if answer.text is None else answer.text
                event.images = event.images if answer.images is None else answer.images
        return UserPrompt(event.text, event.images)

    async def before_run(self, prompt: UserPrompt, system_prompt: str) -> RunStart:
        self._turn = -1
        self.system_prompt = system_prompt
        event = ev.BeforeAgentStart(prompt.text, prompt.images, system_prompt)
        messages: list[CustomMessage] = []
        before: list[CustomMessage] = []
        async for _, answer in self._ask(event, ev.BeforeAgentStartAnswer):
            if answer.message is not None:
                message = CustomMessage.from_wire(answer.message.to_wire())
                (before if answer.before_prompt else messages).append(message)
            if answer.system_prompt is not None:
                event.system_prompt = self.system_prompt = answer.system_prompt
        return RunStart(event.system_prompt, messages, before)

    async def context(self, messages: list[Message]) -> list[Message]:
        if "context" not in self.listening:
            return messages
        event = ev.ModelContext([copy.deepcopy(message) for message in messages])
        async for _, answer in self._ask(event, ev.ContextAnswer):
            if answer.messages is not None:
                event.messages = answer.messages
        return event.messages

    async def request(self, payload: Any) -> Any:
        if "before_provider_request" not in self.listening:
            return payload
        event = ev.BeforeProviderRequest(copy.deepcopy(encodable(payload)))  # parts of it are the session's own
        async for _, answer in self._results(event):
            event.payload = answer
        return event.payload

    async def response(self, status: int, headers: Mapping[str, str]) -> None:
        await self._notify(ev.AfterProviderResponse(status, headers))

    async def message_end(self, message: Message) -> Message:
        event = ev.MessageFinal(message)
        async for extension, answer in self._ask(event, ev.MessageEndAnswer):
            if answer.message is None:
                continue
            if answer.message.role == event.message.role:
                event.message = answer.message
            else:
                problem = f"a {answer.message.role} message cannot replace a {event.message.role} message"
                await self.report(extension, event.type, TypeError(problem))
        return event.message

    async def tool_call(self, call: ToolCall, arguments: JsonObject) -> Verdict:
        event = ev.ToolCallEvent(call.id, call.name, arguments, caller=caller.get())
        for extension, handler in self._handlers(event.type):
            try:
                answer = await self._call(handler, event, Context(self))
                parsed = ev.ToolCallAnswer() if answer is None else ev.ToolCallAnswer.from_wire(answer).checked()
            except RunAborted:
                return Verdict("Not run: the run was stopped before this call started.")
            except Exception as error:  # noqa: BLE001 - whatever fails here, the tool must not run
                await self.report(extension, event.type, error)
                failed = str(error) or type(error).__name__
                return Verdict(f"Not run: an extension that watches over tools failed ({failed}).")
            if parsed.block:
                return Verdict(parsed.reason or "An extension did not allow this call.")
            if parsed.input is not None:
                arguments.clear()
                arguments.update(parsed.input)
        return Verdict(target=event.target, gate=event.gate)

    async def tool_begins(self, call: ToolCall, target: Target | None) -> None:
        await self._notify(ev.ToolBegin(call.id, call.name, call.arguments, target))

    async def tool_result(self, call: ToolCall, output: ToolOutput, *, is_error: bool) -> tuple[ToolOutput, bool]:
        event = ev.ToolResultEvent(
            call.id, call.name, call.arguments, output.content, output.details, is_error=is_error
        )
        async for _, answer in self._ask(event, ev.ToolResultAnswer):
            given = vars(answer)
            if "content" in given and answer.content is not None:
                event.content = answer.content
            if "details" in given:
                event.details = answer.details
            if answer.is_error is not None:
                event.is_error = answer.is_error
        changed = output.replace(content=list(event.content), details=event.details)
        return changed, event.is_error

    async def before_switch(self, reason: Literal["new", "resume"], target: Path | None) -> bool:
        return not await self._cancelled(ev.SessionBeforeSwitch(reason, target), ev.CancelAnswer)

    async def before_fork(self, entry_id: str, position: Literal["before", "at"]) -> bool:
        return not (
            await self._cancelled(ev.SessionBeforeFork(entry_id, position), ev.ForkAnswer)
            or await self._cancelled(ev.SessionBeforeBranch(entry_id), ev.ForkAnswer)
        )

    async def _cancelled(self, event: ev.ExtensionEvent, kind: type[ev.CancelAnswer]) -> bool:
        async for _, answer in self._ask(event, kind):
            if answer.cancel:
                return True
        return False

    async def shutdown(self, reason: ShutdownReason, target: Path | None = None) -> None:
        await self._notify(ev.SessionShutdown(reason, target))
        self.session.ui.clear()
        if reason == "quit":
            await self._calls.end(_SHUTDOWN_SECONDS)
            self.generation += 1
            self._extensions = []

    async def before_compact(
        self, preparation: Preparation, branch: Sequence[Entry], instructions: str | None, signal: AbortSignal
    ) -> CompactionPlan:
        plan = CompactionPlan()
        event = ev.SessionBeforeCompact(preparation, branch, instructions, signal)
        async for _, answer in self._ask(event, ev.CompactAnswer):
            if answer.cancel:
                return CompactionPlan(cancel=True)
            if answer.compaction is not None:
                plan = CompactionPlan(result=CompactionResult.from_wire(answer.compaction.to_wire()))
        return plan

    async def compacted(self, entry: Entry, *, by_hook: bool) -> None:
        await self._notify(ev.SessionCompact(entry, by_hook))

    async def before_branch(self, change: BranchChange, signal: AbortSignal) -> BranchPlan:
        plan = await super().before_branch(change, signal)
        async for _, answer in self._ask(ev.SessionBeforeTree(change, signal), ev.TreeAnswer):
            if answer.cancel:
                return BranchPlan(cancel=True)
            replace = answer.replace_instructions
            plan = BranchPlan(
                summary=(answer.summary.summary, answer.summary.details) if answer.summary else None,
                custom_instructions=answer.custom_instructions or change.custom_instructions,
                replace_instructions=change.replace_instructions if replace is None else replace,
                label=answer.label or change.label,
            )
        return plan

    async def branched(
        self, new_leaf_id: str | None, old_leaf_id: str | None, summary: Entry | None, *, by_hook: bool
    ) -> None:
        await self._notify(ev.SessionTree(new_leaf_id, old_leaf_id, summary, by_hook))

    async def user_bash(self, command: str, cwd: Path, *, exclude_from_context: bool) -> ShellResult | Shell | None:
        event = ev.UserBash(command, exclude_from_context, cwd)
        async for _, answer in self._ask(event, ev.UserBashAnswer):
            if answer.operations is not None:
                return answer.operations
            if answer.result is not None:
                return _shell_result(answer.result)
        return None


def _shell_result(answer: ev.BashResultAnswer) -> ShellResult:
    lines = answer.output.count("\n") + (not answer.output.endswith("\n") and bool(answer.output))
    size = textcut.byte_size(answer.output)
    shown = Truncation(
        content=answer.output,
        truncated=answer.truncated,
        total_lines=lines,
        total_bytes=size,
        output_lines=lines,
        output_bytes=size,
    )
    return ShellResult(shown, exit_code=answer.exit_code, cancelled=answer.cancelled)


def _completion(offer: object) -> ev.Completion:
    """Return what a command offers to complete: a text, a dictionary, or an object with the attributes."""
    if isinstance(offer, str):
        return ev.Completion(value=offer)
    if isinstance(offer, dict):
        return ev.Completion.from_wire(offer)
    return ev.Completion.from_wire({name: getattr(offer, name, None) for name in ev.Completion.wire_fields})
