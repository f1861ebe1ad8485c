"""Opening of a session: options and settings resolved, and the session made from them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from indus_nb.base import own_imports
from indus_nb.base.errors import IndusError, UsageError
from indus_nb.base.files import current_directory, expand_user
from indus_nb.base.wire import JsonObject
from indus_nb.core.resources.inputs import PROJECT_DIRECTORY, RULES_DIRECTORY
from indus_nb.core.resources.settings import (
    LoadedSettings,
    Settings,
    agent_directory,
    cache_retention,
    load_settings,
    model_registry,
)
from indus_nb.core.resources.trust import Trust
from indus_nb.core.session.hooks import SessionHooks
from indus_nb.core.session.session import AgentSession, Equipment, SessionSettings
from indus_nb.core.storage import SessionStore
from indus_nb.models import Model
from indus_nb.models.registry import ModelRegistry, ScopedModel
from indus_nb.safety.key_variables import child_environment, key_variables
from indus_nb.safety.vault import Vault
from indus_nb.start import models
from indus_nb.start.models import DEFAULT_THINKING_LEVEL, choose_cycled, choose_model, thinking_level
from indus_nb.start.options import SessionOptions, check_limits, check_tools, text_or_file, usual_tools
from indus_nb.start.stores import Stores
from indus_nb.tools import AGENTS, BUILTIN_TOOLS, TODO, Looks, Shell, Tool, builtin_tools

if TYPE_CHECKING:
    from indus_nb.core.resources.loading import Resources
    from indus_nb.core.resources.projects import Project
    from indus_nb.core.resources.sandbox_settings import Sandboxes
    from indus_nb.core.session.job_reports import ReportedJobs
    from indus_nb.extend.built_in.subagents import Subagents
    from indus_nb.extend.built_in.todo_keeper import TodoKeeper
    from indus_nb.extend.loader import Source
    from indus_nb.safety.sandbox import Sandbox
    from indus_nb.tools.files.writing import FileQueue


class _Plan:
    """Outcome of options and settings; read anew once the user trusts the project."""

    def __init__(self, options: SessionOptions, cwd: Path, agent_dir: Path, caller: _Plan | None = None) -> None:
        self.options = options
        self.caller = caller
        """The plan of the session that this one works for, whose settings, sandbox and secrets are decided about."""
        self.cwd = cwd
        self.agent_dir = agent_dir
        self.trust: Trust = Trust(agent_dir, options.trust)
        self.keeper: TodoKeeper | None = None
        self.subagents: Subagents | None = None
        self.queue: FileQueue | None = None
        """The queue of sub-agents that change files; the session itself waits while they work."""
        self.session: AgentSession | None = None
        """The session, once it is open."""
        self.sandboxes: Sandboxes | None = None
        self.vault: Vault = Vault(redact=False)
        self.shell: Shell = Shell()
        self.looks_again = False
        """``True`` if loading extensions looks at the project anew; else it is used as it was decided about."""
        if caller is None:
            self.load()
        else:
            self.loaded, self.settings = caller.loaded, caller.settings
            self.sandboxes, self.vault, self.shell = caller.sandboxes, caller.vault, caller.shell
        after = options.jobs_after, self.settings.jobs.after_seconds, options.usual_jobs_after
        self.jobs: ReportedJobs | None = None
        if any(after):
            from indus_nb.core.session.job_reports import reported_jobs

            self.jobs = reported_jobs(next(seconds for seconds in after if seconds is not None))

    def load(self) -> None:
        """Read the settings; those of a project as they were when it was decided about."""
        project = self.trust.project(self.cwd)
        trusted, content = (project.trusted, project.settings or b"{}") if project is not None else (False, None)
        self.loaded: LoadedSettings = load_settings(self.cwd, self.agent_dir, trusted=trusted, project=content)
        self.settings: Settings = self.loaded.settings

    def choose_tools(self, problems: list[str]) -> None:
        """Determine the tools that are offered unless the user chooses others."""
        self.usual_tools: Sequence[str] = usual_tools(self.loaded, problems)
        if self.options.tools is not None:
            self.tools: Sequence[str] = self.options.tools
        else:
            self.tools = self.usual_tools if self.options.builtin_tools else ()
        # Offered only on request: a host or an extension may have a tool of that name.
        self.keeper = self.keeper or _todo_keeper(self.settings, wanted=self.options.plans or TODO in self.tools)
        self.subagents = self.subagents or _subagents(self)

    def requested_tools(self) -> dict[str, Tool]:
        """Make the tools that are offered only on request."""
        made: dict[str, Tool] = {}
        if self.keeper is not None:
            made[TODO] = self.keeper.tool()
        if self.subagents is not None:
            made[AGENTS] = self.subagents.tool()
        return made

    def confine(self, directory: Path, problems: list[str]) -> None:
        """Choose the sandbox of programs, if any; ``directory`` holds sessions, which they cannot read."""
        if self.caller is not None:
            return
        if self.options.sandbox is None:
            if (lost := self.loaded.lost_sandbox) is not None:
                raise UsageError(f"{lost} It speaks of a sandbox: until it is mended, say --sandbox or --sandbox off.")
            if self.settings.sandbox is None:
                return
        from indus_nb.core.resources.sandbox_settings import make_sandboxes

        hidden = (self.agent_dir, directory, *self.options.hidden)
        own, note = self.loaded.own_sandbox, self.trust.note_sandbox
        self.sandboxes = make_sandboxes(self.options.sandbox, self.settings.sandbox, hidden, own, note)
        if self.sandboxes is not None and self.sandboxes.problem is not None:
            problems.append(self.sandboxes.problem)

    def attach(self, session: AgentSession) -> None:
        """Set the session's tools and watchers, and have sandboxes cleaned up when it ends."""
        self.session = session
        if self.options.tools is not None:
            session.set_active_tools(self.options.tools)
        session.toolbox.exclude(self.options.exclude_tools)
        session.toolbox.takes_answers = self.options.typed_prompts
        session.watchers += [self.keeper] if self.keeper is not None else []
        if self.jobs is not None:
            self.jobs.attach(session, lambda: self.settings.jobs.start_turn)
        if self.sandboxes is not None and self.caller is None:
            session.subscribe(lambda _: None, on_close=self.sandboxes.close)

    def confined_shell(self, cwd: Path) -> Shell:
        """Return the shell of the model's commands; the user's own run unconfined."""
        return self.shell if self.sandboxes is None else replace(self.shell, sandbox=self.sandboxes.of(cwd))

    def session_settings(self, cycled: Sequence[ScopedModel] | None) -> SessionSettings:
        """Return the settings of the session."""
        settings = self.settings
        return SessionSettings(
            thinking_budgets=settings.thinking_budgets,
            cache_retention=cache_retention(settings),
            usual_cache_retention=self.options.usual_cache_retention,
            tool_execution=settings.tool_execution,
            interrupt_mode=settings.interrupt_mode,
            shell=self.shell,
            retry=settings.retry,
            compaction=settings.compaction,
            branch_summary=settings.branch_summary,
            cycled_models=cycled,
            resize_images=settings.images.auto_resize,
            tools=settings.tools,
            approve=self.options.approve or settings.approve or self.options.usual_approve,
            effects=settings.effects,
            sandbox="off" if self.sandboxes is None else self.sandboxes.mode,
            vault=self.vault,
            jobs=self.jobs,
            cells=settings.notebook.cells,
            max_cost=self.options.max_cost,
            max_turns=self.options.max_turns,
            timeout=self.options.timeout,
        )

    def keep_secrets(self, registry: ModelRegistry, directory: Callable[[], Path]) -> None:
        """Make the vault of secrets, and the shell whose commands get none of the keys."""
        if self.caller is not None:
            return

        def listed() -> list[tuple[str, str]]:
            from indus_nb.safety.redaction import names_secret

            found = list(registry.known_secrets())
            for server, entry in self.settings.mcp_servers.items():
                for part in ("env", "headers"):
                    given: object = cast("JsonObject", entry).get(part) if isinstance(entry, dict) else None
                    named = cast("JsonObject", given).items() if isinstance(given, dict) else ()
                    found += [(f"{name} of {server}", str(value)) for name, value in named if names_secret(name)]
            return found

        def environment() -> dict[str, str]:
            return child_environment(self.settings.shell_environment, registry.key_variables())

        def lends(value: str, *, asked: bool) -> bool:
            if any(value in given for given in environment().values()):
                return True
            keys = {os.environ.get(name, "") for name in key_variables() | registry.key_variables()}
            return asked and not any(value in key for key in (*keys, *(key for _, key in registry.known_secrets())))

        redact, vouched = self.settings.secrets.redact, self.trust.vouches
        self.vault = Vault(directory, listed, vouched=vouched, lends=lends, redact=redact)
        self.shell = Shell(self.settings.shell_path, self.settings.shell_command_prefix, environment, self.vault)


