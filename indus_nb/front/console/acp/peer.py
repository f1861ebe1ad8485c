"""JSON-RPC 2.0 with one other end, an object a line.

What this module promises:

- Every request gets exactly one response, with its ``id``, whatever happens; one that waits does so in a task of its
  own. Notifications are carried out in the order in which they come, and never answered.
- A line that is no message, an unknown method and wrong parameters are answered with an error that says what to do, and
  change nothing. A response to no open request is ignored.
- A request of ours ends with its answer, or when it is cancelled, of which the other end is notified.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, cast

from indus_nb.base import textcut
from indus_nb.base.errors import CredentialsError, IndusError, SessionFileError, SessionNotFoundError, UsageError
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.base.wire import JsonObject, dump, from_json, load_object
from indus_nb.base.wire_model import WireModel
from indus_nb.front.console.stdio import LineTooLongError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CANCELLED = -32800
AUTHENTICATION_REQUIRED = -32000
NOT_FOUND = -32002
_CODES: tuple[tuple[type[IndusError], int], ...] = (
    (CredentialsError, AUTHENTICATION_REQUIRED),
    (SessionNotFoundError, NOT_FOUND),
    (SessionFileError, INTERNAL_ERROR),
    (UsageError, INVALID_PARAMS),
)
_GIVING_UP_SECONDS = 0.2
_log = logging.getLogger("indus_nb")


class RpcError(Exception):
    """An error as the protocol has it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Method:
    """Method that the other end may call: its parameters, and its handler.

    Attributes:
        handle: Called with them. Its return value, awaited if it is a coroutine, is the result.
    """

    params: type[WireModel]
    handle: Callable[[Any], Any]


