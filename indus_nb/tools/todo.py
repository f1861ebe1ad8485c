"""The ``todo`` tool: an ordered list of phases and tasks that the model keeps while it works, and the user sees.

A ``TodoList`` is a value; an operation makes a new one. Every result holds the whole list in its ``details``, so the
list is saved with the session, and each branch has its own. The host of the tool keeps the list between calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Literal

from indus_nb.base.events import ToolOutput
from indus_nb.base.wire_model import WireModel, wire_field
from indus_nb.tools.description import MAX_SUMMARY_CHARACTERS, CallDescription
from indus_nb.tools.tool import TODO, Arguments, FunctionTool, ToolContext, ToolError, text_output

TaskStatus = Literal["pending", "in_progress", "completed", "abandoned", "failed"]
Operation = Literal["init", "append", "start", "done", "drop", "fail", "remove", "view"]

MAX_TASKS = 200
MAX_CHARACTERS = 500
_OPEN: tuple[TaskStatus, ...] = ("pending", "in_progress")
_BRACKETS: Mapping[TaskStatus, str] = {
    "pending": "[ ]",
    "in_progress": "[>]",
    "completed": "[x]",
    "abandoned": "[-]",
    "failed": "[!]",
}
_SIGNS: Mapping[TaskStatus, str] = {
    "pending": "☐",
    "in_progress": "◐",
    "completed": "☑",
    "abandoned": "☒",
    "failed": "✗",
}


class Task(WireModel):
    """Something to do."""

    content: str
    status: TaskStatus = "pending"
    reason: str | None = None
    """Why it failed."""

    @property
    def is_open(self) -> bool:
        """Return whether the task is still to be done."""
        return self.status in _OPEN

    @property
    def line(self) -> str:
        """Return the task, and why it failed if it did."""
        return f"{self.content} ({self.reason})" if self.status == "failed" and self.reason else self.content


class Phase(WireModel):
    """Tasks that belong together."""

    name: str
    tasks: list[Task]


class TodoList(WireModel):
    """All phases in their order. At most one task is in progress."""

    phases: list[Phase] = wire_field(default_factory=list[Phase])

    @property
    def tasks(self) -> Iterator[Task]:
        """Return the tasks of all phases."""
        return (task for phase in self.phases for task in phase.tasks)

    @property
    def open_tasks(self) -> list[Task]:
        """Return the tasks that are still to be done."""
        return [task for task in self.tasks if task.is_open]

    @property
    def summary(self) -> str:
        """Return how many tasks there are and how many of them are closed."""
        total = sum(1 for _ in self.tasks)
        return f"{total - len(self.open_tasks)} of {total} tasks are closed" if total else "There are no tasks"

    def text(self) -> str:
        """Return the list as the model reads it."""
        return self._lines(_BRACKETS)

    def checklist(self) -> str:
        """Return the list as a user reads it."""
        return self._lines(_SIGNS)

    def _lines(self, signs: Mapping[TaskStatus, str]) -> str:
        parts = [
            "\n".join([phase.name, *(f"  {signs[task.status]} {task.line}" for task in phase.tasks)])
            for phase in self.phases
        ]
        return "\n".join(parts)


class PhasePlan(Arguments):
    """A phase to begin with."""

    name: str = wire_field(description="What the phase is called")
    tasks: list[str] = wire_field(description="Its tasks in order, each a few words")


class TodoArguments(Arguments):
    """What the model gives."""

    op: Operation = wire_field(
        description="init: replace the list by phases; append: add tasks to phase; start, done, drop (given up), "
        "remove: change task, or every task of phase, or the whole list; fail: task cannot be done or its assumption "
        "does not hold, with reason, and the user says how to go on; view: show it"
    )
    phases: list[PhasePlan] | None = wire_field(default=None, description="For init")
    phase: str | None = wire_field(default=None, description="A phase's name")
    task: str | None = wire_field(default=None, description="A task, in the words of the list")
    tasks: list[str] | None = wire_field(default=None, description="For append")
    reason: str | None = wire_field(default=None, description="For fail")


def read_list(details: object) -> TodoList | None:
    """Return the list in a result's ``details``; ``None`` when there is no valid one."""
    if not isinstance(details, dict) or "phases" not in details:
        return None
    try:
        return TodoList.from_wire(details)
    except ValueError:
        return None


def list_of_result(tool_name: str, details: object) -> TodoList | None:
    """Return the list in a tool's result.

    Args:
        details: The result's ``details``.

    Returns:
        The list; ``None`` for a result of another tool, or of a call that failed.
    """
    return read_list(details) if tool_name == TODO else None


def changed(todos: TodoList, arguments: TodoArguments) -> TodoList:
    """Return the list after an operation on it.

    Args:
        todos: The list before it, which stays as it is.

    Returns:
        The list after it.

    Raises:
        ToolError: It names something that is not there, or the list would become too long.
    """
    phases = [Phase(name=phase.name, tasks=[task.replace() for task in phase.tasks]) for phase in todos.phases]
    match arguments.op:
        case "init":
            if arguments.phases is None:
                raise ToolError('op "init" needs `phases`. The list is as it was.')
            phases = [
                Phase(name=_short(plan.name), tasks=[Task(content=_short(task)) for task in plan.tasks])
                for plan in arguments.phases
            ]
        case "append":
            _append(phases, arguments)
        case "view":
            return todos
        case "fail":
            _fail(phases, arguments)
        case _:
            _change(phases, arguments)
    new = TodoList(phases=[phase for phase in phases if phase.tasks])
    if sum(1 for _ in new.tasks) > MAX_TASKS:
        raise ToolError(f"The list would have more than {MAX_TASKS} tasks. It is as it was; put several into one.")
    goes_on = arguments.op != "fail" and not any(task.status == "in_progress" for task in new.tasks)
    if goes_on and new.open_tasks:
        new.open_tasks[0].status = "in_progress"
    return new