@dataclass(frozen=True, slots=True)
class Shared:
    """Setup that many short sessions share, so that it is not looked up for each of them.

    Their messages do not wait for the disk, and may be lost in a power cut.

    Attributes:
        registry: the models, and how they are reached.
        model: the one that answers.
        thinking: its thinking level.
        bare: whether no extension looks at them, for they have no tools.
        parent: the file of the session that they work for.
        hooks: the hooks that they have in the place of extensions.
        queue: the queue of changes of files.
        caller: the plan of the session that they work for, which holds for them too.
        equipment: that of the session that they work for, if they have the same.
    """

    registry: ModelRegistry
    model: Model
    thinking: str
    bare: bool
    parent: str | None = None
    hooks: SessionHooks | None = None
    queue: FileQueue | None = None
    caller: _Plan | None = None
    equipment: Equipment | None = None


def open_session(
    options: SessionOptions | None = None,
    *,
    definable: bool = True,
    shared: Shared | None = None,
) -> AgentSession:
    """Open a session, new or resumed.

    Args:
        options: its options; without them everything is as the settings have it.
        definable: whether this process may come to define tools and handlers (``indus_nb.agent``) while the session is
            open. If not, what extensions need is imported for those that there are.
        shared: the setup that it shares with many others that are opened the same way.

    Returns:
        The session; what is wrong and does no harm is in its ``problems``. A missing key is reported by the first
        prompt.

    Raises:
        IndusError: An option cannot be used; nothing is left open.
    """
    return _open(options or SessionOptions(), definable=definable, shared=shared)[0]


