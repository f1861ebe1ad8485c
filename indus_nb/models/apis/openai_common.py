"""Parts that OpenAI's two APIs share: pieces of their requests, and an answer while it streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import cast

from indus_nb.base.messages import AssistantMessage, ImageContent, StopReason, ThinkingLevel
from indus_nb.base.streaming import AssistantMessageEvent, GrowingMessage
from indus_nb.base.wire import JsonObject
from indus_nb.models.apis.rules import is_openai, takes_cache_key, takes_cache_options
from indus_nb.models.catalog import Model
from indus_nb.models.http.sse import StreamedError
from indus_nb.models.protocol import StreamOptions

_MAX_CACHE_KEY = 64
_TIERS = {"flex": 0.5, "batch": 0.5}
"""Shares of the usual prices, by the tier that a request was served in."""
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 16384}
FILTERED = "The provider's content filter stopped the answer. Rephrase the request, or take another model."


# --- what is asked ---------------------------------------------------------------------------------------------------


def effort(model: Model, options: StreamOptions) -> str | None:
    """Return the API's name of the thinking level.

    Args:
        model: The model, whose ``thinking_level_map`` and ``compat`` count.

    Returns:
        The API's name of the level; ``None`` when the request must not name one.
    """
    if not model.reasoning or (model.compat or {}).get("supportsReasoningEffort") is False:
        return None
    names: dict[ThinkingLevel, str | None] = {"off": None, "xhigh": model.top_effort}
    return {**names, **(model.thinking_level_map or {})}.get(options.thinking, options.thinking)


def answer_limit(model: Model, options: StreamOptions) -> int | None:
    """Return the limit of an answer in tokens, thinking included.

    Args:
        options: The limit without thinking, the thinking level and its budgets.

    Returns:
        Tokens; ``None`` leaves the limit to the server.
    """
    if options.max_tokens is None:
        return None
    thinking = 0
    if model.reasoning and options.thinking != "off":
        thinking = options.thinking_budgets.get(options.thinking, _BUDGETS[options.thinking])
    return min(options.max_tokens + thinking, model.max_tokens)


def cache_fields(model: Model, options: StreamOptions) -> JsonObject:
    """Return the fields of a request that concern the prompt cache, which OpenAI's servers keep by themselves.

    How long they keep it is left to them: longer than five minutes in any case but where an organisation's agreement
    forbids that.
    """
    if options.cache_retention == "none":
        return {"prompt_cache_options": {"mode": "explicit"}} if takes_cache_options(model) else {}
    if options.session_id is None or not takes_cache_key(model):
        return {}
    return {"prompt_cache_key": options.session_id[:_MAX_CACHE_KEY]}


def image_url(image: ImageContent) -> str:
    """Return the image's URL, or the image itself as a data URL."""
    return image.source.url if image.source is not None else f"data:{image.mime_type};base64,{image.data}"


def is_own(message: AssistantMessage, model: Model) -> bool:
    """Return whether signed parts of an earlier answer are valid for a model.

    Args:
        model: The model to ask now.

    Returns:
        Whether the answer is of the same model by the same API.
    """
    return (message.api, message.provider, message.model) == (model.api, model.provider, model.id)


# --- what is answered ------------------------------------------------------------------------------------------------


class BadEventError(ValueError):
    """An event that the API's documentation does not allow."""


class OpenAIAnswer(ABC):
    """An answer while it arrives, which converts events of the API to ours.

    The API's events come as plain objects.

    Attributes:
        whole: Whether nothing but counts can follow.
        stop_reason: Why it ended; final after ``end``.
        problem: Why an answer that arrived in order is a failure all the same.
    """

    def __init__(self, model: Model) -> None:
        self.growing: GrowingMessage = GrowingMessage(api=model.api, provider=model.provider, model=model.id)
        self.started = False
        self.whole = False
        self.complete: bool = False
        self.stop_reason: StopReason = "stop"
        self.problem: str | None = None
        self._cost = model.cost
        self._has_tiers = model.provider == "openai" or is_openai(model.base_url)

    def handle(self, event: object) -> Iterable[AssistantMessageEvent]:
        """Return what ``event`` adds to the answer.

        Raises ``BadEventError``, or ``StreamedError`` for an event that tells of an error, whatever its name.
        """
        if isinstance(event, dict) and (error := cast("JsonObject", event).get("error")):
            raise StreamedError(error)
        return self.added_by(cast("object", event))

    @abstractmethod
    def added_by(self, event: object) -> Iterable[AssistantMessageEvent]:
        """Return what an event adds that is no error; raise as ``handle`` does."""

    @abstractmethod
    def delta_in(self, event: object) -> tuple[object, str] | None:
        """Return the delta of an event; see ``handling.GrowingAnswer``."""

    @abstractmethod
    def with_delta(self, event: JsonObject, text: str) -> JsonObject:
        """Return an event with another text; see ``handling.GrowingAnswer``.

        Returns:
            An event that says the same with this text.
        """

    @abstractmethod
    def end(self) -> Iterable[AssistantMessageEvent]:
        """Close the blocks that are still open; ``stop_reason`` is final afterwards."""

    def count(
        self,
        *,
        prompt: int,
        cached: int,
        written: int,
        output: int,
        total: int,
        for_hour: bool = False,
        tier: object = None,
    ) -> None:
        """Set the usage.

        Not every server counts the tokens of thinking in ``output``, but all count them in ``total``.

        Args:
            prompt: Tokens of the request, ``cached`` and ``written`` among them.
            cached: Tokens that were read from the prompt cache.
            written: Tokens that were written to it.
            output: Tokens of the answer.
            for_hour: Whether what was written is kept for an hour, which costs more.
            tier: How OpenAI says that it has served the request.
        """
        used = self._cost.usage(
            input=max(0, prompt - cached - written),
            output=max(output, total - prompt),
            cache_read=cached,
            cache_write=written,
            cache_write_hour=written if for_hour else 0,
        )
        share = {**_TIERS, "priority": self._cost.priority_share}.get(str(tier), 1) if self._has_tiers else 1
        self.growing.usage = used.replace(cost=used.cost.scaled(share))


def text_in(fields: JsonObject, name: str) -> str:
    """Read a text of an event.

    Returns:
        The text; empty when there is none.

    Raises:
        BadEventError: The field is anything else.
    """
    value: object = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadEventError(f"{name} is no text")
    return value


def number_in(fields: object, name: str) -> int:
    """Read a count of an event.

    Args:
        fields: An object of the event, or anything else.

    Returns:
        A whole number above 0, else 0.
    """
    value: object = cast("JsonObject", fields).get(name) if isinstance(fields, dict) else None
    return value if isinstance(value, int) and value > 0 else 0


def object_in(fields: JsonObject, name: str) -> JsonObject:
    """Read an object of an event.

    Returns:
        The object; empty when there is none.
    """
    value: object = fields.get(name)
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def list_in(fields: JsonObject, name: str) -> list[object]:
    """Read a list of an event.

    Returns:
        The list; empty when there is none.

    Raises:
        BadEventError: The field is anything else.
    """
    value: object = fields.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadEventError(f"{name} is no list")
    return cast("list[object]", value)
