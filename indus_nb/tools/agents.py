"""The ``agents`` tool: what a call of it looks like, to the model and to the user who is asked about it.

The host of the tool opens the sub-agents and runs them (``indus_nb.extend.built_in.subagents``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from indus_nb.base import textcut
from indus_nb.base.events import ToolOutput
from indus_nb.base.wire_model import wire_field
from indus_nb.safety.effects import Effect
from indus_nb.tools.description import MAX_SUMMARY_CHARACTERS, Approval, CallDescription
from indus_nb.tools.tool import AGENTS, Arguments, FunctionTool, ToolContext

LOOKING_TOOLS = ("read", "grep", "find", "ls")
"""Tools that every sub-agent has; none of them changes anything."""
MAX_TITLE_CHARACTERS = 80


class AgentTask(Arguments):
    """The task of one sub-agent."""

    title: str = wire_field(description="The task in a few words, for the user")
    prompt: str = wire_field(
        min_length=1, description="All that the agent needs to know: it sees nothing of this conversation"
    )


class AgentsArguments(Arguments):
    """What the model gives."""

    tasks: list[AgentTask] = wire_field(min_items=1, description="One for each agent")
    tools: list[str] = wire_field(
        default_factory=list[str], description="Tools that all of them need besides those that only read files"
    )


def agents_tool(
    run: Callable[[AgentsArguments, ToolContext], Awaitable[ToolOutput]], more: Sequence[str]
) -> FunctionTool[AgentsArguments]:
    """Make the ``agents`` tool.

    Args:
        more: The tools that a call may ask for besides those that only look.
    """
    has = f"Each can use {', '.join(LOOKING_TOOLS)}"
    has += f", and what you name of {', '.join(more)}." if more else "; none can change anything."
    return FunctionTool(
        name=AGENTS,
        description=(
            "Let several agents work at the same time, each on its own task. Use it for parts that do not depend on "
            "each other, above all where much must be read to find little; not for what one search answers. They see "
            f"nothing of this conversation. {has} Their final answers come back in the order of the tasks."
        ),
        arguments=AgentsArguments,
        run=run,
        shows_parts=True,
        describe=partial(_describe, more=more),
    )


def short_title(task: AgentTask, number: int) -> str:
    """Return a task's name, on one line.

    Args:
        number: Its place among the others, counted from 1.
    """
    line = textcut.one_line_fit(task.title, MAX_TITLE_CHARACTERS)
    return line or textcut.one_line_fit(task.prompt, MAX_TITLE_CHARACTERS) or f"task {number}"


def _describe(default: CallDescription, arguments: AgentsArguments, *, more: Sequence[str]) -> CallDescription:
    titles = [short_title(task, number) for number, task in enumerate(arguments.tasks, 1)]
    agents = textcut.counted(len(titles), "agent")
    # One that is not allowed is refused before any agent begins.
    asked = [name for name in dict.fromkeys(arguments.tools) if name in more]
    summary = textcut.one_line_fit(f"{agents}: {'; '.join(titles)}", MAX_SUMMARY_CHARACTERS)
    tasks = {f"{number}. {titles[number - 1]}": task.prompt for number, task in enumerate(arguments.tasks, 1)}
    return replace(
        default,
        summary=summary,
        details={**tasks, **({"tools": ", ".join(arguments.tools)} if arguments.tools else {})},
        has_effects=bool(asked),
        announces_start=True,
        approval=partial(_approval, arguments, agents, titles, asked),
    )


def _approval(arguments: AgentsArguments, agents: str, titles: Sequence[str], asked: Sequence[str]) -> Approval:
    tasks = zip(titles, arguments.tasks, strict=True)
    preview = "\n\n".join(f"{number}. {title}\n{task.prompt}" for number, (title, task) in enumerate(tasks, 1))
    return Approval(
        f"Let {agents} work with {', '.join((*LOOKING_TOOLS, *asked))}?",
        preview,
        warning="Each call of theirs that changes something is asked about as well." if asked else None,
        effects=(Effect("spends_money", "", f"lets {agents} work"),),
    )
