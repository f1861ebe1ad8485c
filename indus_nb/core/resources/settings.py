"""Directories of a user's files, and the settings in them: typed, the project's merged over the user's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args

from indus_nb.base.errors import SettingsError
from indus_nb.base.files import expand_user, read_file
from indus_nb.base.messages import ThinkingLevel
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.base.variables import AGENT_DIR, CACHE_RETENTION, variable
from indus_nb.base.wire import JsonObject, from_json, to_camel
from indus_nb.base.wire_model import WireModel, wire_field
from indus_nb.core.loop import InterruptMode, QueueMode, ToolExecution
from indus_nb.core.loop.retry import RetrySettings
from indus_nb.core.resources.inputs import PROJECT_DIRECTORY, DefaultTrust
from indus_nb.models.cassettes.environment import environment_cassette
from indus_nb.models.kept_keys import Keyring
from indus_nb.models.protocol import CacheRetention, CacheRetentionSetting
from indus_nb.models.registry import ModelRegistry
from indus_nb.safety.effects import EffectKind
from indus_nb.safety.policy import KINDS, MODES, ApproveMode, Decision, stricter

MAX_SETTINGS_BYTES = 1 << 20
_RESOURCES = ("extensions", "skills", "prompts")
_NEVER = ("sessionDir", "shellPath", "shellCommandPrefix", "defaultTrust", "ttsr", "secrets", "shellEnvironment")
"""Keys that no project can set, trusted or not."""
_HARMLESS = ("defaultThinkingLevel", "steeringMode", "followUpMode", "interruptMode")
"""Keys that a project can set that is not trusted."""
_STRICTER = ("approve", "effects", "defaultTools", "notebook", "sandbox")
"""Keys that such a project can make stricter: ask more, offer fewer tools, show less, confine more."""


def _reserved(settings: CompactionSettings | BranchSummarySettings, window: int) -> int:
    """Return how many tokens of a context are reserved: what the user has set if there is room, else at most half."""
    tokens = settings.reserve_tokens
    is_set = "reserve_tokens" in vars(settings)
    return tokens if is_set and tokens < window else min(tokens, window // 2)


class CompactionSettings(WireModel):
    """Thresholds of compaction, and how much of a conversation is kept as it is; in tokens."""

    enabled: bool = True
    reserve_tokens: int = wire_field(default=16_384, ge=0)
    keep_recent_tokens: int = wire_field(default=20_000, ge=0)

    def within(self, window: int | None) -> Self:
        """Return them for a model: of a small context half is reserved at most, and half of the rest is kept.

        Args:
            window: Size of the model's context in tokens; ``None`` or 0 if unknown.
        """
        if not window:
            return self
        reserved = _reserved(self, window)
        kept = min(self.keep_recent_tokens, (window - reserved) // 2)
        return self.replace(reserve_tokens=reserved, keep_recent_tokens=kept)


class BranchSummarySettings(WireModel):
    """Space kept free of the context when a branch is summarised; in tokens."""

    reserve_tokens: int = wire_field(default=16_384, ge=0)

    def within(self, window: int) -> Self:
        """Return them for a model with a context of so many tokens: of a small one half is reserved at most."""
        return self.replace(reserve_tokens=_reserved(self, window))


class ImageSettings(WireModel):
    """Treatment of images on their way to a model."""

    auto_resize: bool = True


class ToolSettings(WireModel):
    """Results of tools as the model reads them.

    Of a text with more than ``result_characters`` it gets beginning and end; ``None`` for as much as a view is shown.
    With ``clear_old_results`` a long conversation goes on without old ones where that is cheaper.
    """

    result_characters: int | None = wire_field(default=8_000, ge=1_000, le=50_000)
    clear_old_results: bool = True

    @property
    def read_whole(self) -> int | None:
        """Most bytes of a file that is read whole: twice as much, for files are read to be changed."""
        return None if self.result_characters is None else 2 * self.result_characters


class NotebookSettings(WireModel):
    """Limits of a notebook: what its model is shown unasked, and seconds that its code may run; ``None``: no limit.

    With ``tell_profile`` it is told what frames hold that a prompt or new cells name, unless variables are not told.
    With ``error_hint`` a line below the first traceback says how to ask about it. With ``undo`` what its code changes
    can be taken back; to remember that may take so much time and memory each time.
    With ``preview`` its code runs in a copy of the kernel first, so that what has no effect needs no question, and
    other questions say what it would do.
    ``rerun`` selects what becomes of the last turn when its cell is run again: the conversation goes on from before it,
    or after it. ``after_restart`` selects what the first prompt of a kernel does in a notebook that has a conversation:
    it goes on with that, or begins another one.
    With ``cells`` code that changes something is written as cells of the notebook.
    With ``trace_numbers`` numbers of answers that no result shows are underlined by dots. With ``check_numbers`` the
    model is asked once how it got them.
    """

    tell_cells: bool = True
    tell_variables: bool = True
    tell_profile: bool = True
    python_timeout_seconds: float | None = wire_field(default=1800, gt=0, finite=True)
    error_hint: bool = True
    undo: bool = True
    undo_milliseconds: float = wire_field(default=50, gt=0, finite=True)
    undo_megabytes: int = wire_field(default=256, gt=0)
    preview: bool = True
    rerun: Literal["branch", "append"] = "branch"
    after_restart: Literal["continue", "new"] = "continue"
    cells: bool = False
    trace_numbers: bool = True
    check_numbers: bool = False


class JobSettings(WireModel):
    """Seconds after which a tool call goes on as a job, ``0`` never; ``None`` leaves it to the interface.

    With ``start_turn`` the model gets a message about a job's end at once, even if it is idle.
    """

    after_seconds: float | None = wire_field(default=None, ge=0, finite=True)
    start_turn: bool = True


class ExtensionHandlerSettings(WireModel):
    """Time limits of extensions for handling one event; in ms."""

    timeout_ms: int = wire_field(default=30_000, gt=0)


class TodoSettings(WireModel):
    """Reminders of open tasks, and when a list without open tasks is emptied; with ``None`` it never is."""

    reminders: bool = True
    max_reminders: int = wire_field(default=3, ge=0)
    clear_delay_seconds: float | None = wire_field(default=60, ge=0, finite=True)


class SubagentSettings(WireModel):
    """The tool ``agents``: whether it is offered without being named, and what a call of it may do and cost.

    ``max_cost`` is in US dollars, for all agents of a call together; ``null`` for no limit.
    """

    enabled: bool = False
    max_cost: float | None = wire_field(default=1.0, gt=0, finite=True)
    max_turns: int | None = wire_field(default=100, ge=1)
    """Most answers of each sub-agent."""
    timeout_seconds: float | None = wire_field(default=None, gt=0, finite=True)
    """Longest time that each sub-agent may work, in seconds."""
    parallel: int = wire_field(default=4, ge=1)
    """Most sub-agents that work at the same time."""
    max_tasks: int = wire_field(default=16, ge=1, le=64)
    max_tokens: int = wire_field(default=8192, ge=1)
    """Longest answer to one request, thinking included; so much is reserved for each."""
    tools: list[Literal["bash", "edit", "write"]] = wire_field(default_factory=list[Literal["bash", "edit", "write"]])
    """Tools that a call may ask for besides those that only read."""


class StreamRuleSettings(WireModel):
    """Switch for stream rules, and when one that was applied may be applied again."""

    enabled: bool = True
    repeat_mode: Literal["once", "after-gap"] = "once"
    repeat_gap: int = wire_field(default=10, ge=1)
    """Gap in answers, for ``after-gap``."""


class SecretSettings(WireModel):
    """Switch for keeping secrets out of messages, files and what is shown."""

    redact: bool = True


class Settings(WireModel):
    """``settings.json``; unknown keys are kept. An absent value leaves the choice to the program.

    ``enabled_models`` are the ones to cycle through, as ``--models``. ``extensions``, ``skills`` and ``prompts`` are
    absolute paths and patterns, with a mark in front where there was one (``!``, ``+``, ``-``), the project's first.
    ``approve`` selects the tool calls that the user is asked about, and ``effects`` what becomes of kinds of effects
    (``indus_nb.safety.policy``). A call that is tried where nothing can happen may take ``looks_seconds`` until the
    user is asked whether to wait for it. ``cache_retention`` is how long a provider is to keep a conversation for the
    next request (``indus_nb.models.prompt_cache``). ``default_trust`` is the answer about projects that
    the user has not decided about (``indus_nb.core.resources.trust``). ``mcp_servers`` are objects as they stand, by
    name, and ``sandbox`` is one (``indus_nb.core.resources.sandbox_settings``). Of more tools of such servers than
    ``mcp_tool_limit`` the model searches those that it needs.
    ``shell_environment`` are names of variables with keys that programs are given all the same; with ``!`` before it
    what they are not given.
    """

    default_provider: str | None = None
    default_model: str | None = None
    default_thinking_level: ThinkingLevel | None = None
    enabled_models: list[str] | None = None
    default_tools: list[str] | None = None
    approve: ApproveMode | None = None
    effects: dict[EffectKind, Decision] = wire_field(default_factory=dict[EffectKind, Decision])
    looks_seconds: float = wire_field(default=10, gt=0, finite=True)
    extensions: list[str] = wire_field(default_factory=list[str])
    skills: list[str] = wire_field(default_factory=list[str])
    prompts: list[str] = wire_field(default_factory=list[str])
    extension_handlers: ExtensionHandlerSettings = wire_field(default_factory=ExtensionHandlerSettings)
    mcp_servers: dict[str, Any] = wire_field(default_factory=dict[str, Any])
    mcp_tool_limit: int = wire_field(default=12, ge=0)
    thinking_budgets: dict[str, int] = wire_field(default_factory=dict[str, int])
    cache_retention: CacheRetentionSetting = "auto"
    steering_mode: QueueMode = "one-at-a-time"
    follow_up_mode: QueueMode = "one-at-a-time"
    interrupt_mode: InterruptMode = "immediate"
    tool_execution: ToolExecution = "auto"
    compaction: CompactionSettings = wire_field(default_factory=CompactionSettings)
    branch_summary: BranchSummarySettings = wire_field(default_factory=BranchSummarySettings)
    retry: RetrySettings = wire_field(default_factory=RetrySettings)
    images: ImageSettings = wire_field(default_factory=ImageSettings)
    jobs: JobSettings = wire_field(default_factory=JobSettings)
    tools: ToolSettings = wire_field(default_factory=ToolSettings)
    notebook: NotebookSettings = wire_field(default_factory=NotebookSettings)
    todo: TodoSettings = wire_field(default_factory=TodoSettings)
    subagents: SubagentSettings = wire_field(default_factory=SubagentSettings)
    ttsr: StreamRuleSettings = wire_field(default_factory=StreamRuleSettings)
    sandbox: dict[str, Any] | None = None
    secrets: SecretSettings = wire_field(default_factory=SecretSettings)
    shell_environment: list[str] = wire_field(default_factory=list[str])
    shell_path: str | None = None
    shell_command_prefix: str | None = None
    session_dir: str | None = None
    default_trust: DefaultTrust = "ask"


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings in force, what could not be used of the files, and for each key the file it is from.

    ``project_extensions`` are those entries of ``extensions`` that the project's file has. ``lost_sandbox`` is what is
    wrong with a file of the user's own that mentions a sandbox and cannot be used, and ``own_sandbox`` what
    the user's own file sets of it.
    """

    settings: Settings
    problems: list[SettingsError | str] = field(default_factory=list["SettingsError | str"])
    files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    project_extensions: Sequence[str] = ()
    lost_sandbox: SettingsError | None = None
    own_sandbox: object = None

    def place(self, key: str) -> str:
        """Name a key to the user: with its file, in the spelling of the file (``defaultModel``)."""
        return f"{self.files[key]}: `{key}`" if key in self.files else f"the setting `{key}`"


