"""What code does in a copy of the process of the tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from indus_nb.base.wire import JsonObject
from indus_nb.kernel.preview import Copy, Report, Send, Stop
from indus_nb.kernel.preview.world import World
from indus_nb.safety.effects import Effect

EVERYTHING = [("/", False)]
"""Rules of a copy that may read all files."""


@dataclass
class Doing:
    """A task that does something, and sends what came of it.

    Attributes:
        compares: Whether what differs in the process afterwards is among the effects.
    """

    do: Callable[[], object]
    compares: bool = False
    around: list[Effect] = field(default_factory=list[Effect])

    def run(self, stop: Stop, send: Send, effects: list[Effect]) -> None:
        world = World(dict, {}) if self.compares else None
        try:
            send({"gave": self.do()}, b"")
        except Exception as error:  # that is what came of it
            send({"raised": f"{type(error).__name__}: {error}"}, b"")
        if world is not None:
            self.around = world.changes()

    def report(self) -> Report:
        return Report(effects=self.around)


@dataclass
class Done:
    """What became of it.

    Attributes:
        gave: What it returned, as JSON; ``None`` if it did not end.
        raised: What it raised; empty if nothing.
    """

    report: Report
    gave: Any = None
    raised: str = ""

    @property
    def words(self) -> list[str]:
        """Its effects."""
        return [effect.words for effect in self.report.effects]


def copied(
    do: Callable[[], object],
    *,
    compares: bool = False,
    readable: Sequence[tuple[str, bool | None]] = EVERYTHING,
    seconds: float = 240,
) -> Done:
    """Do something in a copy."""
    frames: dict[str, Any] = {}

    def on_frame(data: JsonObject, _: bytes) -> None:
        frames.update(data)

    async def whole() -> Report:
        copy = Copy(seconds, readable)
        copy.fork(Doing(do, compares))
        return await copy.follow(on_frame)

    return Done(asyncio.run(whole()), **frames)
