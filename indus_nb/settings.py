"""Where a user's files lie, and the settings found there: typed, the project's over the user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pydantic_core
from pydantic import Field, ValidationError

from indus_nb.agent import InterruptMode, QueueMode, ToolExecution
from indus_nb.compaction import BranchSummarySettings, CompactionSettings
from indus_nb.errors import SettingsError
from indus_nb.messages import ThinkingLevel
from indus_nb.retry import RetrySettings
from indus_nb.wire import JsonObject, WireModel

PROJECT_FOLDER = ".indusagi"


class ImageSettings(WireModel):
    """What happens to images on their way to a model."""

    auto_resize: bool = True


class Settings(WireModel):
    """``settings.json``; keys it does not know are kept. Absent values mean: choose for me."""

    default_provider: str | None = None
    default_model: str | None = None
    default_thinking_level: ThinkingLevel | None = None
    thinking_budgets: dict[str, int] = Field(default_factory=dict[str, int])
    steering_mode: QueueMode = "one-at-a-time"
    follow_up_mode: QueueMode = "one-at-a-time"
    interrupt_mode: InterruptMode = "immediate"
    tool_execution: ToolExecution = "auto"
    compaction: CompactionSettings = Field(default_factory=CompactionSettings)
    branch_summary: BranchSummarySettings = Field(default_factory=BranchSummarySettings)
    retry: RetrySettings = Field(default_factory=RetrySettings)
    images: ImageSettings = Field(default_factory=ImageSettings)
    shell_path: str | None = None
    shell_command_prefix: str | None = None
    session_dir: str | None = None


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings in force, and one problem for each file that could not be used."""

    settings: Settings
    problems: list[SettingsError] = field(default_factory=list[SettingsError])


def variable(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The environment variable ``INDUSAGI_<name>``, or the same of peers, ``PI_<name>``, when ours is unset.

    >>> variable("OFFLINE", {"PI_OFFLINE": "1"})
    '1'
    """
    return environment.get(f"INDUSAGI_{name}") or environment.get(f"PI_{name}") or None


def agent_directory() -> Path:
    """The folder of the user's settings and sessions: ``~/.indusagi/agent`` unless the environment names another."""
    chosen = variable("CODING_AGENT_DIR")
    return Path(chosen).expanduser() if chosen else Path.home() / ".indusagi" / "agent"


def load_settings(cwd: Path, agent_dir: Path) -> LoadedSettings:
    """The user's settings with the project's laid over them, nested objects merged one level deep.

    A file that cannot be used is left alone, ignored, and reported among the problems.
    """
    merged: JsonObject = {}
    problems: list[SettingsError] = []
    for path in (agent_dir / "settings.json", cwd / PROJECT_FOLDER / "settings.json"):
        try:
            merged = _merge(merged, _read(path))
        except SettingsError as problem:
            problems.append(problem)
    return LoadedSettings(Settings.model_validate(merged), problems)


def _read(path: Path) -> JsonObject:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(path, f"cannot be read ({error.strerror})") from error
    try:
        value: object = pydantic_core.from_json(text)
    except ValueError as error:
        raise SettingsError(path, f"is no JSON ({error})") from error
    if not isinstance(value, dict):
        raise SettingsError(path, "must hold a JSON object")
    settings = cast("JsonObject", value)
    try:
        Settings.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise SettingsError(path, f"`{where}` is wrong: {first['msg']}") from error
    return settings


def _merge(under: JsonObject, over: JsonObject) -> JsonObject:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            merged[key] = {**cast("JsonObject", below), **cast("JsonObject", value)}
        else:
            merged[key] = value
    return merged
