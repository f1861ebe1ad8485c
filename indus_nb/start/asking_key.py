"""Questions for a key on a terminal or in a console of Jupyter, where no page can show a form."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from indus_nb.base.errors import CredentialsError, UsageError
from indus_nb.core.session.session import AgentSession
from indus_nb.models import Model
from indus_nb.models.kept_keys import Place
from indus_nb.start.key_setup import Accepted, choose_for_key, managed, providers, take_key

Run = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]
"""Runs a coroutine function on the session's loop, and returns its result."""
_TRIES = 3
_NOT_SAID = "No key was taken. Nothing has changed."


def ask_and_take(session: AgentSession, run: Run, provider: str | None = None, *, goes_on: bool = True) -> Accepted:
    """Ask for provider, key and place of the key, test it, and take it.

    Args:
        provider: The provider, if the user has named it.
        goes_on: Whether this process will use the key.

    Returns:
        What was taken; its text also says what a prompt costs.

    Raises:
        UsageError: Others manage the keys, the provider is unknown, or none is given.
        CredentialsError: Three keys were refused.
    """
    if by := managed():
        raise UsageError(by)
    offered = providers(session.registry)
    model = _chosen(offered) if provider is None else named(offered, provider)
    accepted = _taken(session, run, model, goes_on=goes_on)
    costs: str = run(lambda: choose_for_key(session, accepted.model))
    return replace(accepted, text=f"{accepted.text} {costs}")


def _taken(session: AgentSession, run: Run, model: Model, *, goes_on: bool) -> Accepted:
    place = session.registry.kept.place()
    keep: bool | None = None
    left = _TRIES
    while True:
        left -= 1
        key = _secret(f"Key for {model.provider} (not shown): ")
        keep = (
            _keeps(place, goes_on=goes_on) if keep is None else keep
        )  # a key that is pasted here unasked would be shown
        try:
            return run(partial(take_key, session.registry, model.provider, key, keep=keep, goes_on=goes_on))
        except CredentialsError as error:
            if not left:
                raise
            print(error)  # noqa: T201 - to the user who answers


def _secret(question: str) -> str:
    try:
        key = getpass.getpass(question).strip()
    except EOFError:
        key = ""
    if not key:
        raise UsageError(_NOT_SAID)
    return key


def _chosen(offered: Sequence[Model]) -> Model:
    names = "\n".join(f"  {number}  {model.provider} ({model.name})" for number, model in enumerate(offered, 1))
    question = f"1-{len(offered)}, or a name [{offered[0].provider}]: "
    answer = _answer(f"Whose models?\n{names}\n\n{question}")
    while True:
        if answer.isdecimal() and 1 <= int(answer) <= len(offered):
            return offered[int(answer) - 1]
        try:
            return named(offered, answer) if answer else offered[0]
        except UsageError as error:
            print(error)  # noqa: T201 - to the user who answers
        answer = _answer(question)


def named(offered: Sequence[Model], provider: str) -> Model:
    """Return the model of a provider; raises ``UsageError`` where none is offered."""
    found = next((model for model in offered if model.provider == provider.casefold()), None)
    if found is None:
        raise UsageError(f"No such provider takes a key. There are: {', '.join(model.provider for model in offered)}.")
    return found


def _keeps(place: Place, *, goes_on: bool) -> bool:
    if not place.name:
        then = "The key is used in this process only." if goes_on else "The key is tested only."
        print(f"{place.note} {then}")  # noqa: T201 - to the user who answers
        return False
    if place.note:
        print(place.note)  # noqa: T201 - to the user who answers
    while True:
        answer = _answer(f"Keep it in {place.name}? [Y/n] ").casefold()
        if answer in ("", "y", "yes", "n", "no"):
            return answer not in ("n", "no")
        print("Answer y or n.")  # noqa: T201 - to the user who answers


def _answer(question: str) -> str:
    try:
        return input(question).strip()
    except EOFError:
        raise UsageError(_NOT_SAID) from None
