"""Asks the user before a tool does something that cannot be undone.

What this module promises: what the user is shown is all that will be done, with signs that could hide a part of it
made visible; a rule that the user allowed covers nothing that such a question would not have shown; where no user can
be asked, or anything fails here, the tool does not run. What is asked about a call, and what a rule covers, the tool
declares: see ``indus_nb.tools.description``.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import TypeGuard

from indus_nb.extensions.api import Context, ExtensionApi
from indus_nb.extensions.events import ToolCallAnswer, ToolCallEvent
from indus_nb.extensions.kept_rules import KeptRules
from indus_nb.tools import Approval, ToolError

_YES = "Yes, once"
_SESSION = "Yes, and always in this session: "
_PROJECT = "Yes, and always in this folder: "
_NO = "No"
_MAX_QUESTION_CHARACTERS = 6000
_MAX_RULE_CHARACTERS = 120
"""A longer one is not offered: a user would not read it before allowing it for good."""


def permission_gate(agent_dir: Path) -> Callable[[ExtensionApi], None]:
    """Make an extension that asks as ``SessionSettings.approve`` sets: before tools with effects, or before any.

    It must be asked last, when no other handler changes the arguments any more. What was allowed for good is kept as
    readable rules, such as ``bash: git status …``: for the session in memory, for a directory in ``approved.json`` of
    the agent directory, never within the project itself. Where no user can be asked the call is rejected.
    """
    gate = _Gate(KeptRules(agent_dir))

    def setup(api: ExtensionApi) -> None:
        api.on("tool_call", gate.decide)

    return setup


class _Gate:
    """What was allowed in one session, and the question about what was not."""

    def __init__(self, kept: KeptRules) -> None:
        self._kept = kept
        self._allowed: set[str] = set()

    async def decide(self, event: ToolCallEvent, ctx: Context) -> ToolCallAnswer | None:
        """Block the call unless its mode, a rule or the user allows it."""
        mode = ctx.settings.approve
        described = ctx.describe_call(event.tool_name, event.input)
        if mode == "never" or (mode == "writes" and not described.has_effects):
            return None
        try:
            approval = await asyncio.to_thread(described.approval)
        except ToolError:
            return None  # the tool itself will report what is wrong with the arguments
        if approval.rule in self._allowed or approval.rule in await self._kept.of(ctx.cwd, ctx.ui):
            return None
        if not ctx.has_ui:
            reason = "This call needs the user's approval, and nobody can be asked. Start with --approve never."
            return ToolCallAnswer(block=True, reason=f"{reason} {self._kept.problem}".rstrip())
        if await self._is_allowed(approval, ctx):
            return None
        return ToolCallAnswer(block=True, reason="The user did not allow this call. Ask what to do instead.")

    async def _is_allowed(self, approval: Approval, ctx: Context) -> bool:
        question, whole = _question(approval)
        if not whole or not _is_readable(approval.rule):
            return await ctx.ui.select(question, [_YES, _NO], signal=ctx.signal) == _YES
        session, project = f"{_SESSION}{approval.rule}", f"{_PROJECT}{approval.rule}"
        chosen = await ctx.ui.select(question, [_YES, session, project, _NO], signal=ctx.signal)
        if chosen == session:
            self._allowed.add(approval.rule)
        elif chosen == project:
            await self._kept.add(ctx.cwd, approval.rule)
        return chosen in (_YES, session, project)


def _is_readable(rule: str | None) -> TypeGuard[str]:
    return rule is not None and len(rule) <= _MAX_RULE_CHARACTERS and _visible(rule) == rule


def _question(approval: Approval) -> tuple[str, bool]:
    """What the user is asked, and whether all of it is shown."""
    head = approval.question if approval.warning is None else f"{approval.question}\n{approval.warning}"
    text = f"{head}\n\n{approval.preview}"
    if len(text) <= _MAX_QUESTION_CHARACTERS:
        return _visible(text), True
    half = _MAX_QUESTION_CHARACTERS // 2
    note = f"\n\n… {len(text) - 2 * half} characters are left out here …\n\n"
    return f"{_visible(text[:half])}{note}{_visible(text[-half:])}", False


def _visible(text: str) -> str:
    r"""``text`` with signs that hide or move others as escapes: what is shown must be what will run.

    >>> print(_visible("a\x1b]0;\u202eb\r"))
    a\x1b]0;\u202eb\r
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(
        ascii(sign)[1:-1] if sign not in "\n\t" and unicodedata.category(sign) in hidden else sign for sign in text
    )
