"""Imports ahead of the first request, so that it does not wait for them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable


def preload_in_background(preload: Callable[[], object]) -> None:
    """Call ``preload`` in a thread that nobody waits for.

    What it cannot do goes unsaid here: the first request needs the same, and its answer says what is wrong.
    """

    def quietly() -> None:
        with contextlib.suppress(Exception):
            preload()

    threading.Thread(target=quietly, name="indus_nb preload", daemon=True).start()
