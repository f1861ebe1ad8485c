"""Diagnosis of a session: what it is made of, and what is wrong with that, for a person to read."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator

from indus_nb.base.errors import CredentialsError
from indus_nb.core.session.session import AgentSession
from indus_nb.version import __version__

_NO_MODEL = "No model is chosen. {} --provider offline needs none (and is no language model)."
_ASKS = "`indus-nb setup` in a terminal and `%agent key` in a notebook ask for a key and keep it;"


async def diagnosis(session: AgentSession) -> AsyncGenerator[str]:
    """Yield lines about the parts of a session, the sandboxes of this machine, and every known problem.

    Each comes as soon as it is known: the first ones before extensions are loaded, which may take long.
    """
    from indus_nb.safety.sandbox import machine  # which tries programs: only a caller that needs it waits
    from indus_nb.start.key_setup import managed

    yield f"indus_nb {__version__} in {session.store.cwd}"
    yield f"session: {_place(session)}"
    yield f"sandbox: {session.settings.sandbox}"
    for line in machine().report():
        yield f"- {line}"
    await session.load()
    yield f"model: {_model(session)}, thinking {session.thinking_level}"
    yield f"approve: {session.settings.approve}"
    yield f"project: {_project(session)}"
    yield f"tools: {', '.join(session.active_tools) or 'none'}"
    commands = [command["name"] for command in session.list_commands()]
    yield f"commands: {', '.join(f'/{name}' for name in commands) or 'none'}"
    files = [str(file.path) for file in session.equipment.resources.context_files]
    yield f"context files: {', '.join(files) or 'none'}"
    no_model = [] if session.model is not None else [_NO_MODEL.format(managed() or _ASKS)]
    problems = [*no_model, *session.all_problems]
    yield f"problems: {'none' if not problems else ''}".rstrip()
    for problem in problems:
        yield f"- {problem}"


def _place(session: AgentSession) -> str:
    path = session.store.path
    if path is None:
        return "not saved"
    there = next(place for place in (path, *path.parents) if os.path.lexists(place))
    if there == path or os.access(there, os.W_OK | os.X_OK):
        return str(path)
    return f"kept in memory only, for nothing can be written to {there}"


def _project(session: AgentSession) -> str:
    project = session.trusting.project
    if project is None:
        return "brings nothing"
    return f"{'trusted' if project.trusted else 'ignored'}, brings {project.summary()}"


def _model(session: AgentSession) -> str:
    if session.model is None:
        return "none"
    name = f"{session.model.provider}/{session.model.id}"
    try:
        key = session.registry.key_for(session.model)
    except CredentialsError as error:
        return f"{name} ({error})"
    return f"{name} ({'needs no key' if key is None else 'there is a key for it'})"