def cache_retention(settings: Settings) -> CacheRetentionSetting:
    """Return how long the user wants prompts kept: by the settings, or by the environment where they leave it open."""
    asked = variable(CACHE_RETENTION)
    if settings.cache_retention == "auto" and asked in get_args(CacheRetention):
        return cast("CacheRetention", asked)
    return settings.cache_retention


def agent_directory() -> Path:
    """Return the directory of the user's settings and sessions.

    Returns:
        ``~/.indusagi/agent``, or the directory that ``INDUS_NB_AGENT_DIR`` names.

    Raises:
        UsageError: There is no home directory.
    """
    chosen = variable(AGENT_DIR)
    return expand_user(chosen or "~/.indusagi/agent")


def model_registry(agent_dir: Path) -> ModelRegistry:
    """Make a registry of the built-in models and of the models and keys in the agent directory."""
    keyring = Keyring(agent_dir / "keyring.json")
    return ModelRegistry(
        agent_dir / "models.json", agent_dir / "auth.json", keyring=keyring, cassette=environment_cassette
    )


def load_settings(cwd: Path, agent_dir: Path, *, trusted: bool = False, project: bytes | None = None) -> LoadedSettings:
    """Load the user's settings and merge the project's over them, nested objects one level deep.

    Lists of resources are concatenated, the project's first. Of a project that is not trusted only what is harmless or
    stricter counts. A file that cannot be used is ignored and reported among the problems; in the place of the user's
    own what may have protected is as strict as it may have been.

    Args:
        trusted: Whether the user trusts the project (``indus_nb.core.resources.trust``).
        project: What the project's file held when that was decided; without it the file is read.

    Returns:
        The settings and where they are from. Does not raise.
    """
    problems: list[SettingsError | str] = []
    path = agent_dir / "settings.json"
    lost_sandbox = None
    try:
        merged = parsed_settings(path)
    except SettingsError as problem:
        merged, mentions_sandbox = _strictest(path)
        meanwhile = f" Until then `approve` counts as `{merged['approve']}`."
        problems.append(SettingsError(path, problem.problem, meanwhile))
        lost_sandbox = problem if mentions_sandbox else None
    files, own_sandbox = dict.fromkeys(merged, path), merged.get("sandbox")
    for key in _RESOURCES:
        if key in merged:
            merged[key] = [absolute_entry(entry, path.parent) for entry in merged[key]]
    path = cwd / PROJECT_DIRECTORY / "settings.json"
    of_project = _admitted(_usable(path, project, problems), merged, path, problems, trusted=trusted)
    for key in _RESOURCES:
        if key in of_project:
            of_project[key] = [absolute_entry(entry, path.parent) for entry in of_project[key]]
    extensions: Sequence[str] = of_project.get("extensions", ())
    of_project |= {key: [*of_project[key], *merged.get(key, [])] for key in _RESOURCES if key in of_project}
    merged = _merge(merged, of_project)
    files.update(dict.fromkeys(of_project, path))
    settings = Settings.from_wire(merged)
    return LoadedSettings(settings, problems, files, extensions, lost_sandbox, own_sandbox)


