"""Verbs for programs: their own tools, sub-agents, and what extensions and prompts offer."""

from __future__ import annotations

from typing import ClassVar

from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import wire_field
from indus_nb.front.verbs.host_tools import HostToolDefinition
from indus_nb.front.verbs.verb import MAX_NAME_CHARACTERS, Call, SubagentLevel, Verb, check_path


class SetSubagentSubscription(Verb):
    """Which frames about sub-agents are sent; none until this is set.

    With `progress` these are `subagent_lifecycle` and `subagent_progress`, with `events` also `subagent_event`, with
    `off` none.
    """

    names: ClassVar[tuple[str, ...]] = ("set_subagent_subscription",)
    level: SubagentLevel

    def run(self, call: Call) -> JsonObject:
        """Send these frames from now on."""
        call.subagents().level = self.level
        return {"level": self.level}


class GetSubagents(Verb):
    """The sub-agents that work at present, each with its `progress`."""

    names: ClassVar[tuple[str, ...]] = ("get_subagents",)

    def run(self, call: Call) -> JsonObject:
        """List the sub-agents."""
        return {"subagents": call.subagents().working()}


class GetSubagentMessages(Verb):
    """What a sub-agent has said and was told, from its session file: its `entries`, and the `messages` among them.

    It is named by its id or by that file. `fromByte` leaves out what was read before: it is the `nextByte` of the
    response before. With `reset` the file is shorter than that, and is read from its beginning.
    """

    names: ClassVar[tuple[str, ...]] = ("get_subagent_messages",)
    subagent_id: str | None = wire_field(default=None, max_length=MAX_NAME_CHARACTERS)
    session_file: str | None = wire_field(default=None, check=check_path)
    from_byte: int = wire_field(default=0, ge=0)

    async def run(self, call: Call) -> JsonObject:
        """Read the messages.

        Raises:
            UsageError: There is no such sub-agent, or its file cannot be read.
        """
        if self.subagent_id is None and self.session_file is None:
            raise UsageError("get_subagent_messages needs subagentId or sessionFile.")
        return await call.subagents().messages(self.subagent_id, self.session_file, self.from_byte)


class SetHostTools(Verb):
    """Offer tools of the client from the next prompt on; they replace those offered before."""

    names: ClassVar[tuple[str, ...]] = ("set_host_tools",)
    tools: list[HostToolDefinition]

    def run(self, call: Call) -> JsonObject:
        """Offer the tools."""
        call.session.lend_tools([call.host_tool(tool) for tool in self.tools])
        return {"toolNames": [tool.name for tool in self.tools]}


class GetCommands(Verb):
    """The commands that a prompt may begin with."""

    names: ClassVar[tuple[str, ...]] = ("get_commands", "get_available_commands")

    async def run(self, call: Call) -> JsonObject:
        """List the commands, once the extensions are loaded."""
        await call.session.start()
        problems = call.session.all_problems
        return {"commands": call.session.list_commands(), **({"problems": problems} if problems else {})}


class GetCommandCompletions(Verb):
    """What an extension offers for the arguments of its command ``/name``, of which ``prefix`` is typed already."""

    names: ClassVar[tuple[str, ...]] = ("get_command_completions",)
    name: str = wire_field(max_length=MAX_NAME_CHARACTERS)
    prefix: str = ""

    async def run(self, call: Call) -> JsonObject:
        """Ask the extension."""
        await call.session.start()
        return {"completions": await call.session.hooks.complete_command(self.name, self.prefix)}
