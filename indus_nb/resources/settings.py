"""Where a user's files are, and the settings in them: typed, the project's merged over the user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import pydantic_core
from pydantic import Field, ValidationError

from indus_nb._moved import Renamed
from indus_nb.cassettes.environment import environment_cassette
from indus_nb.errors import SettingsError
from indus_nb.files import expand_user, read_file
from indus_nb.loop import InterruptMode, QueueMode, ToolExecution
from indus_nb.loop.retry import RetrySettings
from indus_nb.messages import ThinkingLevel
from indus_nb.providers.registry import ModelRegistry
from indus_nb.wire import JsonObject, WireModel, first_problem, usual

PROJECT_DIRECTORY = ".indusagi"
RULES_DIRECTORY = "rules"
"""Where stream rules are: in this directory of the project's and of the user's."""
_RESOURCES = ("extensions", "skills", "prompts")


class CompactionSettings(WireModel):
    """When a conversation is compacted, and how much of it is kept as it is; in tokens."""

    enabled: bool = True
    reserve_tokens: int = Field(default=16_384, ge=0)
    keep_recent_tokens: int = Field(default=20_000, ge=0)


class BranchSummarySettings(WireModel):
    """How much of the context is kept free when a branch is summarised; in tokens."""

    reserve_tokens: int = Field(default=16_384, ge=0)


class ImageSettings(WireModel):
    """What happens to images on their way to a model."""

    auto_resize: bool = True


class NotebookSettings(WireModel):
    """What a notebook's model is shown unasked, and for how many seconds its code may run; ``None``: no limit."""

    tell_cells: bool = True
    tell_variables: bool = True
    python_timeout_seconds: float | None = Field(default=1800, gt=0, allow_inf_nan=False)


class ExtensionHandlerSettings(WireModel):
    """How long an extension may take to handle one event; in ms."""

    timeout_ms: int = Field(default=30_000, gt=0)


class TodoSettings(WireModel):
    """Reminders of open tasks, and when a list without open tasks is emptied; with ``None`` it never is."""

    reminders: bool = True
    max_reminders: int = Field(default=3, ge=0)
    clear_delay_seconds: float | None = Field(default=60, ge=0, allow_inf_nan=False)


class StreamRuleSettings(WireModel):
    """Whether stream rules are in force, and when one that was applied may be applied again."""

    enabled: bool = True
    repeat_mode: Literal["once", "after-gap"] = "once"
    repeat_gap: int = Field(default=10, ge=1)
    """In answers, for ``after-gap``."""


class Settings(WireModel):
    """``settings.json``; unknown keys are kept. An absent value leaves the choice to the program.

    ``enabled_models`` are the ones to cycle through, as ``--models``. ``extensions``, ``skills`` and ``prompts`` are
    absolute paths and patterns, with a mark in front where there was one (``!``, ``+``, ``-``), the project's first.
    ``approve`` selects the tool calls that the user is asked about. ``mcp_servers`` are objects as they stand, by name.
    """

    default_provider: str | None = None
    default_model: str | None = None
    default_thinking_level: ThinkingLevel | None = None
    enabled_models: list[str] | None = None
    default_tools: list[str] | None = None
    approve: Literal["never", "writes", "always"] | None = None
    extensions: list[str] = Field(default_factory=list[str])
    skills: list[str] = Field(default_factory=list[str])
    prompts: list[str] = Field(default_factory=list[str])
    extension_handlers: ExtensionHandlerSettings = usual(ExtensionHandlerSettings)
    mcp_servers: dict[str, Any] = Field(default_factory=dict[str, Any])
    thinking_budgets: dict[str, int] = Field(default_factory=dict[str, int])
    steering_mode: QueueMode = "one-at-a-time"
    follow_up_mode: QueueMode = "one-at-a-time"
    interrupt_mode: InterruptMode = "immediate"
    tool_execution: ToolExecution = "auto"
    compaction: CompactionSettings = usual(CompactionSettings)
    branch_summary: BranchSummarySettings = usual(BranchSummarySettings)
    retry: RetrySettings = usual(RetrySettings)
    images: ImageSettings = usual(ImageSettings)
    notebook: NotebookSettings = usual(NotebookSettings)
    todo: TodoSettings = usual(TodoSettings)
    ttsr: StreamRuleSettings = usual(StreamRuleSettings)
    shell_path: str | None = None
    shell_command_prefix: str | None = None
    session_dir: str | None = None


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings in force, a problem for each file that could not be used, and for each key the file it is from."""

    settings: Settings
    problems: list[SettingsError] = field(default_factory=list[SettingsError])
    files: Mapping[str, Path] = field(default_factory=dict[str, Path])

    def place(self, key: str) -> str:
        """Name a key to the user: with its file, in the spelling of the file (``defaultModel``)."""
        return f"{self.files[key]}: `{key}`" if key in self.files else f"the setting `{key}`"


def variable(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Read the environment variable ``INDUSAGI_<name>``, or ``PI_<name>`` if that is unset.

    Args:
        name: What stands behind the prefix.
        environment: Where to look.

    Returns:
        The value; ``None`` if it is unset or empty.

    >>> variable("OFFLINE", {"PI_OFFLINE": "1"})
    '1'
    """
    return environment.get(f"INDUSAGI_{name}") or environment.get(f"PI_{name}") or None


