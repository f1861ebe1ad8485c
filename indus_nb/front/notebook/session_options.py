"""Conversion of the options of ``%agent`` to those of the session that it starts or resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from indus_nb.start import SessionOptions

if TYPE_CHECKING:
    from indus_nb.core.session.session import AgentSession, ApproveMode
    from indus_nb.core.session.state import SandboxMode
    from indus_nb.front.notebook.magic import Request
    from indus_nb.models import Model

_JOBS_AFTER = 120.0


def session_options(
    request: Request,
    last: Path | None,
    like: AgentSession | None,
    extensions: Sequence[Any],
    more_tools: Sequence[str],
    place: str,
    restored: tuple[Model | None, str | None] = (None, None),
) -> SessionOptions:
    """Build the session options that a cell asks for.

    Args:
        last: The notebook's last conversation, if it is to be resumed.
        like: The previous conversation, whose tools are chosen again; a new one also gets its model and thinking.
        extensions: What the session gets of the notebook.
        place: What its system prompt says of where it works.
        restored: A model and a thinking level of the previous one that a new one does not get.
    """
    options = SessionOptions(
        provider=request.provider,
        model=request.model,
        thinking=request.thinking,
        session=request.session if last is None else str(last),
        continue_last=request.continue_last and last is None,
        no_session=request.no_session,
        tools=None if request.tools is None else request.tools.replace(",", " ").split(),
        approve=cast("ApproveMode | None", request.approve),
        sandbox=cast("SandboxMode | None", request.sandbox),
        usual_approve="effects",
        usual_jobs_after=_JOBS_AFTER,
        usual_cache_retention="long",
        typed_prompts=True,
        plans=True,
        trust=request.trust,
        extensions=extensions,
        more_tools=more_tools,
        place=place,
    )
    if like is None:
        return options
    options = replace(
        options,
        tools=like.chosen_tools if options.tools is None else options.tools,
        approve=options.approve or like.settings.approve,
        sandbox=options.sandbox or like.settings.sandbox,
    )
    if request.session is None and not request.continue_last:
        model = None if like.model == restored[0] else like.model
        if request.provider is None and request.model is None and model is not None:
            options = replace(options, provider=model.provider, model=model.id)
        level = None if like.thinking_level == restored[1] else like.thinking_level
        options = replace(options, thinking=request.thinking or level)
    return options


def as_before(session: AgentSession, options: SessionOptions) -> SessionOptions:
    """Return the options that reopen a session as it is."""
    model = session.model
    return replace(
        options,
        session=str(session.store.path),
        continue_last=False,
        provider=model.provider if model is not None else None,
        model=model.id if model is not None else None,
        thinking=session.thinking_level,
        tools=session.chosen_tools,
        approve=session.settings.approve,
        sandbox=session.settings.sandbox,
    )


def check_key(session: AgentSession, options: SessionOptions) -> None:
    """Check that there is a key for a model that was asked for.

    Raises:
        CredentialsError: There is none.
    """
    if session.model is not None and (options.provider is not None or options.model is not None):
        session.registry.key_for(session.model)
