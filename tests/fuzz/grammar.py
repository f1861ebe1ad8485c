"""The order that the events of a session keep among themselves, as a state machine over frames.

This is the life cycle that the docstring of ``indus_nb.base.events`` draws, and nothing of how it comes about. A
frame that breaks the order is reported and then taken as it stands, so that one defect is not told of twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fuzz.log import SENT, Json, Log, Violation

STOPPING = (
    "abort",
    "abort_and_prompt",
    "abort_retry",
    "new_session",
    "switch_session",
    "fork",
    "clone",
    "compact",
)
"""Commands after which a retry that was announced need not come."""


@dataclass
class _Turn:
    """The turn that is open: the calls of its answer, and what became of them."""

    answer: Json | None = None
    calls: list[str] | None = None
    running: set[str] = field(default_factory=set[str])
    ended: set[str] = field(default_factory=set[str])
    results: list[str] = field(default_factory=list[str])


class Grammar:
    """Feed it a log; ``violations`` are the frames out of order."""

    def __init__(self, log: Log) -> None:
        self.violations: list[Violation] = []
        self._log = log
        self._at = 0
        self._run = False
        self._turn: _Turn | None = None
        self._message: str | None = None
        self._stream: str | None = None
        self._deltas: dict[int, str] = {}
        self._compaction = False
        self._retry: int | None = None
        self._promised_run: int | None = None
        self._run_start = 0
        self._said: list[Json] = []
        self._unannounced = False
        self._chain = False
        self._stopping: set[str] = set()
        self._last_stopping = -1

    def check(self) -> list[Violation]:
        """The violations in the log."""
        for at, item in enumerate(self._log.items):
            self._at = at
            kind = item["type"]
            if kind.startswith("auto_compaction"):
                kind = kind.removeprefix("auto_")
            self._note_stopping(item)
            handler = getattr(self, f"_on_{kind}", None)
            if handler is not None:
                handler(item)
        self._at = len(self._log.items) - 1
        self._on_the_end()
        return self.violations

    def _wrong(self, kind: str, text: str) -> None:
        self.violations.append(Violation(kind, self._at, text))

    def _note_stopping(self, item: Json) -> None:
        if item["type"] == SENT and item["command"]["type"] in STOPPING:
            self._stopping.add(item["command"]["id"])
            self._last_stopping = self._at
        elif self._stopping and item["type"] == "response":
            self._last_stopping = self._at
            self._stopping.discard(item.get("id", ""))

    def _was_stopped(self, since: int) -> bool:
        """Whether something may have ended a wait: a command, an extension, or the end of standard input."""
        told_to = bool(self._stopping) or self._last_stopping >= since
        return told_to or self._log.has_extension or self._log.hurried

    # Runs and turns

    def _on_agent_start(self, _: Json) -> None:
        if self._run:
            self._wrong("two_runs", "agent_start while a run is open")
        if self._compaction:
            self._wrong("run_in_compaction", "agent_start while the conversation is compacted")
        self._close_run()
        self._unannounced = self._chain and self._promised_run is None
        self._run = self._chain = True
        self._promised_run = None
        self._run_start = self._at
        self._said = []

    def _on_agent_end(self, frame: Json) -> None:
        if not self._run:
            self._wrong("end_without_run", "agent_end without a run")
        if self._turn is not None:
            self._wrong("unclosed_turn", "agent_end within a turn")
        if self._message is not None:
            self._wrong("unclosed_message", "agent_end within a message")
        if frame["messages"] != self._said:
            told, said = ([message["role"] for message in messages] for messages in (frame["messages"], self._said))
            self._wrong("end_messages", f"agent_end tells of {told}, the run said {said}")
        self._close_run()
        self._promised_run = self._run_start if frame.get("willRetry") else None
        if self._log.wire == "strict":
            self._chain = False

    def _close_run(self) -> None:
        self._run = False
        self._turn = self._message = self._stream = None

    def _on_agent_settled(self, _: Json) -> None:
        if not self._chain:
            self._wrong("settled_twice", "agent_settled without a run since the last one")
        if self._run:
            self._wrong("settled_in_run", "agent_settled while a run is open")
        if self._compaction and not self._log.has_extension:
            self._wrong("settled_in_compaction", "agent_settled while the conversation is compacted")
        if self._retry is not None:
            self._wrong("unclosed_retry", "agent_settled before auto_retry_end")
        if self._promised_run is not None and not self._was_stopped(self._promised_run):
            self._wrong("no_retry", "willRetry was said, and agent_settled came without another run")
        self._chain = False
        self._retry = self._promised_run = None

    def _on_turn_start(self, _: Json) -> None:
        if not self._run:
            self._wrong("turn_outside_run", "turn_start without a run")
        if self._turn is not None:
            self._wrong("two_turns", "turn_start within a turn")
        self._turn = _Turn()

    def _on_turn_end(self, frame: Json) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            self._wrong("end_without_turn", "turn_end without a turn")
            return
        if turn.running:
            self._wrong("unclosed_tool", f"turn_end before the end of {sorted(turn.running)}")
        if self._message is not None:
            self._wrong("unclosed_message", "turn_end within a message")
        if frame["message"] != turn.answer:
            self._wrong("turn_message", f"turn_end has another answer than message_end: {frame['message']}")
        told = [result["toolCallId"] for result in frame["toolResults"]]
        wanted = turn.calls or []
        if not turn.results == wanted == told:
            self._wrong("tool_results", f"calls {wanted}, result messages {turn.results}, turn_end tells {told}")

    # Messages

    def _on_message_start(self, frame: Json) -> None:
        role = frame["message"]["role"]
        if self._message is not None:
            self._wrong("two_messages", f"message_start of {role} within one of {self._message}")
        if self._turn is None and (role != "custom" or self._run):
            self._wrong("message_outside_turn", f"message_start of {role} without a turn")
        if self._compaction and role != "custom":
            self._wrong("message_in_compaction", f"message_start of {role} while the conversation is compacted")
        if self._turn is not None and self._turn.running and role != "toolResult":
            self._wrong("message_in_tool", f"message_start of {role} while {sorted(self._turn.running)} runs")
        if self._unannounced and role != "user" and not self._log.has_extension:
            self._wrong("unannounced_run", "another run without willRetry and without a message that waited")
        self._unannounced = False
        self._message = role
        self._stream = None
        self._deltas = {}

    def _on_message_update(self, frame: Json) -> None:
        event = frame["assistantMessageEvent"]
        if self._message != "assistant":
            self._wrong("update_outside_message", f"message_update within {self._message}")
            return
        if (event["type"] == "start") != (self._stream is None):
            self._wrong("stream_start", f"{event['type']} after {self._stream}")
        if self._stream in ("done", "error"):
            self._wrong("stream_end", f"{event['type']} after {self._stream}")
        self._stream = event["type"]
        if event["type"].endswith("_delta"):
            index = event["contentIndex"]
            self._deltas[index] = self._deltas.get(index, "") + event["delta"]

    def _on_message_end(self, frame: Json) -> None:
        message = frame["message"]
        role, open_role = message["role"], self._message
        self._message = None
        self._said.append(message)
        if open_role != role:
            self._wrong("end_without_message", f"message_end of {role} within {open_role}")
        if role == "assistant":
            self._answer_ended(message)
        elif role == "toolResult":
            self._result_ended(message["toolCallId"])

    def _answer_ended(self, message: Json) -> None:
        if self._stream not in ("done", "error"):
            self._wrong("stream_end", f"message_end of an answer after {self._stream}")
        for index, text in self._deltas.items():
            block = message["content"][index] if index < len(message["content"]) else {"type": "nothing"}
            kind = block["type"]
            if kind in ("text", "thinking") and block[kind] != text:
                self._wrong(
                    "deltas", f"the deltas of block {index} say {text[:40]!r}, message_end {block[kind][:40]!r}"
                )
        if self._turn is not None:
            if self._turn.calls is not None:
                self._wrong("two_answers", "a second answer within a turn")
            failed = message["stopReason"] in ("error", "aborted")
            calls = [] if failed else [block["id"] for block in message["content"] if block["type"] == "toolCall"]
            self._turn.answer, self._turn.calls = message, calls

    def _result_ended(self, call_id: str) -> None:
        if self._turn is None:
            return  # told as message_outside_turn
        if call_id in self._turn.running:
            self._wrong("early_result", f"the result of {call_id} before its tool_execution_end")
        self._turn.results.append(call_id)

    # Tools

    def _on_tool_execution_start(self, frame: Json) -> None:
        call_id = frame["toolCallId"]
        if self._turn is None or call_id not in (self._turn.calls or []):
            self._wrong("tool_outside_turn", f"tool_execution_start of {call_id}, which no answer of this turn calls")
        elif call_id in self._turn.running | self._turn.ended:
            self._wrong("tool_twice", f"tool_execution_start of {call_id} for the second time")
        if self._turn is not None:
            self._turn.running.add(call_id)

    def _on_tool_execution_update(self, frame: Json) -> None:
        if self._turn is None or frame["toolCallId"] not in self._turn.running:
            self._wrong("tool_not_running", f"tool_execution_update of {frame['toolCallId']}, which does not run")

    def _on_tool_execution_end(self, frame: Json) -> None:
        call_id = frame["toolCallId"]
        if self._turn is None or call_id not in self._turn.running:
            self._wrong("tool_not_running", f"tool_execution_end of {call_id}, which does not run")
            return
        self._turn.running.discard(call_id)
        self._turn.ended.add(call_id)

    # Retries and compactions

    def _on_auto_retry_start(self, frame: Json) -> None:
        if self._run:
            self._wrong("retry_in_run", "auto_retry_start while a run is open")
        expected = 1 if self._retry is None else self._retry + 1
        if frame["attempt"] != expected:
            self._wrong("retry_count", f"auto_retry_start of attempt {frame['attempt']} where {expected} is due")
        if self._promised_run is None and self._log.wire != "strict":
            self._wrong("retry_unannounced", "auto_retry_start without willRetry before it")
        self._retry = frame["attempt"]

    def _on_auto_retry_end(self, frame: Json) -> None:
        if self._retry is None:
            self._wrong("retry_end_without_start", "auto_retry_end without auto_retry_start")
        elif frame["attempt"] != self._retry:
            self._wrong("retry_count", f"auto_retry_end of attempt {frame['attempt']}, {self._retry} was going on")
        self._retry = None

    def _on_compaction_start(self, _: Json) -> None:
        if self._compaction:
            self._wrong("two_compactions", "compaction_start within a compaction")
        if self._run:
            self._wrong("compaction_in_run", "compaction_start while a run is open")
        if self._message is not None:
            self._wrong("compaction_in_message", f"compaction_start within a message of {self._message}")
        self._compaction = True

    def _on_compaction_end(self, frame: Json) -> None:
        if not self._compaction:
            self._wrong("compaction_end_without_start", "compaction_end without compaction_start")
        self._compaction = False
        if frame["willRetry"]:
            self._promised_run = self._run_start

    def _on_the_end(self) -> None:
        open_things = {
            "unclosed_run": self._run,
            "unclosed_turn": self._turn is not None,
            "unclosed_message": self._message is not None,
            "unclosed_compaction": self._compaction,
            "unclosed_retry": self._retry is not None,
        }
        for kind, is_open in open_things.items():
            if is_open:
                self._wrong(kind, "it was open at the end")
        if self._chain and not self._run and self._log.wire != "strict":
            self._wrong("unsettled", "agent_settled did not come after the last run")