def open_leading(options: SessionOptions, *, definable: bool) -> tuple[AgentSession, Shared]:
    """Open a session for which many short ones with the same options work; end it after all of them.

    Args:
        options: as for ``open_session``.
        definable: as for ``open_session``.

    Returns:
        The session, and what the others have in common with it.

    Raises:
        IndusError: An option cannot be used, or there is no model; nothing is left open.
    """
    bare = options.tools is not None and not options.tools
    session, plan = _open(options, definable=definable, shared=None, dated=not bare)
    try:
        model = session.models.required
    except BaseException:
        session.close()
        raise
    shared = Shared(session.registry, model, session.thinking_level, bare)
    # Those with extensions have a vault of their own, for an extension may bring keys.
    return session, replace(shared, caller=plan, equipment=session.equipment) if bare else shared


def _open(
    options: SessionOptions, *, definable: bool, shared: Shared | None, dated: bool = True
) -> tuple[AgentSession, _Plan]:
    named = (options.session is not None, options.session_id is not None, options.fork is not None)
    if sum((*named, options.continue_last, options.no_session)) > 1:
        raise UsageError("Choose one of --session, --session-id, --fork, --continue and --no-session.")
    check_limits(options)
    cwd = _working_directory(options, shared)
    agent_dir = agent_directory()
    plan = _Plan(options, cwd, agent_dir, None if shared is None else shared.caller)
    loaded, settings = plan.loaded, plan.settings
    stores = Stores(options, settings, cwd, agent_dir)
    store = _open_store(stores, shared)
    opened = [] if plan.caller is not None else stores.keep_private(store)
    try:
        store.check_cwd()
        registry = model_registry(agent_dir) if shared is None else shared.registry
        problems = [*opened, *own_imports.problems(), *map(str, loaded.problems)]
        problems += registry.problems if shared is None else ()  # told of by the one that it works for
        stored = store.context()
        cycled = choose_cycled(options.models, loaded, registry, problems)
        model, level = (
            choose_model(options, loaded, stored.model, registry, cycled or (), problems)
            if shared is None
            else (shared.model, shared.thinking)
        )
        if model is not None and options.api_key:
            registry.api_keys[model.provider] = options.api_key
        level = level or options.thinking or stored.thinking_level or settings.default_thinking_level
        plan.keep_secrets(registry, lambda: session.store.cwd)
        plan.choose_tools(problems)
        plan.confine(stores.directory, problems)
        check_tools(options.tools or (), [*BUILTIN_TOOLS, TODO, AGENTS, *options.more_tools])
        base = text_or_file(options.system_prompt) if options.system_prompt is not None else None
        appended = [text_or_file(text) for text in options.append_system_prompt]

        def equip(cwd: Path) -> Equipment:
            if shared is not None and shared.equipment is not None:
                return shared.equipment
            settings, shell = plan.settings, plan.confined_shell(cwd)

            def make() -> dict[str, Tool]:
                resizes = settings.images.auto_resize
                tools = builtin_tools(
                    cwd,
                    shell=shell,
                    auto_resize_images=resizes,
                    jobs=plan.jobs,
                    client=options.client,
                    queue=None if shared is None else shared.queue,
                    read_whole=settings.tools.read_whole,
                    looks=Looks(
                        seconds=settings.looks_seconds,
                        hidden=[path for path in (agent_dir, stores.directory) if not cwd.is_relative_to(path)],
                    ),
                )
                return tools | plan.requested_tools()

            def find(skills: Sequence[str], prompts: Sequence[str]) -> Resources:
                from indus_nb.core.resources.loading import load_resources

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
                    trusted=plan.trust.allows(cwd),
                )

            def write(tools: Iterable[Tool], resources: Resources) -> str:
                from indus_nb.core.resources.system_prompt import system_prompt

                return system_prompt(
                    tools=tools,
                    cwd=cwd,
                    today=datetime.now().astimezone().date() if dated else None,
                    place=options.place,
                    base=base if base is not None else resources.base,
                    appended=appended or ([resources.appended] if resources.appended else []),
                    context_files=resources.context_files,
                    skills=resources.skills,
                )

            return Equipment(make, plan.tools, find, write)

        session = AgentSession(
            store,
            plan.session_settings(cycled),
            registry=registry,
            model=model,
            thinking_level=thinking_level(level) if level else DEFAULT_THINKING_LEVEL,
            equip=equip,
            stores=stores,
            hooks=lambda session: _hooks(session, plan, shared, definable=definable),
        )
    except BaseException:
        store.close()
        raise
    plan.attach(session)
    session.models.usual = partial(models.usual_model, options, registry)
    session.models.is_usual = shared is None and not models.is_chosen(options, loaded, stored.model, cycled)
    session.problems[:0] = problems
    session.steering.mode = settings.steering_mode
    session.follow_up_queue.mode = settings.follow_up_mode
    if shared is None or not shared.bare:  # which uses nothing of a project
        session.trusting.use(plan.trust, cwd, partial(_adopt, session, plan, equip, has_model=stored.model is not None))
    return session, plan


