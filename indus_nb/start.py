"""From the options of a user to a session that is ready: settings, model, tools, system prompt and file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from indus_nb.errors import ModelNotFoundError, UsageError
from indus_nb.files import current_directory, expand_user
from indus_nb.messages import ThinkingLevel
from indus_nb.providers import Model
from indus_nb.providers.catalog import ModelCost, split_level
from indus_nb.providers.registry import ModelRegistry, ScopedModel
from indus_nb.resources.settings import (
    PROJECT_DIRECTORY,
    RULES_DIRECTORY,
    LoadedSettings,
    Settings,
    agent_directory,
    load_settings,
    model_registry,
    variable,
)
from indus_nb.session.hooks import SessionHooks
from indus_nb.session.model_choice import model_unavailable
from indus_nb.session.session import AgentSession, ApproveMode, Equipment, SessionSettings
from indus_nb.storage import SessionStore, find_session, most_recent_session, session_directory
from indus_nb.tools import BUILTIN_TOOLS, DEFAULT_TOOLS, TODO, Shell, Tool, builtin_tools

if TYPE_CHECKING:
    from indus_nb.extensions.todo_keeper import TodoKeeper
    from indus_nb.resources.loading import Resources

THINKING_LEVELS: tuple[ThinkingLevel, ...] = get_args(ThinkingLevel)
DEFAULT_THINKING_LEVEL: ThinkingLevel = "medium"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """The options of a session; everything has a default.

    ``model`` is an id, ``provider/id`` or a part of a name, with ``:level`` behind it for the thinking level if wanted.
    ``models`` are the ones to cycle through, ``*`` standing for anything, with ``:level`` behind it too; a new session
    starts with the first. ``tools`` are names, ``()`` for none.
    ``system_prompt`` and ``append_system_prompt`` are texts or paths of text files. At most one of ``session`` (a path
    or the beginning of an id), ``continue_last`` and ``no_session`` counts.

    ``extensions`` are files, directories or functions ``setup(api)``, besides those found in the usual places unless
    ``use_extensions`` is off; ``flags`` are what they find for their options. ``skills`` and ``prompt_templates`` are
    more places of those. ``more_tools`` are names that ``tools`` may hold because an extension offers
    them. ``approve`` selects the tool calls that the user is asked about: ``never`` none, ``writes``
    those with effects, ``always`` all; ``usual_approve`` applies when neither this nor the settings set it.
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
    extensions: Sequence[Path | str | Callable[[Any], Any]] = ()
    use_extensions: bool = True
    flags: Mapping[str, bool | str] = field(default_factory=dict[str, bool | str])
    skills: Sequence[str] = ()
    use_skills: bool = True
    prompt_templates: Sequence[str] = ()
    use_prompt_templates: bool = True
    use_context_files: bool = True
    more_tools: Sequence[str] = ()
    approve: ApproveMode | None = None
    usual_approve: ApproveMode = "never"


