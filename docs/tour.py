"""A session by hand, from the inside out: what `session.run(...)` does, in the parts that it is made of.

Run it with `.venv/bin/python docs/tour.py`. It needs no key and no network, and writes into a temporary directory only.
"""

import asyncio
import tempfile
from pathlib import Path

from indus_nb.base.events import AgentEvent, MessageEnd, ToolExecutionEnd
from indus_nb.base.messages import UserMessage, text_of
from indus_nb.base.streaming import GrowingMessage, StreamDone, StreamStart, TextDelta
from indus_nb.core.loop import loop
from indus_nb.core.storage.store import SessionStore
from indus_nb.models import Context, StreamOptions
from indus_nb.models.apis.offline import OfflineProvider
from indus_nb.models.catalog import find_model
from indus_nb.tools.function import function_tool

provider, model, options = OfflineProvider(), find_model("offline"), StreamOptions()


async def one_answer() -> None:
    """1. A provider is asked once. It yields events, and the message that they belong to grows."""
    question = UserMessage(content="What can you do?")
    async for event in provider.stream(model, Context(system_prompt="", messages=[question]), options):
        match event:
            case StreamStart(growing=GrowingMessage() as growing):
                print("1. nothing yet:", repr(growing.snapshot().text))
            case TextDelta(delta=delta):
                print(delta, end="")
            case StreamDone(message=message):
                print("\n   the whole:", len(message.text), "characters, because of", message.stop_reason)
            case _:
                pass


def bash(command: str) -> str:
    """Pretend to run a shell command.

    Args:
        command: what to run
    """
    return f"(what {command!r} would print)"


async def one_run(store: SessionStore, prompt: str) -> None:
    """2. The loop asks, runs the tools that the answer calls, and asks again. What is final goes to the store."""

    async def emit(event: AgentEvent) -> None:
        match event:
            case MessageEnd(message=message):
                store.append_message(message)  # One line of the session file, below the entry before it.
                print(f"   {message.role}:", text_of(message.content)[:60].replace("\n", " ") or "(calls a tool)")
            case ToolExecutionEnd(tool_name=name):
                print(f"   ({name} has run)")
            case _:
                pass

    messages = store.context().messages()  # What the model has seen before: the path from the root to the leaf.
    tools = {"bash": function_tool(bash)}
    run = loop.Run(model, provider, "You are helpful.", messages, options, tools=tools, emit=emit)
    await loop.run(run, [UserMessage(content=prompt)])


async def main(directory: Path) -> None:
    """Ask once, run twice, and go back to where the two runs part."""
    await one_answer()
    with SessionStore.create(directory, directory) as store:
        print("2. a run without a tool, and one with a tool")
        await one_run(store, "hello")
        before = store.leaf_id
        await one_run(store, "run `date`")
        print("3. back to before that, and on from there: a second branch")
        store.move_leaf(before)
        await one_run(store, "run `pwd`")
        print("4. the tree holds both:", len(store.entries), "entries,", len(store.branch()), "of them on this branch")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
        for file in Path(place).glob("*.jsonl"):
            print("5. the file, a header and entries:", len(file.read_text().splitlines()), "lines")