async def _adopt(session: AgentSession, plan: _Plan, equip: Callable[[Path], Equipment], *, has_model: bool) -> None:
    """Apply the settings and resources of a project that the user trusts by now."""
    options, problems = plan.options, session.problems
    before, keeper = plan.session_settings(session.settings.cycled_models), plan.keeper
    plan.load()
    plan.looks_again = False
    problems += [text for problem in plan.loaded.problems if (text := str(problem)) not in problems]
    cycled = choose_cycled(options.models, plan.loaded, session.registry, problems)
    after = plan.session_settings(cycled)
    for setting in fields(after):  # what the user has changed since stays
        if (value := getattr(after, setting.name)) != getattr(before, setting.name):
            setattr(session.settings, setting.name, value)
    plan.choose_tools(problems)
    session.watchers += [plan.keeper] if plan.keeper is not None and keeper is None else []
    session.toolbox.equipment = equip(session.store.cwd)
    session.refresh_equipment()
    if session.messages or has_model or options.model is not None:
        return
    model, level = choose_model(options, plan.loaded, None, session.registry, cycled or (), problems)
    try:
        if model is not None and model != session.model:
            await session.set_model(model)
        if level and not options.thinking:
            await session.set_thinking_level(thinking_level(level))
    except IndusError as error:
        problems.append(f"{plan.loaded.place('defaultModel')} is not used. {error}")


