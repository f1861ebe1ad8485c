"""The model's API of a fuzzing round: a real HTTP server whose answers a scenario lists."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from messages_api import (
    Answer,
    Block,
    Control,
    Cut,
    Gate,
    Handler,
    HttpError,
    MessagesApi,
    Recorded,
    Reply,
    SseError,
    Text,
    Thinking,
    ToolUse,
)

OVERFLOW = HttpError(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
HUGE = {"input_tokens": 199_500}
_USUAL = {"kind": "text", "words": 20}


class Pause(Gate):
    """Holds the stream for a time, or until the client goes away."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._end: float | None = None

    @property
    def is_open(self) -> bool:
        if self._end is None:
            self._end = time.monotonic() + self._seconds
        return time.monotonic() >= self._end


class ScriptedApi(MessagesApi):
    """Takes the next of ``answers`` for each request, and a short text when there is none left."""

    def __init__(self, answers: list[dict[str, Any]]) -> None:
        super().__init__(default=self._next)
        self._plans = list(answers)
        self._taken = 0
        self._lock = threading.Lock()

    def _handler(self) -> type[Handler]:
        return type("_PatientHandler", (_PatientHandler,), {"owner": self})

    def _next(self, _: Recorded) -> Answer:
        with self._lock:
            plan = self._plans[self._taken] if self._taken < len(self._plans) else _USUAL
            self._taken += 1
            return reply_to(plan, self._taken)


class _PatientHandler(Handler):
    def do_POST(self) -> None:  # noqa: N802 - its name in the standard library
        with contextlib.suppress(ValueError):  # a client that was aborted while it sent its request
            super().do_POST()


def reply_to(plan: dict[str, Any], number: int) -> Answer:  # noqa: PLR0911 - one for each kind of answer
    """The answer that ``plan`` describes to request ``number``, which makes its text unlike all others."""
    text = f"answer {number}. {'word ' * plan.get('words', 1)}"
    match plan["kind"]:
        case "slow":
            return Reply(Text(*_with_pauses(text, plan)))
        case "thinking":
            return Reply(Thinking(text), Text(*_with_pauses(text, plan)))
        case "tools":
            return Reply(text, *_calls(plan["calls"]))
        case "huge":
            calls = _calls([{"name": "ls", "input": {"path": "."}}]) if plan["tools"] else []
            return Reply(text, *calls, usage=HUGE)
        case "error":
            kind = {429: "rate_limit_error", 529: "overloaded_error", 400: "invalid_request_error"}
            status = plan["status"]
            return HttpError(status, kind.get(status, "api_error"), f"Trouble number {number}")
        case "overflow":
            return OVERFLOW
        case "cut":
            return Reply(Text(text, Cut())) if plan["words"] else Reply(Cut())
        case "sse":
            return Reply(Text(text, SseError()))
        case "silence":
            return Reply(Text(text, Pause(plan["seconds"]), Cut()))
        case _:
            return Reply(text)


def _with_pauses(text: str, plan: dict[str, Any]) -> list[str | Control]:
    count = plan["pauses"]
    length = len(text) // (count + 1) + 1
    parts: list[str | Control] = []
    for start in range(0, len(text), length):
        parts += [text[start : start + length], Pause(plan["seconds"])]
    return parts


def _calls(calls: list[dict[str, Any]]) -> list[Block]:
    return [ToolUse(call["name"], call["input"]) for call in calls]
