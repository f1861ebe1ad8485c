"""Verbs about how a session works: its state, its model and thinking level, and its modes."""

from __future__ import annotations

from typing import ClassVar

from indus_nb.base.messages import ThinkingLevel
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import wire_field
from indus_nb.core.loop import InterruptMode, QueueMode
from indus_nb.core.session.conversation import ContextUsage
from indus_nb.front.verbs.verb import MAX_NAME_CHARACTERS, NULL, Call, Verb
from indus_nb.models import Model


class GetState(Verb):
    """The state of the session."""

    names: ClassVar[tuple[str, ...]] = ("get_state",)
    _shown: ClassVar[tuple[Model | None, JsonObject | None]] = None, None

    def run(self, call: Call) -> JsonObject:
        """Return the state."""
        session = call.session
        model, on_wire = GetState._shown
        if model is not session.model:  # a model never changes, and the state is asked for often
            model = session.model
            on_wire = model and model.to_wire()
            GetState._shown = model, on_wire
        state: JsonObject = {
            "model": on_wire,
            "thinkingLevel": session.thinking_level,
            "isStreaming": session.is_running,
            "isCompacting": session.is_compacting,
            "steeringMode": session.steering.mode,
            "followUpMode": session.follow_up_queue.mode,
            "interruptMode": session.settings.interrupt_mode,
            "sessionId": session.store.session_id,
            "autoCompactionEnabled": session.settings.compaction.enabled,
            "autoRetryEnabled": session.settings.retry.enabled,
            "messageCount": len(session.conversation),
            "pendingMessageCount": session.pending_count,
            "queuedMessageCount": session.pending_count,
        }
        if (usage := session.context_usage()) is not None:
            state["contextUsage"] = context_usage(usage)
        if session.store.path is not None:
            state["sessionFile"] = str(session.store.path)
        if session.store.name is not None:
            state["sessionName"] = session.store.name
        return state


def context_usage(usage: ContextUsage) -> JsonObject:
    """Return how full a model's context is, as it is on the wire."""
    return {"tokens": usage.tokens, "contextWindow": usage.context_window, "percent": usage.percent}


class SetModel(Verb):
    """Use another model."""

    names: ClassVar[tuple[str, ...]] = ("set_model",)
    for_pages: ClassVar[bool] = True
    provider: str = wire_field(max_length=MAX_NAME_CHARACTERS)
    model_id: str = wire_field(max_length=MAX_NAME_CHARACTERS)

    async def run(self, call: Call) -> Model:
        """Use the model from now on.

        Raises:
            ModelNotFoundError: There is no such model.
        """
        model = call.session.registry.with_id(self.model_id, self.provider)
        await call.session.set_model(model)
        return model


class GetAvailableModels(Verb):
    """The models that can be chosen."""

    names: ClassVar[tuple[str, ...]] = ("get_available_models",)

    def run(self, call: Call) -> JsonObject:
        """List the models."""
        return {"models": call.session.available_models()}


class CycleModel(Verb):
    """Use the next available model; null when there is no other."""

    names: ClassVar[tuple[str, ...]] = ("cycle_model",)

    async def run(self, call: Call) -> object:
        """Use the next model."""
        model = await call.session.cycle_model()
        if model is None:
            return NULL
        return {
            "model": model,
            "thinkingLevel": call.session.thinking_level,
            "isScoped": call.session.settings.cycled_models is not None,
        }


class SetThinkingLevel(Verb):
    """Set the thinking level; the nearest level that the model has is used."""

    names: ClassVar[tuple[str, ...]] = ("set_thinking_level",)
    for_pages: ClassVar[bool] = True
    level: ThinkingLevel

    async def run(self, call: Call) -> None:
        """Use the level from now on."""
        await call.session.set_thinking_level(self.level)


class CycleThinkingLevel(Verb):
    """Use the model's next thinking level; null when there is no other."""

    names: ClassVar[tuple[str, ...]] = ("cycle_thinking_level",)

    async def run(self, call: Call) -> object:
        """Use the next level."""
        level = await call.session.cycle_thinking_level()
        return NULL if level is None else {"level": level}


class GetAvailableThinkingLevels(Verb):
    """The thinking levels that the model has."""

    names: ClassVar[tuple[str, ...]] = ("get_available_thinking_levels",)

    def run(self, call: Call) -> JsonObject:
        """List the levels."""
        model = call.session.model
        return {"levels": model.thinking_levels if model is not None else ["off"]}


class SetSteeringMode(Verb):
    """Whether steering messages are delivered one at a time or all at once."""

    names: ClassVar[tuple[str, ...]] = ("set_steering_mode",)
    mode: QueueMode

    def run(self, call: Call) -> None:
        """Set the mode."""
        call.session.steering.mode = self.mode


class SetFollowUpMode(Verb):
    """Whether follow-up messages are delivered one at a time or all at once."""

    names: ClassVar[tuple[str, ...]] = ("set_follow_up_mode",)
    mode: QueueMode

    def run(self, call: Call) -> None:
        """Set the mode."""
        call.session.follow_up_queue.mode = self.mode


class SetInterruptMode(Verb):
    """Whether a steering message skips the tool calls that have not started."""

    names: ClassVar[tuple[str, ...]] = ("set_interrupt_mode",)
    mode: InterruptMode

    def run(self, call: Call) -> None:
        """Set the mode."""
        call.session.set_interrupt_mode(self.mode)


class SetAutoCompaction(Verb):
    """Whether the conversation is compacted automatically when the model's context is nearly full."""

    names: ClassVar[tuple[str, ...]] = ("set_auto_compaction",)
    enabled: bool

    def run(self, call: Call) -> None:
        """Set it."""
        call.session.settings.compaction.enabled = self.enabled


class SetAutoRetry(Verb):
    """Whether an answer that failed for a temporary reason is retried automatically."""

    names: ClassVar[tuple[str, ...]] = ("set_auto_retry",)
    enabled: bool

    def run(self, call: Call) -> None:
        """Set it."""
        call.session.settings.retry.enabled = self.enabled
