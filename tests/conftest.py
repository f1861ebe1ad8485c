"""What every test may ask for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import outcomes
import pytest
from hypothesis import settings
from messages_api import MessagesApi
from time_limits import pytest_runtest_call, pytest_runtest_setup, pytest_runtest_teardown

__all__ = ["pytest_runtest_call", "pytest_runtest_setup", "pytest_runtest_teardown"]  # hooks of every test

LONG = {"test_trials.py", "test_tutorials.py", "test_live.py", "test_questions.py", "test_survives.py"}
LONG |= {"test_suite.py", "test_runs.py"}  # of tests/evaluate

settings.register_profile("untimed", deadline=None)  # a busy machine is no defect
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Record what becomes of each test, for who asked for it (``outcomes.VARIABLE``)."""
    file = os.environ.get(outcomes.VARIABLE)
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(outcomes.Recorder(Path(file)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, else one worker would be left with them at the end."""
    items.sort(key=lambda item: item.path.name not in LONG)


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Drop the answers that a test has not asked for: the next one of its file would get them."""
    api = item.funcargs.get("api") if isinstance(item, pytest.Function) else None
    if (call.when == "call" or call.excinfo is not None) and isinstance(api, MessagesApi):
        api.clear()


@pytest.fixture(autouse=True)
def _asyncio_as_it_was() -> Iterator[None]:
    """``nest_asyncio2`` patches asyncio for good: ``asyncio.run`` of later tests would leave its loop open."""
    yield
    assert not hasattr(asyncio, "_nest_patched"), "run this in a process of its own: it patches asyncio"


@pytest.fixture
def messages_api() -> Iterator[MessagesApi]:
    """A server that speaks the Messages API, without a script as yet: see ``MessagesApi.add``."""
    with MessagesApi() as api:
        yield api


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages_api: MessagesApi) -> Path:
    """The home of a user with a key for the Messages API, whose project lies in ``work``."""
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    (tmp_path / "work").mkdir()
    return tmp_path
