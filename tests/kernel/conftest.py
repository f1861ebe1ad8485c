"""The model's API that the kernel tests of one file share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from messages_api import MessagesApi


@pytest.fixture(scope="module")
def api() -> Iterator[MessagesApi]:
    with MessagesApi() as api:
        yield api