def open_session(options: SessionOptions | None = None, *, definable: bool = True) -> AgentSession:
    """Open a session, new or resumed.

    Args:
        options: what is requested of it; without them everything is as the settings have it.
        definable: whether this process may come to define tools and handlers (``indus_nb.agent``) while the session is
            open. If not, what extensions need is imported for those that there are.

    Returns:
        The session; what is wrong and does no harm is in its ``problems``. A missing key is reported by the first
        prompt.

    Raises:
        IndusError: An option cannot be used; nothing is left open.
    """
    options = options or SessionOptions()
    if sum((options.session is not None, options.continue_last, options.no_session)) > 1:
        raise UsageError("Choose one of --session, --continue and --no-session.")
    cwd = (expand_user(options.cwd) if options.cwd else current_directory()).resolve()
    if not cwd.is_dir():
        raise UsageError(f"The working directory {cwd} does not exist.")
    agent_dir = agent_directory()
    loaded = load_settings(cwd, agent_dir)
    settings = loaded.settings
    directory = _session_directory(options, settings, cwd, agent_dir)
    store = _open_store(options, directory, cwd)
    try:
        store.check_cwd()
        registry = model_registry(agent_dir)
        problems = [*map(str, loaded.problems), *registry.problems]
        stored = store.context()
        cycled = _choose_cycled(options.models, loaded, registry, problems)
        model, level = _choose_model(options, loaded, stored.model, registry, cycled or (), problems)
        if model is not None and options.api_key:
            registry.api_keys[model.provider] = options.api_key
        level = level or options.thinking or stored.thinking_level or settings.default_thinking_level
        usual_tools = _usual_tools(loaded, problems)
        _check_tools(options.tools or (), [*BUILTIN_TOOLS, TODO, *options.more_tools])
        # Offered only on request: a host or an extension may have a tool of that name.
        keeper = _todo_keeper(settings, usual_tools if options.tools is None else options.tools)
        base = _text_or_file(options.system_prompt) if options.system_prompt is not None else None
        appended = [_text_or_file(text) for text in options.append_system_prompt]

        def equip(cwd: Path) -> Equipment:
            names = usual_tools if options.tools is None else options.tools

            def make() -> dict[str, Tool]:
                tools = builtin_tools(cwd, shell=_shell(settings), auto_resize_images=settings.images.auto_resize)
                return tools | ({TODO: keeper.tool()} if keeper is not None else {})

            def find(skills: Sequence[str], prompts: Sequence[str]) -> Resources:
                from indus_nb.resources.loading import load_resources

                return load_resources(
                    cwd,
                    agent_dir,
                    skills=settings.skills,
                    prompts=settings.prompts,
                    extra_skill_paths=[*options.skills, *skills],
                    extra_prompt_paths=[*options.prompt_templates, *prompts],
                    use_skills=options.use_skills,
                    use_templates=options.use_prompt_templates,
                    use_context_files=options.use_context_files,
                )

            def write(tools: Iterable[Tool], resources: Resources) -> str:
                from indus_nb.resources.system_prompt import system_prompt

                return system_prompt(
                    tools=tools,
                    cwd=cwd,
                    today=datetime.now().astimezone().date(),
                    base=base if base is not None else resources.base,
                    appended=appended or ([resources.appended] if resources.appended else []),
                    context_files=resources.context_files,
                    skills=resources.skills,
                )

            return Equipment(make, names, find, write)

        session = AgentSession(
            store,
            SessionSettings(
                thinking_budgets=settings.thinking_budgets,
                tool_execution=settings.tool_execution,
                interrupt_mode=settings.interrupt_mode,
                shell=_shell(settings),
                retry=settings.retry,
                compaction=settings.compaction,
                branch_summary=settings.branch_summary,
                cycled_models=cycled,
                resize_images=settings.images.auto_resize,
                approve=options.approve or settings.approve or options.usual_approve,
            ),
            registry=registry,
            model=model,
            thinking_level=_thinking_level(level) if level else DEFAULT_THINKING_LEVEL,
            equip=equip,
            new_store=lambda cwd, parent: _new_store(options, directory, cwd, parent),
            hooks=lambda session: _hooks(session, options, settings, agent_dir, keeper, definable=definable),
        )
    except BaseException:
        store.close()
        raise
    session.watchers += [keeper] if keeper is not None else []
    if options.tools is not None:
        session.set_active_tools(options.tools)
    session.problems[:0] = problems
    session.steering.mode = settings.steering_mode
    session.follow_up_queue.mode = settings.follow_up_mode
    return session