def _extensions(session: AgentSession, plan: _Plan) -> SessionHooks:
    """Return the hooks of a session; the extensions come in the order in which they are asked."""
    from indus_nb.extend.approval.permission_gate import permission_gate
    from indus_nb.extend.built_in.rule_keeper import RuleKeeper
    from indus_nb.extend.host import Extensions
    from indus_nb.extend.loader import Source

    options, agent_dir = plan.options, plan.agent_dir
    rules = RuleKeeper(session, plan.settings.ttsr, agent_dir, plan.trust.allows)
    session.watchers.append(rules)
    gate = Source("the permission gate", "user", permission_gate(agent_dir, lambda: _open_to(session)))

    def sources() -> Iterator[Source]:
        project = plan.trust.project(session.store.cwd, afresh=plan.looks_again)
        if plan.looks_again and project is not None and project.undecided:
            session.trusting.look_again()
        plan.looks_again = True
        settings, keeper = plan.settings, plan.keeper
        configured, sandboxes = settings.mcp_servers if options.use_extensions else {}, plan.sandboxes

        def confining(cwd: Path) -> Sandbox | None:
            return sandboxes.of(cwd) if sandboxes is not None else None

        if configured or options.mcp_servers:
            from indus_nb.extend.built_in.deferred_tools import DeferredTools
            from indus_nb.extend.built_in.mcp_tools import mcp_extension

            deferred = DeferredTools(settings.mcp_tool_limit, lambda: session.all_tools)
            for name, servers in (("mcpServers", configured), ("the client's MCP servers", options.mcp_servers)):
                if servers:
                    yield Source(name, "user", mcp_extension(name, servers, deferred, confining))
        if keeper is not None:
            yield Source("the to-do list", "user", keeper.extension(session))
        if settings.ttsr.enabled:
            yield Source("the stream rules", "user", rules.extension)
        yield from _found(session, plan, project)
        yield gate  # last, when no other extension can change a call any more

    seconds = plan.settings.extension_handlers.timeout_ms / 1000
    return Extensions(session, sources, flag_values=options.flags, seconds=seconds)


def _open_to(session: AgentSession) -> list[Path]:
    """List paths outside the working directory that the model may read: skills and context files."""
    resources = session.equipment.resources
    return [*(skill.path.parent for skill in resources.skills), *(file.path for file in resources.context_files)]


def _found(session: AgentSession, plan: _Plan, project: Project | None) -> Iterator[Source]:
    """Yield the extensions of this program, of files and of packages; the project's if it is trusted."""
    from indus_nb.extend.definitions import agent
    from indus_nb.extend.loader import Scope, Source, discover, installed

    options = plan.options
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
    own, user = _directories(session, plan.agent_dir, "extensions")
    trusted = project is not None and project.trusted
    directories: list[tuple[Path, Scope]] = [(own, "project")] if trusted else []
    named: list[tuple[Path, Scope]] = []
    for path in plan.settings.extensions:
        of_project = path in plan.loaded.project_extensions
        if not path.startswith(("!", "-")) and (trusted or not of_project):
            named.append((Path(path.lstrip("+")), "project" if of_project else "user"))
    check = project.check if project is not None else None
    yield from discover([*directories, (user, "user")], [*named, *requested], check, session.problems)
    yield from installed()


