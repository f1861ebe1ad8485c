"""What a tool call shows, and what the user is asked before it runs. Decided here and by each tool, nowhere else.

Front ends, views and the permission gate match no names of tools: they ask ``describe_call``. A tool declares what is
special about its calls in a method ``describe_call(arguments)``. A tool without that method, and a call of which only
the name and the arguments are left (in a session file), are described by their arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

from indus_nb.wire import JsonObject

MAX_SUMMARY_CHARACTERS = 160
_SUMMARY_ARGUMENTS = ("command", "path", "pattern", "query", "url", "code")


@dataclass(frozen=True, slots=True)
class Approval:
    """What the user is asked before a call runs.

    ``preview`` shows all that will be done: a command, a difference, arguments. ``rule`` is what "always allow" covers,
    such as ``bash: git status …``; with ``None`` each call is asked about. ``warning`` is what the user should know.
    """

    question: str
    preview: str
    rule: str | None = None
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class CallDescription:
    """One tool call for people.

    ``summary`` is what the call is about, in one line, and may be empty. ``code`` is Python code that it runs.
    ``details`` are the arguments that neither of them shows. ``has_effects`` is whether it may change anything.

    ``announces_start`` is whether the tool reports as soon as it begins, or ends at once: until then the user may be
    looking at the question, and a view need not repeat what that shows.

    ``approval`` makes the question. It may read files, so call it off the event loop.

    ``rejection`` is the ``ToolError`` with which the tool is going to reject the arguments, so that nothing would be
    done and nobody need be asked: ``approval`` of what ``describe_call`` returns raises it. Nothing else does.
    """

    name: str
    summary: str = ""
    code: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    has_effects: bool = True
    announces_start: bool = False
    approval: Callable[[], Approval] = field(default=lambda: Approval("Call this tool?", ""), repr=False, compare=False)
    rejection: Exception | None = field(default=None, repr=False, compare=False)


@runtime_checkable
class DescribesCalls(Protocol):
    """A tool that describes its calls itself."""

    def describe_call(self, arguments: JsonObject) -> CallDescription:
        """Describe a call; quick, reads no files, and does not raise, whatever the arguments are."""
        ...


def describe_call(name: str, arguments: JsonObject, tools: Mapping[str, object] = {}) -> CallDescription:
    """Describe a tool call; never raises.

    Args:
        name: The name of the tool that is called.
        arguments: The arguments of the call, as the model gave them; perhaps not all yet, perhaps wrong.
        tools: The tools of the session by name, as far as they are known.

    Returns:
        The tool's own description. If it gives none, or is not among ``tools``, the arguments describe the call,
        and it counts as one with effects.
    """
    tool = tools.get(name)
    if not isinstance(tool, DescribesCalls):
        return by_arguments(name, arguments)
    try:
        described = cast("object", tool.describe_call(arguments))
        if isinstance(described, CallDescription):
            return replace(described, approval=partial(_approval, described, name, arguments))
    except Exception:  # noqa: BLE001 - tools come from extensions, and a view must show the call in any case
        return by_arguments(name, arguments)
    return by_arguments(name, arguments)


def _approval(described: CallDescription, name: str, arguments: JsonObject) -> Approval:
    """The question of a tool; where it fails at it, one that shows the arguments, lest the call run unasked."""
    if described.rejection is not None:
        raise described.rejection
    try:
        asked = cast("object", described.approval())
    except Exception:  # noqa: BLE001 - tools come from extensions
        return approval_by_arguments(name, arguments)
    return asked if isinstance(asked, Approval) else approval_by_arguments(name, arguments)


def by_arguments(name: str, arguments: JsonObject, *, has_effects: bool = True) -> CallDescription:
    """Describe a call of which nothing but name and arguments is known.

    Args:
        name: The tool's name.
        arguments: The arguments of the call.
        has_effects: Whether the call may change anything.

    Returns:
        A description whose question shows all arguments and whose rule covers the same arguments only.
    """
    summary, details = summarised(arguments)
    return CallDescription(
        name,
        summary,
        details=details,
        has_effects=has_effects,
        approval=lambda: approval_by_arguments(name, arguments),
    )


def approval_by_arguments(name: str, arguments: JsonObject) -> Approval:
    """Ask about a call by its arguments.

    Args:
        name: The tool's name.
        arguments: The arguments as the tool understands them.

    Returns:
        A question that shows all of them, and a rule for the same arguments only.
    """
    return Approval(
        question=f"Call {name}?",
        preview=json.dumps(arguments, indent=2, ensure_ascii=False, default=str),
        rule=f"{name}: {json.dumps(arguments, ensure_ascii=False, sort_keys=True, default=str)}",
    )


def summarised(arguments: JsonObject) -> tuple[str, JsonObject]:
    r"""Choose the argument that best describes a call in one line, and return it and the others.

    >>> summarised({"limit": 3, "path": "notes.txt"})
    ('notes.txt', {'limit': 3})
    >>> summarised({"command": "one\ntwo"})
    ('', {'command': 'one\ntwo'})
    """
    for key in _SUMMARY_ARGUMENTS:
        value = arguments.get(key)
        if isinstance(value, str) and value.strip() and "\n" not in value and len(value) <= MAX_SUMMARY_CHARACTERS:
            return value, {name: other for name, other in arguments.items() if name != key}
    return "", dict(arguments)
