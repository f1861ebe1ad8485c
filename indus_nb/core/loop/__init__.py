"""One run: turns until the model calls no more tools, with abort, queues, the order of tool calls, and retries."""

from indus_nb.core.loop.abort import AbortSignal, RunAborted
from indus_nb.core.loop.loop import InterruptMode, Run, RunHooks, ToolExecution, Verdict, run
from indus_nb.core.loop.queue import MessageQueue, QueueMode

__all__ = [
    "AbortSignal",
    "InterruptMode",
    "MessageQueue",
    "QueueMode",
    "Run",
    "RunAborted",
    "RunHooks",
    "ToolExecution",
    "Verdict",
    "run",
]
