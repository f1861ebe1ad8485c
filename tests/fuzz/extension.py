"""The extension of a fuzzing round: handlers that take their time, and things it does by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_SOURCE = '''
"""Gets in the way, as PLAN says."""

import asyncio
import contextlib
import json
import sys
from collections import Counter

from indus_nb.base.errors import UsageError

PLAN = json.loads({plan!r})
SEEN = sys.__dict__.setdefault("_seen_by_the_storm", Counter())  # an extension is set up again for every session


def setup(api):
    def listen(name):
        async def handler(event, ctx):
            SEEN[name] += 1
            await asyncio.sleep(PLAN["delays"].get(name, 0))
            for act in PLAN["acts"]:
                if act["event"] == name and act["at"] == SEEN[name]:
                    if act["action"] == "ask":
                        await ctx.ui.confirm("Storm", "Go on?", timeout=0.2)
                    else:
                        do(act["action"], ctx)

        api.on(name, handler)

    def do(action, ctx):
        SEEN["acts"] += 1
        text = f"extension {{SEEN['acts']}}"
        match action:
            case "compact":
                ctx.compact(on_error=lambda error: None)
            case "abort":
                ctx.abort()
            case "message":
                api.send_message("storm", text, trigger_turn=True)
            case "next_turn":
                api.send_message("storm", text, deliver_as="nextTurn")
            case "user_message":
                api.send_user_message(text, deliver_as="steer")

    @api.command("storm")
    async def storm(arguments, ctx):
        users = [entry.id for entry in ctx.session.branch() if entry.type == "message" and entry.message.role == "user"]
        match arguments.split()[0]:
            case "new_session":
                await ctx.new_session()
            case "fork" if users:
                await ctx.fork(users[-1])
            case "navigate" if users:
                await ctx.wait_for_idle()
                with contextlib.suppress(UsageError):  # somebody else was quicker
                    await ctx.navigate_tree(users[0], summarize=True)
            case "wait":
                await ctx.wait_for_idle()
            case "reload":
                await ctx.reload()
            case action:
                do(action, ctx)

    for name in {{*PLAN["delays"], *(act["event"] for act in PLAN["acts"])}}:
        listen(name)
'''


def write_extension(plan: dict[str, Any], agent_dir: Path) -> None:
    """Put it where the agent looks for the user's extensions."""
    folder = agent_dir / "extensions"
    folder.mkdir(parents=True)
    (folder / "storm.py").write_text(_SOURCE.format(plan=json.dumps(plan)))
