"""Shows what the session has cost so far and how full the context is; ``/usage`` shows and hides the details."""

from __future__ import annotations

from indus_nb.base.events import TurnEnd
from indus_nb.core.session.stats import SessionStats, session_stats
from indus_nb.extend.api import CommandContext, Context, ExtensionApi
from indus_nb.extend.events import ModelSelect, SessionCompact, SessionStart, SessionTree

KEY = "usage"


def setup(api: ExtensionApi) -> None:
    """Count from the start of the session, and after each turn."""
    stats = SessionStats()
    detailed = False

    @api.on("session_start")
    @api.on("session_tree")
    @api.on("session_compact")
    def count(_event: SessionStart | SessionTree | SessionCompact, ctx: Context) -> None:
        nonlocal stats
        stats = session_stats(ctx.session.entries)  # all branches, and the summaries
        show(ctx)

    @api.on("turn_end")
    def add(event: TurnEnd, ctx: Context) -> None:
        usage = event.message.usage  # added up, for to count all entries after each turn takes ever longer
        stats.tokens.input += usage.input
        stats.tokens.output += usage.output
        stats.tokens.cache_read += usage.cache_read
        stats.tokens.cache_write += usage.cache_write
        stats.tokens.total += usage.input + usage.output + usage.cache_read + usage.cache_write
        stats.cost += usage.cost.total
        show(ctx)

    @api.on("model_select")
    def show_again(_event: ModelSelect, ctx: Context) -> None:
        show(ctx)

    @api.command("usage")
    def turn(_arguments: str, ctx: CommandContext) -> None:
        """Show or hide the tokens by kind."""
        nonlocal detailed
        detailed = not detailed
        show(ctx)

    def show(ctx: Context) -> None:
        usage = ctx.get_context_usage()
        full = "" if usage is None or usage.percent is None else f" · context {usage.percent:.0f}%"
        tokens = stats.tokens
        ctx.ui.set_status(KEY, f"{tokens.total:,} tokens · ${stats.cost:.4f}{full}")
        lines = [
            f"read     {tokens.input:>12,}",
            f"written  {tokens.output:>12,}",
            f"cached   {tokens.cache_read:>12,} read, {tokens.cache_write:,} written",
        ]
        ctx.ui.set_widget(KEY, lines if detailed else None, "belowEditor")
