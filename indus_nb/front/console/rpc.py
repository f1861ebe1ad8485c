"""RPC mode: commands come in as JSON lines, responses and events go out as JSON lines.

Every command gets exactly one response, with its ``id``. A command that waits (a prompt until it is accepted, an abort
until the session is idle) does so in a task of its own, so that none is stuck behind another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from indus_nb.base.errors import IndusError, ModelNotFoundError, UsageError
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.base.wire import JsonObject, dump, load_object
from indus_nb.core.session.conversation import ContextUsage
from indus_nb.core.session.queues import Disposition
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage import list_sessions, user_text
from indus_nb.front.console import commands
from indus_nb.front.console.commands import Command
from indus_nb.front.console.frames import dialect_of
from indus_nb.front.console.host_tools import HostTools
from indus_nb.front.console.stdio import FrameWriter, LineTooLongError, complain
from indus_nb.models import Model

if TYPE_CHECKING:
    from indus_nb.base.events import SessionEvent
    from indus_nb.front.console.subagents import SubagentFrames

_log = logging.getLogger("indus_nb")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SHUTDOWN_WAIT_SECONDS = 1.0


class RpcServer:
    """Server of one session, driven by lines."""

    def __init__(self, session: AgentSession, writer: FrameWriter) -> None:
        self._session = session
        self._writer = writer
        self.tasks: set[asyncio.Task[None]] = set()
        """The tasks of commands that are carried out."""
        self._unanswered: dict[asyncio.Task[None], tuple[str | int | None, str]] = {}
        self._shown_model: tuple[Model | None, JsonObject | None] = (None, None)
        self._host_tools = HostTools(lambda frame: writer.send_line(dump(frame)))
        session.subscribe(self._see)
        self._handlers: dict[str, tuple[type[Command], Callable[[Any], Any]]] = {
            "prompt": (commands.Prompt, self._prompt),
            "abort_and_prompt": (commands.AbortAndPrompt, self._prompt),
            "steer": (commands.Steer, self._steer),
            "follow_up": (commands.FollowUp, self._follow_up),
            "clear_queue": (commands.ClearQueue, self._clear_queue),
            "abort": (commands.Abort, self._abort),
            "new_session": (commands.NewSession, self._new_session),
            "get_state": (commands.GetState, self._get_state),
            "get_messages": (commands.GetMessages, self._get_messages),
            "get_last_assistant_text": (commands.GetLastAssistantText, self._get_last_assistant_text),
            "set_model": (commands.SetModel, self._set_model),
            "cycle_model": (commands.CycleModel, self._cycle_model),
            "get_available_models": (commands.GetAvailableModels, self._get_available_models),
            "set_thinking_level": (commands.SetThinkingLevel, self._set_thinking_level),
            "cycle_thinking_level": (commands.CycleThinkingLevel, self._cycle_thinking_level),
            "get_available_thinking_levels": (commands.GetAvailableThinkingLevels, self._get_available_thinking_levels),
            "set_steering_mode": (commands.SetSteeringMode, self._set_steering_mode),
            "set_follow_up_mode": (commands.SetFollowUpMode, self._set_follow_up_mode),
            "set_interrupt_mode": (commands.SetInterruptMode, self._set_interrupt_mode),
            "compact": (commands.Compact, self._compact),
            "set_auto_compaction": (commands.SetAutoCompaction, self._set_auto_compaction),
            "set_auto_retry": (commands.SetAutoRetry, self._set_auto_retry),
            "abort_retry": (commands.AbortRetry, self._abort_retry),
            "bash": (commands.Bash, self._bash),
            "abort_bash": (commands.AbortBash, self._abort_bash),
            "get_jobs": (commands.GetJobs, self._get_jobs),
            "stop_job": (commands.StopJob, self._stop_job),
            "set_subagent_subscription": (commands.SetSubagentSubscription, self._of_subagents),
            "get_subagents": (commands.GetSubagents, self._of_subagents),
            "get_subagent_messages": (commands.GetSubagentMessages, self._of_subagents),
            "get_session_stats": (commands.GetSessionStats, self._get_session_stats),
            "export_html": (commands.ExportHtml, self._export_html),
            "switch_session": (commands.SwitchSession, self._switch_session),
            "fork": (commands.Fork, self._fork),
            "branch": (commands.Fork, self._fork),
            "get_fork_messages": (commands.GetForkMessages, self._get_fork_messages),
            "get_branch_messages": (commands.GetForkMessages, self._get_fork_messages),
            "clone": (commands.Clone, self._clone),
            "get_entries": (commands.GetEntries, self._get_entries),
            "get_tree": (commands.GetTree, self._get_tree),
            "navigate_tree": (commands.NavigateTree, self._navigate_tree),
            "set_label": (commands.SetLabel, self._set_label),
            "set_session_name": (commands.SetSessionName, self._set_session_name),
            "list_sessions": (commands.ListSessions, self._list_sessions),
            "set_host_tools": (commands.SetHostTools, self._set_host_tools),
            "get_commands": (commands.GetCommands, self._get_commands),
            "get_available_commands": (commands.GetCommands, self._get_commands),
            "get_command_completions": (commands.GetCommandCompletions, self._get_command_completions),
        }

    def _see(self, event: SessionEvent) -> None:
        if event.type.startswith(("subagent_", "session_replaced")):
            self._subagents.follow(event)

    @cached_property
    def _subagents(self) -> SubagentFrames:
        from indus_nb.front.console.subagents import SubagentFrames

        return SubagentFrames(self._writer.send_line)

    def _of_subagents(self, command: Command) -> object:
        return self._subagents.answer(command)

    def handle_line(self, line: bytes | LineTooLongError) -> bool:
        """Dispatch a command; returns whether a task was started for it."""
        try:
            if isinstance(line, LineTooLongError):
                raise line
            frame = load_object(line.removeprefix(_BYTE_ORDER_MARK))
        except ValueError as error:
            self._respond(None, "parse", error=f"Failed to parse command: {error}")
            return False
        kind = frame.get("type")
        if kind == "extension_ui_response":
            self._session.ui.take(frame)
            return False
        if kind in ("host_tool_update", "host_tool_result"):
            self._host_tools.handle_frame(frame)
            return False
        command_id = frame.get("id")
        if isinstance(command_id, bool) or not isinstance(command_id, str | int):
            command_id = None
        known = self._handlers.get(kind) if isinstance(kind, str) else None
        if known is None:
            name, shown = (kind, kind) if isinstance(kind, str) else ("unknown", commands.brief(kind))
            self._respond(command_id, name, error=f"Unknown command: {shown}")
            return False
        model, handler = known
        try:
            command = model.bare() if command_id == frame.get("id") else None
            command = command or model.from_wire(frame)
        except InvalidFieldsError as error:
            self._respond(command_id, str(kind), error=commands.explain(str(kind), error))
            return False
        return self._start(command_id, str(kind), lambda: handler(command))

    def _start(self, command_id: str | int | None, name: str, carry_out: Callable[[], Any]) -> bool:
        try:
            data = carry_out()
        except Exception as error:  # noqa: BLE001 - see _failed
            self._failed(command_id, name, error)
            return False
        if asyncio.iscoroutine(data):
            task = asyncio.create_task(self._finish(command_id, name, data))
            self.tasks.add(task)
            self._unanswered[task] = command_id, name
            task.add_done_callback(self.tasks.discard)
        else:
            self._respond(command_id, name, data=data)
            return False
        return True

    async def _finish(self, command_id: str | int | None, name: str, work: Awaitable[Any]) -> None:
        try:
            data = await work
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - see _failed
            if self._is_to_answer():
                self._failed(command_id, name, error)
        else:
            if self._is_to_answer():
                self._respond(command_id, name, data=data)

    def _is_to_answer(self) -> bool:
        """Return whether the command of this task is not answered yet; from now on it is."""
        return self._unanswered.pop(cast("asyncio.Task[None]", asyncio.current_task()), None) is not None

    def _failed(self, command_id: str | int | None, name: str, error: BaseException) -> None:
        # Also a defect of ours is answered: an id without an answer hangs the client.
        if not isinstance(error, IndusError):
            _log.error("The command %s failed", name, exc_info=error)
        text = str(error) if isinstance(error, IndusError) else f"Internal error: {type(error).__name__}: {error}"
        self._respond(command_id, name, error=text)

    def _respond(self, command_id: str | int | None, name: str, *, data: Any = None, error: str | None = None) -> None:
        dialect = dialect_of(self._writer.wire)
        frame: JsonObject = {} if command_id is None else {"id": command_id}
        frame |= {"type": "response", "command": name, "success": error is None}
        if error is not None:
            frame["error"] = error
        elif isinstance(data, Encoded) and not (dialect is not None and name in dialect.answers):
            self._writer.send_line(b'%b,"data":%b}' % (dump(frame)[:-1], data))
            return
        elif data is not None:
            frame["data"] = None if data is _NULL else data
        try:
            if dialect is not None and frame.get("data") is not None:
                encoded = data if isinstance(data, Encoded) else dump(data)
                frame["data"] = dialect.kept(load_object(b'{"data":%b}' % encoded)["data"], dialect.answers.get(name))
            line = dump(frame)
        except Exception as defect:  # noqa: BLE001 - the id must be answered
            _log.exception("The answer to %s could not be written", name)
            failed = {"success": False, "error": f"Internal error: {type(defect).__name__}: {defect}"}
            line = dump({**{key: value for key, value in frame.items() if key != "data"}, **failed})
        self._writer.send_line(line)

    async def shut_down(self) -> None:
        """Abort what runs, and respond to all commands: also to those that do not end in time."""
        try:
            async with asyncio.timeout(_SHUTDOWN_WAIT_SECONDS):
                await self._session.abort_bash()
                await self._session.abort()
                if self.tasks:
                    await asyncio.wait(tuple(self.tasks))
        except TimeoutError:
            complain("a run did not end in time and was left")
        for command_id, name in self._unanswered.values():
            self._respond(command_id, name, error="The program was ended before this was done.")
        self._unanswered.clear()

    # The commands

    async def _prompt(self, command: commands.Prompt | commands.AbortAndPrompt) -> None:
        accepted = False
        task = cast("asyncio.Task[None]", asyncio.current_task())

        def accept(disposition: Disposition) -> None:
            nonlocal accepted
            accepted = True
            if self._unanswered.pop(task, None) is not None:
                self._respond(command.id, command.type, data=self._disposed(disposition))

        try:
            if isinstance(command, commands.Prompt):
                behavior = command.streaming_behavior
                prompt = self._session.prompt(
                    command.message,
                    command.images,
                    attachments=command.attachments,
                    streaming_behavior=behavior,
                    on_accepted=accept,
                    source="rpc",
                )
            else:
                prompt = self._session.abort_and_prompt(
                    command.message, command.images, attachments=command.attachments, on_accepted=accept
                )
            await prompt
        except Exception:
            if not accepted:
                raise
            # It is answered already; what broke off shows in the events.
            _log.exception("A run broke off")

    def _disposed(self, disposition: Disposition) -> JsonObject | None:
        """Return the response data of an accepted message, for dialects whose clients take new fields."""
        return {"disposition": disposition} if dialect_of(self._writer.wire) is None else None

    async def _steer(self, command: commands.Steer) -> JsonObject | None:
        await self._session.steer(command.message, command.images, command.attachments)
        return self._disposed("queued")

    async def _follow_up(self, command: commands.FollowUp) -> JsonObject | None:
        await self._session.follow_up(command.message, command.images, command.attachments)
        return self._disposed("queued")

    async def _clear_queue(self, _: commands.ClearQueue) -> JsonObject:
        steering, follow_up = await self._session.clear_queue()
        return {"steering": steering, "followUp": follow_up}

    async def _abort(self, _: commands.Abort) -> None:
        await self._session.abort()

    async def _new_session(self, command: commands.NewSession) -> JsonObject:
        return {"cancelled": not await self._session.new_session(command.parent_session)}

    def _get_state(self, _: commands.GetState) -> JsonObject:
        session = self._session
        state: JsonObject = {
            "model": self._model_on_wire(),
            "thinkingLevel": session.thinking_level,
            "isStreaming": session.is_running,
            "isCompacting": session.is_compacting,
            "steeringMode": session.steering.mode,
            "followUpMode": session.follow_up_queue.mode,
            "interruptMode": session.settings.interrupt_mode,
            "sessionId": session.store.session_id,
            "autoCompactionEnabled": session.settings.compaction.enabled,
            "autoRetryEnabled": session.settings.retry.enabled,
            "messageCount": len(session.conversation),
            "pendingMessageCount": session.pending_count,
            "queuedMessageCount": session.pending_count,
        }
        if (usage := session.context_usage()) is not None:
            state["contextUsage"] = _context_usage(usage)
        if session.store.path is not None:
            state["sessionFile"] = str(session.store.path)
        if session.store.name is not None:
            state["sessionName"] = session.store.name
        return state

    def _model_on_wire(self) -> JsonObject | None:
        model = self._session.model
        if model is not self._shown_model[0]:  # a model never changes, and is asked for often
            self._shown_model = (model, model and model.to_wire())
        return self._shown_model[1]

    def _get_messages(self, _: commands.GetMessages) -> Encoded:
        return Encoded(b'{"messages":%b}' % self._session.conversation.to_json())

    def _get_last_assistant_text(self, _: commands.GetLastAssistantText) -> JsonObject:
        return {"text": self._session.last_text}

    async def _set_model(self, command: commands.SetModel) -> object:
        try:
            model = self._session.registry.with_id(command.model_id, command.provider)
        except ModelNotFoundError as error:
            complain(f"{error} get_available_models lists those that can be used.")
            raise UsageError(error.summary) from error  # clients compare these words
        await self._session.set_model(model)
        return model

    def _get_available_models(self, _: commands.GetAvailableModels) -> JsonObject:
        return {"models": self._session.available_models()}

    async def _cycle_model(self, _: commands.CycleModel) -> object:
        model = await self._session.cycle_model()
        if model is None:
            return _NULL
        return {
            "model": model,
            "thinkingLevel": self._session.thinking_level,
            "isScoped": self._session.settings.cycled_models is not None,
        }

    async def _set_thinking_level(self, command: commands.SetThinkingLevel) -> None:
        await self._session.set_thinking_level(command.level)

    def _set_steering_mode(self, command: commands.SetSteeringMode) -> None:
        self._session.steering.mode = command.mode

    def _set_follow_up_mode(self, command: commands.SetFollowUpMode) -> None:
        self._session.follow_up_queue.mode = command.mode

    def _set_interrupt_mode(self, command: commands.SetInterruptMode) -> None:
        self._session.set_interrupt_mode(command.mode)

    async def _cycle_thinking_level(self, _: commands.CycleThinkingLevel) -> object:
        level = await self._session.cycle_thinking_level()
        return _NULL if level is None else {"level": level}

    def _get_available_thinking_levels(self, _: commands.GetAvailableThinkingLevels) -> JsonObject:
        model = self._session.model
        return {"levels": model.thinking_levels if model is not None else ["off"]}

    async def _compact(self, command: commands.Compact) -> object:
        return await self._session.compact(command.custom_instructions)

    def _set_auto_compaction(self, command: commands.SetAutoCompaction) -> None:
        self._session.settings.compaction.enabled = command.enabled

    def _set_auto_retry(self, command: commands.SetAutoRetry) -> None:
        self._session.settings.retry.enabled = command.enabled

    async def _abort_retry(self, _: commands.AbortRetry) -> None:
        await self._session.abort_retry()

    async def _bash(self, command: commands.Bash) -> JsonObject:
        result = await self._session.bash(
            command.command, exclude_from_context=command.exclude_from_context, command_id=command.id
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

    async def _abort_bash(self, _: commands.AbortBash) -> None:
        await self._session.abort_bash()

    def _get_jobs(self, _: commands.GetJobs) -> JsonObject:
        jobs = self._session.settings.jobs
        hide = self._session.settings.vault.hide
        listed = [] if jobs is None else jobs.all
        return {"jobs": [{**job.info().to_wire(), "lastLines": hide(job.last_lines())} for job in listed]}

    async def _stop_job(self, command: commands.StopJob) -> JsonObject:
        jobs = self._session.settings.jobs
        job = None if jobs is None else jobs.find(command.job_id)
        if jobs is None or job is None:
            raise UsageError(f"There is no job {command.job_id}. get_jobs lists those that there are.")
        await jobs.stop(job, by_user=True)
        return {"job": job.info().to_wire()}

    def _get_session_stats(self, _: commands.GetSessionStats) -> JsonObject:
        store = self._session.store
        stats: JsonObject = {} if store.path is None else {"sessionFile": str(store.path)}
        stats |= {"sessionId": store.session_id, **self._session.stats().to_wire()}
        if (usage := self._session.context_usage()) is not None:
            stats["contextUsage"] = _context_usage(usage)
        return stats

    async def _export_html(self, command: commands.ExportHtml) -> JsonObject:
        from indus_nb.render.session_page import export_html, page_name

        store = self._session.store
        path = Path(command.output_path or page_name(store))
        # Tolerably long work on what only ever grows: a thread keeps it from holding up the stream.
        return {"path": str(await asyncio.to_thread(export_html, store, store.cwd / path))}

    async def _switch_session(self, command: commands.SwitchSession) -> JsonObject:
        known = len(self._session.problems)
        done = await self._session.switch_session(Path(command.session_path))
        for problem in self._session.problems[known:]:
            complain(problem)
        return {"cancelled": not done}

    async def _fork(self, command: commands.Fork) -> JsonObject:
        text = await self._session.fork(command.entry_id)
        if text is None:  # the session is still the one that has the message
            text = user_text(self._session.store.entry(command.entry_id), for_editing=True)
            return {"text": text, "cancelled": True}
        return {"text": text, "cancelled": False}

    def _get_fork_messages(self, _: commands.GetForkMessages) -> JsonObject:
        listed = ((entry.id, user_text(entry)) for entry in self._session.store.entries)
        return {"messages": [{"entryId": entry_id, "text": text} for entry_id, text in listed if text]}

    async def _clone(self, _: commands.Clone) -> JsonObject:
        return {"cancelled": not await self._session.clone()}

    def _get_entries(self, command: commands.GetEntries) -> Encoded:
        store = self._session.store
        entries = list(store.entries)
        if command.since is not None:
            entries = entries[entries.index(store.entry(command.since)) + 1 :]
        lines = b",".join(entry.to_json() for entry in entries)
        return Encoded(b'{"entries":[%b],"leafId":%b}' % (lines, dump(store.leaf_id)))

    def _get_tree(self, command: commands.GetTree) -> Encoded | JsonObject:
        from indus_nb.front.console.trees import MAX_NESTED, encoded_tree, flat_tree

        store = self._session.store
        nodes = flat_tree(store.tree())
        if command.flat:
            return {"nodes": nodes, "leafId": store.leaf_id}
        if (depth := max((node["depth"] for node in nodes), default=0)) > MAX_NESTED:
            raise UsageError(
                f"The tree is {depth:,} entries deep, and parsers of JSON give up at some hundreds. Ask for it with "
                '"flat": true: its nodes then come in a list.'
            )
        return Encoded(b'{"tree":%b,"leafId":%b}' % (encoded_tree(store.tree()), dump(store.leaf_id)))

    async def _navigate_tree(self, command: commands.NavigateTree) -> JsonObject:
        done = await self._session.navigate(
            command.target_id,
            summarize=command.summarize,
            instructions=command.custom_instructions,
            replace_instructions=command.replace_instructions,
            label=command.label,
        )
        data: JsonObject = {"cancelled": done.cancelled}
        if done.aborted:
            data["aborted"] = True
        if done.editor_text is not None:
            data["editorText"] = done.editor_text
        if done.summary_entry is not None:
            data["summaryEntry"] = done.summary_entry.data
        return data

    def _set_label(self, command: commands.SetLabel) -> None:
        self._session.set_label(command.entry_id, command.label)

    async def _set_session_name(self, command: commands.SetSessionName) -> None:
        await self._session.set_name(command.name)

    async def _list_sessions(self, _: commands.ListSessions) -> JsonObject:
        path = self._session.store.path
        found = await asyncio.to_thread(list_sessions, path.parent) if path is not None else []
        return {"sessions": [info.to_wire() for info in found]}

    def _set_host_tools(self, command: commands.SetHostTools) -> JsonObject:
        self._session.lend_tools([self._host_tools.tool(tool) for tool in command.tools])
        return {"toolNames": [tool.name for tool in command.tools]}

    async def _get_commands(self, _: commands.GetCommands) -> JsonObject:
        await self._session.start()
        problems = self._session.all_problems
        return {"commands": self._session.list_commands(), **({"problems": problems} if problems else {})}

    async def _get_command_completions(self, command: commands.GetCommandCompletions) -> JsonObject:
        await self._session.start()
        return {"completions": await self._session.hooks.complete_command(command.name, command.prefix)}


class Encoded(bytes):
    """JSON that is encoded already."""


def _context_usage(usage: ContextUsage) -> JsonObject:
    return {"tokens": usage.tokens, "contextWindow": usage.context_window, "percent": usage.percent}


_NULL = object()
