"""Imports ahead of the first request, so that it does not wait for them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable


def preload_in_background(preload: Callable[[], object]) -> None:
    """Call ``preload`` in a thread and return at once.

    Its failures are ignored: the first request needs the same, and its answer reports what is wrong.
    """

    def quietly() -> None:
        with contextlib.suppress(Exception):
            preload()

    threading.Thread(target=quietly, name="indus_nb preload", daemon=True).start()
