"""From a user's wishes to a session that is ready: settings, model, tools, system prompt and file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import get_args

from indus_nb.errors import CredentialsError, ModelNotFoundError, UsageError
from indus_nb.messages import ThinkingLevel
from indus_nb.prompts import system_prompt
from indus_nb.providers import Model, provider_for
from indus_nb.providers.catalog import all_models, default_model, find_model
from indus_nb.session import AgentSession, Equipment, SessionSettings
from indus_nb.settings import Settings, agent_directory, load_settings, variable
from indus_nb.store import SessionStore, find_session, most_recent_session, session_directory
from indus_nb.tools import DEFAULT_TOOLS, Shell, Tool, builtin_tools

THINKING_LEVELS: tuple[ThinkingLevel, ...] = get_args(ThinkingLevel)
DEFAULT_THINKING_LEVEL: ThinkingLevel = "medium"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """What a user may wish of a session; everything has a default.

    ``model`` is an id, ``provider/id`` or a part of a name, with ``:level`` behind it for the thinking level if wanted.
    ``models`` are the ones to cycle through, ``*`` standing for anything. ``tools`` are names, ``()`` for none.
    ``system_prompt`` and ``append_system_prompt`` are texts or paths of text files. At most one of ``session`` (a path
    or the beginning of an id), ``continue_last`` and ``no_session`` counts.
    """

    cwd: Path | str | None = None
    provider: str | None = None
    model: str | None = None
    thinking: str | None = None
    models: Sequence[str] | None = None
    api_key: str | None = field(default=None, repr=False)
    system_prompt: str | None = None
    append_system_prompt: Sequence[str] = ()
    tools: Sequence[str] | None = None
    session: str | None = None
    continue_last: bool = False
    no_session: bool = False
    session_dir: Path | str | None = None


def open_session(options: SessionOptions | None = None) -> AgentSession:
    """A session as wished, new or resumed; what was noticed on the way and does no harm is in its ``problems``.

    A wish that cannot be met raises an ``IndusError`` and leaves nothing open. A missing key is no obstacle yet: the
    first prompt says so.
    """
    wishes = options or SessionOptions()
    if sum((wishes.session is not None, wishes.continue_last, wishes.no_session)) > 1:
        raise UsageError("Choose one of --session, --continue and --no-session.")
    cwd = Path(wishes.cwd or Path.cwd()).expanduser().resolve()
    if not cwd.is_dir():
        raise UsageError(f"The working directory {cwd} does not exist.")
    agent_dir = agent_directory()
    loaded = load_settings(cwd, agent_dir)
    settings = loaded.settings
    directory = _session_directory(wishes, settings, cwd, agent_dir)
    store = _open_store(wishes, directory, cwd)
    try:
        store.check_cwd()
        problems = [str(problem) for problem in loaded.problems]
        stored = store.context()
        model, level = _choose_model(wishes, settings, stored.model, problems)
        level = level or wishes.thinking or stored.thinking_level or settings.default_thinking_level
        base = _text_or_file(wishes.system_prompt) if wishes.system_prompt is not None else None
        appended = [_text_or_file(text) for text in wishes.append_system_prompt]

        def equip(cwd: Path) -> Equipment:
            tools = _choose_tools(wishes.tools, cwd, settings)
            today = datetime.now().astimezone().date()
            prompt = system_prompt(tools=tools.values(), cwd=cwd, today=today, base=base, appended=appended)
            return Equipment(prompt, tools)

        session = AgentSession(
            store,
            SessionSettings(
                api_keys={model.provider: wishes.api_key} if model and wishes.api_key else {},
                thinking_budgets=settings.thinking_budgets,
                tool_execution=settings.tool_execution,
                interrupt_mode=settings.interrupt_mode,
                shell=_shell(settings),
                retry=settings.retry,
                compaction=settings.compaction,
                branch_summary=settings.branch_summary,
                cycled_models=_choose_cycled(wishes.models),
            ),
            model=model,
            thinking_level=_thinking_level(level) if level else DEFAULT_THINKING_LEVEL,
            equip=equip,
            new_store=lambda cwd, parent: _new_store(wishes, directory, cwd, parent),
        )
    except BaseException:
        store.close()
        raise
    session.problems[:0] = problems
    session.steering.mode = settings.steering_mode
    session.follow_up_queue.mode = settings.follow_up_mode
    return session


def _session_directory(wishes: SessionOptions, settings: Settings, cwd: Path, agent_dir: Path) -> Path:
    chosen = wishes.session_dir or variable("CODING_AGENT_SESSION_DIR") or settings.session_dir
    return Path(chosen).expanduser().absolute() if chosen else session_directory(cwd, agent_dir)


def _open_store(wishes: SessionOptions, directory: Path, cwd: Path) -> SessionStore:
    if wishes.session is not None:
        return SessionStore.open(find_session(wishes.session, directory))
    if wishes.continue_last and (recent := most_recent_session(directory)):
        return SessionStore.open(recent)
    return _new_store(wishes, directory, cwd, None)


def _new_store(wishes: SessionOptions, directory: Path, cwd: Path, parent: str | None) -> SessionStore:
    if wishes.no_session:
        return SessionStore.in_memory(cwd)
    return SessionStore.create(cwd, directory, parent_session=parent)


def _choose_model(
    wishes: SessionOptions, settings: Settings, stored: tuple[str, str] | None, problems: list[str]
) -> tuple[Model | None, str | None]:
    """The model and the level named with it: as wished, as the session had it, as set, or what there is a key for."""
    if wishes.provider is not None:
        provider_for(wishes.provider)
    if wishes.model is not None:
        name, _, level = wishes.model.rpartition(":")
        if name and level in THINKING_LEVELS:
            return find_model(name, wishes.provider), level
        return find_model(wishes.model, wishes.provider), None
    remembered: list[tuple[str, str | None, str]] = []
    if stored is not None and wishes.provider is None:
        remembered.append((stored[1], stored[0], "The session's own model is not to be had; another one goes on."))
    if settings.default_model is not None and wishes.provider in (None, settings.default_provider):
        remembered.append((settings.default_model, settings.default_provider, "The settings name an unusable model."))
    for name, provider, complaint in remembered:
        try:
            return find_model(name, provider), None
        except ModelNotFoundError as error:
            problems.append(f"{complaint} {error}")
    return _default_model(wishes, settings, problems), None


def _choose_cycled(patterns: Sequence[str] | None) -> list[Model] | None:
    if patterns is None:
        return None
    chosen: dict[tuple[str, str], Model] = {}
    for pattern in patterns:
        fitting = [
            model
            for model in all_models()
            if fnmatchcase(model.id, pattern) or fnmatchcase(f"{model.provider}/{model.id}", pattern)
        ]
        chosen.update(((model.provider, model.id), model) for model in fitting or [find_model(pattern)])
    return list(chosen.values())


def _default_model(wishes: SessionOptions, settings: Settings, problems: list[str]) -> Model | None:
    provider = wishes.provider
    if provider is None and settings.default_provider is not None:
        try:
            provider_for(settings.default_provider)
            provider = settings.default_provider
        except UsageError as error:
            problems.append(f"The settings' `defaultProvider` is of no use. {error}")
    if provider is None:
        try:
            provider_for("anthropic").find_key(wishes.api_key)
        except CredentialsError:
            return None
        provider = "anthropic"
    return default_model(provider)


def _thinking_level(level: str) -> ThinkingLevel:
    if level not in THINKING_LEVELS:
        raise UsageError(f"Unknown thinking level: {level}. Choose one of {', '.join(THINKING_LEVELS)}.")
    return level


def _shell(settings: Settings) -> Shell:
    return Shell(path=settings.shell_path, prefix=settings.shell_command_prefix)


def _choose_tools(names: Sequence[str] | None, cwd: Path, settings: Settings) -> dict[str, Tool]:
    known = builtin_tools(cwd, shell=_shell(settings), auto_resize_images=settings.images.auto_resize)
    wanted = DEFAULT_TOOLS if names is None else names
    for name in wanted:
        if name not in known:
            raise UsageError(f"Unknown tool: {name}. Known tools: {', '.join(known)}.")
    return {name: known[name] for name in dict.fromkeys(wanted)}


def _text_or_file(text: str) -> str:
    try:
        path = Path(text).expanduser()
        return path.read_text(encoding="utf-8") if path.is_file() else text
    except (OSError, UnicodeDecodeError, ValueError, RuntimeError):
        return text
