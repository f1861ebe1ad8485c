"""``indusagi --mode acp`` as a process of its own, spoken to through real pipes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rpc_process import RpcProcess


class AcpProcess(RpcProcess):
    """Send requests and notifications, answer what is asked."""

    mode = "acp"
    _last_id = 0

    def begin(self, method: str, /, **params: Any) -> int:
        """Send a request; returns its id."""
        self._last_id += 1
        self.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    def response(self, request_id: object) -> dict[str, Any]:
        """The response to a request, seen already or not."""
        return self.seen(lambda frame: "method" not in frame and frame.get("id") == request_id)

    def request(self, method: str, /, **params: Any) -> Any:
        """The result of a request."""
        answer = self.response(self.begin(method, **params))
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def failure(self, method: str, /, **params: Any) -> dict[str, Any]:
        """The error of a request."""
        answer = self.response(self.begin(method, **params))
        assert "result" not in answer, answer["result"]
        return answer["error"]

    def notify(self, method: str, /, **params: Any) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def asked(self, method: str, *, since: int = 0) -> dict[str, Any]:
        """The first request of the agent's for ``method`` behind that many frames."""
        return self.seen(lambda frame: frame.get("method") == method and "id" in frame, since=since)

    def reply(self, request: dict[str, Any], result: object) -> None:
        """Answer a request of the agent's."""
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def seen(self, wanted: Callable[[dict[str, Any]], bool], *, since: int = 0) -> dict[str, Any]:
        """The first frame that is wanted, seen already or not."""
        with self._arrived:

            def found() -> dict[str, Any] | None:
                return next((frame for frame in self.frames[since:] if wanted(frame)), None)

            if not self._arrived.wait_for(lambda: found() or self._ended, self._patience):
                raise TimeoutError(f"nothing of that kind came in time; the last frames: {self.frames[-5:]}")
            frame = found()
        assert frame is not None, f"the process ended and said {self.stderr}"
        return frame

    def updates(self, session_id: str, kind: str | None = None) -> list[dict[str, Any]]:
        """What was shown of a session."""
        shown = [frame["params"] for frame in self.frames if frame.get("method") == "session/update"]
        every = [params["update"] for params in shown if params["sessionId"] == session_id]
        return [update for update in every if kind in (None, update["sessionUpdate"])]

    def text(self, session_id: str, kind: str = "agent_message_chunk") -> str:
        """The text that was shown."""
        return "".join(update["content"].get("text", "") for update in self.updates(session_id, kind))
