"""Updates of a client: events, messages and tool calls as ``session/update`` has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal, TypeAlias, cast

from indus_nb.base import textcut
from indus_nb.base.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from indus_nb.base.terminal import plain
from indus_nb.base.wire import JsonObject, random_hex
from indus_nb.safety.vault import Vault
from indus_nb.tools.description import describe_call
from indus_nb.tools.description import title_of as code_title
from indus_nb.tools.todo import list_of_result

Chunk: TypeAlias = Literal["user_message_chunk", "agent_message_chunk", "agent_thought_chunk"]

_KINDS = {
    "read": "read",
    "write": "edit",
    "edit": "edit",
    "bash": "execute",
    "python": "execute",
    "grep": "search",
    "find": "search",
    "ls": "search",
    "todo": "think",
}
"""The tools whose kind a client shows with a sign; all others are ``other``."""
_ABANDONED = [TextContent(text="Not run: the answer ended before this call started.")]
_CHANGES_FILES = ("write", "edit")
_MAX_TITLE_CHARACTERS = 200
_MAX_DIFF_BYTES = 256 * 1024
_MAX_LINE = 2**31 - 1
"""Largest line number: clients read them as 32 bits, and reject an update with a larger one."""
_TASKS = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "abandoned": "completed",
    "failed": "completed",
}


def chunk(kind: Chunk, block: JsonObject, message_id: str) -> JsonObject:
    """Return a piece of a message."""
    return {"sessionUpdate": kind, "content": block, "messageId": message_id}


def text_block(text: str) -> JsonObject:
    """Return text as content."""
    return {"type": "text", "text": text}


def blocks(content: Sequence[object]) -> Iterator[JsonObject]:
    """Yield the texts and images of a message or result as content."""
    for block in content:
        if isinstance(block, TextContent):
            yield text_block(block.text)
        elif isinstance(block, ImageContent) and block.data:
            yield {"type": "image", "data": block.data, "mimeType": block.mime_type}


def title_of(text: str) -> str:
    """Return text from elsewhere as a title: a line of it, without what a terminal would obey."""
    return textcut.one_line(plain(text), _MAX_TITLE_CHARACTERS)


class Calls:
    """The tool calls of a session as a client shows them.

    Args:
        vault: Knows the secrets that no client is shown: clients keep what they were shown in files of their own.
    """

    def __init__(self, cwd: Path, tools: Mapping[str, object], vault: Vault) -> None:
        self.cwd = cwd
        self.tools = tools
        self._vault = vault
        self.running: str | None = None
        """The call that runs, or is asked about; the last one to start if there are several."""
        self._before: dict[str, tuple[Path, str | None]] = {}
        self._changed: dict[str, tuple[Path, str | None, str]] = {}
        self._terminals: dict[str, str] = {}
        self.open: dict[str, str] = {}
        """The calls that the client was shown and that have not ended, with their tools."""

    def announced(self, call_id: str, name: str) -> JsonObject:
        """Return the update for a call whose arguments are still written."""
        self.open[call_id] = name
        return {
            "sessionUpdate": "tool_call",
            "toolCallId": call_id,
            "title": self._title(name),
            "kind": _KINDS.get(name, "other"),
            "status": "pending",
        }

    def started(self, call_id: str, name: str, arguments: JsonObject) -> JsonObject:
        """Return the update for a call that begins."""
        self.running = call_id
        self.open[call_id] = name
        if name in _CHANGES_FILES and (path := self._path(arguments)) is not None:
            self._before[call_id] = (path, _small_text(path))
        return {**self.described(call_id, name, arguments), "status": "in_progress"}

    def described(self, call_id: str, name: str, arguments: JsonObject) -> JsonObject:
        """Describe a call.

        Returns:
            An update without a status.
        """
        described = describe_call(name, arguments, self.tools)
        summary = self._title(described.summary or (described.code and code_title(described.code)) or "")
        kind = _KINDS.get(name, "other")
        update: JsonObject = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call_id,
            "title": summary if summary and kind == "execute" else f"{self._title(name)} {summary}".rstrip(),
            "kind": kind,
            "rawInput": _plain_in(self._vault.hide_in(arguments)),
        }
        if (path := self._path(arguments)) is not None:
            line = arguments.get("offset")
            at = {"line": line} if type(line) is int and 0 < line <= _MAX_LINE else {}
            update["locations"] = [{"path": str(path), **at}]
        return update

    def _title(self, text: str) -> str:
        return title_of(self._vault.hide(text))

    def changed(self, call_id: str, path: Path, before: str | None, after: str) -> None:
        """Note what a call has changed in a file of the client's, which need not be on the disk.

        Args:
            before: Its text before, ``None`` without one.
        """
        self._changed[call_id] = (path, before, after)

    def runs_in(self, call_id: str, terminal_id: str) -> JsonObject:
        """Return the update for a call whose command runs in a terminal of the client's.

        Returns:
            The update; what the terminal shows is the output of the call from now on.
        """
        self._terminals[call_id] = terminal_id
        return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "content": [_terminal(terminal_id)]}

    def went_on(self, call_id: str, name: str, content: Sequence[object]) -> JsonObject:
        """Return the update for a call's output so far."""
        terminal = self._terminals.get(call_id)
        shown = _shown(name, content) if terminal is None else [_terminal(terminal)]
        return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "content": shown}

    def ended(self, call_id: str, name: str, content: Sequence[object], *, failed: bool) -> JsonObject:
        """Return the update for a call that has ended.

        Returns:
            The update, with what it changed in a file.
        """
        self.open.pop(call_id, None)
        if self.running == call_id:
            self.running = None
        terminal = self._terminals.pop(call_id, None)
        shown = _shown(name, content) if terminal is None else [_terminal(terminal)]
        path, before = self._before.pop(call_id, (None, None))
        after = _small_text(path) if path is not None and not failed else None
        if (changed := self._changed.pop(call_id, None)) is not None:
            path, before, after = changed
        if after is not None and after != before:
            old = None if before is None else self._vault.hide(before)
            shown.insert(0, {"type": "diff", "path": str(path), "oldText": old, "newText": self._vault.hide(after)})
        return {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call_id,
            "status": "failed" if failed else "completed",
            "content": shown,
        }

    def abandoned(self) -> list[JsonObject]:
        """Return the updates for calls that were shown and will not be carried out any more."""
        return [self.ended(call_id, name, _ABANDONED, failed=True) for call_id, name in [*self.open.items()]]

    def _path(self, arguments: JsonObject) -> Path | None:
        path = arguments.get("path")
        if not isinstance(path, str) or not path or "\0" in path:
            return None
        return self.cwd / path