class Peer:
    """JSON-RPC connection with the other end.

    Args:
        requests: The methods that are served, by name.
        notifications: The notifications that are handled, by name; handled at once.
    """

    def __init__(
        self, send_line: Callable[[bytes], None], requests: Mapping[str, Method], notifications: Mapping[str, Method]
    ) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        """The requests that are carried out."""
        self.ending = False
        """``True`` once no more requests are carried out; answers still count."""
        self._send_line = send_line
        self._requests = requests
        self._notifications = notifications
        self._asked: dict[int, asyncio.Future[JsonObject]] = {}
        self._last_id = 0
        self._closed = False
        self._open: dict[object, asyncio.Task[None]] = {}

    def handle_line(self, line: bytes | LineTooLongError) -> bool:
        """Handle a message; returns whether a task was started for it."""
        if isinstance(line, LineTooLongError):
            return self._fail(None, PARSE_ERROR, f"The message cannot be read: {line}.")
        if not line.strip():
            return False
        try:
            message = _read(line)
        except ValueError as error:
            return self._fail(None, PARSE_ERROR, f"The message cannot be read: {error}. Send one JSON object a line.")
        if not isinstance(message, dict):
            return self._fail(None, INVALID_REQUEST, "A message is one JSON object; batches are not supported.")
        return self._handle(cast("JsonObject", message))

    def _handle(self, message: JsonObject) -> bool:
        method, request_id = message.get("method"), message.get("id")
        if method is None and ("result" in message or "error" in message):
            self._answered(message)
            return False
        try:
            name = _checked(method, request_id)
            if "id" not in message:
                self._handle_notification(name, message.get("params"))
                return False
            known, params = self._request(name, request_id, message.get("params"))
        except RpcError as error:
            return self._fail(request_id if _is_id(request_id) else None, error.code, str(error))
        self._start(request_id, name, known, params)
        return True

    def _request(self, name: str, request_id: object, params: object) -> tuple[Method, WireModel]:
        """Return the method and parameters of a request; raises ``RpcError`` for an invalid one."""
        if request_id in self._open:
            raise RpcError(INVALID_REQUEST, "A request with this id is not answered yet.")
        if self.ending:
            raise RpcError(INTERNAL_ERROR, "The agent is ending. Start it again.")
        known = self._requests.get(name)
        if known is None:
            shown = textcut.one_line(name, 100)
            raise RpcError(METHOD_NOT_FOUND, f"There is no method {shown!r} here. `initialize` says what there is.")
        return known, _parsed(name, known, params)

    def _start(self, request_id: Any, name: str, known: Method, params: WireModel) -> None:
        task = asyncio.create_task(self._carry_out(request_id, name, known, params))
        self.tasks.add(task)
        self._open[request_id] = task

        def ended(task: asyncio.Task[None]) -> None:
            self.tasks.discard(task)
            self._open.pop(request_id, None)

        task.add_done_callback(ended)

    async def _carry_out(self, request_id: str | int | None, method: str, known: Method, params: WireModel) -> None:
        try:
            result = known.handle(params)
            if asyncio.iscoroutine(result):
                result = await cast("Coroutine[Any, Any, object]", result)
            line = dump({"jsonrpc": "2.0", "id": request_id, "result": result})
        except asyncio.CancelledError:
            self._fail(request_id, CANCELLED, "The request was cancelled.")
        except RpcError as error:
            self._fail(request_id, error.code, str(error))
        except IndusError as error:
            self._fail(
                request_id, next((code for kind, code in _CODES if isinstance(error, kind)), INTERNAL_ERROR), str(error)
            )
        except Exception as error:  # noqa: BLE001 - also a defect of ours is answered: an id without an answer hangs the client
            _log.error("The request %s failed", method, exc_info=error)
            self._fail(request_id, INTERNAL_ERROR, f"Internal error: {type(error).__name__}: {error}")
        else:
            self._send_line(line)

    def _handle_notification(self, method: str, params: object) -> None:
        if method == "$/cancel_request":
            wanted = cast("JsonObject", params).get("requestId") if isinstance(params, dict) else None
            task = self._open.get(wanted) if _is_id(wanted) else None
            if task is not None:
                task.cancel()
            return
        known = self._notifications.get(method)
        if known is None:
            if not method.startswith("$/"):
                _log.warning("The client told of %r, which nothing is known of here", textcut.one_line(method, 100))
            return
        try:
            known.handle(_parsed(method, known, params))
        except Exception as error:  # noqa: BLE001 - nothing is answered, and the next line is to be read all the same
            _log.warning("A notification of the client was left out: %s", error)

    # Requests to the other end

    def notify(self, method: str, params: JsonObject) -> None:
        """Send the other end a notification."""
        self._send_line(dump({"jsonrpc": "2.0", "method": method, "params": params}))

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """Send the other end a request, and wait for its response.

        Returns:
            The result; an empty object where it is none.

        Raises:
            RpcError: The other end answered with an error, or is gone.
        """
        self._last_id += 1
        request_id = self._last_id
        if self._closed:
            raise _gone()
        future = self._asked[request_id] = asyncio.get_running_loop().create_future()
        self._send_line(dump({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}))
        try:
            return await future
        except asyncio.CancelledError:
            self.notify("$/cancel_request", {"requestId": request_id})
            raise
        finally:
            del self._asked[request_id]

    async def give_up(self) -> None:
        """Cancel the requests that are still carried out, so that each gets a response."""
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=_GIVING_UP_SECONDS)

    def close(self) -> None:
        """End all requests of ours: the other end is gone."""
        self._closed = True
        for future in self._asked.values():
            if not future.done():
                future.set_exception(_gone())

    def _answered(self, message: JsonObject) -> None:
        answered = message.get("id")
        future = self._asked.get(answered) if type(answered) is int else None
        if future is None or future.done():
            return
        error: object = message.get("error")
        if error is None:
            result: object = message.get("result")
            future.set_result(cast("JsonObject", result) if isinstance(result, dict) else {})
            return
        details = cast("JsonObject", error) if isinstance(error, dict) else {}
        code = details.get("code")
        text = textcut.one_line(str(details.get("message") or "no reason was given"), 500)
        future.set_exception(RpcError(code if type(code) is int else INTERNAL_ERROR, text))

    def _fail(self, request_id: object, code: int, message: str) -> bool:
        error = {"code": code, "message": message}
        self._send_line(dump({"jsonrpc": "2.0", "id": request_id, "error": error}))
        return False


def _read(line: bytes) -> object:
    try:
        return from_json(line)
    except ValueError:
        with contextlib.suppress(ValueError):
            return load_object(line)  # also one with half characters, as editors have them: it may be an answer
        raise


def _gone() -> RpcError:
    return RpcError(INTERNAL_ERROR, "The client is gone.")


def _checked(method: object, request_id: object) -> str:
    """Return the name of a method; raises ``RpcError`` for what is no message."""
    if not _is_id(request_id):
        raise RpcError(INVALID_REQUEST, "The `id` of a request is a string or an integer.")
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "A message needs a `method`, the name of what is wanted.")
    return method


def _is_id(value: object) -> bool:
    return value is None or (isinstance(value, str | int) and not isinstance(value, bool))


def _parsed(method: str, known: Method, params: object) -> WireModel:
    """Validate the parameters; raises ``RpcError`` for wrong ones."""
    if not (params is None or isinstance(params, dict)):
        raise RpcError(
            INVALID_PARAMS, f"Invalid parameters of {method}: `params` is to be an object. Nothing was done."
        )
    try:
        return known.params.from_wire({} if params is None else params)
    except InvalidFieldsError as error:
        problems = "; ".join(f"`{problem.path}`: {problem.reason}" for problem in error.problems)
        raise RpcError(INVALID_PARAMS, f"Invalid parameters of {method}: {problems}. Nothing was done.") from error
