"""Ways to ask one question about each of many rows: ours, a bare loop over the SDK, and what else people take.

Each asks as its documents show, with the retries that it comes with, and returns a list with an answer or what went
wrong in the place of each row. No peer is a dependency; each is imported where it is asked, so that a process has in
its memory what it measures and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

MAX_TOKENS = 4096
Mark = Literal["none", "row", "instructions"]


class Order(BaseModel):
    """What is ordered."""

    pieces: int
    article: str


class Task(NamedTuple):
    """What is asked about each row.

    Attributes:
        model: The id of the model.
        instructions: What holds for all rows, such as a codebook.
        parallel: How many rows are asked at once.
    """

    model: str
    instructions: str
    parallel: int

    @property
    def template(self) -> str:
        """What is asked, with ``{text}`` for the text of a row."""
        return f"{self.instructions}\n\n{QUESTION}" if self.instructions else QUESTION


QUESTION = "What is ordered? {text}"
Way = Callable[[Task, Sequence[str]], Sequence[Any]]


def ours(task: Task, texts: Sequence[str], *, journal: bool = False, **options: Any) -> Sequence[Any]:
    """``agent.map``."""
    from indus_nb import agent

    with tempfile.TemporaryDirectory() as directory:
        if journal:
            options["journal"] = Path(directory) / "rows.jsonl"
        done = agent.map(
            task.template,
            [{"text": text} for text in texts],
            model=task.model,
            parallel=task.parallel,
            max_tokens=MAX_TOKENS,
            progress=False,
            **options,
        )
    return [row.value if row.error is None else RuntimeError(row.error) for row in done.rows]


async def _gathered(task: Task, texts: Sequence[str], ask: Callable[[str], Awaitable[Any]]) -> Sequence[Any]:
    """Ask for all rows with ``gather``, so many at once."""
    places = asyncio.Semaphore(task.parallel)

    async def one(text: str) -> Any:
        async with places:
            return await ask(text)

    return await asyncio.gather(*(one(text) for text in texts), return_exceptions=True)


def bare(task: Task, texts: Sequence[str], *, streams: bool, typed: bool, mark: Mark = "none") -> Sequence[Any]:
    """A loop over the SDK.

    Args:
        typed: With a tool for the answer, which the model must call.
        mark: The end of what the server is told to keep.
    """
    return asyncio.run(_bare(task, texts, streams=streams, typed=typed, mark=mark))


async def _bare(task: Task, texts: Sequence[str], *, streams: bool, typed: bool, mark: Mark) -> Sequence[Any]:
    from anthropic import AsyncAnthropic

    tool = {"name": "answer", "description": "Give the answer.", "input_schema": Order.model_json_schema()}
    tools: dict[str, Any] = {"tools": [tool], "tool_choice": {"type": "tool", "name": "answer"}} if typed else {}
    kept = {"cache_control": {"type": "ephemeral"}}
    async with AsyncAnthropic() as client:

        async def ask(text: str) -> Any:
            content: Any = task.template.format(text=text)
            if mark == "row":
                content = [{"type": "text", "text": content, **kept}]
            elif mark == "instructions":
                question = {"type": "text", "text": QUESTION.format(text=text)}
                content = [{"type": "text", "text": task.instructions, **kept}, question]
            messages: Any = [{"role": "user", "content": content}]
            request: dict[str, Any] = {"model": task.model, "max_tokens": MAX_TOKENS, "messages": messages, **tools}
            message: Any
            if streams:
                async with client.messages.stream(**request) as stream:
                    message = await stream.get_final_message()
            else:
                message = await client.messages.create(**request)
            block = message.content[0]
            return Order.model_validate(block.input) if typed else block.text

        return await _gathered(task, texts, ask)


def chatlas(task: Task, texts: Sequence[str], *, typed: bool) -> Sequence[Any]:
    """``parallel_chat`` of chatlas, or ``parallel_chat_structured``; a row that fails is not the end of the others."""
    import chatlas as peer

    chat = peer.ChatAnthropic(model=task.model, max_tokens=MAX_TOKENS)
    prompts: Any = [task.template.format(text=text) for text in texts]
    options: Any = {"max_active": task.parallel, "rpm": 10**9, "on_error": "continue"}
    done: Any = asyncio.run(
        peer.parallel_chat_structured(chat, prompts, Order, **options)
        if typed
        else peer.parallel_chat(chat, prompts, **options)
    )
    return [each if isinstance(each, Exception) else each.data if typed else each.get_last_turn().text for each in done]


def instructor(task: Task, texts: Sequence[str]) -> Sequence[Any]:
    """An asynchronous client of instructor, with ``gather``."""

    async def asked() -> Sequence[Any]:
        import instructor as peer

        client = peer.from_provider(f"anthropic/{task.model}", async_client=True)
        system = [{"role": "system", "content": task.instructions}] if task.instructions else []

        async def ask(text: str) -> Any:
            messages: Any = [*system, {"role": "user", "content": QUESTION.format(text=text)}]
            return await client.create(response_model=Order, messages=messages, max_tokens=MAX_TOKENS)

        return await _gathered(task, texts, ask)

    return asyncio.run(asked())


def pydantic_ai(task: Task, texts: Sequence[str], *, keeps: bool = False) -> Sequence[Any]:
    """An agent of pydantic-ai, with ``gather``.

    Args:
        keeps: With the setting by which it marks its instructions to be kept.
    """

    async def asked() -> Sequence[Any]:
        from pydantic_ai import Agent

        settings: Any = {"max_tokens": MAX_TOKENS, **({"cache": {"messages": False}} if keeps else {})}
        made: Any = Agent(
            f"anthropic:{task.model}",
            output_type=Order,
            instructions=task.instructions or None,
            model_settings=settings,
        )

        async def ask(text: str) -> Any:
            return (await made.run(QUESTION.format(text=text))).output

        return await _gathered(task, texts, ask)

    return asyncio.run(asked())


def lotus(task: Task, texts: Sequence[str]) -> Sequence[Any]:
    """``sem_map`` of LOTUS, whose model is asked by litellm."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["ANTHROPIC_API_BASE"] = os.environ["ANTHROPIC_BASE_URL"]
    import lotus as peer
    import pandas as pd
    from lotus.models import LM

    model: Any = LM(model=f"anthropic/{task.model}", max_tokens=MAX_TOKENS, max_batch_size=task.parallel)
    peer.settings.configure(lm=model)
    frame: Any = pd.DataFrame({"text": texts})
    return list(frame.sem_map(task.template, suffix="answer")["answer"])


