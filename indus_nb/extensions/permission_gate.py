"""Asks the user before a tool does something that cannot be undone."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from filelock import FileLock

from indus_nb.extensions.api import Context, ExtensionApi
from indus_nb.extensions.events import ToolCallAnswer, ToolCallEvent
from indus_nb.wire import JsonObject, load_object

RULES_FILE = "approved.json"
_YES = "Yes, once"
_SESSION = "Yes, and always in this session: "
_PROJECT = "Yes, and always in this folder: "
_NO = "No"
_LONGEST = 6000


def permission_gate(agent_dir: Path) -> Callable[[ExtensionApi], None]:
    """An extension that asks as ``SessionSettings.approve`` says: before tools with effects, or before any.

    What was allowed for good is kept as readable rules, such as ``bash: git status*``: for the session in memory, for a
    folder in ``approved.json`` of the user's folder, never within the project itself. Where nobody can be asked the
    call is refused.
    """
    allowed: set[str] = set()

    def setup(api: ExtensionApi) -> None:
        @api.on("tool_call")
        async def ask(event: ToolCallEvent, ctx: Context) -> ToolCallAnswer | None:
            mode = ctx.settings.approve
            if mode == "never" or (mode == "writes" and ctx.is_read_only(event.tool_name)):
                return None
            rules = allowed | set(_kept_rules(agent_dir).get(str(ctx.cwd), ()))
            if any(_fits(rule, event) for rule in rules):
                return None
            if not ctx.has_ui:
                told = "This call needs the user's approval, and nobody can be asked. Start with --approve never."
                return ToolCallAnswer(block=True, reason=told)
            rule = _rule(event)
            options = [_YES, _SESSION + rule, _PROJECT + rule, _NO]
            chosen = await ctx.ui.select(_question(event, ctx.cwd), options, signal=ctx.signal)
            if chosen == options[1]:
                allowed.add(rule)
            elif chosen == options[2]:
                _keep_rule(agent_dir, str(ctx.cwd), rule)
            elif chosen != _YES:
                return ToolCallAnswer(block=True, reason="The user did not allow this call. Ask what to do instead.")
            return None

    return setup


def _rule(event: ToolCallEvent) -> str:
    """What else counts as the same: for a command its program and first word, for a file its folder."""
    match event.input:
        case {"command": str(command)}:
            words = command.split()
            plain = len(words) > 1 and not any(sign in command for sign in ";&|`$<>\n(")
            return f"{event.tool_name}: {' '.join(words[:2])}*" if plain else f"{event.tool_name}: {command}"
        case {"path": str(path)}:
            return f"{event.tool_name}: {path}"
        case _:
            return event.tool_name


def _fits(rule: str, event: ToolCallEvent) -> bool:
    name, _, pattern = rule.partition(": ")
    if name != event.tool_name:
        return False
    subject = event.input.get("command", event.input.get("path"))
    if not pattern or not isinstance(subject, str):
        return not pattern
    if pattern.endswith("*"):
        # Not one command that hides another behind it.
        return fnmatchcase(subject, pattern) and not any(sign in subject for sign in ";&|`$<>\n(")
    return subject == pattern


def _question(event: ToolCallEvent, cwd: Path) -> str:
    match event.tool_name, event.input:
        case "bash", {"command": str(command)}:
            told = f"Run this command?\n\n{command}"
        case "python", {"code": str(code)}:
            told = f"Run this code in your kernel?\n\n{code}"
        case "write", {"path": str(path), "content": str(content)}:
            told = f"Write {path}?\n\n{_difference(cwd / path, content)}"
        case "edit", {"path": str(path)}:
            told = f"Change {path}?\n\n{_edits(event.input)}"
        case name, arguments:
            told = f"Call {name}?\n\n{json.dumps(arguments, indent=2, ensure_ascii=False)}"
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}\n… ({len(told) - _LONGEST} more characters)"


def _difference(path: Path, new: str) -> str:
    try:
        old = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return new
    return "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), "now", "then", lineterm=""))


def _edits(arguments: JsonObject) -> str:
    edits: object = arguments.get("edits", [arguments])
    lines: list[str] = []
    for edit in cast("list[object]", edits) if isinstance(edits, list) else [arguments]:
        if isinstance(edit, dict):
            change = cast("JsonObject", edit)
            old, new = str(change.get("oldText", "")), str(change.get("newText", ""))
            lines += [*(f"-{line}" for line in old.splitlines()), *(f"+{line}" for line in new.splitlines()), ""]
    return "\n".join(lines)


def _kept_rules(agent_dir: Path) -> dict[str, list[str]]:
    try:
        return load_object((agent_dir / RULES_FILE).read_bytes())
    except (OSError, ValueError):
        return {}


def _keep_rule(agent_dir: Path, folder: str, rule: str) -> None:
    agent_dir.mkdir(parents=True, exist_ok=True)
    path = agent_dir / RULES_FILE
    with FileLock(f"{path}.lock"):
        rules = _kept_rules(agent_dir)
        rules[folder] = [*dict.fromkeys([*rules.get(folder, []), rule])]
        path.write_text(json.dumps(rules, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
