"""The tools of a session, and what else depends on the directory that it works in: resources and system prompt.

What this module promises:

- The model is offered the chosen tools, or else the usual ones: those of the equipment, of extensions, and lent ones.
- A change counts from the next request on, also in a run that goes on.
- A typed answer changes nothing that the model was shown before, once a conversation has begun.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject
from indus_nb.core.session.state import SessionState
from indus_nb.models.apis.tool_schemas import check_tools
from indus_nb.tools.tool import JOB, Tool

if TYPE_CHECKING:
    from indus_nb.core.answers import FinalAnswer
    from indus_nb.core.resources.loading import Resources


class Equipment:
    """Resources, tools and prompt that depend on the directory that a session works in.

    Args:
        make_tools: makes the session's own tools, by name; called when they are first needed.
        active: the names of those that are offered unless others are chosen.
        load_resources: finds the user's resources, given more places to look for skills and for prompt templates;
            called when resources are first needed.
        write_prompt: returns the system prompt for the tools that are offered.
    """

    def __init__(
        self,
        make_tools: Callable[[], Mapping[str, Tool]],
        active: Sequence[str],
        load_resources: Callable[[Sequence[str], Sequence[str]], Resources],
        write_prompt: Callable[[Iterable[Tool], Resources], str],
    ) -> None:
        self._make_tools = make_tools
        self.active = active
        self._load_resources = load_resources
        self._write_prompt = write_prompt
        self._places: tuple[Sequence[str], Sequence[str]] = ((), ())
        self._resources: Resources | None = None

    @cached_property
    def tools(self) -> Mapping[str, Tool]:
        """Return the session's own tools, by name."""
        return self._make_tools()

    @property
    def resources(self) -> Resources:
        """Return the user's skills, prompt templates and context files."""
        if self._resources is None:
            self._resources = self._load_resources(*self._places)
        return self._resources

    def look_again(self, skills: Sequence[str], prompts: Sequence[str]) -> None:
        """Search for the resources anew, in more places."""
        self._places = skills, prompts
        self._resources = None

    def system_prompt(self, tools: Iterable[Tool]) -> str:
        """Return the system prompt for a model that is offered ``tools``."""
        return self._write_prompt(tools, self.resources)


class Toolbox:
    """Knows the tools of one session, and which of them the model is offered.

    Args:
        equipment: what depends on its working directory; replaced with another directory.
    """

    def __init__(self, state: SessionState, equipment: Equipment) -> None:
        self.equipment = equipment
        self._state = state
        self._lent: Mapping[str, Tool] = {}
        self._chosen: Sequence[str] | None = None
        self._excluded: frozenset[str] = frozenset()
        self._asked: FinalAnswer | None = None
        self._final: Tool | None = None
        self._added: dict[str, None] = {}
        self.takes_answers: bool = False
        """Switch for the tool that takes answers of every type; see ``end_with``."""

    @property
    def all(self) -> dict[str, Tool]:
        """Return the tools that could be offered.

        They are the session's own, those of extensions, and those lent.
        """
        found = {**self.equipment.tools, **self._state.hooks.tools(), **self._lent}
        offered = {name: tool for name, tool in found.items() if name not in self._excluded}
        final = self._answer_tool(offered)
        return offered if final is None else offered | {final.spec.name: final}

    @property
    def _keeps_answer_tool(self) -> bool:
        return self.takes_answers or self._state.conversation.has_asked

    def _answer_tool(self, others: Container[str]) -> Tool | None:
        if not self._keeps_answer_tool:
            self._final = None if self._asked is None else self._final
            return self._final
        if self._final is not None and self._final.spec.name not in others:
            return self._final
        from indus_nb.core.answers.final import any_answer_tool, free_name

        self._final = any_answer_tool(free_name(others), lambda: self._asked)
        return self._final

    @property
    def active(self) -> dict[str, Tool]:
        """Return the tools that the model is offered."""
        everything = self.all
        extensions = (name for name, tool in self._state.hooks.tools().items() if not getattr(tool, "deferred", False))
        usual = dict.fromkeys([*self.equipment.active, *extensions, *self._lent])
        names = self._chosen if self._chosen is not None else usual
        active = {name: everything[name] for name in (*names, *self._added) if name in everything}
        if JOB in everything and any(getattr(tool, "starts_jobs", False) for tool in active.values()):
            active.setdefault(JOB, everything[JOB])
        if self._final is not None:
            active[self._final.spec.name] = self._final  # which ``all`` has made
        return active

    @property
    def chosen(self) -> Sequence[str] | None:
        """Return the names of the chosen tools; ``None`` for the usual ones."""
        return self._chosen

    @property
    def system_prompt(self) -> str:
        """Return the system prompt with the active tools."""
        return self._state.settings.vault.hide(self.equipment.system_prompt(self.active.values()))

    def exclude(self, names: Sequence[str]) -> None:
        """Never offer tools of these names, from whatever source."""
        self._excluded = frozenset(names)
        self.refresh()

    def choose(self, names: Sequence[str] | None) -> None:
        """Offer only these tools from the next request on, with ``None`` the usual ones.

        Unknown names are ignored.
        """
        self._chosen = names
        self.refresh()

    def add(self, name: str) -> None:
        """Offer one tool besides the others from the next request on, if there is one of that name."""
        self._added[name] = None
        self.refresh()

    def lend(self, lent: Iterable[Tool]) -> None:
        """Offer these tools besides the session's own from the next request on.

        They replace those lent before.

        Raises:
            UsageError: A name is used twice or is one of the session's own tools', or an API would reject a tool;
                nothing has changed then.
        """
        specs = [(tool.spec, tool) for tool in lent]
        check_tools(spec for spec, _ in specs)
        tools = {spec.name: tool for spec, tool in specs}
        if in_use := [name for name in tools if name in self.equipment.tools]:
            raise UsageError(f"The session has a tool named {', '.join(in_use)} of its own. Choose another name.")
        self._lent = tools
        self.refresh()

    def end_with(self, answer: FinalAnswer | None) -> None:
        """Ask for a typed answer in the next run; with ``None`` for none.

        In a conversation that begins the type is the schema of a tool, which is best for weak models. One that has
        begun, or is going to be asked so (``takes_answers``), has a tool for all types from then on, also when it is
        reopened, and the type in a message: with other tools all that a provider has cached of it would be paid for
        anew.
        """
        self._asked = answer
        if answer is None:
            self._final = self._final if self._keeps_answer_tool else None
            return
        self.takes_answers = self.takes_answers or len(self._state.conversation) > 0
        hide = self._state.settings.vault.hide_in
        if self.takes_answers:
            answer.tell(next(reversed(self.all)), hide, self._state.messages)
        else:
            from indus_nb.core.answers.final import free_name

            self._final = answer.tool(free_name(self.all), hide)

    def refresh(self) -> None:
        """Offer the current tools to the active run, from its next request on."""
        if self._state.run is not None:
            self._state.run.tools = self.active

    def list_commands(self) -> list[JsonObject]:
        """List what may be prompted as ``/name``: commands of extensions, prompt templates and skills."""
        listed = self._state.hooks.list_commands()
        resources = self.equipment.resources
        found = [(each.name, each.description, "prompt", each.path, each.scope) for each in resources.templates]
        found += [(f"skill:{each.name}", each.description, "skill", each.path, each.scope) for each in resources.skills]
        for name, description, source, path, scope in found:
            info = {"path": str(path), "source": source, "scope": scope, "origin": "top-level"}
            command: JsonObject = {"name": name, "description": description, "source": source, "path": str(path)}
            listed.append({**command, "sourceInfo": info})
        return listed
