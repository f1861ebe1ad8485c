"""Choice of the model that a session starts with, and of those that it cycles through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from indus_nb.base.errors import ModelNotFoundError, UsageError
from indus_nb.base.messages import ThinkingLevel
from indus_nb.core.resources.settings import LoadedSettings
from indus_nb.core.session.model_choice import model_unavailable
from indus_nb.models import Model
from indus_nb.models.catalog import family, own_id, split_level, unknown_cost
from indus_nb.models.registry import ModelRegistry, ScopedModel
from indus_nb.start.options import SessionOptions

THINKING_LEVELS: tuple[ThinkingLevel, ...] = get_args(ThinkingLevel)
DEFAULT_THINKING_LEVEL: ThinkingLevel = "medium"
_MAX_OTHERS = 3


def choose_model(
    options: SessionOptions,
    loaded: LoadedSettings,
    stored: tuple[str, str] | None,
    registry: ModelRegistry,
    cycled: Sequence[ScopedModel],
    problems: list[str],
) -> tuple[Model | None, str | None]:
    """Choose the model, and return it with the level that was named with it.

    It is the requested one, the session's own, the first to cycle through, the one of the settings, or one with a key.

    Args:
        stored: Provider and id of the model that the session had.
        problems: Gets what is wrong and does no harm.

    Returns:
        The model, ``None`` without any that has a key, and the level.

    Raises:
        UsageError: The requested model or provider is unknown.
    """
    provider = registry.default(options.provider).provider if options.provider is not None else None
    if options.model is not None:
        name, level = split_level(options.model)
        try:
            found = registry.named(name, provider)
            problems += _doubts(name, found)
            return found[0], level
        except ModelNotFoundError as error:
            # A gateway or a new model may know more than the catalogue: a user that names the provider is believed.
            named, slash, rest = name.partition("/")
            known = provider or (named if slash and named in {model.provider for model in registry.models} else None)
            if known is None or known == "offline":
                raise
            model_id = own_id(name, provider, registry.models) if provider else rest
            problems.append(f"{error} It is asked for all the same, with the limits of a usual model.")
            return registry.default(known).replace(id=model_id, name=model_id, cost=unknown_cost()), level
    if stored is not None and provider is None:
        try:
            return registry.with_id(stored[1], stored[0]), None
        except ModelNotFoundError as error:
            problems.append(model_unavailable(None, error))
    fitting = [scoped for scoped in cycled if provider in (None, scoped.model.provider)]
    if fitting:
        usable = (scoped for scoped in fitting if scoped.model.api != "offline" and registry.has_key(scoped.model))
        chosen = next(usable, fitting[0])
        return chosen.model, options.thinking or chosen.thinking_level
    return _default_model(provider, options, loaded, registry, problems), None


def _doubts(name: str, found: Sequence[Model]) -> list[str]:
    """Return a sentence if words name models of different kinds, of which the first is taken."""
    taken = found[0]
    others = [f"{model.provider}/{model.id}" for model in found if family(model) != family(taken)]
    if not others:
        return []
    shown = ", ".join(others[:_MAX_OTHERS]) + (", …" if len(others) > _MAX_OTHERS else "")
    return [f"{name} may be several models: {taken.provider}/{taken.id} is taken, not {shown}. An id names one."]


def _default_model(
    provider: str | None, options: SessionOptions, loaded: LoadedSettings, registry: ModelRegistry, problems: list[str]
) -> Model | None:
    settings = loaded.settings
    usual = settings.default_provider
    if usual is not None:
        try:
            usual = registry.default(usual).provider
        except UsageError as error:
            problems.append(f"{loaded.place('defaultProvider')} is rejected. {error}")
            usual = None
    if settings.default_model is not None and provider in (None, usual):
        try:
            return registry.find(settings.default_model, usual)
        except ModelNotFoundError as error:
            problems.append(f"{loaded.place('defaultModel')} is rejected. {error}")
    if (named := provider or usual) is not None:
        return registry.default(named)
    return usual_model(options, registry)


def usual_model(options: SessionOptions, registry: ModelRegistry) -> Model | None:
    """Return the model that is used where none is chosen.

    Args:
        options: Whether a key is given, which is Claude's then.

    Returns:
        The model, ``None`` without any that has a key.
    """
    return registry.default("anthropic") if options.api_key else registry.first_available()


def is_chosen(options: SessionOptions, loaded: LoadedSettings, *others: object) -> bool:
    """Return whether options or settings name a model or a provider.

    Args:
        others: Models that were chosen elsewhere, if any were.

    Returns:
        Whether ``choose_model`` has more to go by than keys.
    """
    settings = loaded.settings
    named = (options.model, options.provider, settings.default_model, settings.default_provider, *others)
    return any(named)


def choose_cycled(
    patterns: Sequence[str] | None, loaded: LoadedSettings, registry: ModelRegistry, problems: list[str]
) -> list[ScopedModel] | None:
    """Resolve the models to cycle through.

    Args:
        patterns: The requested patterns; ``None`` for those of the settings.

    Returns:
        The models in order, or ``None`` for all.

    Raises:
        ModelNotFoundError: No model is called like one of the patterns.
    """
    wanted = loaded.settings.enabled_models if patterns is None else patterns
    chosen: dict[tuple[str, str], ScopedModel] = {}
    for pattern in wanted or ():
        try:
            for scoped in registry.scope(pattern):
                chosen.setdefault((scoped.model.provider, scoped.model.id), scoped)
        except ModelNotFoundError as error:
            if patterns is not None:
                raise
            problems.append(f"{loaded.place('enabledModels')} names an unknown model. {error}")
    return list(chosen.values()) or None


def thinking_level(level: str) -> ThinkingLevel:
    """Return the level with this name; raises ``UsageError`` for another."""
    if level not in THINKING_LEVELS:
        raise UsageError(f"Unknown thinking level: {level}. Choose one of {', '.join(THINKING_LEVELS)}.")
    return level