def agent_directory() -> Path:
    """Return the directory of the user's settings and sessions.

    Returns:
        ``~/.indusagi/agent``, or the directory that ``INDUSAGI_CODING_AGENT_DIR`` names.

    Raises:
        UsageError: There is no home directory.
    """
    chosen = variable("CODING_AGENT_DIR")
    return expand_user(chosen or "~/.indusagi/agent")


def model_registry(agent_dir: Path) -> ModelRegistry:
    """Make a registry of the built-in models and of the models and keys in the agent directory."""
    return ModelRegistry(agent_dir / "models.json", agent_dir / "auth.json", cassette=environment_cassette)


def load_settings(cwd: Path, agent_dir: Path) -> LoadedSettings:
    """Load the user's settings and merge the project's over them, nested objects one level deep.

    Lists of resources are concatenated, the project's first. A project can make approvals stricter only, and cannot
    change stream rules. A file that cannot be used is ignored and reported among the problems.

    Args:
        cwd: The directory of the project.
        agent_dir: The user's own directory.

    Returns:
        The settings and where they are from. Does not raise.
    """
    merged: JsonObject = {}
    problems: list[SettingsError] = []
    files: dict[str, Path] = {}
    for path in (agent_dir / "settings.json", cwd / PROJECT_DIRECTORY / "settings.json"):
        try:
            settings = _read(path)
        except SettingsError as problem:
            problems.append(problem)
            continue
        is_project = path.parent.name == PROJECT_DIRECTORY
        if is_project and "approve" in settings and _strictness(settings) <= max(_strictness(merged), 0):
            del settings["approve"]  # a project may make approvals stricter, not looser
        if is_project:
            settings.pop("ttsr", None)  # nor may it switch off the user's own rules
        for key in _RESOURCES:
            if key in settings:
                settings[key] = [*(_absolute(entry, path.parent) for entry in settings[key]), *merged.get(key, [])]
        merged = _merge(merged, settings)
        files.update(dict.fromkeys(settings, path))
    settings = Settings.model_validate(merged) if merged else Settings.model_construct()
    return LoadedSettings(settings, problems, files)


def _strictness(settings: JsonObject) -> int:
    """How much these settings ask the user about; ``never`` counts as less than no setting."""
    return {"never": -1, "writes": 1, "always": 2}.get(settings.get("approve", ""), 0)


def _absolute(entry: str, directory: Path) -> str:
    """``entry`` with its path relative to ``directory`` made absolute, the mark in front of it kept.

    >>> _absolute("!skills/*", Path("/home/me"))
    '!/home/me/skills/*'
    """
    mark = entry[:1] if entry[:1] in ("!", "+", "-") else ""
    try:
        path = Path(entry[len(mark) :]).expanduser()
    except RuntimeError:  # the home of an unknown user
        path = Path(entry[len(mark) :])
    return f"{mark}{directory.absolute() / path}"


def _read(path: Path) -> JsonObject:
    try:
        text = read_file(path)
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
    settings = _migrated(cast("JsonObject", value))
    try:
        Settings.model_validate(settings)
    except ValidationError as error:
        raise SettingsError(path, str(first_problem(error))) from error
    return settings


def _migrated(settings: JsonObject) -> JsonObject:
    """``settings`` with current names; a key under its current name overrides the same under an old one."""
    new = dict(settings)
    if "queueMode" in new:
        new.setdefault("steeringMode", new.pop("queueMode"))
    if isinstance(websockets := new.get("websockets"), bool):
        del new["websockets"]
        new.setdefault("transport", "websocket" if websockets else "sse")
    if isinstance(skills := new.get("skills"), dict):
        new["skills"] = cast("JsonObject", skills).get("customDirectories", [])
    if isinstance(retry := new.get("retry"), dict) and "maxDelayMs" in retry:
        kept: dict[str, Any] = {**cast("JsonObject", retry)}
        longest = kept.pop("maxDelayMs")
        provider: object = kept.get("provider", {})
        if isinstance(provider, dict):
            kept["provider"] = {"maxRetryDelayMs": longest, **cast("JsonObject", provider)}
        new["retry"] = kept
    return new


def _merge(under: JsonObject, over: JsonObject) -> JsonObject:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            merged[key] = {**cast("JsonObject", below), **cast("JsonObject", value)}
        else:
            merged[key] = value
    return merged


if not TYPE_CHECKING:
    __getattr__ = Renamed(__name__, {"PROJECT_FOLDER": "indus_nb.resources.settings:PROJECT_DIRECTORY"})
