"""Hooks by which extensions look at a session and change what it does.

The hooks here leave everything as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from indus_nb.base.events import SessionEvent
from indus_nb.base.messages import Attachment, CustomMessage, ImageContent
from indus_nb.base.wire import JsonObject
from indus_nb.core.loop import AbortSignal, RunHooks
from indus_nb.core.storage.entries import Entry
from indus_nb.tools import Shell, ShellResult, Tool

if TYPE_CHECKING:
    from indus_nb.core.session.compaction import CompactionResult, Preparation

InputSource = Literal["interactive", "rpc", "extension"]
ReplaceReason = Literal["new", "resume", "fork"]
StartReason = Literal["startup", "reload", "new", "resume", "fork"]
ShutdownReason = Literal["quit", "reload", "new", "resume", "fork"]


@dataclass(frozen=True, slots=True)
class UserPrompt:
    """Prompt of a user, as far as extensions have changed it."""

    text: str
    images: Sequence[ImageContent] = ()
    attachments: Sequence[Attachment] = ()


@dataclass(frozen=True, slots=True)
class RunStart:
    """Additions to the start of a run, besides the user's message."""

    system_prompt: str
    messages: list[CustomMessage] = field(default_factory=list[CustomMessage])
    before: list[CustomMessage] = field(default_factory=list[CustomMessage])
    """Messages before the user's message."""


@dataclass(frozen=True, slots=True)
class BranchChange:
    """A request to go on from another entry of the session."""

    target_id: str
    old_leaf_id: str | None
    common_ancestor_id: str | None
    entries_to_summarize: Sequence[Entry]
    user_wants_summary: bool
    custom_instructions: str | None = None
    replace_instructions: bool = False
    label: str | None = None


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """Answer to such a request.

    ``summary`` (text and details) replaces the one that a model would write.
    """

    cancel: bool = False
    summary: tuple[str, JsonObject] | None = None
    custom_instructions: str | None = None
    replace_instructions: bool = False
    label: str | None = None


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Plan of a compaction; ``result`` replaces the one that a model would write."""

    cancel: bool = False
    result: CompactionResult | None = None


class SessionHooks(RunHooks):
    """A session calls these at their places and waits for each.

    None of them may raise.
    """

    def tools(self) -> Mapping[str, Tool]:
        """Return tools besides the session's own, or in their place."""
        return {}

    async def event(self, event: SessionEvent) -> None:
        """Handle an event, before it is saved and published."""

    async def load(self) -> None:
        """Load the extensions, before ``started``."""

    async def reload(self) -> None:
        """Reload the extensions."""

    def problems(self) -> list[str]:
        """Return the problems of the extensions, a sentence each."""
        return []

    def renderer(self, custom_type: str) -> Callable[..., Any] | None:
        """Return the renderer of messages of that type in a notebook.

        Given the message, it returns a MIME bundle.
        """
        return None

    def check_flags(self) -> None:
        """Check the options of the command line.

        Raises ``UsageError`` for those that no extension has registered.
        """

    def is_command(self, text: str) -> bool:
        """Return whether ``text`` calls a command."""
        return False

    async def command(self, text: str) -> None:
        """Carry out a command."""

    def list_commands(self) -> list[JsonObject]:
        """List the commands."""
        return []

    async def complete_command(self, name: str, prefix: str) -> list[JsonObject]:
        """Complete the arguments of a command.

        Args:
            name: The command's name, without its slash.

        Returns:
            What they may be, as objects with ``value``, ``label`` and the like.
        """
        return []

    async def input(self, prompt: UserPrompt, source: InputSource) -> UserPrompt | None:
        """Handle a prompt, before it is accepted.

        Args:
            source: Where it comes from.

        Returns:
            What counts in the place of ``prompt``; ``None`` when it has been handled.
        """
        return prompt

    async def before_run(self, prompt: UserPrompt, system_prompt: str) -> RunStart:
        """Handle a prompt that was accepted, before the model is asked.

        Returns:
            The system prompt of the run, and messages to add.
        """
        return RunStart(system_prompt)

    async def request(self, payload: JsonObject) -> JsonObject:
        """Return the body that is sent to the model's server."""
        return payload

    async def response(self, status: int, headers: Mapping[str, str]) -> None:
        """Handle the head of an answer from the model's server."""

    async def before_switch(self, reason: Literal["new", "resume"], target: Path | None) -> bool:
        """Decide whether the session may be replaced.

        Args:
            reason: ``new`` for an empty session, ``resume`` for a stored one.
        """
        return True

    async def before_fork(self, entry_id: str, position: Literal["before", "at"]) -> bool:
        """Decide whether the session may be forked.

        Args:
            entry_id: Where the part ends that the new session begins with.
            position: ``before`` that entry, or ``at`` it.
        """
        return True

    async def shutdown(self, reason: ShutdownReason, target: Path | None = None) -> None:
        """Handle the end of the session, or that another one is about to replace it.

        Args:
            target: The file of the session that replaces it, if that has one.
        """

    async def started(self, reason: StartReason, previous: Path | None = None) -> None:
        """Handle the start of the session, or of another one in its place.

        Args:
            previous: The file of the session that it replaces, if that has one.
        """

    async def before_compact(
        self, preparation: Preparation, branch: Sequence[Entry], instructions: str | None, signal: AbortSignal
    ) -> CompactionPlan:
        """Decide how a compaction is made.

        Args:
            signal: Set when the compaction is aborted.
        """
        return CompactionPlan()

    async def compacted(self, entry: Entry, *, by_hook: bool) -> None:
        """Handle a compaction that was saved.

        Args:
            by_hook: Whether ``before_compact`` gave its result.
        """

    async def before_branch(self, change: BranchChange, signal: AbortSignal) -> BranchPlan:
        """Decide how the session moves to another branch.

        Args:
            change: Where it moves, and what was asked for.
            signal: Set when the move is aborted.
        """
        return BranchPlan(
            custom_instructions=change.custom_instructions,
            replace_instructions=change.replace_instructions,
            label=change.label,
        )

    async def branched(
        self, new_leaf_id: str | None, old_leaf_id: str | None, summary: Entry | None, *, by_hook: bool
    ) -> None:
        """Handle a move to another branch.

        Args:
            new_leaf_id: The leaf now; ``None`` before the first entry.
            summary: The entry of the summary of what was left, if there is one.
            by_hook: Whether ``before_branch`` gave the summary.
        """

    async def user_bash(self, command: str, cwd: Path, *, exclude_from_context: bool) -> ShellResult | Shell | None:
        """Handle a shell command of the user's.

        Args:
            exclude_from_context: Whether the model shall not see it.

        Returns:
            Its result, or the shell that runs it; ``None`` for the session's own shell.
        """
        return None
