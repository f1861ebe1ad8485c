"""The Agent Client Protocol, version 1: editors and other programs drive several sessions of one process.

``peer`` speaks JSON-RPC · ``requests`` has the parameters · ``updates`` turns events and messages into what a
client shows · ``questions`` asks its user · ``conversation`` is one session · ``agent`` has them all, and serves.
"""

from indus_nb.front.console.acp.agent import serve

__all__ = ["serve"]
