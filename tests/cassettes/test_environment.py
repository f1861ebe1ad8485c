"""The cassette that the environment names, and the registry that uses it for every model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from indus_nb.base.errors import CredentialsError, UsageError
from indus_nb.base.messages import UserMessage
from indus_nb.core.resources.settings import model_registry
from indus_nb.models import Context, Provider, StreamOptions
from indus_nb.models.apis.offline import OfflineProvider
from indus_nb.models.cassettes import RecordingProvider, ReplayProvider, is_replaying
from indus_nb.models.catalog import find_model

HAIKU = find_model("claude-haiku-4-5")
OFFLINE = find_model("offline")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "INDUS_NB_CASSETTE", "INDUS_NB_CASSETTE_MODE"):
        monkeypatch.delenv(name, raising=False)
    yield
    monkeypatch.undo()
    is_replaying()  # the cassette of a test is closed with it


@pytest.fixture
def cassette(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "talk.json"
    monkeypatch.setenv("INDUS_NB_CASSETTE", str(path))
    return path


async def ask(provider: Provider, text: str) -> str:
    events = provider.stream(OFFLINE, Context("", [UserMessage(content=text)]), StreamOptions())
    return [event async for event in events][-1].message.text


async def test_a_registry_records_and_replays_the_answers_of_its_models(tmp_path, cassette, monkeypatch):
    registry = model_registry(tmp_path)
    recording = registry.provider_of(OFFLINE)
    assert isinstance(recording, RecordingProvider)
    answer = await ask(recording, "compute 6*7")
    monkeypatch.setenv("INDUS_NB_CASSETTE_MODE", "replay")
    replaying = registry.provider_of(OFFLINE)
    assert isinstance(replaying, ReplayProvider)
    assert await ask(replaying, "compute 6*7") == answer


def test_while_a_cassette_is_replayed_no_model_needs_a_key_or_headers(tmp_path, cassette, monkeypatch):
    registry = model_registry(tmp_path)
    with pytest.raises(CredentialsError):
        registry.key_for(HAIKU)
    assert HAIKU not in registry.available()
    monkeypatch.setenv("INDUS_NB_CASSETTE_MODE", "replay")
    assert registry.key_for(HAIKU) is None
    assert HAIKU in registry.available()
    assert isinstance(registry.provider_of(HAIKU.replace(headers={"X": "!false"})), ReplayProvider)


def test_a_model_of_an_unknown_api_is_refused_although_a_cassette_is_replayed(tmp_path, cassette, monkeypatch):
    monkeypatch.setenv("INDUS_NB_CASSETTE_MODE", "replay")
    with pytest.raises(UsageError, match="Unknown API: nope"):
        model_registry(tmp_path).provider_of(HAIKU.replace(api="nope"))


def test_a_registry_without_the_variable_uses_providers_as_they_are(tmp_path):
    assert isinstance(model_registry(tmp_path).provider_of(OFFLINE), OfflineProvider)


def test_a_process_without_a_cassette_imports_nothing_that_records_or_replays(tmp_path):
    program = (
        "import sys; from pathlib import Path\n"
        "from indus_nb.core.resources.settings import model_registry\n"
        "from indus_nb.models.catalog import find_model\n"
        f"registry = model_registry(Path({str(tmp_path)!r}))\n"
        "registry.provider_of(find_model('offline')); registry.available()\n"
        "print(*sorted(name for name in sys.modules if name.startswith('indus_nb.models.cassettes.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["indus_nb.models.cassettes.environment"]
