"""The gate of a call that an attached program makes: asked in the kernel, where the call is tried, decided over there.

Both ends are here. What this module promises: a call is not run on an answer that does not come, and what a kernel
writes into a question is cut to a bounded size before it is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from itertools import count
from pathlib import Path
from typing import Any, Literal, cast, get_args

from indus_nb.base import textcut
from indus_nb.base.terminal import plain
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.core.session.outside import letting_others_on
from indus_nb.safety.effects import Effect, EffectKind
from indus_nb.tools.tool import CallGate, ToolError

Send = Callable[[JsonObject], None]
_MAX_EFFECTS = 2000
"""More than the report of a trial has: what is cut off here, no setting could deny."""
_MAX_OBJECT_CHARACTERS = 4096
_MAX_WORDS_CHARACTERS = 300
_MAX_OUTCOME_CHARACTERS = 100_000
_MAX_OPEN = 16


class RemoteGate:
    """A ``CallGate`` in the kernel, whose decisions are made by the program that made the call.

    Attributes:
        readable: As that program said with the call.
        looks_only: Likewise.
        found: What trials of the call have found so far.
    """

    def __init__(self, readable: Sequence[str], send: Send, *, looks_only: bool = False) -> None:
        """Make the gate of one call.

        Args:
            send: Sends a message to the program.
        """
        self.readable: list[Path] = [Path(path) for path in readable]
        self.looks_only = looks_only
        self.found: Sequence[Effect] = ()
        self.can_ask: bool = True  # the program decides that itself
        self._send = send
        self._numbers = count(1)
        self._open: dict[int, asyncio.Future[JsonObject]] = {}

    async def covers(self, effects: Sequence[Effect]) -> bool:
        """See ``CallGate``."""
        return (await self._asked(effects, {"verb": "covers"})).get("value") is True

    async def ask(
        self,
        effects: Sequence[Effect],
        *,
        question: str = "",
        outcome: str = "",
        holds: bool = False,
        trial: asyncio.Future[Any] | None = None,
    ) -> Literal["run", "wait"]:
        """See ``CallGate``."""
        del question  # only of code beside the user, which a call from elsewhere cannot run
        asked: JsonObject = {"verb": "ask", "outcome": outcome, "holds": holds, "waits": trial is not None}
        asking = asyncio.ensure_future(self._asked(effects, asked))
        try:
            await asyncio.wait([asking, *([] if trial is None else [trial])], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                return "wait"
            answer = asking.result()
        finally:
            asking.cancel()
        if "refusal" in answer:
            raise ToolError(str(answer["refusal"]), answer.get("details"))
        if answer.get("value") == "run":
            return "run"
        if answer.get("value") == "wait" and trial is not None:
            return "wait"
        raise ToolError("Nothing was run: the question was not answered.")

    def answered(self, content: JsonObject) -> None:
        """Take the program's answer to a question."""
        future = self._open.get(content.get("number", 0))
        if future is not None and not future.done():
            future.set_result(content)

    async def _asked(self, effects: Sequence[Effect], question: JsonObject) -> JsonObject:
        self.found, number = effects, next(self._numbers)
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        listed = [[effect.kind, effect.what, effect.words] for effect in effects]
        self._send({"do": "question", "number": number, "effects": listed, **question})
        try:
            async with letting_others_on():  # the program has an order of its own
                return await answer
        finally:
            del self._open[number]
            if answer.cancelled():
                self._send({"do": "withdraw", "number": number})


class GateAnswers:
    """The other end: questions of a gate in a kernel, put to the gate that the call has here."""

    def __init__(self, gate: CallGate | None, send: Send) -> None:
        """Answer in the context of the call, which calls this.

        Args:
            gate: The call's own gate; without one every question is refused.
            send: Sends a message to the kernel.
        """
        self._gate = gate
        self._send = send
        self._context = copy_context()
        self._tasks: set[asyncio.Task[None]] = set()
        self._trials: dict[object, asyncio.Future[None]] = {}

    def close(self) -> None:
        """Withdraw the questions that are open."""
        for task in self._tasks:
            task.cancel()

    def received(self, message: JsonObject) -> None:
        """Take a question of the kernel's, or that it is withdrawn."""
        loop, number = asyncio.get_running_loop(), message.get("number")
        if message.get("do") == "withdraw":
            if (open_trial := self._trials.pop(number, None)) is not None:
                open_trial.set_result(None)
            return
        if not isinstance(number, int) or len(self._tasks) >= _MAX_OPEN:
            return
        trial = self._trials[number] = loop.create_future()
        task = loop.create_task(self._answer(number, message, trial), context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, number: int, message: JsonObject, trial: asyncio.Future[None]) -> None:
        try:
            value: object = await self._decided(self._gate, message, trial)
            self._send({"do": "answer", "number": number, "value": value})
        except Exception as error:  # noqa: BLE001 - the kernel waits for an answer, whatever it is
            details = error.output.details if isinstance(error, ToolError) else None
            self._send({"do": "answer", "number": number, "refusal": str(error), "details": details})
        finally:
            self._trials.pop(number, None)

    async def _decided(self, gate: CallGate | None, message: JsonObject, trial: asyncio.Future[None]) -> bool | str:
        if gate is None:
            raise ToolError("Nothing was run: the kernel asks about a call that needs no question.")
        effects = _effects(message.get("effects"))
        if message.get("verb") == "covers":
            return await gate.covers(effects)
        outcome = clean_text(plain(textcut.head(str(message.get("outcome", "")), _MAX_OUTCOME_CHARACTERS)))
        waits = trial if message.get("waits") is True else None
        return await gate.ask(effects, outcome=outcome, holds=message.get("holds") is True, trial=waits)


def _effects(listed: object) -> list[Effect]:
    """Read effects as a kernel lists them; what is none is one of which nothing is known."""
    found: list[Effect] = []
    given = cast("list[object]", listed) if isinstance(listed, list) else [None]
    for each in given[:_MAX_EFFECTS]:
        match each:
            case [str() as kind, str() as what, str() as words] if kind in get_args(EffectKind):
                words = textcut.one_line(plain(clean_text(words)), _MAX_WORDS_CHARACTERS)
                what = clean_text(what)
                whole = len(what) <= _MAX_OBJECT_CHARACTERS
                found.append(Effect(cast("EffectKind", kind) if whole else "unknown", what if whole else "", words))
            case _:
                found.append(Effect("unknown", "", "does what the kernel does not name"))
    if len(given) > _MAX_EFFECTS:
        found.append(Effect("unknown", "", f"does {len(given) - _MAX_EFFECTS} more things"))
    return found
