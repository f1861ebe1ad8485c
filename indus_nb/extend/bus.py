"""The bus on which extensions of one session talk to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class EventBus:
    """Channels that all extensions of a session share.

    ``report`` is called with the channel and the exception when a listener fails.
    """

    def __init__(self, report: Callable[[str, BaseException], None]) -> None:
        self._report = report
        self._listeners: dict[str, list[Callable[[Any], Any]]] = {}

    def on(self, channel: str, listener: Callable[[Any], Any]) -> Callable[[], None]:
        """Call a listener with what is emitted on a channel.

        Args:
            listener: Called with the data; plain, not async.
        """
        listeners = self._listeners.setdefault(channel, [])
        listeners.append(listener)

        def end() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return end

    def emit(self, channel: str, data: Any = None) -> None:
        """Call every listener of a channel; one that fails is reported, and the others are called.

        Args:
            channel: The name that listeners gave to ``on``.
            data: What they are called with.
        """
        for listener in tuple(self._listeners.get(channel, ())):
            try:
                listener(data)
            except Exception as error:  # noqa: BLE001 - a listener's defect must not reach the others
                self._report(f"events.{channel}", error)
