"""Asks the user before a tool does something that cannot be undone."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import shlex
import stat
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeGuard, cast

from pydantic import BaseModel

from indus_nb.extensions.api import Context, ExtensionApi
from indus_nb.extensions.events import ToolCallAnswer, ToolCallEvent
from indus_nb.extensions.kept_rules import KeptRules
from indus_nb.tools import Tool, ToolError
from indus_nb.wire import JsonObject

_YES = "Yes, once"
_SESSION = "Yes, and always in this session: "
_PROJECT = "Yes, and always in this folder: "
_NO = "No"
_LONGEST = 6000
_LONGEST_RULE = 120
"""Nobody reads a longer one before allowing it for good."""
_LARGEST_FILE = 256 * 1024
_MOST_LINES = 2000
_ANYTHING = " …"
_SIGNS = frozenset(";&|`$<>(){}[]*?~!\\\n'\"#=")
# Programs whose further words change little. None that runs what it is given, and none that writes where it is told.
_HARMLESS = frozenset({"ls", "pwd", "wc", "du", "df", "whoami", "git status"})


def permission_gate(agent_dir: Path) -> Callable[[ExtensionApi], None]:
    """An extension that asks as ``SessionSettings.approve`` says: before tools with effects, or before any.

    It must be asked last, when nobody changes the arguments any more. What was allowed for good is kept as readable
    rules, such as ``bash: git status …``: for the session in memory, for a folder in ``approved.json`` of the user's
    folder, never within the project itself. Where nobody can be asked the call is refused.
    """
    allowed: set[str] = set()
    kept = KeptRules(agent_dir)

    def setup(api: ExtensionApi) -> None:
        @api.on("tool_call")
        async def ask(event: ToolCallEvent, ctx: Context) -> ToolCallAnswer | None:
            mode = ctx.settings.approve
            if mode == "never" or (mode == "writes" and ctx.is_read_only(event.tool_name)):
                return None
            tool = ctx.builtin(event.tool_name)
            arguments = _understood(tool, event.input)
            if arguments is None:
                return None  # the tool itself will say what is wrong with them
            rule = _rule(event.tool_name, arguments, ctx.cwd, builtin=tool is not None)
            if rule in allowed or rule in await kept.of(ctx.cwd, ctx.ui):
                return None
            if not ctx.has_ui:
                told = "This call needs the user's approval, and nobody can be asked. Start with --approve never."
                return ToolCallAnswer(block=True, reason=f"{told} {kept.problem}".rstrip())
            warning = ctx.warning(event.tool_name, event.input)
            question, whole = await _question(event.tool_name, arguments, ctx.cwd, warning, builtin=tool is not None)
            offered = rule if whole and _is_readable(rule) else None
            always = [] if offered is None else [f"{_SESSION}{offered}", f"{_PROJECT}{offered}"]
            chosen = await ctx.ui.select(question, [_YES, *always, _NO], signal=ctx.signal)
            if offered is not None and chosen == always[0]:
                allowed.add(offered)
            elif offered is not None and chosen == always[1]:
                await kept.add(ctx.cwd, offered)
            elif chosen != _YES:
                return ToolCallAnswer(block=True, reason="The user did not allow this call. Ask what to do instead.")
            return None

    return setup


def _understood(tool: Tool | None, arguments: JsonObject) -> JsonObject | None:
    """The arguments as the tool will take them: it may know other names for them than those that stand there."""
    if tool is None:
        return arguments
    try:
        checked: object = tool.check(arguments)
    except ToolError:
        return None
    return checked.model_dump() if isinstance(checked, BaseModel) else arguments


# Rules


def _rule(name: str, arguments: JsonObject, cwd: Path, *, builtin: bool) -> str | None:
    """What else counts as the same: for a file that file, for a harmless program any words behind it."""
    match name, arguments:
        case "bash", {"command": str(command)} if builtin:
            words = _words(command)
            plain = words is not None and next((f for f in (" ".join(words[:2]), words[0]) if f in _HARMLESS), None)
            return f"bash: {plain}{_ANYTHING}" if plain else f"bash: {command}"
        case (("write" | "edit"), {"path": str(path)}) if builtin:
            return f"{name}: {_resolved(path, cwd)}"
        case "python", _:
            return None  # the next code is another one
        case _:
            return f"{name}: {json.dumps(arguments, ensure_ascii=False, sort_keys=True, default=str)}"


def _is_readable(rule: str | None) -> TypeGuard[str]:
    return rule is not None and len(rule) <= _LONGEST_RULE and _visible(rule) == rule


def _words(command: str) -> Sequence[str] | None:
    """The words of one plain command; ``None`` for anything that a shell would do more with."""
    if not command.strip() or _SIGNS & set(command):
        return None
    try:
        return shlex.split(command)
    except ValueError:
        return None


def _resolved(path: str, cwd: Path) -> str:
    return os.path.realpath(os.path.join(cwd, os.path.expanduser(path.removeprefix("@"))))  # noqa: PTH111, PTH118


# Questions


async def _question(
    name: str, arguments: JsonObject, cwd: Path, warning: str | None, *, builtin: bool
) -> tuple[str, bool]:
    """What the user is asked, and whether all of it is shown."""
    match name, arguments:
        case "bash", {"command": str(command)} if builtin:
            told = f"Run this command?\n\n{command}"
        case "write", {"path": str(path), "content": str(content)} if builtin:
            place = Path(_resolved(path, cwd))
            told = f"Write {place}?\n\n{await asyncio.to_thread(_difference, place, content)}"
        case "edit", {"path": str(path), "edits": edits} if builtin:
            told = f"Change {_resolved(path, cwd)}?\n\n{_changes(cast('Sequence[Any]', edits))}"
        case "python", {"code": str(code)}:
            told = f"Run this code in your kernel?\n\n{code}"
        case _:
            told = f"Call {name}?\n\n{json.dumps(arguments, indent=2, ensure_ascii=False, default=str)}"
    if warning is not None:
        told = told.replace("\n\n", f"\n{warning}\n\n", 1)
    if len(told) <= _LONGEST:
        return _visible(told), True
    half = _LONGEST // 2
    note = f"\n\n… {len(told) - 2 * half} characters are left out here …\n\n"
    return f"{_visible(told[:half])}{note}{_visible(told[-half:])}", False


def _visible(text: str) -> str:
    r"""``text`` with signs that hide or move others as escapes: what is shown must be what will run.

    >>> print(_visible("a\x1b]0;\u202eb\r"))
    a\x1b]0;\u202eb\r
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(
        ascii(sign)[1:-1] if sign not in "\n\t" and unicodedata.category(sign) in hidden else sign for sign in text
    )


def _difference(path: Path, new: str) -> str:
    """What changes in a file, if that is quickly told; else what will be in it."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_FILE:
            return f"(in the place of what is there)\n\n{new}"
        old = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return new
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > _MOST_LINES:
        return f"(in the place of the {len(before)} lines that are there)\n\n{new}"
    return "\n".join(difflib.unified_diff(before, after, "now", "then", lineterm=""))


def _changes(edits: Sequence[Any]) -> str:
    lines: list[str] = []
    for edit in edits:
        old, new = str(edit.get("old_text", "")), str(edit.get("new_text", ""))
        lines += [*(f"-{line}" for line in old.splitlines()), *(f"+{line}" for line in new.splitlines()), ""]
    return "\n".join(lines)
