"""Asks before commands that match a list.

A list of patterns is a seat belt and no lock, for a command can be written in many ways. ``--approve writes`` asks
about every call with effects.
"""

from __future__ import annotations

import re

from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.events import ToolCallAnswer, ToolCallEvent

ASK = {
    r"\brm\s+(-\w*[rRf]|--(recursive|force)\b)": "It deletes files for good.",
    r"\bgit\s+(push|clean|reset\s+--hard)\b": "It changes what others see, or throws work away.",
    r"\b(sudo|doas)\b": "It runs with another user's rights.",
    r"\b(curl|wget)\b.*\|\s*\w*sh\b": "It runs a program from the network.",
}


def setup(api: ExtensionApi) -> None:
    """Watch the tool ``bash``."""

    @api.on("tool_call")
    async def ask(event: ToolCallEvent, ctx: Context) -> ToolCallAnswer | None:
        command = event.input.get("command")
        if event.tool_name != "bash" or not isinstance(command, str):
            return None
        why = next((why for pattern, why in ASK.items() if re.search(pattern, command)), None)
        # Without anybody to ask, `confirm` answers no.
        if why is None or await ctx.ui.confirm("Run this command?", f"{command}\n\n{why}"):
            return None
        return ToolCallAnswer(block=True, reason=f"The user did not allow this command. {why} Ask what to do instead.")
