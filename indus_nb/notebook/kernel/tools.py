"""The user's own kernel, as the agent may use it: code in the user's namespace, its variables, and the cells that ran.

Code runs on the main thread, where figures, magics and thread-bound objects work. What it prints and displays goes to
the model, and to the card of the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any, cast

from pydantic import Field

from indus_nb.events import ToolOutput
from indus_nb.extensions.api import Context, ExtensionApi
from indus_nb.messages import ImageContent, TextContent
from indus_nb.notebook.kernel import describe
from indus_nb.notebook.kernel.agent_thread import Inbox
from indus_nb.notebook.kernel.effects import touched
from indus_nb.notebook.kernel.execution import Execution
from indus_nb.notebook.kernel.main_thread import Job
from indus_nb.notebook.kernel.watch import Watch
from indus_nb.redaction import hide_known, secrets_of
from indus_nb.resources.settings import Settings, agent_directory, load_settings
from indus_nb.tools.description import Approval, CallDescription
from indus_nb.tools.read import fit_image
from indus_nb.tools.tool import Arguments, FunctionTool, ToolContext, ToolError, in_thread, text_output
from indus_nb.wire import JsonObject, clean_text

_REPORT_EVERY = 0.1
_TYPE = "cells"
_ALWAYS_HIDDEN = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})


class PythonArguments(Arguments):
    """The arguments of the tool ``python``."""

    code: str = Field(description="The code to run, as in a notebook cell: magics and top-level await work")
    timeout: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Seconds after which it is interrupted"
    )


class VariablesArguments(Arguments):
    """The arguments of the tool ``variables``."""

    pattern: str = Field(default="", description="A variable's name for a closer look, or a part of names, or df_*")


class UserKernel:
    """The kernel of one shell, with its tools ``python`` and ``variables``."""

    tools = ("python", "variables")

    def __init__(self, shell: Any, watch: Watch) -> None:
        """Make the tools of a shell.

        Args:
            shell: The IPython shell.
            watch: Watches its cells.
        """
        self._shell = shell
        self._id = secrets.token_hex(4)
        self._settings = Settings()
        self._main = watch.main
        self._routes = watch.routes
        self._journal = watch.journal
        self._agents: dict[str, int] = {}
        self._ran: list[str] = []

    @property
    def inbox(self) -> Inbox | None:
        """Where the main thread gets jobs from while a cell waits for the agent; else ``None``."""
        return self._main.inbox

    @contextlib.contextmanager
    def serving(self, inbox: Inbox) -> Generator[None]:
        """Place jobs in ``inbox``, which the calling thread serves within this context."""
        with self._main.serving(inbox):
            yield

    def __call__(self, api: ExtensionApi) -> None:
        """Add the tools to a session.

        Its model is sent the cells that ran since it was last asked.
        """
        api.register_tool(
            FunctionTool(
                name="python",
                description=(
                    "Run Python code in the user's notebook kernel: its variables are there, and what it defines "
                    "stays. Returns what it prints and displays, figures as images, tables in short. What programs "
                    "print is seen with !command, not with subprocess alone."
                ),
                arguments=PythonArguments,
                run=self._run,
                warn=self._warn,
                describe=_describe,
                snippet="Run code in the user's kernel, on the live objects",
                guidelines=(
                    "Work on the user's live variables with python rather than reading their files again",
                    "Do not overwrite or delete the user's variables unless asked to; choose new names",
                ),
            )
        )
        api.register_tool(
            FunctionTool(
                name="variables",
                description=(
                    "List the variables of the user's kernel: name, type, shape, types of columns, a short view; one "
                    "of them more closely, with its first rows."
                ),
                arguments=VariablesArguments,
                run=self._list,
                read_only=True,
                snippet="See which variables the user's kernel holds",
            )
        )
        api.on("session_start", self._configure)
        api.on("before_agent_start", self._add_context)

    def _configure(self, _event: object, ctx: Context) -> None:
        self._settings = load_settings(ctx.cwd, agent_directory()).settings

    # python

    async def _run(self, arguments: PythonArguments, context: ToolContext) -> ToolOutput:
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        execution = Execution(
            self._shell,
            arguments.code,
            number=lambda: self._shell.execution_count + len(self._ran),
            routes=self._routes,
            on_text=wake,
            on_end=self._keep,
        )
        seconds = arguments.timeout or self._settings.notebook.python_timeout_seconds
        began = time.monotonic()

        def details() -> JsonObject:
            return {"code": arguments.code, "executionSeconds": round(time.monotonic() - began, 3)}

        def shown(text: str) -> ToolOutput:
            cleaned = clean_text(hide_known(text, secrets_of(), mark="…"))
            return ToolOutput(content=[TextContent(text=cleaned)] if cleaned else [], details=details())

        async def report() -> None:
            while True:
                await changed.wait()
                changed.clear()
                context.report(shown(execution.text().content))
                await asyncio.sleep(_REPORT_EVERY)

        context.report(shown("(waits for the cell that runs)" if self._main.busy else ""))
        reporting = asyncio.create_task(report())
        try:
            job = await self._main.do(execution, seconds)
            return await _output(execution, job, seconds, details(), self._settings)
        finally:
            reporting.cancel()
            execution.tail.close()

    def _warn(self, arguments: PythonArguments) -> str | None:
        """A warning for the user who is to allow the code."""
        return touched(arguments.code, self._users(), self._shell.transform_cell).warning()

    def _keep(self, execution: Execution) -> None:
        """Remember which names are the agent's, and put the code into IPython's history once no cell runs."""
        for name, identity in execution.after.items():
            held = execution.before.get(name)
            if held != identity and (held is None or self._agents.get(name) == held):
                self._agents[name] = identity
        self._ran.append(execution.code)
        self._main.between_cells(self._write_history)

    def _write_history(self) -> None:
        """Give the code numbers of its own: to count while a cell runs would change that cell's number."""
        ran, self._ran = self._ran, []
        history = self._shell.history_manager
        for code in ran:
            history.store_inputs(self._shell.execution_count, self._shell.transform_cell(code), code)
            self._shell.execution_count += 1

    # variables

    async def _list(self, arguments: VariablesArguments, _: ToolContext) -> ToolOutput:
        look = _Look(lambda: describe.listing(self._namespace(), _ALWAYS_HIDDEN, arguments.pattern, self._agents))
        await self._main.do(look)
        return text_output(look.found)

    def _namespace(self) -> Mapping[str, object]:
        """The names that the user or the agent defined, as ``%who`` lists them."""
        shell = self._shell
        hidden: Mapping[str, object] = shell.user_ns_hidden
        return {
            name: value
            for name, value in dict(shell.user_ns).items()
            if not name.startswith("_") and name not in _ALWAYS_HIDDEN and hidden.get(name, shell) is not value
        }

    def _users(self) -> Mapping[str, object]:
        """The user's own variables: not what the agent's code defined, unless the user did so again."""
        held = self._namespace()
        self._agents = {name: known for name, known in self._agents.items() if id(held.get(name)) == known}
        return {name: value for name, value in held.items() if name not in self._agents}

    # What the model is sent with a prompt

    def _add_context(self, _event: object, ctx: Context) -> Mapping[str, Any] | None:
        """Return the cells that this conversation does not know yet, and the variables if they changed.

        What it knows is in its own messages: so a fork, or another branch, gets what is new to it.
        """
        wanted = self._settings.notebook
        known = self._known(ctx)
        last = known.get("cell")
        cells = self._journal.since(last if isinstance(last, int) else 0) if wanted.tell_cells else ""
        held = describe.summary(self._users(), _ALWAYS_HIDDEN) if wanted.tell_variables else ""
        digest = hashlib.sha256(held.encode(errors="replace")).hexdigest()[:16] if held else ""
        parts = [cells] if cells else []
        if held and digest != known.get("variables"):
            parts.append(f"The user's variables now:\n{held}")
        if not parts:
            return None
        details = {"kernel": self._id, "cell": self._journal.count, "variables": digest}
        content = clean_text("\n\n".join(parts))
        message = {"customType": _TYPE, "content": content, "display": False, "details": details}
        return {"message": message, "beforePrompt": True}

    def _known(self, ctx: Context) -> JsonObject:
        for entry in reversed(ctx.session.branch()):
            if entry.type == "custom_message" and entry.data.get("customType") == _TYPE:
                details: object = entry.data.get("details")
                if isinstance(details, dict) and cast("JsonObject", details).get("kernel") == self._id:
                    return cast("JsonObject", details)
        return {}


