"""Moving within the tree of a session: another branch, and labels on entries.

What this module promises:

- Going to another branch changes nothing until everything is known that it needs: an extension's objection, an abort or
  a failed summary leave all as it was.
- ``branch_moved`` is published when the session is at its new place, summary and label included.
"""

from __future__ import annotations

from dataclasses import dataclass

from indus_nb.base.errors import SessionBusyError
from indus_nb.base.events import BranchMoved
from indus_nb.base.messages import CustomMessage, Usage, UserMessage
from indus_nb.base.wire import JsonObject
from indus_nb.core.loop import AbortSignal, RunAborted
from indus_nb.core.session.hooks import BranchChange, BranchPlan
from indus_nb.core.session.model_choice import ModelChoice
from indus_nb.core.session.publisher import Publisher
from indus_nb.core.session.recorder import Recorder
from indus_nb.core.session.state import SessionState
from indus_nb.core.session.turns import Activity, Turns
from indus_nb.core.storage.entries import Entry
from indus_nb.core.storage.text import entry_text


@dataclass(frozen=True, slots=True)
class Navigation:
    """The outcome of going to another entry.

    It holds a text to edit, and the summary's entry if one was written.
    """

    editor_text: str | None = None
    cancelled: bool = False
    aborted: bool = False
    summary_entry: Entry | None = None


class Branching:
    """Moves the leaf of one session.

    Args:
        recorder: saves what is unsaved before the branch is left.
    """

    def __init__(
        self, state: SessionState, turns: Turns, publisher: Publisher, recorder: Recorder, models: ModelChoice
    ) -> None:
        self.abort: AbortSignal = AbortSignal()
        self._state = state
        self._turns = turns
        self._publisher = publisher
        self._recorder = recorder
        self._models = models

    async def navigate(self, entry_id: str, plan: BranchPlan, *, summarize: bool = False) -> Navigation:
        """Go on from another entry of this session; what came after it stays in the tree.

        Args:
            entry_id: the entry. From a user's or an extension's message one goes on before it, and its text is offered
                for editing.
            plan: instructions for the summary, and a label for the place.
            summarize: whether a summary of what is left behind is put at the new place.

        Raises:
            SessionBusyError: A run goes on, or an abort came before it had begun.
            UsageError: There is no such entry.
            CredentialsError: No model can write the summary.
            SessionFileError: What is unsaved cannot be written to the session file.
        """
        busy = SessionBusyError("The agent is running. Wait until it has finished, or abort it, and navigate then.")
        if self._turns.running:
            raise busy
        ticket = self._turns.ticket
        async with self._turns.admission():  # a prompt that comes now goes on from there
            await self._turns.wait_for_turn(ticket)
            if not self._turns.idle:
                raise busy
            self.abort = AbortSignal()
            work = self._turns.begin(Activity.NAVIGATING, self._navigate(plan, entry_id, summarize=summarize))
            return await self._turns.outcome(work)

    def set_label(self, entry_id: str, label: str | None) -> None:
        """Mark an entry.

        Args:
            label: its mark; without one the mark that it has is removed.

        Raises:
            UsageError: There is no such entry.
            SessionFileError: The session file cannot be written.
        """
        store = self._state.store
        store.append("label", target_id=store.entry(entry_id).id, label=(label or "").strip())

    async def _navigate(self, options: BranchPlan, entry_id: str, *, summarize: bool) -> Navigation:
        self._recorder.save_all()
        store, hooks = self._state.store, self._state.hooks
        target = store.entry(entry_id)
        left = store.leaf_id
        if left == entry_id:
            return Navigation()
        message = target.message if target.type in ("message", "custom_message") else None
        is_prompt = isinstance(message, UserMessage | CustomMessage)
        common, behind = self._left_behind(entry_id)
        plan = await hooks.before_branch(
            BranchChange(
                entry_id,
                left,
                common,
                behind,
                summarize,
                options.custom_instructions,
                options.replace_instructions,
                options.label,
            ),
            self.abort,
        )
        if plan.cancel:
            return Navigation(cancelled=True)
        try:
            summary = await self._summary(plan, behind if summarize else [])
        except RunAborted:
            return Navigation(cancelled=True, aborted=True)
        store.move_leaf(target.parent_id if is_prompt else entry_id)
        entry: Entry | None = None
        if summary is not None:
            text, details, usage = summary
            fields = {"summary": text, "fromId": left or "root", "details": details}
            fields |= {"usage": usage.to_wire()} if usage is not None else {"fromHook": True}
            entry = store.entry(store.append("branch_summary", **fields))
        if plan.label:
            self.set_label(entry.id if entry is not None else entry_id, plan.label)
        self._state.conversation.reload(store)
        await self._publisher.emit(BranchMoved(leaf_id=store.leaf_id, old_leaf_id=left))
        await hooks.branched(store.leaf_id, left, entry, by_hook=plan.summary is not None)
        return Navigation(editor_text=entry_text(target, for_editing=True) if is_prompt else None, summary_entry=entry)

    async def _summary(self, plan: BranchPlan, behind: list[Entry]) -> tuple[str, JsonObject, Usage | None] | None:
        """Return the text, details and cost of a summary; ``None`` when nothing is summarised."""
        if plan.summary is not None:
            return (*plan.summary, None)
        if not behind:
            return None
        with self.abort.interruptible():
            return await self._models.summariser().summarise_branch(
                behind,
                self._state.settings.branch_summary,
                plan.custom_instructions,
                replace_instructions=plan.replace_instructions,
            )

    def _left_behind(self, entry_id: str) -> tuple[str | None, list[Entry]]:
        """Return the common ancestor of the leaf and ``entry_id``, and the current branch's entries after it."""
        ahead = {entry.id for entry in self._state.store.branch(entry_id)}
        here = self._state.store.branch()
        common = next((entry.id for entry in reversed(here) if entry.id in ahead), None)
        return common, [entry for entry in here if entry.id not in ahead]
