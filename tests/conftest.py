"""What every test may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from messages_api import MessagesApi

settings.register_profile("untimed", deadline=None)  # a busy machine is no defect
settings.load_profile("untimed")


@pytest.fixture
def messages_api() -> Iterator[MessagesApi]:
    """A server that speaks the Messages API, without a script as yet: see ``MessagesApi.add``."""
    with MessagesApi() as api:
        yield api