def _usable(path: Path, content: bytes | None, problems: list[SettingsError | str]) -> JsonObject:
    try:
        return parsed_settings(path, content)
    except SettingsError as problem:
        problems.append(problem)
        return {}


def _strictest(path: Path) -> tuple[JsonObject, bool]:
    """Return settings as strict as a file that cannot be used may have, and whether it speaks of a sandbox."""
    try:
        text = read_file(path)[:MAX_SETTINGS_BYTES].replace(b"\0", b"")  # in whatever encoding
    except OSError:
        text = b""
    settings: JsonObject = {"approve": "always" if b"always" in text else "writes"}
    if b"deny" in text:
        settings["effects"] = {kind: "deny" for kind in KINDS if kind.encode() in text}
    if b"tell" in text:
        settings["notebook"] = {"tellCells": False, "tellVariables": False}
    if b"shellEnvironment" in text or b"shell_environment" in text:
        names = re.findall(rb'"(![A-Za-z0-9_*?]{1,200})"', text)
        settings["shellEnvironment"] = [name.decode() for name in dict.fromkeys(names)]
    return settings, b"sandbox" in text


def _admitted(
    settings: JsonObject, own: JsonObject, path: Path, problems: list[SettingsError | str], *, trusted: bool
) -> JsonObject:
    """Return the settings of a project that count besides the user's ``own``."""
    if trusted and (rejected := [key for key in _NEVER if key in settings and key != "ttsr"]):
        names = ", ".join(f"`{key}`" for key in rejected)
        problems.append(f"{path}: {names} cannot be set by a project. Put it into your own settings if you want it.")
    chosen = {key: value for key, value in settings.items() if key not in _NEVER}
    if not trusted:
        chosen = {key: value for key, value in chosen.items() if key in (*_HARMLESS, *_STRICTER)}
        if (wanted := chosen.pop("defaultTools", None)) is not None:
            from indus_nb.tools import DEFAULT_TOOLS

            usual = DEFAULT_TOOLS if own.get("defaultTools") is None else own["defaultTools"]
            chosen["defaultTools"] = [name for name in wanted if name in usual]
        if "notebook" in chosen:
            chosen["notebook"] = {
                key: value for key, value in chosen["notebook"].items() if key.startswith("tell") and value is False
            }
    if "sandbox" in chosen:
        from indus_nb.core.resources import sandbox_settings

        chosen["sandbox"] = sandbox_settings.stricter(chosen["sandbox"], own.get("sandbox"))
    if "effects" in chosen:
        chosen["effects"] = stricter(chosen["effects"], own.get("effects", {}))
    if "approve" in chosen and MODES.index(chosen["approve"] or "never") <= _strictness(own):
        del chosen["approve"]  # a project may make approvals stricter, not looser
    return chosen


