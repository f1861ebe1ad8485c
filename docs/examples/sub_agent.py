"""A tool that gives a task to another agent, which can look at everything and change nothing.

The other agent's conversation is not saved, and only its answer comes back: what it reads on the way takes no room in
the context of the one that asked. Several calls in one message run side by side. An abort ends all of them.
"""

from __future__ import annotations

from indus_nb.base.events import SessionEvent, ToolExecutionStart, ToolOutput
from indus_nb.core.session.session import AgentSession
from indus_nb.core.session.stats import session_stats
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.start import SessionOptions, open_session
from indus_nb.tools import ToolContext, text_output

TOOLS = ("read", "grep", "find", "ls")
TASK = (
    "You were given one task by another agent, which sees nothing of your work but your last message. "
    "Answer with what you found, with paths and line numbers. You cannot ask back."
)


def setup(api: ExtensionApi) -> None:
    """Offer the tool ``explore``."""

    @api.tool(read_only=True, snippet="Have another agent look for something and report")
    async def explore(task: str, call: ToolContext, ctx: Context) -> ToolOutput:
        """Let another agent explore the project and report. It reads files but changes none.

        Args:
            task: all it needs to know, for it has not seen this conversation
        """
        with other_agent(ctx) as other:
            steps: list[str] = []

            def tell(event: SessionEvent) -> None:
                if isinstance(event, ToolExecutionStart):
                    steps.append(f"{event.tool_name} {event.args.get('path', event.args.get('pattern', ''))}")
                    call.report(text_output("\n".join(steps[-20:])))

            other.subscribe(tell)
            try:
                await other.prompt(task)  # an abort cancels this, which ends the other's run too
                answer = other.answer_or_raise().text
            finally:
                await other.end()
            stats = session_stats(other.store.entries)
            return text_output(answer, details={"steps": steps, "tokens": stats.tokens.total, "cost": stats.cost})


def other_agent(ctx: Context) -> AgentSession:
    """A session in memory with the same model and fewer tools."""
    if ctx.model is None:
        raise RuntimeError("No model is chosen.")
    other = open_session(
        SessionOptions(
            cwd=ctx.cwd,
            provider=ctx.model.provider,
            model=ctx.model.id,
            thinking=ctx.thinking_level,
            append_system_prompt=[TASK],
            no_session=True,
            use_extensions=False,
            approve="never",  # it can only read, and nobody there could be asked
        )
    )
    other.set_active_tools(TOOLS)  # and none of those that MCP servers or the program lend
    return other