def _extensions(
    session: AgentSession, options: SessionOptions, settings: Settings, agent_dir: Path, keeper: TodoKeeper | None
) -> SessionHooks:
    """What fills the hooks of a session; the extensions come in the order in which they are asked."""
    from indus_nb.extensions.definitions import agent
    from indus_nb.extensions.host import Extensions
    from indus_nb.extensions.loader import Scope, Source, discover, installed
    from indus_nb.extensions.permission_gate import permission_gate
    from indus_nb.extensions.rule_keeper import RuleKeeper

    rules = RuleKeeper(session, settings.ttsr, agent_dir)
    session.watchers.append(rules)
    gate = Source("the permission gate", "user", permission_gate(agent_dir))

    def sources() -> Iterator[Source]:
        if settings.mcp_servers and options.use_extensions:
            from indus_nb.extensions.mcp_tools import mcp_extension

            yield Source("mcpServers", "user", mcp_extension(settings.mcp_servers))
        if keeper is not None:
            yield Source("the to-do list", "user", keeper.extension(session))
        if settings.ttsr.enabled:
            yield Source("the stream rules", "user", rules.extension)
        yield from others()
        yield gate  # last, when no other extension can change a call any more

    def others() -> Iterator[Source]:
        yield Source("the definitions of this program", "temporary", agent)
        for factory in options.extensions:
            if callable(factory):
                name = f"<{factory.__module__}.{getattr(factory, '__qualname__', 'factory')}>"
                yield Source(name, "temporary", factory)
        paths = [Path(path) for path in options.extensions if not callable(path)]
        requested: list[tuple[Path, Scope]] = [(path, "temporary") for path in paths]
        if not options.use_extensions:
            yield from discover([], requested)
            return
        project, user = _directories(session, agent_dir, "extensions")
        directories: list[tuple[Path, Scope]] = [(project, "project"), (user, "user")]
        chosen = (path.lstrip("+") for path in settings.extensions if not path.startswith(("!", "-")))
        yield from discover(directories, [*((Path(path), "user") for path in chosen), *requested])
        yield from installed()

    seconds = settings.extension_handlers.timeout_ms / 1000
    return Extensions(session, sources, flag_values=options.flags, seconds=seconds)


def _hooks(
    session: AgentSession,
    options: SessionOptions,
    settings: Settings,
    agent_dir: Path,
    keeper: TodoKeeper | None,
    *,
    definable: bool,
) -> SessionHooks:
    """The extensions of a session, unless there are none and none can be defined."""
    make = partial(_extensions, session, options, settings, agent_dir, keeper)
    if definable or keeper is not None:
        return make()
    from indus_nb.extensions.standby import Standby

    def anything() -> bool:
        if options.extensions or options.flags or "indus_nb.extensions.definitions" in sys.modules:
            return True
        rules = _directories(session, agent_dir, RULES_DIRECTORY) if settings.ttsr.enabled else ()
        return any(map(os.path.lexists, rules)) or (options.use_extensions and usual_ones())

    def usual_ones() -> bool:
        from indus_nb.extensions.loader import installed

        files = map(os.path.lexists, _directories(session, agent_dir, "extensions"))
        return bool(settings.mcp_servers or settings.extensions) or any(files) or any(installed())

    return Standby(session, anything, make)


def _directories(session: AgentSession, agent_dir: Path, name: str) -> tuple[Path, Path]:
    return session.store.cwd / PROJECT_DIRECTORY / name, agent_dir / name


def _todo_keeper(settings: Settings, tools: Sequence[str]) -> TodoKeeper | None:
    if TODO not in tools:
        return None
    from indus_nb.extensions.todo_keeper import TodoKeeper

    return TodoKeeper(settings.todo)


def _session_directory(options: SessionOptions, settings: Settings, cwd: Path, agent_dir: Path) -> Path:
    chosen = options.session_dir or variable("CODING_AGENT_SESSION_DIR") or settings.session_dir
    return expand_user(chosen).absolute() if chosen else session_directory(cwd, agent_dir)


def _open_store(options: SessionOptions, directory: Path, cwd: Path) -> SessionStore:
    if options.session is not None:
        return SessionStore.open(find_session(options.session, directory))
    if options.continue_last and (recent := most_recent_session(directory)):
        return SessionStore.open(recent)
    return _new_store(options, directory, cwd, None)


def _new_store(options: SessionOptions, directory: Path, cwd: Path, parent: str | None) -> SessionStore:
    if options.no_session:
        return SessionStore.in_memory(cwd)
    return SessionStore.create(cwd, directory, parent_session=parent)