def privileged(settings: JsonObject) -> JsonObject:
    """Return those of a project's settings that count only if it is trusted.

    Args:
        settings: As ``parsed_settings`` returns them, with ``extensions`` as they stand.

    Returns:
        The settings that are known, are in effect and could harm.
    """
    known = set(map(to_camel, Settings.wire_fields)) - {*_NEVER, *_HARMLESS, "approve", "effects", "sandbox"}
    return {key: value for key, value in settings.items() if key in known}


def own_settings(agent_dir: Path) -> Settings:
    """Return the user's settings alone, those of no project; what cannot be used has its default."""
    return Settings.from_wire(_usable(agent_dir / "settings.json", None, []))


def _strictness(settings: JsonObject) -> int:
    """Return how much these settings ask the user about, where the usual may be as much as ``effects``."""
    return MODES.index(settings.get("approve") or "effects")


def absolute_entry(entry: str, directory: Path) -> str:
    """Make the path of an entry of a list absolute, and keep the mark in front of it.

    Args:
        entry: A path or pattern, perhaps behind ``!``, ``+`` or ``-``.

    >>> absolute_entry("!skills/*", Path("/home/me"))
    '!/home/me/skills/*'
    """
    mark = entry[:1] if entry[:1] in ("!", "+", "-") else ""
    try:
        path = Path(entry[len(mark) :]).expanduser()
    except RuntimeError:  # the home of an unknown user
        path = Path(entry[len(mark) :])
    return f"{mark}{directory.absolute() / path}"


