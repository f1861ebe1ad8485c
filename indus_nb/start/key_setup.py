"""A key for a model provider, from a form or a terminal: who can be given one, the test of it, and where it is kept."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from indus_nb.base.errors import UsageError
from indus_nb.base.terminal import plain
from indus_nb.base.textcut import one_line
from indus_nb.base.variables import KEYS_FROM, variable
from indus_nb.core.limits.words import cost_in_words
from indus_nb.core.loop.retry import failed_status
from indus_nb.core.session.session import AgentSession
from indus_nb.models import Model
from indus_nb.models.http.refusals import is_about_key
from indus_nb.models.kept_keys import give
from indus_nb.models.registry import ModelRegistry
from indus_nb.safety.key_variables import KEY_VARIABLES

OFFLINE = (
    "Without a key there is --provider offline only: patterns that carry out simple commands, to see how things look. "
    "It is no language model, and no assistant."
)
_ANSWER_TOKENS = 500
_MAX_NAME_CHARACTERS = 200


def managed() -> str:
    """Return the sentence that says who manages keys here; empty where the user does.

    ``INDUS_NB_KEYS_FROM`` names them: ``hub``, or who is to be asked.
    """
    by = one_line(plain(variable(KEYS_FROM) or ""), _MAX_NAME_CHARACTERS)
    if not by:
        return ""
    who = "the hub that started this server: ask those who run it" if by == "hub" else by
    return f"Keys come from {who}."


def variable_of(provider: str) -> str:
    """Return the environment variable for a provider's key; empty where there is none."""
    return next(iter(KEY_VARIABLES.get(provider, ())), "")


def providers(registry: ModelRegistry) -> list[Model]:
    """List the recommended model of each provider that takes a key and can be asked whether it is right."""
    from indus_nb.models.key_check import takes_key

    recommended: dict[str, Model] = {}
    for model in registry.models:
        recommended.setdefault(model.provider, model)
    return [model for model in recommended.values() if takes_key(model) and not registry.is_keyless(model)]


def needs_key(session: AgentSession) -> bool:
    """Return whether a key is wanted: none is known, or the last answer failed for the server refused it.

    No command is run and no keyring is asked.
    """
    model = session.model or session.models.usual()
    if model is None or not session.registry.has_key(model):
        return True
    answer = session.last_answer
    if answer is None or not is_about_key(failed_status(answer), answer.error_message or ""):
        return False
    return session.registry.is_refused(model)  # the key that would be used now, which may be another one


@dataclass(frozen=True, slots=True)
class Accepted:
    """A key that was taken: what became of it, in sentences, and the recommended model of its provider."""

    text: str
    model: Model
    kept: bool = False


async def take_key(registry: ModelRegistry, provider: str, key: str, *, keep: bool, goes_on: bool = True) -> Accepted:
    """Test a key, use it in this process from now on, and keep it if wanted. The test costs nothing.

    Args:
        keep: Whether to keep it for later processes, where ``registry.kept`` has a place for it.
        goes_on: Whether this process will use it; one that only asks for a key ends with it.

    Raises:
        CredentialsError: The provider refuses it; nothing has changed then.
        UsageError: Others manage the keys, the provider is none of ``providers``, or there is no key.
    """
    from indus_nb.models.key_check import check

    if by := managed():
        raise UsageError(f"{by} None is taken here.")
    model = next((model for model in providers(registry) if model.provider == provider), None)
    if model is None:
        raise UsageError("That provider takes no key here.")
    key = key.strip()
    if not key:
        raise UsageError("There is no key: paste it into the field.")
    headers = await asyncio.to_thread(registry.headers_of, model)
    untested = await check(model, key, headers)
    works = f"It could not be tested ({untested})" if untested else f"The key for {provider} works"
    give(provider, key)
    held = "This process has it in memory" if goes_on else "It ends with this program"
    if not keep:
        return Accepted(f"{works}. {held}; nothing else has it.{_older(registry, provider)}", model)
    try:
        place = await asyncio.to_thread(registry.kept.keep, provider, key)
    except UsageError as error:
        return Accepted(f"{works}. {held}. {error}{_older(registry, provider)}", model)
    first = "" if place.is_file else variable_of(provider)
    note = f" {first} goes before it where that is set." if first else ""
    out = f"`indus-nb setup --forget {provider}` takes it out again."
    return Accepted(f"{works}. It is kept in {place.name}. {out}{note}", model, kept=True)


def _older(registry: ModelRegistry, provider: str) -> str:
    """Say that another key is kept, which a new one has not replaced; empty where none is."""
    first = variable_of(provider)
    if provider in registry.kept.file.providers():
        place, when = str(registry.kept.file.path), f"before {first}" if first else "as before"
    elif provider in registry.kept.keyring.providers():
        place, when = "the keyring", f"where {first} is not set" if first else "as before"
    else:
        return ""
    forget = f"`indus-nb setup --forget {provider}` removes it."
    return f" The older key in {place} stays, and later processes use it, {when}: {forget}"


def first_price(session: AgentSession, model: Model) -> str:
    """Say what a first prompt to a model costs, by an estimate of the session's instructions and tools.

    Args:
        session: One that has begun.
    """
    from indus_nb.models.prompt_cache import price_anew

    if not model.cost.known:
        return "What a prompt costs is not known here."
    tools = [tool.spec for tool in session.active_tools.values()]
    tokens = session.state.conversation.estimate(session.system_prompt, tools)
    asked = price_anew(model, tokens, session.models.cache_retention)
    cost = asked + model.cost.usage(input=0, output=_ANSWER_TOKENS).cost.total
    return (
        f"A first prompt costs about {cost_in_words(cost)} or more: {tokens:,} tokens of instructions and tools, and "
        f"an answer of {_ANSWER_TOKENS}; calls, and cells and variables that go along, add to that."
    )


async def choose_for_key(session: AgentSession, model: Model) -> str:
    """Have a session without a usable model go on with the one of a key that was given; say what it costs."""
    await session.start()
    if session.model is None or not session.registry.has_key(session.model):
        await session.set_model(model)
        session.models.is_usual = True
    chosen = session.models.required
    return f"The model is {chosen.name}. {first_price(session, chosen)}"
