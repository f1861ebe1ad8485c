"""Plays a scenario against a real process and writes down what was said."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
from rpc_process import RpcProcess

from fuzz.extension import write_extension
from fuzz.log import SENT, Json, Log, Violation
from fuzz.scenario import Scenario, Step
from fuzz.server import ScriptedApi

ARGUMENTS = ("--model", "claude-haiku-4-5", "--thinking", "off", "--session-dir", "sessions")
SETTINGS = {
    "compaction": {"keepRecentTokens": 100, "reserveTokens": 2000},
    "branchSummary": {"reserveTokens": 2000},
    "retry": {"maxRetries": 2, "baseDelayMs": 20},
}
FRAME_SECONDS = 0.5
IDLE_SECONDS = 60.0
ENDS = ("agent_settled", "agent_end", "compaction_end", "auto_compaction_end")
_POLL_SECONDS = 0.3
_QUIET_SECONDS = 0.45


def play(scenario: Scenario) -> Log:
    """Run ``scenario`` to its end; the log's ``directory`` is the caller's to remove."""
    home = Path(tempfile.mkdtemp(prefix="storm-"))
    (home / "agent").mkdir()
    (home / "agent" / "settings.json").write_text(json.dumps(SETTINGS))
    if scenario.extension is not None:
        write_extension(scenario.extension, home / "agent")
    log = Log(scenario.wire, scenario.extension is not None, directory=home, hurried=scenario.hurry)
    with ScriptedApi(scenario.answers) as api:
        more = {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "sk-test"}
        with _Process("--wire", scenario.wire, *ARGUMENTS, home=home, more=more) as process:
            player = _Player(process, log, _QUIET_SECONDS if log.has_extension else 0)
            try:
                player.play(scenario)
                process.close_stdin()
                log.status = process.wait_for_end()
            except (TimeoutError, AssertionError, BrokenPipeError, subprocess.TimeoutExpired) as error:
                player.note("hang", f"{type(error).__name__}: {str(error)[:300]}")
            finally:
                process.signal(9)
    log.items = process.items()
    log.stderr = process.stderr
    log.leftovers = leftovers(home)
    return log


def discard(log: Log) -> None:
    """Remove the files of a round."""
    if log.directory is not None:
        shutil.rmtree(log.directory, ignore_errors=True)


class _Process(RpcProcess):
    """Remembers where among the frames commands were written, and waits without swallowing frames."""

    def __init__(self, *arguments: str, **options: Any) -> None:
        self._marks: list[tuple[int, Json]] = []
        super().__init__(*arguments, **options)

    def say(self, commands: list[Json]) -> None:
        with self._arrived:
            self._marks += [(len(self.frames), {"type": SENT, "command": command}) for command in commands]
        lines = (f"{command['line']}\n".encode() if command["type"] == "raw" else command for command in commands)
        self.send(*lines)

    def until(self, wanted: Callable[[], bool], seconds: float) -> bool:
        """Wait until ``wanted`` of the frames so far; tells whether that came true in time."""
        with self._arrived:
            self._arrived.wait_for(lambda: wanted() or self._ended, seconds)
            return wanted()

    def items(self) -> list[Json]:
        """Frames, and commands where they were sent."""
        items: list[Json] = []
        marks = iter([*self._marks, (len(self.frames) + 1, {})])
        place, mark = next(marks)
        for index in range(len(self.frames) + 1):
            while place == index:
                items.append(mark)
                place, mark = next(marks)
            items += self.frames[index : index + 1]
        return items


class _Player:
    def __init__(self, process: _Process, log: Log, quiet_seconds: float) -> None:
        self._process = process
        self._log = log
        self._quiet_seconds = quiet_seconds
        self._asked = 0
        self._sent: set[str] = set()
        self._answered: set[str] = set()
        self._looked_at = 0
        self._names: dict[str, list[str]] = {"entry": [], "user": [], "file": []}

    def play(self, scenario: Scenario) -> None:
        self._ask("get_commands")  # the process is up
        for step in scenario.steps:
            self._step(step)
        if scenario.hurry:
            return
        self.become_idle()
        names = ("get_state", "get_messages", "get_entries", "clear_queue")
        self._send([{"id": f"final {name}", "type": name} for name in names])
        self._until_answered()

    def note(self, kind: str, text: str) -> None:
        """Write down what the player itself met."""
        self._log.problems.append(Violation(kind, len(self._process.items()) - 1, text))

    def become_idle(self) -> None:
        """Wait until every command is answered and nothing goes on; notes what does not end."""
        end = time.monotonic() + IDLE_SECONDS
        self._until_answered()
        while time.monotonic() < end:
            state = self._ask("get_state")
            count = len(self._process.frames)
            if state["isStreaming"] or state["isCompacting"]:
                self._until_frame(ENDS, count, _POLL_SECONDS)
            elif not self._process.until(lambda at=count: len(self._process.frames) > at, self._quiet_seconds):
                return
        self.note("never_idle", f"the session was busy for {IDLE_SECONDS} s")

    def _until_frame(self, kinds: Sequence[str], start: int, seconds: float) -> None:
        """Wait until a frame of these kinds comes, or none at all for so many seconds."""
        frames, seen = self._process.frames, start
        while self._process.until(lambda at=seen: len(frames) > at, seconds):
            new, seen = frames[seen:], len(frames)
            if any(frame["type"] in kinds for frame in new):
                return

    def _step(self, step: Step) -> None:
        if step.look:
            self._send([{"id": self._next_id(), "type": name} for name in ("get_state", "get_entries")])
            self._until_answered(only_asked=True)
        start = len(self._process.frames)
        self._send([self._resolved(command) for command in step.commands])
        match step.wait:
            case {"seconds": seconds}:
                time.sleep(seconds)
            case {"frame": kind}:
                self._until_frame((kind, f"auto_{kind}"), start, FRAME_SECONDS)
            case {"idle": True}:
                self.become_idle()
            case _:
                pass

    def _send(self, commands: list[Json]) -> None:
        self._sent |= {command["id"] for command in commands if command["type"] not in ("raw", "extension_ui_response")}
        self._process.say(commands)

    def _ask(self, name: str) -> Json:
        command_id = self._next_id()
        self._send([{"id": command_id, "type": name}])
        if not self._process.until(lambda: command_id in self._look(), IDLE_SECONDS):
            raise TimeoutError(f"{name} was not answered in {IDLE_SECONDS} s")
        return next(frame["data"] for frame in reversed(self._process.frames) if frame.get("id") == command_id)

    def _next_id(self) -> str:
        self._asked += 1
        return f"asked {self._asked}"

    def _until_answered(self, *, only_asked: bool = False) -> None:
        wanted = {name for name in self._sent if name.startswith("asked")} if only_asked else self._sent
        if not self._process.until(lambda: wanted <= self._look(), IDLE_SECONDS):
            raise TimeoutError(f"not answered in {IDLE_SECONDS} s: {sorted(wanted - self._answered)}")

    def _look(self) -> set[str]:
        """Take in what came since; returns the ids that were answered."""
        for frame in self._process.frames[self._looked_at :]:
            self._looked_at += 1
            if frame["type"] != "response":
                continue
            self._answered.add(frame.get("id", ""))
            data = frame.get("data")
            if frame["command"] == "get_entries" and data:
                entries = data["entries"]
                self._names["entry"] = [entry["id"] for entry in entries]
                is_user = [entry.get("message", {}).get("role") == "user" for entry in entries]
                self._names["user"] = [entry["id"] for entry, user in zip(entries, is_user, strict=True) if user]
            if frame["command"] == "get_state" and (path := data.get("sessionFile")) not in self._names["file"]:
                self._names["file"].append(path)
        return self._answered

    def _resolved(self, command: Json) -> Json:
        return {key: self._value(value) for key, value in command.items()}

    def _value(self, value: Any) -> Any:
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        kind, number = value[1:].split()
        names = self._names[kind]
        return names[int(number) % len(names)] if names else "nothing"


def leftovers(home: Path) -> list[str]:
    """The processes of this round that are still there; one that was killed may take a moment to end."""
    found = [process for process in psutil.process_iter(["name"]) if _is_of(process, home)]
    _, left = psutil.wait_procs(found, timeout=10)
    return [f"{process.pid} {process.info['name']}" for process in left]


def _is_of(process: psutil.Process, home: Path) -> bool:
    try:
        return process.environ().get("HOME") == str(home) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