def _append(phases: list[Phase], arguments: TodoArguments) -> None:
    if not arguments.tasks:
        raise ToolError('op "append" needs `tasks`. The list is as it was.')
    name = _short(arguments.phase) if arguments.phase else phases[-1].name if phases else "Tasks"
    phase = next((phase for phase in phases if _same(phase.name, name)), None)
    if phase is None:
        phase = Phase(name=name, tasks=[])
        phases.append(phase)
    phase.tasks += [Task(content=_short(task)) for task in arguments.tasks]


def _fail(phases: list[Phase], arguments: TodoArguments) -> None:
    if arguments.task is None or not (arguments.reason or "").strip():
        raise ToolError('op "fail" needs `task` and `reason`. The list is as it was.')
    (task,) = _chosen(phases, arguments)
    task.status, task.reason = "failed", _short(arguments.reason or "")


def _change(phases: list[Phase], arguments: TodoArguments) -> None:
    chosen = _chosen(phases, arguments)
    if arguments.op == "remove":
        for phase in phases:
            phase.tasks = [task for task in phase.tasks if not any(task is other for other in chosen)]
        return
    if arguments.op == "start":
        for task in (task for phase in phases for task in phase.tasks if task.status == "in_progress"):
            task.status = "pending"
        chosen[0].status = "in_progress"
        return
    for task in chosen:
        # What was done stays so when the rest of its phase is given up, and the other way round.
        if task.is_open or arguments.task is not None:
            task.status = "completed" if arguments.op == "done" else "abandoned"


def _chosen(phases: list[Phase], arguments: TodoArguments) -> list[Task]:
    among = phases
    if arguments.phase is not None:
        among = [phase for phase in phases if _same(phase.name, arguments.phase)]
        if not among:
            raise ToolError(f"There is no phase {arguments.phase!r}. {_as_it_is(phases)}")
    tasks = [task for phase in among for task in phase.tasks]
    if arguments.task is not None:
        wanted = arguments.task
        # Of two that are called alike the one that is still open is meant.
        tasks = sorted((task for task in tasks if _same(task.content, wanted)), key=lambda task: not task.is_open)[:1]
    elif arguments.op == "start":
        tasks = [task for task in tasks if task.is_open]
    if not tasks:
        raise ToolError(f"There is no such task: {arguments.task or 'the list is empty'}. {_as_it_is(phases)}")
    return tasks


def _as_it_is(phases: list[Phase]) -> str:
    return f"The list is as it was:\n{TodoList(phases=phases).text() or '(empty)'}"


def _same(one: str, other: str) -> bool:
    return " ".join(one.split()).casefold() == " ".join(other.split()).casefold()


def _short(text: str) -> str:
    line = " ".join(text.split())
    if not line:
        raise ToolError("A task or phase without a name cannot be kept. The list is as it was.")
    if len(line) > MAX_CHARACTERS:
        raise ToolError(f"A task or phase takes at most {MAX_CHARACTERS} characters. The list is as it was.")
    return line


def todo_tool(
    read: Callable[[], TodoList], keep: Callable[[TodoList], None], ask: Callable[[Task], Awaitable[str]]
) -> FunctionTool[TodoArguments]:
    """Make the ``todo`` tool.

    Args:
        keep: Called with the list after each call.
        ask: Asks the user how to go on behind a task that failed; returns that for the model.
    """

    async def run(arguments: TodoArguments, _context: ToolContext) -> ToolOutput:
        todos = changed(read(), arguments)
        keep(todos)
        text = f"{todos.summary}.\n{todos.text()}".rstrip()
        if arguments.op == "fail":
            text += f"\n\n{await ask(_chosen(todos.phases, arguments)[0])}"
        return text_output(text, {"op": arguments.op, **todos.to_wire()})

    return FunctionTool(
        name=TODO,
        description=(
            "Keep a list of tasks in phases, which the user sees. Use it for work of several steps, not for a single "
            "one: plan with init, then mark each task as soon as it is done. One task is in progress at a time, and "
            "the next one begins by itself. The whole list comes back."
        ),
        arguments=TodoArguments,
        run=run,
        read_only=True,  # the user need not be asked: it changes nothing but the list, and that in one step
        keeps_state=True,
        describe=_describe,
    )


def _describe(default: CallDescription, arguments: TodoArguments) -> CallDescription:
    chosen = filter(None, (arguments.op, arguments.task, arguments.phase))
    summary = " ".join(" ".join(text.split()) for text in chosen)[:MAX_SUMMARY_CHARACTERS]
    others = {name: value for name, value in default.details.items() if name not in ("op", "task", "phase")}
    return replace(default, summary=summary, details=others)