def _describe(default: CallDescription, arguments: PythonArguments) -> CallDescription:
    others = {name: value for name, value in default.details.items() if name != "code"}
    return replace(
        default,
        summary="",
        code=arguments.code,
        details=others,
        announces_start=True,
        approval=lambda: Approval("Run this code in your kernel?", arguments.code),  # the next code is another one
    )


class _Look:
    """A short look at the namespace."""

    def __init__(self, look: Callable[[], str]) -> None:
        self.found = ""
        self._look = look

    def prepare(self) -> bool:
        return False

    async def run(self, job: Job) -> None:  # noqa: ARG002 - nothing of it is to be put off
        self.found = self._look()


async def _output(
    execution: Execution, job: Job, seconds: float | None, details: JsonObject, settings: Settings
) -> ToolOutput:
    """What the model reads; a failure is raised as ``ToolError``, with the images that there are."""
    shown = execution.text()
    details |= shown.details() or {}
    text = hide_known(shown.content, secrets_of(), mark="…")
    if shown.truncated:
        where = execution.tail.path
        details |= {"fullOutputPath": str(where)} if where else {}
        text += f"\n\n[The end of {shown.total_lines} lines. " + (
            f"All of it: {where}]" if where else f"The rest could not be kept: {execution.tail.file_problem}]"
        )
    images, problems = await in_thread(lambda _: _fitted(execution.images, resize=settings.images.auto_resize))
    if execution.more_images:
        problems.append(f"{execution.more_images} more images were left out.")
    text += "".join(f"\n\n[{problem}]" for problem in problems)
    if execution.how == "interrupted":
        why = f"after {seconds:g} seconds" if job.ended_by == "time" and seconds else "by the user"
        text = f"{text}\n\nThe code was interrupted {why}.".strip()
    elif execution.how == "done":
        if job.ended_by == "time":
            text = f"{text}\n\n[It was interrupted after {seconds:g} seconds, but went on to its end.]".lstrip()
        text = text if text or images else "(no output)"
        blocks: list[TextContent | ImageContent] = [TextContent(text=clean_text(text))] if text else []
        return ToolOutput(content=[*blocks, *images], details=details)
    failure = ToolError(text.rstrip(), details)
    failure.output.content.extend(images)
    raise failure


def _fitted(images: list[bytes], *, resize: bool) -> tuple[list[ImageContent], list[str]]:
    """The images as models accept them, and what is wrong with the others."""
    fitted: list[ImageContent] = []
    problems: list[str] = []
    for data in images:
        try:
            fitted.append(fit_image(data, "An image", resize=resize)[0])
        except ToolError as error:
            problems.append(str(error))
    return fitted, problems
