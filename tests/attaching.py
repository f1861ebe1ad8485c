"""The tools of an attached kernel, called as a session calls them, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from kernels import Kernel

from indus_nb.base.messages import text_of
from indus_nb.kernel.attached import AttachedKernel, open_kernel
from indus_nb.safety.effects import Effect
from indus_nb.tools.tool import ToolContext, ToolError


class Gate:
    """A gate of one call that answers as it is told to, and remembers what it was asked."""

    readable: Sequence[Path] = ()
    looks_only = False

    def __init__(self, answer: str = "run", *, covers: bool = False) -> None:
        self.answer = answer
        self.covering = covers
        self.asked: list[tuple[list[Effect], str]] = []
        self.withdrawn = 0

    async def covers(self, effects: Sequence[Effect]) -> bool:
        return self.covering or not effects

    async def ask(
        self,
        effects: Sequence[Effect],
        *,
        outcome: str = "",
        holds: bool = False,
        trial: asyncio.Future[Any] | None = None,
    ) -> Literal["run", "wait"]:
        self.asked.append(([*effects], outcome))
        if trial is not None:
            await trial
            self.withdrawn += 1
            return "wait"
        if self.answer != "run":
            raise ToolError(self.answer)
        return "run"


class Attached:
    """The tools of one kernel."""

    def __init__(self, kernel: AttachedKernel) -> None:
        self.kernel = kernel
        self.tools = {tool.spec.name: tool for tool in kernel.tools()}
        self.reports: list[str] = []
        self._calls = 0

    async def call(self, name: str, gate: Gate | None = None, **arguments: Any) -> Any:
        tool = self.tools[name]
        self._calls += 1
        report = lambda output: self.reports.append(text_of(output.content))  # noqa: E731
        return await tool.execute(tool.check(arguments), ToolContext(f"call-{self._calls}", report, gate=gate))

    async def text(self, name: str, gate: Gate | None = None, **arguments: Any) -> str:
        return text_of((await self.call(name, gate, **arguments)).content)

    async def failure(self, name: str, gate: Gate | None = None, **arguments: Any) -> str:
        with pytest.raises(ToolError) as caught:
            await self.call(name, gate, **arguments)
        return text_of(caught.value.output.content)


async def attached_to(kernel: Kernel) -> Attached:
    return Attached(await asyncio.to_thread(open_kernel, str(kernel.connection_file)))
