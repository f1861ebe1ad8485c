"""The system prompt: who the agent is, what it may use, what it should know, where and when it works."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from indus_nb.base.wire import clean_text
from indus_nb.core.resources.loading import ContextFile, Skill
from indus_nb.tools.tool import Tool

_PLACE = (
    "You are a coding agent in the user's project. You help by reading and changing files, running commands and "
    "explaining what you find."
)
_LOOKING_PLACE = "You are a coding agent in the user's project. You help by reading files and explaining what you find."
_HABITS = (
    "Ask when a choice would change the outcome and nothing tells you which is meant; else choose, and say so.",
    "Answer briefly, and name files by their path. Say what you did not do or could not check.",
)
_CONTEXT = (
    "What the user and the project want you to know and to keep to; where two of these disagree, the later counts."
)
_SKILLS = (
    "A skill is a file with instructions for one kind of work. If the description of a skill fits your task, open its "
    "file with the read tool and follow it; relative paths in it start at its folder."
)


def system_prompt(  # noqa: PLR0913 - each is a part of it
    *,
    tools: Iterable[Tool],
    cwd: Path,
    today: date | None,
    place: str = "",
    base: str | None = None,
    appended: Sequence[str] = (),
    context_files: Sequence[ContextFile] = (),
    skills: Sequence[Skill] = (),
) -> str:
    """Compose the system prompt of a session.

    What changes comes last, the date once a day, so that providers can cache the prompt.

    Args:
        today: The date; ``None`` for a prompt that says neither when nor where, and so is the same at any time.
        place: Says where the agent works, in place of the sentences about a project's files.
        base: Replaces the built-in text with all that tools say of themselves.
        skills: Named if the tool ``read`` is there to open them; hidden ones are left out.
    """
    tools = list(tools)
    parts = [base if base is not None else _built_in(place or _place(tools), tools), *appended]
    if context_files:
        parts += ["# Project Context", _CONTEXT]
        parts += [f"## {file.path.as_posix()}\n\n{file.content}" for file in context_files]
    offered = [skill for skill in skills if not skill.hidden]
    if offered and any(tool.spec.name == "read" for tool in tools):
        parts += [_SKILLS, _available(offered)]
    if today is not None:
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


def _place(tools: Sequence[Tool]) -> str:
    return _LOOKING_PLACE if tools and all(tool.read_only for tool in tools) else _PLACE


def _built_in(place: str, tools: Sequence[Tool]) -> str:
    parts = [place]
    if listed := [f"- {tool.spec.name}: {tool.snippet}" for tool in tools if tool.snippet]:
        parts.append("\n".join(["Some of your tools:", *listed]))
    names = {tool.spec.name for tool in tools}
    guidelines = [*_of_files(names), *(line for tool in tools for line in tool.guidelines), *_HABITS]
    parts.append("\n".join(["Guidelines:", *(f"- {line}" for line in dict.fromkeys(guidelines))]))
    return "\n\n".join(parts)


def _of_files(names: set[str]) -> list[str]:
    lines: list[str] = []
    searchers = [name for name in ("grep", "find", "ls") if name in names]
    if "bash" in names and searchers:
        lines.append(f"Look around with {', '.join(searchers)} rather than with bash: they are quicker.")
    elif "bash" in names:
        lines.append("Look around with ls, find and rg through bash.")
    if "bash" in names and "edit" in names:
        lines.append("Read what you are about to change. After a change run what shows that it works, such as tests.")
    return lines
