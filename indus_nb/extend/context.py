"""The context that handlers, tools and commands of extensions are given.

What this module promises: an object that an extension keeps beyond its session, or beyond a reload, raises
``StaleExtensionError`` instead of acting on another session; nothing here waits for the run that it is called from.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from indus_nb.base.errors import UsageError
from indus_nb.base.messages import ThinkingLevel
from indus_nb.base.wire import JsonObject
from indus_nb.extend.runtime import Runtime
from indus_nb.models import Model
from indus_nb.tools import RESERVED_TOOLS, CallDescription, Tool, ToolError, describe_call
from indus_nb.tools.description import by_arguments
from indus_nb.tools.tool import secret_arguments

if TYPE_CHECKING:
    from indus_nb.core.loop import AbortSignal
    from indus_nb.core.session import AgentSession, Navigation, SessionSettings
    from indus_nb.core.session.compaction import CompactionResult
    from indus_nb.core.session.conversation import ContextUsage
    from indus_nb.core.session.dialogs import Ui
    from indus_nb.core.storage.store import SessionStore


class StaleExtensionError(UsageError):
    """Raised for an object of an extension whose session was replaced or whose code was reloaded."""


class Guarded:
    """Object that may be used only while the extension that it was given to is in force."""

    def __init__(self, runtime: Runtime) -> None:
        self.__runtime = runtime
        self.__generation = runtime.generation

    @property
    def in_force(self) -> bool:
        """Return whether it may still be used."""
        return self.__generation == self.__runtime.generation

    @property
    def _runtime(self) -> Runtime:
        if self.__generation != self.__runtime.generation:
            raise StaleExtensionError(
                "The session was replaced or reloaded since, so this object is stale. "
                "Use the context that the handler is given."
            )
        return self.__runtime

    @property
    def _session(self) -> AgentSession:
        return self._runtime.session


class Context(Guarded):
    """Context of a handler: the session, and actions on it."""

    @property
    def ui(self) -> Ui:
        """Return the dialogs and signs for the user."""
        return self._session.ui

    @property
    def has_ui(self) -> bool:
        """Return whether a front end shows dialogs; without one, they return their defaults."""
        return self._session.ui.has_host

    @property
    def settings(self) -> SessionSettings:
        """Return the settings of the session."""
        return self._session.settings

    @property
    def cwd(self) -> Path:
        """Return the directory that the session works in."""
        return self._session.store.cwd

    @property
    def session(self) -> SessionStore:
        """Return the session's entries, to read."""
        return self._session.store

    session_manager = session

    @property
    def model(self) -> Model | None:
        """Return the model that answers, if one is chosen."""
        return self._session.model

    @property
    def models(self) -> Sequence[Model]:
        """Return the models that could be chosen."""
        return self._session.available_models()

    @property
    def thinking_level(self) -> ThinkingLevel:
        """Return how much the model thinks."""
        return self._session.thinking_level

    @property
    def signal(self) -> AbortSignal | None:
        """Return the abort signal of the current run; ``None`` while no run is active."""
        return self._session.abort_signal

    def is_read_only(self, tool_name: str) -> bool:
        """Return whether that tool changes nothing, as code here declares; a server's annotation is no proof."""
        return not self.describe_call(tool_name, {}).has_effects

    def describe_call(self, tool_name: str, arguments: JsonObject) -> CallDescription:
        """Describe a tool call: its views, and the question to the user before it runs.

        Args:
            tool_name: The tool that is called.
            arguments: The arguments of the call, as the model gave them.

        Returns:
            The description. Its ``approval()`` may read files: call it off the event loop.
        """
        tools = self._session.all_tools
        described = describe_call(tool_name, arguments, tools)
        origin = self._runtime.origin(tool_name, tools.get(tool_name)) if tool_name in RESERVED_TOOLS else None
        if origin is None or described.rejection is not None:
            return described
        # Under the name of one of our own tools it is asked about as what it is, whatever it says of itself.
        return by_arguments(tool_name, arguments, has_effects=described.has_effects, origin=origin)

    def with_secrets(self, tool_name: str, arguments: JsonObject) -> JsonObject:
        """Return arguments as a question is made of them: with the secrets that a file is compared with.

        Code and commands keep the placeholders of what is a secret of the user's own.

        Args:
            tool_name: The tool that is called.
            arguments: The arguments of the call, as the model gave them.

        Returns:
            The arguments, or a copy that differs.

        Raises:
            PutBackError: A value cannot be filled in there.
        """
        declared, is_code = secret_arguments(self._session.all_tools.get(tool_name))
        return self._session.settings.vault.in_question(arguments, declared, is_code=is_code)

    def warning(self, tool_name: str, arguments: JsonObject) -> str | None:
        """Return a warning to the user about a tool call before it is allowed.

        Args:
            tool_name: The tool that is called.
            arguments: The arguments of the call, as the model gave them.

        Returns:
            A sentence, or ``None`` if the tool has no warning.
        """
        try:
            return self.describe_call(tool_name, arguments).approval().warning
        except ToolError:  # it is going to be rejected
            return None

    def builtin(self, tool_name: str) -> Tool | None:
        """Return the built-in tool of that name, unless another tool is offered under it."""
        tool = self._session.equipment.tools.get(tool_name)
        return tool if tool is self._session.all_tools.get(tool_name) else None

    def is_project_trusted(self) -> bool:
        """Return whether the user trusts the project in the working directory, or it brings nothing to be trusted."""
        return self._session.trusting.trusts_project

    def is_idle(self) -> bool:
        """Return whether no run, retry or compaction is active."""
        return not self._session.is_running

    def abort(self) -> None:
        """Abort the current run; does not wait until it has ended."""
        self._runtime.background(self._session.abort(), "abort")

    def has_pending_messages(self) -> bool:
        """Return whether a message waits in a queue."""
        return self._session.pending_count > 0

    def shutdown(self) -> None:
        """End the process once it is idle; without effect where the session belongs to another program."""
        self._session.on_shutdown()

    def get_context_usage(self) -> ContextUsage | None:
        """Return the fill level of the model's context window; ``None`` if that is unknown."""
        return self._session.context_usage()

    def compact(
        self,
        custom_instructions: str | None = None,
        *,
        on_complete: Callable[[CompactionResult], Any] | None = None,
        on_error: Callable[[Exception], Any] | None = None,
    ) -> None:
        """Compact the conversation; does not wait until that is done. An active run is aborted first.

        Args:
            custom_instructions: What the summary should mind.
            on_complete: Called with the result, plain or async.
            on_error: Called with the exception when nothing was compacted, plain or async. Without it the failure is
                reported as the extension's.
        """
        session = self._session

        async def work() -> None:
            try:
                result = await session.compact(custom_instructions)
            except Exception as error:
                if on_error is None:
                    raise
                answer = on_error(error)
            else:
                answer = None if on_complete is None else on_complete(result)
            if inspect.isawaitable(answer):
                await answer

        self._runtime.background(work(), "compact")

    def get_system_prompt(self) -> str:
        """Return the system prompt of the current run."""
        return self._runtime.run_start.system_prompt


