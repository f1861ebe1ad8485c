"""Sub-agents for a client of RPC mode: those that work, frames about them if it subscribes, and their messages.

What this module promises: a client that has not subscribed to frames is sent none, and a session file is read
only if it is that of a sub-agent of this session, by what the session itself has announced.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from indus_nb.base.errors import UsageError
from indus_nb.base.events import SessionEvent, SessionReplaced, SubagentEvent, SubagentLifecycle, SubagentProgress
from indus_nb.base.wire import JsonObject, dump, load_object
from indus_nb.front.verbs.verb import SubagentLevel

_MAX_KNOWN = 256
"""Most ended sub-agents that are remembered."""
_MAX_BYTES = 4_000_000
"""Most bytes of a file in one response, but for the end of its last line."""


class SubagentFrames:
    """State of the sub-agents of a session, and the frames about them."""

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self._send = send
        self.level: SubagentLevel = "off"
        self._working: dict[str, JsonObject] = {}
        self._files: dict[str, str] = {}

    def follow(self, event: SessionEvent) -> None:
        """Record an event of the session, and send it on if the client has subscribed to it."""
        match event:
            case SubagentLifecycle():
                self._note(event)
            case SubagentProgress():
                seen = self._working.get(event.payload.progress.id)
                if seen is None:
                    return
                shown = event.payload.to_wire()
                progress: JsonObject = shown["progress"]
                seen |= {"status": progress["status"], "task": shown["task"], "progress": progress}
                seen["lastUpdate"] = _now()
            case SubagentEvent():
                if self.level == "events":
                    payload = {"id": event.payload.id, "event": event.payload.event.to_wire()}
                    self._send(dump({"type": event.type, "payload": payload}))
                return
            case SessionReplaced():
                self._working.clear()
                self._files.clear()
                return
            case _:
                return
        if self.level != "off":
            self._send(dump(event))

    def _note(self, event: SubagentLifecycle) -> None:
        payload = event.payload
        if payload.status != "started":
            self._working.pop(payload.id, None)
            return
        shown = {**payload.to_wire(), "status": "running", "lastUpdate": _now()}
        self._working[payload.id] = shown
        if payload.session_file is not None:
            self._files[payload.id] = payload.session_file
            while len(self._files) > _MAX_KNOWN:
                del self._files[next(iter(self._files))]

    def working(self) -> list[JsonObject]:
        """Return the sub-agents that work at present."""
        return sorted(self._working.values(), key=lambda shown: (shown["index"], shown["id"]))

    async def messages(self, subagent_id: str | None, session_file: str | None, start: int) -> JsonObject:
        """Return the messages of a sub-agent that is named by its id or else by its session file.

        Args:
            start: Where to begin in the file, in bytes.

        Raises:
            UsageError: There is no such sub-agent of this session, or the file cannot be read.
        """
        path = self._files.get(subagent_id) if subagent_id is not None else session_file
        if path is None or path not in self._files.values():
            raise UsageError("There is no such sub-agent of this session, or its messages are not saved.")
        return await asyncio.to_thread(_read, Path(path), start)


def _read(path: Path, start: int) -> JsonObject:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            is_reset = start > size
            start = 0 if is_reset else start
            file.seek(start)
            text = file.read(_MAX_BYTES) + file.readline()
    except FileNotFoundError:
        is_reset, text = False, b""  # it appears with the first message
    except OSError as error:
        raise UsageError(f"The session file {path} cannot be read: {error.strerror}.") from error
    whole = text[: text.rfind(b"\n") + 1]
    entries: list[JsonObject] = []
    for line in whole.splitlines():
        try:
            entries.append(load_object(line))
        except ValueError:
            continue  # nothing that a session writes
    return {
        "sessionFile": str(path),
        "fromByte": start,
        "nextByte": start + len(whole),
        "reset": is_reset,
        "entries": entries,
        "messages": [message for entry in entries if isinstance(message := entry.get("message"), dict)],
    }


def _now() -> int:
    return round(time.time() * 1000)