def _terminal(terminal_id: str) -> JsonObject:
    return {"type": "terminal", "terminalId": terminal_id}


def plan_of(name: str, details: object) -> JsonObject | None:
    """Convert the to-do list that a result shows to a plan.

    Returns:
        The update, or ``None``.
    """
    todos = list_of_result(name, details)
    if todos is None:
        return None
    entries = [
        {"content": task.content, "priority": "medium", "status": _TASKS.get(task.status, "pending")}
        for phase in todos.phases
        for task in phase.tasks
    ]
    return {"sessionUpdate": "plan", "entries": entries}


def replayed(messages: Sequence[Message], calls: Calls) -> Iterator[JsonObject]:
    """Yield a conversation as the updates that a client would have been sent."""
    unanswered: dict[str, str] = {}

    def close() -> Iterator[JsonObject]:
        for call_id, name in unanswered.items():
            if call_id not in calls.open:
                yield calls.ended(call_id, name, _ABANDONED, failed=True)
        unanswered.clear()

    for message in messages:
        message_id = random_hex(16)
        if not isinstance(message, ToolResultMessage):
            yield from close()
        if isinstance(message, UserMessage):
            content = [TextContent(text=message.content)] if isinstance(message.content, str) else message.content
            yield from (chunk("user_message_chunk", block, message_id) for block in blocks(content))
        elif isinstance(message, AssistantMessage):
            yield from _replayed_answer(message, calls, message_id)
            unanswered.update((call.id, call.name) for call in message.tool_calls)
        elif isinstance(message, ToolResultMessage):
            unanswered.pop(message.tool_call_id, None)
            yield calls.ended(message.tool_call_id, message.tool_name, message.content, failed=message.is_error)
            if (plan := plan_of(message.tool_name, message.details)) is not None:
                yield plan
    yield from close()


def _replayed_answer(message: AssistantMessage, calls: Calls, message_id: str) -> Iterator[JsonObject]:
    for block in message.content:
        if isinstance(block, TextContent):
            yield chunk("agent_message_chunk", text_block(block.text), message_id)
        elif isinstance(block, ToolCall):
            described = calls.described(block.id, block.name, block.arguments)
            status = "in_progress" if block.id == calls.running else "pending"
            yield {**described, "sessionUpdate": "tool_call", "status": status}
        elif getattr(block, "thinking", ""):
            yield chunk("agent_thought_chunk", text_block(str(getattr(block, "thinking", ""))), message_id)


def _shown(name: str, content: Sequence[object]) -> list[JsonObject]:
    """Return the content of a result, output of programs as a block of code: clients render Markdown."""
    shown: list[JsonObject] = []
    for block in blocks(content):
        if block["type"] == "text":
            text = plain(block["text"]).strip("\n")
            if text.strip():
                shown.append({"type": "content", "content": text_block(_as_code(name, text))})
        else:
            shown.append({"type": "content", "content": block})
    return shown


def _as_code(name: str, text: str) -> str:
    if _KINDS.get(name, "think") == "think":
        return text
    from indus_nb.render.markdown import fenced

    return fenced(text, "")


def _small_text(path: Path) -> str | None:
    """Return the text of a file that is shown as a difference; ``None`` if there is none, or it is too large."""
    try:
        about = path.stat()
        if not S_ISREG(about.st_mode) or about.st_size > _MAX_DIFF_BYTES:
            return None
        if about.st_size == 0:
            return ""  # also files of the system say so, and reading one may wait for ever
        return path.read_bytes()[:_MAX_DIFF_BYTES].decode()
    except (OSError, UnicodeDecodeError, ValueError):
        return None


def usage(used: int, size: int, cost: float) -> JsonObject:
    """Return the update for how full the context is, and what was spent.

    Args:
        cost: In US dollars, of the whole session.
    """
    return {"sessionUpdate": "usage_update", "used": used, "size": size, "cost": {"amount": cost, "currency": "USD"}}


def commands(listed: Sequence[Mapping[str, Any]]) -> JsonObject:
    """Return the update for the commands, skills and templates that a prompt may begin with.

    Args:
        listed: As ``AgentSession.list_commands`` has them.
    """
    available = [
        {
            "name": str(each["name"]),
            "description": str(each.get("description") or each["name"]),
            "input": {"hint": "arguments"},
        }
        for each in listed
    ]
    return {"sessionUpdate": "available_commands_update", "availableCommands": available}


def _plain_in(value: Any) -> Any:
    """Return a JSON value as a client may show it."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {plain(str(name)): _plain_in(each) for name, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain_in(each) for each in cast("Sequence[Any]", value)]
    return value
