"""Stops the answers of a session for its stream rules, and has the model asked again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from indus_nb.base.events import TtsrTriggered
from indus_nb.base.messages import AssistantMessage, CustomMessage, Message
from indus_nb.base.streaming import AssistantMessageEvent
from indus_nb.core.loop.watchers import RunWatcher
from indus_nb.core.resources.settings import StreamRuleSettings
from indus_nb.core.resources.stream_rules import MAX_STOPS, RuleWatch, StreamRule, load_rules, reminder
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage.entries import Entry
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.events import BeforeAgentStart, SessionStart, SessionTree


class RuleKeeper(RunWatcher):
    """The stream rules of one session. ``extension`` follows the session: what was applied depends on its branch."""

    def __init__(
        self, session: AgentSession, settings: StreamRuleSettings, agent_dir: Path, trusts: Callable[[Path], bool]
    ) -> None:
        self._session = session
        self._trusts = trusts
        self._settings = settings
        self._agent_dir = agent_dir
        self._watch: RuleWatch | None = None
        self._matched: list[StreamRule] = []
        self._stops = 0

    def extension(self, api: ExtensionApi) -> None:
        """Register the rules with a session's events: an extension's ``setup``."""

        @api.on("session_start")
        @api.on("session_tree")
        def begin(_event: SessionStart | SessionTree, _ctx: Context) -> None:
            self._load()

        @api.on("before_agent_start")
        def count(_event: BeforeAgentStart, _ctx: Context) -> None:
            self._stops = 0

    def _load(self) -> None:
        cwd = self._session.store.cwd
        found = load_rules(cwd, self._agent_dir, trusted=self._trusts(cwd))
        for problem in found.problems:
            self._report(problem)
        self._watch = RuleWatch(found.rules, self._settings) if found.rules else None
        if self._watch is not None:
            self._watch.recall(_messages(self._session.store.branch()))

    def _report(self, problem: str) -> None:
        if problem not in self._session.problems:
            self._session.problems.append(problem)

    def objection(self, event: AssistantMessageEvent) -> str | None:
        """Stop an answer to which rules apply."""
        if self._watch is None or self._stops >= MAX_STOPS:
            return None
        self._matched = self._watch.feed(event)
        for rule in self._watch.too_slow.values():
            self._report(
                f"{rule.path} is watched no more: the search for its condition took too long. Make it simpler, without "
                "a repetition within a repetition."
            )
        if not self._matched:
            return None
        return f"Stopped by a stream rule: {', '.join(rule.name for rule in self._matched)}."

    async def after_turn(self, answer: AssistantMessage) -> Sequence[CustomMessage]:
        """Return the message that shows the model the rules for which its answer was stopped."""
        matched, self._matched = self._matched, []
        if self._watch is None or not matched or answer.stop_reason != "aborted":
            return ()
        self._stops += 1
        self._watch.apply(matched)
        await self._session.emit(TtsrTriggered(rules=[rule.to_wire() for rule in matched]))
        return [reminder(matched)]


def _messages(branch: Iterable[Entry]) -> Iterator[Message]:
    for entry in branch:
        try:
            message = entry.message
        except ValueError:  # of a kind unknown here
            continue
        if message is not None:
            yield message
