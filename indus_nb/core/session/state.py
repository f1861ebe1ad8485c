"""State shared by the parts of one session: settings, store, conversation, model, hooks, and the current run.

What this module promises: each value is kept here and nowhere else. Parts read it when they need it and keep no copies,
for a session's store, conversation, model and hooks are replaced while it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from indus_nb.base.messages import AssistantMessage, Message, ThinkingLevel
from indus_nb.core.loop import InterruptMode, Run, ToolExecution
from indus_nb.core.loop.retry import RetrySettings
from indus_nb.core.resources.settings import BranchSummarySettings, CompactionSettings, ToolSettings
from indus_nb.core.session.conversation import Conversation
from indus_nb.core.session.hooks import SessionHooks
from indus_nb.core.storage.store import SessionStore
from indus_nb.models import Model, Provider
from indus_nb.models.protocol import CacheRetention, CacheRetentionSetting
from indus_nb.models.registry import ModelRegistry, ScopedModel
from indus_nb.safety.effects import EffectKind
from indus_nb.safety.policy import ApproveMode, Decision
from indus_nb.safety.vault import Vault
from indus_nb.tools import Shell

if TYPE_CHECKING:
    from indus_nb.core.limits import Payer
    from indus_nb.tools.jobs import Jobs

SandboxMode = Literal["off", "workspace", "read-only"]


@dataclass(slots=True)
class SessionSettings:
    """Settings of a session; each may be changed while it lives."""

    thinking_budgets: Mapping[str, int] = field(default_factory=dict[str, int])
    cache_retention: CacheRetentionSetting = "auto"
    usual_cache_retention: CacheRetention = "short"
    """How long a provider keeps the conversation for the next request, where the setting leaves that open."""
    is_continued: bool = True
    """Whether a request is likely to begin as the one before it, and not only with the same system prompt."""
    shared_characters: int = 0
    """Characters at the start of the first prompt that those of other sessions begin with as well."""
    tool_execution: ToolExecution = "auto"
    interrupt_mode: InterruptMode = "immediate"
    shell: Shell = field(default_factory=Shell)
    retry: RetrySettings = field(default_factory=RetrySettings)
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    branch_summary: BranchSummarySettings = field(default_factory=BranchSummarySettings)
    cycled_models: Sequence[ScopedModel] | None = None
    resize_images: bool = True
    """Switch for scaling images that are too large for a model; otherwise they are rejected."""
    approve: ApproveMode = "never"
    plans: bool = False
    """Whether a plan is made: until that ends only looks are allowed, whatever ``approve`` is."""
    effects: Mapping[EffectKind, Decision] = field(default_factory=dict["EffectKind", "Decision"])
    """Decisions on kinds of effects, where they differ from the mode of ``approve``."""
    allowed: dict[str, None] = field(default_factory=dict[str, None])
    """Rules that answers "always in this session" have made; see ``approval.rules``."""
    is_own_file: Callable[[Path], bool] = field(default=lambda _: False)
    """Returns whether this conversation's calls have made a file, which is as they left it; given its real path."""
    sandbox: SandboxMode = "off"
    """Sandbox mode of the session's programs. Chosen at its start: changing it here has no effect."""
    tools: ToolSettings = field(default_factory=ToolSettings)
    vault: Vault = field(default_factory=Vault)
    """Store of secrets, which keeps them out of messages and of tools' outputs."""
    jobs: Jobs | None = None
    """Tool calls that go on in the background; without it every call is waited for."""
    cells: bool = False
    """Whether code that changes something is written as cells, in a notebook whose page can insert some."""
    max_cost: float | None = None
    """US dollars that the session may spend from its start on. Chosen at its start: changing it here has no effect."""
    max_turns: int | None = None
    """Most answers that a prompt may have; ``None`` for no limit."""
    timeout: float | None = None
    """Seconds for which a prompt may be worked on; ``None`` for no limit."""

    @property
    def approve_now(self) -> ApproveMode:
        """Return the mode that counts for calls at present."""
        return "looks" if self.plans else self.approve


@dataclass(slots=True)
class SessionState:
    """Shared state of the parts of a session."""

    settings: SessionSettings
    registry: ModelRegistry
    store: SessionStore
    conversation: Conversation
    model: Model | None
    thinking_level: ThinkingLevel
    hooks: SessionHooks = field(default_factory=SessionHooks)
    run: Run | None = None
    """Current run, waits between attempts included."""
    problems: list[str] = field(default_factory=list[str])
    """Sentences for the user about what is wrong with settings, files and models."""
    _payer: Payer | None = field(default=None, init=False)

    @property
    def payer(self) -> Payer:
        """Return the payer of every request of the session."""
        if self._payer is None:
            from indus_nb.core.limits import Budget, Payer  # with the first request, or what prepares it

            self._payer = Payer(Budget(self.settings.max_cost, of_session=True))
        return self._payer

    def provider_of(self, model: Model) -> Provider:
        """Return the provider of ``model``, where each request is paid for; raises as ``ModelRegistry.provider_of``."""
        return self.payer.provider_for(self.registry.provider_of(model))

    @property
    def messages(self) -> list[Message]:
        """Return the conversation, oldest message first."""
        return self.conversation.messages

    @property
    def last_answer(self) -> AssistantMessage | None:
        """Return the newest answer, failed ones included."""
        return self.conversation.last_answer