class CommandContext(Context):
    """Context of a command, with more methods; in handlers of events these would wait for themselves."""

    async def wait_for_idle(self) -> None:
        """Wait until no run, retry or compaction is active."""
        await self._session.wait_until_idle()

    async def new_session(self, parent_session: str | None = None) -> bool:
        """Replace this session by a new one; this context is stale then.

        Args:
            parent_session: The session that the new one names as its parent.

        Returns:
            Whether the session was replaced; ``False`` if an extension cancelled that.
        """
        return await self._session.new_session(parent_session)

    async def fork(self, entry_id: str, *, position: Literal["before", "at"] = "before") -> str | None:
        """Continue in a new session that is a copy of this one up to an entry; this context is stale then.

        Args:
            entry_id: The entry where the copy ends; for ``"before"`` that of a user message.
            position: Whether the copy ends before the entry or includes it.

        Returns:
            The text of the message at which it was cut (empty for ``"at"``); ``None`` if an extension cancelled.

        Raises:
            UsageError: There is no such entry, or a copy cannot end there.
        """
        return await self._session.fork(entry_id, position=position)

    async def navigate_tree(self, target_id: str, **options: Any) -> Navigation:
        """Continue this session from another of its entries.

        Args:
            target_id: The entry to continue from.
            **options: Those of ``AgentSession.navigate``: whether and how the branch that is left is summarised.

        Returns:
            What became of it.

        Raises:
            UsageError: There is no such entry.
        """
        return await self._session.navigate(target_id, **options)

    async def switch_session(self, path: Path | str) -> bool:
        """Replace this session by a saved one; this context is stale then.

        Args:
            path: The session's file.

        Returns:
            Whether the session was replaced; ``False`` if an extension cancelled that.

        Raises:
            SessionFileError: The file cannot be opened.
        """
        return await self._session.switch_session(Path(path))

    async def reload(self) -> None:
        """Load all extensions and resources again; the last thing that a command does."""
        await self._session.hooks.reload()
