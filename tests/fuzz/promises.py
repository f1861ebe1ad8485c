"""What the answers to commands promise about the events: who is answered, what is said, and what must have ended."""

from __future__ import annotations

from dataclasses import dataclass

from fuzz.log import SENT, Json, Log, Violation, text_of

PROMPTS = ("prompt", "abort_and_prompt")
SPEAKING = (*PROMPTS, "steer", "follow_up")
REPLACING = ("new_session", "switch_session", "fork", "clone")
RUN_EVENTS = (
    "agent_start",
    "agent_end",
    "turn_start",
    "turn_end",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
    "auto_retry_start",
    "auto_retry_end",
)
COMPACTION_STARTS = ("compaction_start", "auto_compaction_start")
COMPACTION_ENDS = ("compaction_end", "auto_compaction_end")


@dataclass
class _Sent:
    """A command: its place among all, where it was written and answered, and how."""

    command: Json
    order: int
    at: int
    answered_at: int | None = None
    success: bool = False
    said_at: int | None = None
    gone: bool = False

    @property
    def kind(self) -> str:
        return self.command["type"]


class Promises:
    """Feed it a log; ``violations`` are the promises that were broken."""

    def __init__(self, log: Log) -> None:
        self.violations: list[Violation] = []
        self._log = log
        self._at = 0
        self._sent: dict[str, _Sent] = {}
        self._texts: dict[str, _Sent] = {}
        self._bad_lines = 0
        self._parse_errors = 0
        self._run = False
        self._compaction = False
        self._compaction_at = 0
        self._chain_start: int | None = None
        self._cause: _Sent | None = None
        self._cause_known = False
        self._ended: list[_Sent] = []
        """The prompts whose runs have settled."""
        self._barrier = -1
        self._barrier_id = ""
        self._barrier_at = -1
        self._final = False
        self._waiting = 0
        self._commands_extension = False
        """Whether the extension was told to do something; it may put another session in the place of this one."""
        self._path = ""
        """The session's file; empty when that is not known for sure."""

    def check(self) -> list[Violation]:
        """The violations in the log."""
        for at, item in enumerate(self._log.items):
            self._at = at
            kind = item["type"]
            if kind == SENT:
                self._on_sent(item["command"])
            elif kind == "response":
                self._on_response(item)
            else:
                self._on_event(kind, item)
        self._at = len(self._log.items) - 1
        self._on_the_end()
        return self.violations

    def _wrong(self, kind: str, text: str) -> None:
        self.violations.append(Violation(kind, self._at, text))

    # Commands and their answers

    def _on_sent(self, command: Json) -> None:
        if command["type"] == "raw":
            self._bad_lines += 1
            return
        if command["type"] == "extension_ui_response":
            return
        sent = _Sent(command, len(self._sent), self._at)
        self._sent[command["id"]] = sent
        if sent.kind in SPEAKING and command["message"].startswith("/"):
            self._commands_extension = True
        elif sent.kind in SPEAKING:
            self._texts[command["message"]] = sent
        self._final = self._final or command["id"].startswith("final")

    def _on_response(self, frame: Json) -> None:
        if "id" not in frame:
            self._parse_errors += frame["command"] == "parse" or frame["command"] == "unknown"
            return
        sent = self._sent.get(frame["id"])
        if sent is None:
            self._wrong("answer_to_nobody", f"a response to {frame['id']}, which was not sent")
            return
        if sent.answered_at is not None:
            self._wrong("answered_twice", f"a second response to {frame['id']} ({frame['command']})")
            return
        if frame["command"] != sent.kind:
            self._wrong("answer_name", f"the response to {sent.kind} names {frame['command']}")
        if "Internal error" in frame.get("error", ""):
            self._wrong("internal_error", f"{sent.kind}: {frame['error'][:200]}")
        sent.answered_at, sent.success = self._at, frame["success"]
        if sent.said_at is not None and sent.kind in PROMPTS and sent.success:
            self._wrong("answered_late", f"{frame['id']} ({sent.kind}) was answered behind its message")
        if sent.success:
            self._on_success(sent, frame.get("data"))

    def _on_success(self, sent: _Sent, data: Json | None) -> None:
        match sent.kind:
            case "abort":
                self._on_aborted(sent)
            case "get_state" if data is not None:
                self._on_state(data)
            case "clear_queue" if data is not None:
                for text in [*data["steering"], *data["followUp"]]:
                    if (said := self._texts.get(text)) is not None:
                        said.gone = True
            case kind if kind in REPLACING and data is not None and not data["cancelled"]:
                self._on_replaced(sent)
            case _:
                pass

    def _on_aborted(self, sent: _Sent) -> None:
        self._barrier, self._barrier_id, self._barrier_at = sent.order, sent.command["id"], self._at
        if self._chain_start is not None and self._cause_known:
            self._check_barrier("was going on")
        if later := [cause.command["id"] for cause in self._ended if cause.order > sent.order]:
            self._wrong("abort_late", f"{sent.command['id']} waited for the run of {later[0]}, which came after it")
        if self._compaction and not self._log.has_extension:
            later = any(self._may_compact(other) for other in self._sent.values() if other.order > sent.order)
            if not later and self._chain_start is None:
                self._wrong("abort_missed_compaction", f"a compaction went on when {sent.command['id']} was answered")

    def _may_compact(self, sent: _Sent) -> bool:
        """Whether the compaction that goes on may be a command's: of a prompt it is if that was accepted before."""
        accepted = sent.kind in PROMPTS and sent.answered_at is not None and sent.answered_at < self._compaction_at
        return sent.kind == "compact" or accepted

    def _on_replaced(self, sent: _Sent) -> None:
        # To go where one is already does nothing.
        same = sent.kind == "switch_session" and self._path in ("", sent.command["sessionPath"])
        if self._run and not same and not self._log.has_extension:
            self._wrong("run_survived", f"a run went on when {sent.command['id']} ({sent.kind}) was answered")
        self._path = ""
        for said in self._texts.values():
            if (said.answered_at is not None or said.order < sent.order) and said.said_at is None:
                said.gone = True  # a replaced session takes its queue along

    def _on_state(self, data: Json) -> None:
        self._path = data["sessionFile"]
        if self._final and data["pendingMessageCount"] != self._waiting and self._log.wire != "strict":
            self._wrong("queue_untold", f"{data['pendingMessageCount']} wait, queue_update told of {self._waiting}")
        if self._run and not data["isStreaming"]:
            self._wrong("state_idle_in_run", "get_state says isStreaming: false while a run is open")
        if self._compaction and not data["isCompacting"] and not self._log.has_extension:
            self._wrong("state_idle_in_compaction", "get_state says isCompacting: false during a compaction")
        if self._final and (data["isStreaming"] or data["isCompacting"]):
            self._wrong("state_busy_at_the_end", "get_state says that something goes on at the end")

    # Events

    def _on_event(self, kind: str, frame: Json) -> None:
        if kind in COMPACTION_STARTS:
            self._compaction, self._compaction_at = True, self._at
        elif kind in COMPACTION_ENDS:
            self._compaction = False
        if kind in RUN_EVENTS or kind in COMPACTION_STARTS:
            self._on_activity(kind, frame)
        if kind == "queue_update":
            self._waiting = len(frame["steering"]) + len(frame["followUp"])
        if kind == "not a frame":
            self._wrong("not_a_frame", repr(frame["line"])[:120])
        if kind == "agent_settled":
            if self._cause is not None:
                self._ended.append(self._cause)
            self._chain_start, self._cause, self._cause_known = None, None, False

    def _on_activity(self, kind: str, frame: Json) -> None:
        if self._final and not self._log.has_extension:
            self._wrong("event_when_idle", f"{kind} after the session was idle and nothing was asked")
        if kind == "agent_start":
            self._run = True
            if self._chain_start is None:
                self._chain_start, self._cause, self._cause_known = self._at, None, False
        elif kind == "agent_end":
            self._run = False
        elif kind == "message_end":
            self._on_message_end(frame["message"])
        if self._cause_known:
            self._check_barrier(kind)
        if kind == "agent_end" and self._log.wire == "strict":
            self._chain_start, self._cause, self._cause_known = None, None, False  # no agent_settled there

    def _on_message_end(self, message: Json) -> None:
        text = text_of(message)
        said = self._texts.get(text) if message["role"] == "user" else None
        if said is not None:
            if said.said_at is not None:
                self._wrong("said_twice", f"{said.command['id']} was said for the second time")
            if said.answered_at is not None and not said.success:
                self._wrong("refused_but_said", f"{said.command['id']} was refused, and is said")
            if said.kind in PROMPTS and said.answered_at is None:
                self._wrong("answered_late", f"{said.command['id']} ({said.kind}) is said before it was answered")
            said.said_at = self._at
        if self._chain_start is not None and not self._cause_known:
            self._cause_known = True
            if self._log.wire != "strict":
                self._cause = said
            elif said is not None and said.kind in PROMPTS and "streamingBehavior" not in said.command:
                self._cause = said  # without agent_settled a run that takes what waited looks like a new one
            foreign = said is None and not self._log.has_extension
            if self._log.wire != "strict" and (foreign or (said is not None and said.kind not in PROMPTS)):
                self._wrong("run_without_prompt", f"a run that no prompt asked for: {message['role']} {text[:60]!r}")

    def _check_barrier(self, what: str) -> None:
        if self._cause is not None and self._cause.order < self._barrier and self._at >= self._barrier_at:
            names = self._cause.command["id"], self._barrier_id
            self._wrong("abort_missed", f"{what}: a run of {names[0]} after abort {names[1]} was answered")
            self._barrier = -1  # once is enough

    def _on_the_end(self) -> None:
        for name, sent in self._sent.items():
            if sent.answered_at is None:
                self._wrong("unanswered", f"{name} ({sent.kind}) was never answered")
            elif self._was_lost(sent):
                self._wrong("said_and_lost", f"{name} ({sent.kind}) was accepted, and is in no event and in no queue")
        if self._parse_errors != self._bad_lines:
            self._wrong("bad_lines", f"{self._bad_lines} bad lines, {self._parse_errors} parse errors")

    def _was_lost(self, sent: _Sent) -> bool:
        if sent.kind not in SPEAKING or not sent.success or sent.said_at is not None or sent.gone:
            return False
        if self._commands_extension:
            return False
        may_wait = sent.kind not in PROMPTS or "streamingBehavior" in sent.command
        return not (may_wait and self._log.hurried)  # a queue ends with its process


def process_violations(log: Log) -> list[Violation]:
    """What is wrong with how the process behaved and ended."""
    at = len(log.items) - 1
    found = list(log.problems)
    for kind, words in {
        "traceback": "Traceback",
        "task_destroyed": "Task was destroyed",
        "frame_unwritten": "could not be written",
        "never_awaited": "was never awaited",
        "never_retrieved": "was never retrieved",
    }.items():
        if words in log.stderr:
            start = max(0, log.stderr.index(words) - 100)
            found.append(Violation(kind, at, log.stderr[start : start + 2500]))
    if log.status != 0 and not any(violation.kind == "hang" for violation in log.problems):
        found.append(Violation("exit_status", at, f"status {log.status}: {log.stderr[-300:]}"))
    if log.leftovers:
        found.append(Violation("leftovers", at, f"processes that are still there: {log.leftovers}"))
    return found
