"""The system prompt: who the agent is, what it may use, where and when it works."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from indus_nb.tools.tool import Tool

_ROLE = (
    "You are a coding agent. You help the user by reading and changing files, running commands and explaining what "
    "you find. You work with these tools:"
)
_STYLE = (
    "Answer briefly and to the point",
    "Name files by their path when you talk about them",
)


def system_prompt(
    *, tools: Iterable[Tool], cwd: Path, today: date, base: str | None = None, appended: Sequence[str] = ()
) -> str:
    """The system prompt of a session.

    ``base`` replaces the built-in text including its list of tools; ``appended`` texts follow either. The date changes
    once a day, so that providers can cache the prompt.
    """
    parts = [base if base is not None else _built_in(list(tools)), *appended]
    parts.append(f"Current date: {today.isoformat()}\nCurrent working directory: {cwd.as_posix()}")
    return "\n\n".join(parts)


def _built_in(tools: Sequence[Tool]) -> str:
    listed = [f"- {tool.spec.name}: {tool.snippet}" for tool in tools if tool.snippet] or ["(none)"]
    names = {tool.spec.name for tool in tools}
    guidelines = [*_exploring(names), *(line for tool in tools for line in tool.guidelines), *_STYLE]
    return "\n".join(
        [
            _ROLE,
            "",
            *listed,
            "",
            "Other tools may be offered besides these.",
            "",
            "Guidelines:",
            *(f"- {line}" for line in dict.fromkeys(guidelines)),
        ]
    )


def _exploring(names: set[str]) -> list[str]:
    searchers = [name for name in ("grep", "find", "ls") if name in names]
    if "bash" in names and searchers:
        return [
            f"Look around with {', '.join(searchers)} rather than with bash; they are quicker and skip ignored files"
        ]
    if "bash" in names:
        return ["Look around with ls, find and rg through bash"]
    return []
