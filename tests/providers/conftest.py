"""The server that the tests of providers ask, and an environment that says nothing of any."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openai_api import OpenAIApi


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "CUSTOM_HEADERS", "BASE_URL"):
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)
    for name in ("API_KEY", "AUTH_TOKEN", "CUSTOM_HEADERS", "BASE_URL"):
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)


@pytest.fixture
def server() -> Iterator[OpenAIApi]:
    with OpenAIApi() as api:
        yield api
