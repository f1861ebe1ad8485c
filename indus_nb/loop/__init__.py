"""One run: turns until the model calls no more tools, with abort, queues, the order of tool calls, and retries."""

from indus_nb.loop.loop import (
    AbortSignal,
    InterruptMode,
    MessageQueue,
    QueueMode,
    Run,
    RunAborted,
    RunHooks,
    ToolExecution,
    run,
)

__all__ = [
    "AbortSignal",
    "InterruptMode",
    "MessageQueue",
    "QueueMode",
    "Run",
    "RunAborted",
    "RunHooks",
    "ToolExecution",
    "run",
]
