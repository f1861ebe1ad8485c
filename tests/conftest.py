"""What every test may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from messages_api import MessagesApi


@pytest.fixture
def messages_api() -> Iterator[MessagesApi]:
    """A server that speaks the Messages API, without a script as yet: see ``MessagesApi.add``."""
    with MessagesApi() as api:
        yield api
