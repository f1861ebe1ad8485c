"""Choice of a session's model, of how much it thinks, and of what a request to it needs.

What this module promises:

- Without a model one is looked for again before each activity, so that a key counts as soon as it is there.
- The thinking level is always one that the model knows (the nearest one to what was asked for).
- What the first request to another model needs is imported in a thread as soon as that is chosen.
- A change is in the session file before it counts, and counts from the next request on, also in a run that goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast, get_args

from indus_nb.base.errors import IndusError, MissingKeyError, ModelNotFoundError, SessionFileError
from indus_nb.base.events import ModelChanged, ThinkingLevelChanged
from indus_nb.base.messages import AssistantMessage, ThinkingLevel, for_model
from indus_nb.core.session.compaction import Summariser
from indus_nb.core.session.conversation import ContextUsage, TokenCount
from indus_nb.core.session.publisher import Publisher
from indus_nb.core.session.state import SessionState
from indus_nb.core.storage.format import StoredContext
from indus_nb.models import Context, Model, StreamOptions, ToolSpec
from indus_nb.models.http.preloading import preload_in_background
from indus_nb.models.protocol import CacheRetention, count_tokens
from indus_nb.models.registry import ScopedModel

if TYPE_CHECKING:
    from indus_nb.models.prompt_cache import PromptPrice


class ModelChoice:
    """The model and thinking level of one session."""

    def __init__(self, state: SessionState, publisher: Publisher) -> None:
        self._state = state
        self._publisher = publisher
        self.usual: Callable[[], Model | None] = lambda: None
        """Callback for the model to use when none was chosen; set by the opener of the session."""
        self.is_usual: bool = False
        """``True`` while the model is the usual one: the user has chosen none, in settings or for this session."""
        self._pause: tuple[str, int] | None = None
        """The session that has waited for longer than a short cache lives, and the time of the answer before that."""

    # What is chosen

    async def choose_if_none(self) -> None:
        """Choose the usual model if there is none yet and one can be used by now.

        Raises:
            SessionFileError: The session file cannot be written.
        """
        if self._state.model is None and (model := self.usual()) is not None:
            await self.set_model(model)
            self.is_usual = True

    @property
    def required(self) -> Model:
        """Return the model; raises ``CredentialsError`` without one."""
        if self._state.model is None:
            raise MissingKeyError(
                "none",
                "No model is chosen. Set ANTHROPIC_API_KEY to use Claude, or start with --provider offline, "
                "which needs neither key nor network (and is no language model).",
            )
        return self._state.model

    def stream_options(self, model: Model) -> StreamOptions:
        """Return the options of a request to ``model`` besides the conversation.

        Raises ``CredentialsError``.
        """
        state, settings = self._state, self._state.settings
        return StreamOptions(
            api_key=state.registry.key_for(model),
            key_from=partial(state.registry.key_from, model),
            thinking=state.thinking_level,
            thinking_budgets=settings.thinking_budgets,
            idle_timeout=settings.retry.provider.idle_timeout,
            cache_retention=self.cache_retention,
            is_continued=settings.is_continued,
            shared_characters=settings.shared_characters,
            session_id=state.store.session_id if settings.is_continued else None,
            on_request=state.hooks.request,
            on_response=state.hooks.response,
        )

    @property
    def cache_retention(self) -> CacheRetention:
        """Return how long the provider is to keep the conversation for the next request."""
        from indus_nb.models.prompt_cache import SHORT_SECONDS  # with the first request

        session, answer = self._state.store.session_id, self._state.last_answer
        if self._pause is not None and self._pause[0] != session:
            self._pause = None
        if self._pause is None and answer is not None and _seconds_since(answer) > SHORT_SECONDS:
            self._pause = session, answer.timestamp
        return self._retention(has_paused=self._pause is not None)

    def _retention(self, *, has_paused: bool) -> CacheRetention:
        from indus_nb.models.prompt_cache import retention_for

        settings = self._state.settings
        return retention_for(settings.cache_retention, settings.usual_cache_retention, has_paused=has_paused)

    def prompt_price(self) -> PromptPrice | None:
        """Return what the next request costs for the conversation so far, before its answer.

        Returns ``None`` without a model, an answer or a known price.
        """
        from indus_nb.models.prompt_cache import prompt_price

        model, answer = self._state.model, self._state.last_answer
        if model is None or answer is None:
            return None
        retention = self.cache_retention
        before = self._retention(has_paused=self._pause is not None and self._pause[1] != answer.timestamp)
        tokens = self._state.conversation.tokens().total
        is_its_own = (answer.provider, answer.model) == (model.provider, model.id)  # another's cache is of no use
        return prompt_price(model, tokens, _seconds_since(answer) if is_its_own else None, retention, before)

    def summariser(self) -> Summariser:
        """Return the summariser that uses the chosen model.

        Raises ``CredentialsError``.
        """
        model = self.required
        options = self.stream_options(model)
        provider = self._state.provider_of(model)
        retry = self._state.settings.retry

        def limited(max_tokens: int) -> StreamOptions:
            return replace(options, max_tokens=max_tokens, cache_retention="none")  # for nothing goes on from a summary

        return Summariser(model, provider, limited, retry)

    def context_usage(self) -> ContextUsage | None:
        """Return the fill level of the model's context.

        Returns ``None`` without a model or a known limit.
        """
        model = self._state.model
        return self._state.conversation.usage(model) if model is not None and model.context_window else None

    async def count_tokens(self, system_prompt: str, tools: Sequence[ToolSpec]) -> TokenCount:
        """Return the token count of the next request, counted by the server if it can.

        Returns:
            The count, and why it is an estimate if it is one.

        Raises:
            CredentialsError: There is no model.
        """
        model = self.required
        state = self._state
        messages = for_model(await state.hooks.context(state.conversation.sent()))
        try:
            options = self.stream_options(model)
            context = Context(system_prompt, messages, tools)
            tokens = await count_tokens(state.provider_of(model), model, context, options)
        except IndusError as error:
            return TokenCount(
                tokens=state.conversation.estimate(system_prompt, tools), is_exact=False, reason=str(error)
            )
        return TokenCount(tokens=tokens, is_exact=True)

    def preload(self) -> None:
        """Import in a thread the modules that the first request to the model needs.

        Does nothing without one.
        """
        if self._state.model is not None:
            preload_in_background(self._state.registry.provider_of(self._state.model).preload)

    # Changing it

    async def set_model(self, model: Model) -> None:
        """Choose another model, from the next request on.

        Raises:
            SessionFileError: The session file cannot be written.
            CredentialsError: A run goes on that could not use it. In both cases nothing has changed.
        """
        state = self._state
        provider = state.provider_of(model)
        options = self.stream_options(model) if state.run is not None else None
        state.store.append("model_change", provider=model.provider, modelId=model.id)
        state.model = model
        self.is_usual = False
        self.preload()
        if state.run is not None and options is not None:
            options = replace(options, must_call=state.run.options.must_call)
            state.run.model, state.run.provider, state.run.options = model, provider, options
        await self._publisher.emit(ModelChanged(provider=model.provider, model_id=model.id))
        await self.set_thinking_level(state.thinking_level)

    async def set_thinking_level(self, level: ThinkingLevel) -> ThinkingLevel:
        """Set how much the model thinks, from the next request on.

        Returns the nearest level that the model knows.
        """
        state = self._state
        level = self.clamped(level)
        if level != state.thinking_level:
            state.store.append("thinking_level_change", thinkingLevel=level)
            state.thinking_level = level
            await self._publisher.emit(ThinkingLevelChanged(level=level))
        if state.run is not None:
            state.run.options = replace(state.run.options, thinking=level)
        return level

    async def cycle_model(self) -> Model | None:
        """Choose the next of the models to cycle through, by default all available ones.

        Returns ``None`` without another.

        A thinking level that was named with it is set as well. The offline demonstration is left out unless it is
        chosen already: it is used only when asked for.
        """
        state = self._state
        offline = state.model is not None and state.model.provider == "offline"
        models = state.settings.cycled_models or [
            ScopedModel(model) for model in state.registry.available() if offline or model.provider != "offline"
        ]
        at = next((index for index, scoped in enumerate(models) if scoped.model == state.model), -1)
        if len(models) < 2:
            return None
        chosen = models[(at + 1) % len(models)]
        await self.set_model(chosen.model)
        if chosen.thinking_level is not None:
            await self.set_thinking_level(chosen.thinking_level)
        return chosen.model

    async def cycle_thinking_level(self) -> ThinkingLevel | None:
        """Raise the thinking level, or turn thinking off after the highest.

        Returns ``None`` when the model knows only one level.
        """
        state = self._state
        levels = state.model.thinking_levels if state.model is not None else ()
        if len(levels) < 2:
            return None
        return await self.set_thinking_level(levels[(levels.index(state.thinking_level) + 1) % len(levels)])

    # In the session file

    def clamped(self, level: ThinkingLevel) -> ThinkingLevel:
        """Return the nearest level that the model knows."""
        return self._state.model.nearest_thinking_level(level) if self._state.model is not None else level

    def record_start(self, stored: StoredContext) -> None:
        """Save model and thinking level where the session file has others.

        Raises ``SessionFileError``.
        """
        state = self._state
        if state.model is not None and stored.model != (state.model.provider, state.model.id):
            state.store.append("model_change", provider=state.model.provider, modelId=state.model.id)
        if stored.thinking_level != state.thinking_level:
            state.store.append("thinking_level_change", thinkingLevel=state.thinking_level)

    def restore(self, stored: StoredContext) -> None:
        """Restore the model and thinking level of another session.

        They are set as far as they can be used.
        """
        state = self._state
        if stored.model is not None:
            try:
                state.model = state.registry.with_id(stored.model[1], stored.model[0])
                self.is_usual = False
            except ModelNotFoundError as error:
                state.problems.append(model_unavailable(state.model, error))
        if stored.thinking_level in get_args(ThinkingLevel):
            state.thinking_level = self.clamped(cast("ThinkingLevel", stored.thinking_level))
        try:
            self.record_start(stored)
        except SessionFileError as error:
            state.problems.append(str(error))  # the next message fails with it again, where it matters


def _seconds_since(answer: AssistantMessage) -> float:
    """Return the seconds since the model was asked for an answer."""
    return max(0.0, time.time() - answer.timestamp / 1000)


def model_unavailable(other: Model | None, error: ModelNotFoundError) -> str:
    """Describe that a stored session's model cannot be used.

    Args:
        other: the model that the session goes on with, as far as it is known already.
        error: why the session's own model was not found.
    """
    instead = f"continuing with {other.provider}/{other.id}" if other is not None else "continuing with another one"
    return f"The session's model is unavailable; {instead}. {error}"
