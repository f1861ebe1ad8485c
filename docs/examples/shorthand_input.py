"""Short words for long requests: ``?tests`` in a prompt becomes what stands for it here.

``/shorthands`` lists them. Other words with a question mark in front stay as they are, and so does what extensions say.
"""

from __future__ import annotations

import re

from indus_nb.extend.api import CommandContext, Context, ExtensionApi
from indus_nb.extend.events import InputAnswer, UserInput

SHORTHANDS = {
    "tests": "Run the tests. If any fail, find the cause and mend it; change no test to make it pass.",
    "explain": "Explain step by step, for somebody who knows the language but not this project:",
    "brief": "Answer in at most three sentences.",
}


def setup(api: ExtensionApi) -> None:
    """Look at what the user says."""

    @api.on("input")
    def expand(event: UserInput, _ctx: Context) -> InputAnswer | None:
        if event.source == "extension":
            return None
        text = re.sub(r"(?<!\S)\?(\w+)", lambda found: SHORTHANDS.get(found[1], found[0]), event.text)
        return InputAnswer(action="transform", text=text) if text != event.text else None

    @api.command("shorthands")
    def tell(_arguments: str, ctx: CommandContext) -> None:
        """List what can be written short."""
        ctx.ui.notify("\n".join(f"?{word}: {text}" for word, text in SHORTHANDS.items()))
