"""Sessions with extensions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from indus_nb.core.session.session import AgentSession
from indus_nb.start import SessionOptions, open_session


@pytest.fixture
async def opened(home: Path) -> AsyncIterator[Callable[..., Awaitable[AgentSession]]]:
    """Opens sessions with the extensions and options that it is given, and ends them after the test."""
    sessions: list[AgentSession] = []

    async def open_one(*extensions: Any, **options: Any) -> AgentSession:
        options = {"model": "claude-haiku-4-5", "thinking": "off", **options}
        session = open_session(SessionOptions(cwd=home / "work", extensions=extensions, **options))
        sessions.append(session)
        await session.start()
        return session

    yield open_one
    for session in sessions:
        await session.end()
