"""Secrets of a session: known once, replaced wherever a text becomes a message, restored where a tool needs them.

What this room promises:

- A ``Vault`` knows the values of secrets (the environment, files with keys, keys that were given) and recognises what
  looks like one. ``hide`` puts a placeholder in its place: ``[secret NAME]`` for a value that has a name, and
  ``[secret KIND 1a2b3c]`` for one that was only recognised. The same value has the same placeholder for as long as the
  process lives; the number of another process is never mistaken for one of this.
- What it knows is read when it is first needed, and again when a source has changed.
- ``HiddenStream`` hides secrets in a text that comes in pieces, wherever those are cut.
- ``put_back`` fills placeholders in a tool's arguments: only in those that the tool declares (``secret_arguments``),
  and only with values that cannot change what the rest of the argument means.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from indus_nb.safety.vault.vault import PutBackError, Vault

if TYPE_CHECKING:
    from indus_nb.safety.vault.messages import hidden_message, hidden_output
    from indus_nb.safety.vault.stream import HiddenStream

__all__ = ["HiddenStream", "PutBackError", "Vault", "hidden_message", "hidden_output", "preload"]

_HOMES = {"HiddenStream": "stream", "hidden_message": "messages", "hidden_output": "messages"}


def preload() -> None:
    """Import and compile what hiding the first text needs."""
    import_module("indus_nb.safety.vault.messages")
    Vault(environment={}).hide("password = none")


def __getattr__(name: str) -> Any:
    """Import what hides on first access, so that no start waits for it."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
