"""Where questions for many rows are asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from indus_nb import agent


@pytest.fixture
def in_work(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A working directory, with a model to ask and short waits; no tool that was defined there is left."""
    monkeypatch.chdir(home / "work")
    (home / "agent").mkdir()
    settings = {"defaultModel": "claude-haiku-4-5", "retry": {"baseDelayMs": 10}}
    (home / "agent" / "settings.json").write_text(json.dumps(settings))
    yield
    agent.forget()
