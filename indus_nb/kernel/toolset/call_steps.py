"""Each call of a tool is a step that can be taken back: it is announced before the call, and ended behind it.

The tool ``python`` takes its checkpoint itself, right before its code runs; other tools' files are remembered here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from indus_nb.base.messages import TextContent
from indus_nb.base.wire import JsonObject
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.events import ToolBegin, ToolResultEvent
from indus_nb.kernel.toolset.states import STATE
from indus_nb.kernel.toolset.undoing import Steps
from indus_nb.tools.tool import AGENTS, in_thread


class OpenNotebooks(Protocol):
    """Notebooks that pages show. Used on the agent's thread."""

    async def paths(self) -> Collection[Path]:
        """Return the files of the notebooks, as far as they are known."""
        ...

    async def has_saved(self, path: Path) -> bool:
        """Return whether the file's content is what its page has saved."""
        ...

    def saves_unasked(self, path: Path) -> bool:
        """Return whether its front end may have saved the file, which nobody can know."""
        ...


class CallSteps:
    """The steps of a session's calls.

    Attributes:
        open_notebooks: Knows the notebooks that pages show.
        asked_in: Returns the id of the cell in which a prompt stands; called in the prompt's task.
    """

    def __init__(self, steps: Steps) -> None:
        """Record the calls among the steps of a kernel."""
        self.open_notebooks: OpenNotebooks | None = None
        self.asked_in: Callable[[], str | None] = lambda: None
        self._steps = steps

    def follow(self, api: ExtensionApi) -> None:
        """Record the calls of a session."""
        api.on("tool_begin", self._begin)
        api.on("tool_result", self._end)

    async def _begin(self, event: ToolBegin, ctx: Context) -> None:
        described = ctx.describe_call(event.tool_name, event.input)
        if not described.has_effects or event.tool_name == STATE:  # which goes from step to step
            return
        if self.open_notebooks is not None:
            shown = await self.open_notebooks.paths()
            hold = partial(self._steps.hold_notebooks, event.tool_call_id, ctx.session.session_id, shown)
            await in_thread(lambda _: hold())
        self._steps.announce(event.tool_call_id, ctx.session.session_id, self.asked_in(), event.gate)
        if event.tool_name == "python":
            return  # may wait for a cell first
        target = event.target or (await asyncio.to_thread(described.approval)).target
        targets = [] if target is None else [target.path]
        by_tools = event.tool_name == AGENTS
        await in_thread(lambda _: self._steps.begin_files(event.tool_call_id, targets, by_tools=by_tools))

    async def _end(self, event: ToolResultEvent, ctx: Context) -> Mapping[str, Any] | None:
        answer: JsonObject = {}
        details: object = event.details
        if event.tool_name != "python":
            changes = change_details(*(await in_thread(lambda _: self._steps.end(event.tool_call_id)))[:2])
            if changes and (details is None or isinstance(details, dict)):
                answer["details"] = {**cast("JsonObject", details or {}), **changes}
        if warning := await self._overwritten(event.tool_call_id, ctx):
            answer["content"] = [*event.content, TextContent(text=warning)]
        return answer or None

    async def _overwritten(self, call: str, ctx: Context) -> str:
        """Notify the user if a call has written an open notebook as a file; return the text for the model."""
        shown = self.open_notebooks
        changed = await in_thread(lambda _: self._steps.changed_notebooks(call)) if shown is not None else []
        overwritten = [path for path in changed if shown is not None and not await shown.has_saved(path)]
        problem = await in_thread(lambda _: self._steps.keep_notebooks(call, overwritten))
        if shown is None or not overwritten:
            return ""
        names = ", ".join(path.name for path in overwritten)
        remedy = f"That cannot be undone ({problem})." if problem else "`%agent undo` brings the file back."
        written = f"{names}, a notebook that is open, was written as a file while this call ran."
        if any(map(shown.saves_unasked, overwritten)):
            written = f"{written[:-1]}: by it, or by a front end that saves edits by itself, as VS Code does."
            ctx.ui.notify(f"⚠ {written} {remedy}", "warning")
            return f"[{written} Change its cells with propose_cell instead.]"
        ctx.ui.notify(f"⚠ {written} The page does not show that, and asks at its next save. {remedy}", "warning")
        return f"[{written} The user's page does not show that. Change its cells with propose_cell instead.]"


def change_details(changed: str, problem: str) -> JsonObject:
    """Build the details on what a call changed, for the user."""
    details: JsonObject = {"changed": changed} if changed else {}
    return {**details, "notUndoable": problem} if problem else details
