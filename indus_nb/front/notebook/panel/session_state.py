"""Parts of a session, as values of the state that a panel's pages show."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import cast

from indus_nb.base import textcut
from indus_nb.base.messages import Message
from indus_nb.base.wire import dump
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage import SessionStore
from indus_nb.front.notebook.actions import price
from indus_nb.front.notebook.page import states
from indus_nb.kernel.claims.stored import text_with_values
from indus_nb.render.tree import tree_rows
from indus_nb.tools.jobs import Job

_MAX_HISTORY_MESSAGES = 200
_MAX_HISTORY_CHARACTERS = 200_000
"""Most characters of a history: to draw as many keeps the agent's thread busy for a third of a second."""
_MAX_ROWS = 500
_MAX_QUEUED = 100
_MAX_QUEUED_CHARACTERS = 2_000
_MINUTE = 60


def model_name(session: AgentSession) -> str:
    """Return the display name of the session's model."""
    return session.model.name if session.model is not None else "no model"


def models(session: AgentSession) -> list[states.ModelChoice]:
    """List the models that can be chosen."""
    return [
        {
            "provider": each.provider,
            "id": each.id,
            "name": each.name,
            "reasoning": each.reasoning,
            "price": price(each),
        }
        for each in session.available_models()
    ]


def context(session: AgentSession) -> states.ContextFill | None:
    """Return the usage of the model's context; ``None`` if it is not known."""
    usage = session.context_usage()
    if usage is None or usage.tokens is None or not usage.context_window:
        return None
    return {"tokens": usage.tokens, "window": usage.context_window}


def newest(newest_first: Iterable[Message]) -> list[Message]:
    """Return the newest messages, oldest first: as many as fit into a page, and at least one."""
    found: list[Message] = []
    size = 0
    for message in islice(newest_first, _MAX_HISTORY_MESSAGES):
        size += len(dump(message))
        if found and size > _MAX_HISTORY_CHARACTERS:
            break
        found.append(message)
    return found[::-1]


def commands(session: AgentSession) -> list[states.Command]:
    """List the session's slash commands."""
    needy = {each.name for each in session.equipment.resources.templates if each.needs_arguments}
    return [
        {
            "name": each["name"],
            "description": each.get("description") or "",
            "source": each["source"],
            "whole": each["source"] == "skill" or (each["source"] == "prompt" and each["name"] not in needy),
        }
        for each in session.list_commands()
    ]


def tree(store: SessionStore) -> list[states.TreeRow]:
    """Build the tree rows of a session's entries."""
    return cast("list[states.TreeRow]", tree_rows(store, _MAX_ROWS, text_with_values(store.entries)))


def jobs(session: AgentSession) -> list[states.RunningJob]:
    """List the calls that are running as jobs."""
    known = session.settings.jobs
    return [
        {"id": job.id, "tool": job.tool, "title": job.what, "ran": _state(job)}
        for job in (() if known is None else known.running)
    ]


def _state(job: Job) -> str:
    if not job.over:
        return ran(job.seconds)
    return f"ended after {ran(job.seconds)}, waits for your {'answer' if job.asks else 'cell'}"


def ran(seconds: float) -> str:
    """Format an elapsed time, by the second for a minute, then by the minute: each change is sent to pages.

    >>> ran(5.4), ran(130), ran(7380)
    ('5 s', '2 min', '2 h 3 min')
    """
    minutes = int(seconds) // _MINUTE
    if minutes == 0:
        return f"{int(seconds)} s"
    return f"{minutes} min" if minutes < _MINUTE else f"{minutes // _MINUTE} h {minutes % _MINUTE} min"


def shortened(text: str) -> str:
    """Shorten a queued message for the pages."""
    return textcut.head(text, _MAX_QUEUED_CHARACTERS)


def waiting(texts: Iterable[str]) -> list[str]:
    """Return the first queued messages, shortened."""
    return [shortened(text) for text in islice(texts, _MAX_QUEUED)]