WAYS: dict[str, Way] = {
    "agent.map": ours,
    "agent.map, journal": partial(ours, journal=True),
    "bare loop, streaming": partial(bare, streams=True, typed=False),
    "bare loop, not streaming": partial(bare, streams=False, typed=False),
    "chatlas parallel_chat": partial(chatlas, typed=False),
    "lotus sem_map": lotus,
    "agent.map, typed": partial(ours, result=Order),
    "bare loop, typed, streaming": partial(bare, streams=True, typed=True),
    "bare loop, typed, not streaming": partial(bare, streams=False, typed=True),
    "chatlas parallel_chat_structured": partial(chatlas, typed=True),
    "instructor + gather": instructor,
    "pydantic-ai + gather": pydantic_ai,
}
MARKED: dict[str, Way] = {
    "bare loop, typed, a mark on each row": partial(bare, streams=True, typed=True, mark="row"),
    "bare loop, typed, a mark on the instructions": partial(bare, streams=True, typed=True, mark="instructions"),
    "pydantic-ai + gather, cache": partial(pydantic_ai, keeps=True),
}
"""Other marks for the cache of prompts; they cost another price, and are as quick."""
PACKAGES = {"chatlas": "chatlas", "instructor": "instructor", "pydantic-ai": "pydantic_ai", "lotus": "lotus"}
"""The packages of peers, by what the names of their ways begin with."""


def peer_of(name: str) -> str | None:
    """The peer that a way is one of; ``None`` for none."""
    return next((peer for peer in PACKAGES if name.startswith(peer)), None)


def is_typed(name: str) -> bool:
    """Whether a way asks for values of a type."""
    return any(word in name for word in ("typed", "structured", "instructor", "pydantic-ai"))
