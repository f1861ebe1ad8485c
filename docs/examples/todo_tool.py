"""A list of things to do, which the model keeps with a tool and the user sees.

The list is saved in the ``details`` of the tool's results: the model does not read them, and they lie on the branch on
which they came about. Whoever goes back in the conversation finds the list as it was there.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ValidationError

from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import ToolResultMessage
from indus_nb.core.storage import Entry
from indus_nb.extend.api import CommandContext, Context, ExtensionApi
from indus_nb.extend.events import SessionStart, SessionTree
from indus_nb.tools import text_output


class Item(BaseModel):
    """Something to do."""

    text: str
    done: bool = False


class TodoList(BaseModel):
    """All there is to do: what is saved with each result."""

    items: list[Item] = []

    @property
    def lines(self) -> list[str]:
        """The list as one reads it."""
        marked = enumerate(self.items, 1)
        return [f"{number}. [{'x' if item.done else ' '}] {item.text}" for number, item in marked] or ["Nothing to do."]


def setup(api: ExtensionApi) -> None:
    """Offer the tool ``todo`` and the command ``/todos``."""
    todos = TodoList()

    def show(ctx: Context) -> None:
        ctx.ui.set_widget("todo", todos.lines if todos.items else None)

    @api.on("session_start")
    @api.on("session_tree")
    def rebuild(_event: SessionStart | SessionTree, ctx: Context) -> None:
        todos.items = saved_list(ctx.session.branch()).items
        show(ctx)

    @api.tool(snippet="Keep a list of what is to be done")
    async def todo(
        action: Literal["list", "add", "finish", "remove"], ctx: Context, text: str = "", number: int = 0
    ) -> ToolOutput:
        """Keep the list of what is to be done in this conversation; gives the whole list.

        Args:
            action: what to do with it
            text: what is to be done, for "add"
            number: which item, for "finish" and "remove"
        """
        if action in ("finish", "remove") and not 1 <= number <= len(todos.items):
            raise ValueError(f"There is no item {number}. The list:\n" + "\n".join(todos.lines))
        if action == "add":
            todos.items.append(Item(text=text))
        elif action == "finish":
            todos.items[number - 1].done = True
        elif action == "remove":
            del todos.items[number - 1]
        show(ctx)
        return text_output("\n".join(todos.lines), details=todos.model_dump())

    @api.command("todos")
    def tell(_arguments: str, ctx: CommandContext) -> None:
        """Show what is to be done."""
        ctx.ui.notify("\n".join(todos.lines))


def saved_list(branch: list[Entry]) -> TodoList:
    """The list as it stands at the end of a branch."""
    for entry in reversed(branch):
        try:
            message = entry.message
            if isinstance(message, ToolResultMessage) and message.tool_name == "todo" and not message.is_error:
                return TodoList.model_validate(message.details)
        except (ValueError, ValidationError):  # another program wrote it
            continue
    return TodoList()
