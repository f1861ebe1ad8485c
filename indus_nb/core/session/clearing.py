"""Old results of tools that a conversation goes on without: which, when, and what the model reads instead.

What this module promises:

- A result is cleared at the moment a prompt begins, and stays cleared: the decision is an entry of the session, so that
  forks, branches and reopened sessions send the same, and the beginning of every request is that of the one before.
- It is cleared when the provider has lost the conversation anyway, or where sending the rest anew costs less than
  reading the old results again and again.
- Cleared are results of tools alone, long ones, and never the latest. What the user and the model have said, what the
  user attached, calls and their arguments stay. The file and views keep everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from indus_nb.base.errors import SessionFileError
from indus_nb.base.messages import AssistantMessage, Message, ToolResultMessage, UserMessage, text_of
from indus_nb.core.session import cleared
from indus_nb.core.session.compaction import estimated_tokens
from indus_nb.core.storage.format import CLEARED

if TYPE_CHECKING:
    from indus_nb.core.session.model_choice import ModelChoice
    from indus_nb.core.session.state import SessionState
    from indus_nb.core.session.toolbox import Toolbox
    from indus_nb.models import Model

_WORTH_TOKENS = 30_000
"""Tokens of a conversation from which on clearing is worth what may have to be looked up again."""
_LEAST_TOKENS = 2_000
"""Least tokens that are saved: for fewer nothing is sent anew."""
_LEAST_SHARE = 0.25
"""Least share of a conversation that is saved where the provider has it: else the next prompt would clear again."""
_KEPT_RESULTS = 3
_KEPT_PROMPTS = 2
"""Prompts whose results are kept as well while the provider has the conversation: they are being worked with."""
_LONG_CHARACTERS = 600
"""Length from which on a result is longer than what stands in its place."""
_MOST_REQUESTS = 50
_DEAR = 0.10
"""US dollars from which on a message is said to be dear."""


class Clearing:
    """Decides which results one session goes on without, and what its next message costs then."""

    def __init__(self, state: SessionState, models: ModelChoice, toolbox: Toolbox) -> None:
        self._state = state
        self._models = models
        self._toolbox = toolbox

    def begin(self, model: Model) -> None:
        """Clear old results before a prompt, where that is cheaper than to send them."""
        old, _ = self._plan(model)
        if not old:
            return
        conversation = self._state.conversation
        data = {
            "results": [[*cleared.key(message), self._is_repeatable(message.tool_name)] for message in old],
            "countedAt": conversation.counted_at,
        }
        with suppress(SessionFileError):  # what stands in the way of that stands in the way of the messages too
            self._state.store.append("custom", custom_type=CLEARED, data=data)
            conversation.clear(cleared.results_in([data]))

    def _is_repeatable(self, name: str) -> bool:
        tool = self._toolbox.active.get(name)
        return tool is not None and tool.read_only and not getattr(tool, "keeps_state", False)

    def notice(self) -> str | None:
        """Return a sentence before a message that is dear because the provider has lost the conversation."""
        model, price = self._state.model, self._models.prompt_price()
        tokens = self._state.conversation.tokens().total
        if model is None or price is None or not tokens:
            return None
        share = max(0.0, 1 - self._plan(model)[1] / tokens)
        if not price.is_expired or price.now * share < _DEAR:
            return None
        now, cached = price.now * share, price.cached * share
        return f"The cache has expired: this message costs about ${now:.2f}, instead of ${cached:.2f}."

    def saves(self) -> int:
        """Return about how many tokens of old results the next message goes without."""
        return 0 if self._state.model is None else self._plan(self._state.model)[1]

    def _plan(self, model: Model) -> tuple[list[ToolResultMessage], int]:
        """Return the results to clear, and about how many tokens that saves."""
        conversation, price = self._state.conversation, self._models.prompt_price()
        tokens = conversation.usage(model).tokens
        off = not self._state.settings.tools.clear_old_results
        if off or price is None or tokens is None or tokens <= _WORTH_TOKENS:
            return [], 0
        messages = conversation.sent()
        old = _old_results(messages, keeps_prompts=not price.is_expired)
        saved = sum(map(estimated_tokens, old))
        pays = price.is_expired or (saved >= _LEAST_SHARE * tokens and self._pays(model, messages, old, saved))
        return (old, saved) if pays and saved >= _LEAST_TOKENS else ([], 0)

    def _pays(self, model: Model, messages: Sequence[Message], old: Sequence[ToolResultMessage], saved: int) -> bool:
        """Return whether clearing costs less than it saves, if as many requests follow as there were.

        What comes after the first cleared result is written to the cache anew; in turn each request reads less.
        """
        from indus_nb.models.prompt_cache import price_anew  # with the first request

        cost = model.cost
        if not cost.cache_write or not cost.cache_read:
            return False
        first = next(index for index, message in enumerate(messages) if message is old[0])
        anew = sum(map(estimated_tokens, messages[first:])) - saved
        requests = min(sum(isinstance(message, AssistantMessage) for message in messages), _MOST_REQUESTS)
        written = price_anew(model, anew, self._models.cache_retention)
        return (saved * requests + anew) * cost.cache_read / 1e6 > written


def _old_results(messages: Sequence[Message], *, keeps_prompts: bool) -> list[ToolResultMessage]:
    """Return the long results before the latest ones, and before those of the latest prompts if these are kept."""
    results = [index for index, message in enumerate(messages) if isinstance(message, ToolResultMessage)]
    end = results[-_KEPT_RESULTS] if len(results) > _KEPT_RESULTS else 0
    if keeps_prompts:
        prompts = [index for index, message in enumerate(messages) if isinstance(message, UserMessage)]
        end = min(end, prompts[-_KEPT_PROMPTS] if len(prompts) >= _KEPT_PROMPTS else 0)
    return [message for message in messages[:end] if isinstance(message, ToolResultMessage) and _is_long(message)]


def _is_long(message: ToolResultMessage) -> bool:
    return len(text_of(message.content)) > _LONG_CHARACTERS or any(block.type == "image" for block in message.content)
