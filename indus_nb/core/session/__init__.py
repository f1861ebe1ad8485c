"""A session: one agent with its messages, queues, file and observers, and the parts that it is made of."""

from indus_nb.core.session.session import (
    MAX_NAME_CHARACTERS,
    AgentSession,
    ApproveMode,
    Equipment,
    Navigation,
    SessionSettings,
    StreamingBehavior,
)

__all__ = [
    "MAX_NAME_CHARACTERS",
    "AgentSession",
    "ApproveMode",
    "Equipment",
    "Navigation",
    "SessionSettings",
    "StreamingBehavior",
]