def _hooks(session: AgentSession, plan: _Plan, shared: Shared | None, *, definable: bool) -> SessionHooks:
    """Return the extensions of a session, unless there are none and none can be defined."""
    if shared is not None and (shared.bare or shared.hooks is not None):
        return shared.hooks or SessionHooks()
    make = partial(_extensions, session, plan)
    options = plan.options
    if definable or plan.keeper is not None or options.flags:
        return make()
    from indus_nb.extend.standby import Standby

    def anything() -> bool:
        if options.extensions or options.mcp_servers or "indus_nb.extend.definitions" in sys.modules:
            return True
        if plan.keeper is not None:  # a project brought it that was not trusted at first
            return True
        rules = places(RULES_DIRECTORY) if plan.settings.ttsr.enabled else ()
        return any(map(os.path.lexists, rules)) or (options.use_extensions and usual_ones())

    def places(name: str) -> Sequence[Path]:
        both = _directories(session, plan.agent_dir, name)
        return both if plan.trust.allows(session.store.cwd) else both[1:]

    def usual_ones() -> bool:
        from indus_nb.extend.loader import installed

        files = map(os.path.lexists, places("extensions"))
        return bool(plan.settings.mcp_servers or plan.settings.extensions) or any(files) or any(installed())

    return Standby(session, anything, make)


def _directories(session: AgentSession, agent_dir: Path, name: str) -> tuple[Path, Path]:
    return session.store.cwd / PROJECT_DIRECTORY / name, agent_dir / name


def _todo_keeper(settings: Settings, *, wanted: bool) -> TodoKeeper | None:
    if not wanted:
        return None
    from indus_nb.extend.built_in.todo_keeper import TodoKeeper

    return TodoKeeper(settings.todo)


def _subagents(plan: _Plan) -> Subagents | None:
    if AGENTS not in plan.tools:
        return None
    from indus_nb.extend.built_in.subagents import Subagents

    return Subagents(lambda: plan.session, lambda: plan.settings.subagents, partial(_open_subagent, plan))


def _open_subagent(plan: _Plan, registry: ModelRegistry, tools: Sequence[str], hooks: SessionHooks) -> AgentSession:
    """Open a session that works for another one: its model, what confines it, and other tools."""
    from indus_nb.extend.built_in.subagents import INSTRUCTIONS
    from indus_nb.tools.files.writing import FileQueue

    parent, options = plan.session, plan.options
    if parent is None:
        raise RuntimeError("sub-agents belong to an open session")
    store = parent.store
    wanted = SessionOptions(
        cwd=store.cwd,
        system_prompt=options.system_prompt,
        append_system_prompt=(*options.append_system_prompt, INSTRUCTIONS),
        tools=tools,
        exclude_tools=options.exclude_tools,
        no_session=store.path is None,
        session_dir=None if store.path is None else store.path.parent / "agents" / store.path.stem,
        use_extensions=False,
        skills=options.skills,
        use_skills=options.use_skills,
        use_context_files=options.use_context_files,
        approve="never",  # the hooks ask as the parent does
        trust=plan.trust.allows(store.cwd),
        client=options.client,
        jobs_after=0,
    )
    path = None if store.path is None else str(store.path)
    plan.queue = plan.queue or FileQueue()
    shared = Shared(
        registry,
        parent.models.required,
        parent.thinking_level,
        bare=False,
        parent=path,
        hooks=hooks,
        queue=plan.queue,
        caller=plan,
    )
    return open_session(wanted, definable=False, shared=shared)


def _working_directory(options: SessionOptions, shared: Shared | None) -> Path:
    if options.cwd is None and shared is not None and shared.caller is not None:
        return shared.caller.cwd
    cwd = (expand_user(options.cwd) if options.cwd else current_directory()).resolve()
    if not cwd.is_dir():
        raise UsageError(f"The working directory {cwd} does not exist.")
    return cwd


def _open_store(stores: Stores, shared: Shared | None) -> SessionStore:
    store = stores.first(None if shared is None else shared.parent)
    store.lasting = shared is None
    return store
