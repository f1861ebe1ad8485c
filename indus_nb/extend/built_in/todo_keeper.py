"""Keeps a session's to-do list: reminds the model of what is open, and empties a list in which nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from indus_nb.base.events import TodoAutoClear, TodoReminder
from indus_nb.base.messages import AssistantMessage, CustomMessage, ToolResultMessage
from indus_nb.core.loop.watchers import RunWatcher
from indus_nb.core.resources.settings import TodoSettings
from indus_nb.core.session.questions import Choice, Decision, Question
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage.entries import Entry
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.events import BeforeAgentStart, SessionShutdown, SessionStart, SessionTree
from indus_nb.tools import TODO, FunctionTool
from indus_nb.tools.todo import Task, TodoArguments, TodoList, read_list, todo_tool

_GO_ON = "Go on with the others"
_STOP = "Stop here"


class TodoKeeper(RunWatcher):
    """The list of one session, with the tool that changes it.

    ``extension`` lets it follow the session: the list is that of the branch at hand.
    """

    def __init__(self, settings: TodoSettings) -> None:
        self.todos: TodoList = TodoList()
        self._settings = settings
        self._session: AgentSession | None = None
        self._reminders = 0
        self._timer: asyncio.TimerHandle | None = None
        self._clearing: asyncio.Task[None] | None = None

    def tool(self) -> FunctionTool[TodoArguments]:
        """Return the tool that changes the list."""
        return todo_tool(lambda: self.todos, self._keep, self._ask)

    def extension(self, session: AgentSession) -> Callable[[ExtensionApi], None]:
        """Build an extension that keeps the list in step with ``session``."""
        self._session = session

        def setup(api: ExtensionApi) -> None:
            @api.on("session_start")
            @api.on("session_tree")
            def restore(_event: SessionStart | SessionTree, _ctx: Context) -> None:
                self._stop_timer()
                self.todos = _saved_list(session.store.branch())

            @api.on("before_agent_start")
            def begin(_event: BeforeAgentStart, _ctx: Context) -> None:
                self._reminders = 0

            @api.on("session_shutdown")
            def end(_event: SessionShutdown, _ctx: Context) -> None:
                self._stop_timer()

        return setup

    async def after_turn(self, answer: AssistantMessage) -> Sequence[CustomMessage]:
        """Remind a model that stops while tasks are open, a few times for each prompt."""
        session, open_tasks = self._session, self.todos.open_tasks
        if session is None or not open_tasks or not self._settings.reminders:
            return ()
        if answer.stop_reason != "stop" or self._reminders >= self._settings.max_reminders:
            return ()
        if TODO not in session.active_tools:
            return ()
        self._reminders += 1
        todos = [task.to_wire() for task in open_tasks]
        attempt, most = self._reminders, self._settings.max_reminders
        await session.emit(TodoReminder(todos=todos, attempt=attempt, max_attempts=most))
        text = (
            f"<system-reminder>\nYou stopped, and tasks of your to-do list are open:\n{self.todos.text()}\n\n"
            f"Go on with them. Those that are finished or given up, mark so with the tool {TODO}. If you need an "
            f"answer of the user before you can go on, say so. (Reminder {attempt} of {most}.)\n</system-reminder>"
        )
        return [CustomMessage(custom_type="todo_reminder", content=text, display=False)]

    async def _ask(self, task: Task) -> str:
        """Ask how to go on behind a task that failed; the model is not reminded of the others if it is to stop."""
        heading = f"A step failed: {task.content}. Go on with the others?"
        choices = [Choice(_GO_ON, "yes"), Choice(_STOP, "no")]
        question = Question(heading, choices, body=task.reason or "", takes_reason=True)
        session = self._session
        asks = session is not None and session.ui.has_host
        decided = await session.ui.choose(question, signal=session.abort_signal) if session and asks else Decision(None)
        if decided.option == _GO_ON:
            return "The user says: go on with the other tasks."
        if decided.reason:
            return f"The user says how to go on: {decided.reason}"
        self._reminders = self._settings.max_reminders
        why = "The user says: stop here." if decided.option == _STOP else "Nobody has said how to go on: stop here."
        return f"{why} Do no other task. Say in your answer what you found, and how it could go on."

    def _keep(self, todos: TodoList) -> None:
        self.todos = todos
        self._stop_timer()
        seconds = self._settings.clear_delay_seconds
        if seconds is not None and todos.phases and not todos.open_tasks:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._clear)

    def _clear(self) -> None:
        self.todos = TodoList()
        if self._session is not None and not self._session.closed:
            self._clearing = asyncio.ensure_future(self._session.emit(TodoAutoClear()))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _saved_list(branch: Sequence[Entry]) -> TodoList:
    """Return the list at the end of a branch; one without open tasks is not restored."""
    for entry in reversed(branch):
        try:
            message = entry.message
        except ValueError:  # of a kind unknown here
            continue
        if isinstance(message, ToolResultMessage) and message.tool_name == TODO and not message.is_error:
            todos = read_list(message.details)
            if todos is not None:
                return todos if todos.open_tasks else TodoList()
    return TodoList()
