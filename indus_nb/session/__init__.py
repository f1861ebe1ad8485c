"""A session: one agent with its messages, queues, file and observers, and the parts that it is made of."""

from typing import TYPE_CHECKING

from indus_nb._moved import Renamed
from indus_nb.session.session import (
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

if not TYPE_CHECKING:
    __getattr__ = Renamed(__name__, {"Listener": "indus_nb.session.publisher:Listener"})
