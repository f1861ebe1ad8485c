"""The system prompt: who the agent is, what it may use, what it should know, where and when it works."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from indus_nb.base.wire import clean_text
from indus_nb.core.resources.loading import ContextFile, Skill
from indus_nb.tools.tool import Tool

_ROLE = (
    "You are a coding agent. You help the user by reading and changing files, running commands and explaining what "
    "you find. You work with these tools:"
)
_STYLE = (
    "Answer briefly and to the point",
    "Name files by their path when you talk about them",
)

_CONTEXT = (
    "What the user and the project want you to know and to keep to; where two of these disagree, the later counts."
)
_SKILLS = (
    "A skill is a file with instructions for one kind of work. If the description of a skill fits your task, open its "
    "file with the read tool and follow it; relative paths in it start at its folder."
)


def system_prompt(
    *,
    tools: Iterable[Tool],
    cwd: Path,
    today: date,
    base: str | None = None,
    appended: Sequence[str] = (),
    context_files: Sequence[ContextFile] = (),
    skills: Sequence[Skill] = (),
) -> str:
    """Compose the system prompt of a session.

    What changes comes last, the date once a day, so that providers can cache the prompt.

    Args:
        base: Replaces the built-in text including its list of tools.
        skills: Named if the tool ``read`` is there to open them; hidden ones are left out.
    """
    tools = list(tools)
    parts = [base if base is not None else _built_in(tools), *appended]
    if context_files:
        parts += ["# Project Context", _CONTEXT]
        parts += [f"## {file.path.as_posix()}\n\n{file.content}" for file in context_files]
    offered = [skill for skill in skills if not skill.hidden]
    if offered and any(tool.spec.name == "read" for tool in tools):
        parts += [_SKILLS, _available(offered)]
    parts.append(f"Current date: {today.isoformat()}\nCurrent working directory: {cwd.as_posix()}")
    return clean_text("\n\n".join(parts))


def _available(skills: Sequence[Skill]) -> str:
    from html import escape

    lines = ["<available_skills>"]
    for skill in skills:
        lines += [
            "  <skill>",
            f"    <name>{escape(skill.name)}</name>",
            f"    <description>{escape(skill.description)}</description>",
            f"    <location>{escape(skill.path.as_posix())}</location>",
            "  </skill>",
        ]
    return "\n".join([*lines, "</available_skills>"])


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
