"""Cassettes: the answers of any provider, recorded in a file and replayed without a key or a network.

Wrap a provider to record what it answers, and put the other one in its place to replay that::

    from indus_nb.models.cassettes import RecordingProvider, ReplayProvider
    from indus_nb.base.messages import UserMessage
    from indus_nb.models import Context, StreamOptions
    from indus_nb.models.catalog import find_model
    from indus_nb.models.apis.offline import OfflineProvider

    context = Context(system_prompt="", messages=[UserMessage(content="hello")])
    with RecordingProvider(OfflineProvider(), "demo.cassette.json") as recording:
        recorded = [event async for event in recording.stream(find_model("offline"), context, StreamOptions())]

    replaying = ReplayProvider("demo.cassette.json")
    replayed = [event async for event in replaying.stream(find_model("offline"), context, StreamOptions())]
    assert replayed[-1].message.text == recorded[-1].message.text

Or, without touching the program, the environment: INDUS_NB_CASSETTE names the file, and INDUS_NB_CASSETTE_MODE what to
do with it: ``replay``, ``record``, ``auto`` (the default: replay what is there, else record), or ``keep`` (answer
requests that were answered before, in any order, and add the others).

Requests are kept in a normal form (``normal_form``), from which secrets and all that differs from run to run are
removed; answers hold placeholders for directories, which are filled in when they are replayed. The form of
the file is described in ``file``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indus_nb.models.cassettes.environment import is_replaying, provider_from_environment
    from indus_nb.models.cassettes.normal_form import RULES, Rule
    from indus_nb.models.cassettes.providers import Mode, RecordingProvider, ReplayProvider, cassette_provider
    from indus_nb.models.cassettes.recording import Recording

__all__ = [
    "RULES",
    "Mode",
    "Recording",
    "RecordingProvider",
    "ReplayProvider",
    "Rule",
    "cassette_provider",
    "is_replaying",
    "provider_from_environment",
]

_HOMES = {
    "RULES": "normal_form",
    "Mode": "providers",
    "Recording": "recording",
    "RecordingProvider": "providers",
    "ReplayProvider": "providers",
    "Rule": "normal_form",
    "cassette_provider": "providers",
    "is_replaying": "environment",
    "provider_from_environment": "environment",
}


def __getattr__(name: str) -> Any:
    """Import the public names on first access: most processes use no cassette."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