def _choose_model(
    options: SessionOptions,
    loaded: LoadedSettings,
    stored: tuple[str, str] | None,
    registry: ModelRegistry,
    cycled: Sequence[ScopedModel],
    problems: list[str],
) -> tuple[Model | None, str | None]:
    """The model, and the level that was named with it.

    It is the requested one, the session's own, the first to cycle through, the one of the settings, or one with a key.
    """
    provider = registry.default(options.provider).provider if options.provider is not None else None
    if options.model is not None:
        name, level = split_level(options.model)
        try:
            return registry.find(name, provider), level
        except ModelNotFoundError as error:
            # A gateway or a new model may know more than the catalogue: who names the provider is believed.
            named, slash, rest = name.partition("/")
            known = provider or (named if slash and named in {model.provider for model in registry.models} else None)
            if known is None or known == "offline":
                raise
            model_id = name if provider else rest
            problems.append(f"{error} It is asked for all the same, with the limits of a usual model.")
            return registry.default(known).model_copy(
                update={"id": model_id, "name": model_id, "cost": ModelCost()}
            ), level
    if stored is not None and provider is None:
        try:
            return registry.with_id(stored[1], stored[0]), None
        except ModelNotFoundError as error:
            problems.append(model_unavailable(None, error))
    fitting = [scoped for scoped in cycled if provider in (None, scoped.model.provider)]
    if fitting:
        usable = (scoped for scoped in fitting if scoped.model.api != "offline" and registry.has_key(scoped.model))
        chosen = next(usable, fitting[0])
        return chosen.model, options.thinking or chosen.thinking_level
    return _default_model(provider, options, loaded, registry, problems), None


def _default_model(
    provider: str | None, options: SessionOptions, loaded: LoadedSettings, registry: ModelRegistry, problems: list[str]
) -> Model | None:
    settings = loaded.settings
    usual = settings.default_provider
    if usual is not None:
        try:
            usual = registry.default(usual).provider
        except UsageError as error:
            problems.append(f"{loaded.place('defaultProvider')} is rejected. {error}")
            usual = None
    if settings.default_model is not None and provider in (None, usual):
        try:
            return registry.find(settings.default_model, usual)
        except ModelNotFoundError as error:
            problems.append(f"{loaded.place('defaultModel')} is rejected. {error}")
    if (named := provider or usual) is not None:
        return registry.default(named)
    return registry.default("anthropic") if options.api_key else registry.first_available()


def _choose_cycled(
    patterns: Sequence[str] | None, loaded: LoadedSettings, registry: ModelRegistry, problems: list[str]
) -> list[ScopedModel] | None:
    wanted = loaded.settings.enabled_models if patterns is None else patterns
    chosen: dict[tuple[str, str], ScopedModel] = {}
    for pattern in wanted or ():
        try:
            for scoped in registry.scope(pattern):
                chosen.setdefault((scoped.model.provider, scoped.model.id), scoped)
        except ModelNotFoundError as error:
            if patterns is not None:
                raise
            problems.append(f"{loaded.place('enabledModels')} names an unknown model. {error}")
    return list(chosen.values()) or None


def _thinking_level(level: str) -> ThinkingLevel:
    if level not in THINKING_LEVELS:
        raise UsageError(f"Unknown thinking level: {level}. Choose one of {', '.join(THINKING_LEVELS)}.")
    return level


def _shell(settings: Settings) -> Shell:
    return Shell(path=settings.shell_path, prefix=settings.shell_command_prefix)


def _usual_tools(loaded: LoadedSettings, problems: list[str]) -> Sequence[str]:
    names = loaded.settings.default_tools
    if names is None:
        return DEFAULT_TOOLS
    known = [*BUILTIN_TOOLS, TODO]
    if unknown := [name for name in names if name not in known]:
        names = [name for name in names if name in known]
        unknown_tools = f"Unknown tool: {', '.join(unknown)}. Known tools: {', '.join(known)}."
        problems.append(f"{loaded.place('defaultTools')} is rejected in part. {unknown_tools}")
    return names


def _check_tools(names: Sequence[str], known: Sequence[str]) -> None:
    if isinstance(names, str):
        raise UsageError(f"The tools are a list of names, not one text: [{names!r}].")
    for name in names:
        if name not in known:
            raise UsageError(f"Unknown tool: {name}. Known tools: {', '.join(known)}.")


def _text_or_file(text: str) -> str:
    try:
        path = Path(text).expanduser()
        return path.read_text(encoding="utf-8") if path.is_file() else text
    except (OSError, UnicodeDecodeError, ValueError, RuntimeError):
        return text