def parsed_settings(path: Path, content: bytes | None = None) -> JsonObject:
    """Read a settings file, with its keys in the spelling of files.

    Args:
        content: What it holds, if it was read already.

    Returns:
        The settings as they stand; empty without a file.

    Raises:
        SettingsError: It cannot be used.
    """
    try:
        if content is None and path.stat().st_size > MAX_SETTINGS_BYTES:
            raise SettingsError(path, f"is larger than {MAX_SETTINGS_BYTES >> 20} MB")
        text = read_file(path, most=MAX_SETTINGS_BYTES) if content is None else content
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(path, f"cannot be read ({error.strerror})") from error
    if b"\\u0000" in text:
        raise SettingsError(path, "holds a NUL character, of which no path, program or name can be made")
    try:
        value: object = from_json(text)
    except ValueError as error:
        raise SettingsError(path, f"is no JSON ({error})") from error
    if not isinstance(value, dict):
        raise SettingsError(path, "must hold a JSON object")
    settings = _in_camel_case(cast("JsonObject", value))
    try:
        Settings.from_wire(settings)
    except InvalidFieldsError as error:
        raise SettingsError(path, str(error)) from error
    return settings


def _in_camel_case(settings: JsonObject) -> JsonObject:
    """Return ``settings`` in the spelling of files; a key that is spelled so overrides the same with underscores."""
    new = dict(settings)
    for name in [key for key in new if "_" in key and key in Settings.wire_fields]:
        new.setdefault(to_camel(name), new[name])
        del new[name]  # what a project may not set, it may not set under any name
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
