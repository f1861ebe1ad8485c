"""The cassette that the environment configures: INDUS_NB_CASSETTE is its file, INDUS_NB_CASSETTE_MODE its mode.

What this module promises: without the variable nothing of the room is imported, and with it all sessions of a process
share one cassette, in the order of their requests. It begins again when one of the two variables changes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from indus_nb.base.variables import CASSETTE, CASSETTE_MODE, variable

if TYPE_CHECKING:
    from indus_nb.models import Provider
    from indus_nb.models.cassettes.keeping import Kept
    from indus_nb.models.cassettes.providers import ReplayProvider
    from indus_nb.models.cassettes.recording import Recording


class EnvironmentCassette:
    """The process's cassette, behind the ``Cassette`` protocol of ``indus_nb.models``."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._begun = 0
        self._setting: tuple[str, str] | None = None
        self._cassette: Recording | ReplayProvider | Kept | None = None

    @property
    def kept(self) -> Kept | None:
        """Return the answers that are kept, in the mode for that."""
        cassette = self._now()
        if cassette is None:
            return None
        from indus_nb.models.cassettes.keeping import Kept

        return cassette if isinstance(cassette, Kept) else None

    @property
    def replayed(self) -> ReplayProvider | None:
        """Return the cassette that is replayed, where one is."""
        cassette = self._now()
        if cassette is None:
            return None
        from indus_nb.models.cassettes.providers import ReplayProvider

        return cassette if isinstance(cassette, ReplayProvider) else None

    def is_replaying(self) -> bool:
        """Return whether the cassette answers, and no model.

        Neither keys nor headers are needed then.
        """
        cassette = self._now()
        return cassette is not None and cassette.asks_nobody

    def may_answer(self) -> bool:
        """Return whether the cassette may answer in a model's place; no key is asked for beforehand then."""
        cassette = self._now()
        return cassette is not None and cassette.may_answer

    def number(self) -> int:
        """Return which cassette of this process is in use, counted from 1; 0 for none.

        Another number means that requests are recorded, or replayed, from a beginning.

        Raises:
            UsageError: INDUS_NB_CASSETTE_MODE is unknown.
        """
        return 0 if self._now() is None else self._begun

    def provider_for(self, inner: Provider) -> Provider:
        """Return the provider that records ``inner`` or replays its answers.

        That is ``inner`` itself without a cassette.

        Raises:
            UsageError: INDUS_NB_CASSETTE_MODE is unknown.
        """
        cassette = self._now()
        if cassette is None:
            return inner
        from indus_nb.models.cassettes.providers import provider_of

        return provider_of(cassette, inner)

    def _now(self) -> Recording | ReplayProvider | Kept | None:
        path = variable(CASSETTE)
        setting = (variable(CASSETTE_MODE) or "auto", path) if path else None
        with self._mutex:
            if setting != self._setting:
                if self._cassette is not None:
                    self._cassette.close()
                self._setting = self._cassette = None
                if setting is not None:
                    from indus_nb.models.cassettes.providers import open_cassette

                    self._cassette = open_cassette(*setting)
                    self._setting = setting
                    self._begun += 1
            return self._cassette


environment_cassette: EnvironmentCassette = EnvironmentCassette()
"""The one of this process."""


def provider_from_environment(inner: Provider) -> Provider:
    """Return ``inner``, or the provider of the process's cassette.

    Raises ``UsageError`` for an unknown mode.
    """
    return environment_cassette.provider_for(inner)


def is_in_use() -> bool:
    """Return whether the process has a cassette, which answers or is recorded."""
    return bool(variable(CASSETTE))


def is_replaying() -> bool:
    """Return whether the process's cassette answers, and no model."""
    return environment_cassette.is_replaying()
