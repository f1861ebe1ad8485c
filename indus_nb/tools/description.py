"""Descriptions of tool calls, and questions to the user before they run. Decided here and by each tool only.

Front ends, views and the permission gate match no names of tools: they ask ``describe_call``. A tool declares what is
special about its calls in a method ``describe_call(arguments)``. A tool without that method, and a call of which only
the name and the arguments are left (in a session file), are described by their arguments.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from indus_nb.base import textcut
from indus_nb.base.wire import JsonObject
from indus_nb.safety.effects import Effect

MAX_SUMMARY_CHARACTERS = 160
_SUMMARY_ARGUMENTS = ("command", "path", "pattern", "query", "url", "code")
_TEXT_ARGUMENTS = ("content", "source", "code")
_MAX_TITLE_CHARACTERS = 70
_PREPARES = re.compile(r"(?:import|from)\s+\w|[%@]")


@dataclass(frozen=True, slots=True)
class Target:
    """A file or directory by its real path, and what was there when it was resolved.

    ``hides_keys`` is whether a search in it leaves out files that keep secrets, because the user was not asked.
    """

    path: Path
    state: os.stat_result | None = None
    hides_keys: bool = False

    @property
    def exists(self) -> bool:
        """Return whether something was there."""
        return self.state is not None

    @property
    def is_directory(self) -> bool:
        """Return whether a directory was there."""
        return self.state is not None and stat.S_ISDIR(self.state.st_mode)

    @property
    def other_names(self) -> int:
        """Return how many more names (hard links) the file has."""
        return 0 if self.state is None or self.is_directory else self.state.st_nlink - 1

    @property
    def is_executable(self) -> bool:
        """Return whether it is a file that can be run."""
        return self.state is not None and not self.is_directory and bool(self.state.st_mode & 0o111)


@dataclass(frozen=True, slots=True)
class Approval:
    """Question to the user before a call runs.

    ``preview`` shows all that will be done: a command, a difference, arguments. ``warning`` is what the user should
    know.

    ``target`` is the file that the question is about, and that an allowed call is given to open.

    The others are for front ends that lay the question out. ``language`` is that of the preview, as it stands behind a
    fence. ``diff`` is a difference with numbered lines that may be shown in the place of the preview. ``outcome`` is
    what would happen, if that was found out. ``names`` are words of the warning that are code.

    ``effects`` are all that the call does, where that is known before it runs; it can be allowed for good by these. Of
    a call with effects that names none anything is to be expected.

    ``irreversible`` is whether the question says that what the call does cannot be undone.

    ``also`` is what can be done besides when the user allows this call, in words that follow "Yes, and"; what does it
    is called before the call runs.
    """

    question: str
    preview: str
    warning: str | None = None
    target: Target | None = None
    language: str = ""
    diff: str | None = None
    outcome: str | None = None
    names: Sequence[str] = ()
    effects: Sequence[Effect] = ()
    irreversible: bool = False
    also: Mapping[str, Callable[[], None]] = field(default_factory=dict[str, Callable[[], None]], compare=False)


@dataclass(frozen=True, slots=True)
class CallDescription:
    """Description of one tool call for users.

    ``summary`` is what the call is about, in one line, and may be empty. ``code`` is Python code that it runs, ``text``
    what it writes into a file or a cell. ``details`` are the arguments that none of them shows. ``has_effects`` is
    whether it may change anything.

    ``is_answer`` is whether the call only tells the user's program the answer that it asked for.

    ``announces_start`` is whether the tool reports as soon as it begins, or ends at once: until then the user may be
    looking at the question, and a view need not repeat what that shows.

    ``reads`` is whether a call without effects reads a file that its ``approval`` names, and ``searches`` whether it
    reads all that is below it too.

    ``tries`` is whether the tool tries the call where nothing can happen and asks by the gate of its context, so that
    the user need not be asked before it runs.

    ``approval`` makes the question. It may read files, so call it off the event loop.

    ``rejection`` is the ``ToolError`` with which the tool is going to reject the arguments, so that nothing would be
    done and the user need not be asked: ``approval`` of what ``describe_call`` returns raises it. Nothing else does.
    """

    name: str
    summary: str = ""
    code: str | None = None
    text: str = ""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    has_effects: bool = True
    reads: bool = False
    searches: bool = False
    announces_start: bool = False
    is_answer: bool = False
    tries: bool = False
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
    """Return the question of a tool, or one that shows the arguments where the tool fails to ask."""
    if described.rejection is not None:
        raise described.rejection
    try:
        asked = cast("object", described.approval())
    except Exception:  # noqa: BLE001 - tools come from extensions
        asked = None
    return asked if isinstance(asked, Approval) else replace(approval_by_arguments(name, arguments), effects=())


def by_arguments(
    name: str, arguments: JsonObject, *, has_effects: bool = True, origin: str | None = None
) -> CallDescription:
    """Describe a call by its name and arguments alone.

    Args:
        has_effects: True if the call may change anything.
    """
    summary, details = summarised(arguments)
    texts = [key for key in _TEXT_ARGUMENTS if isinstance(details.get(key), str) and details[key].strip()]
    return CallDescription(
        name,
        summary,
        text=details.pop(texts[0]) if texts else "",
        details=details,
        has_effects=has_effects,
        approval=lambda: approval_by_arguments(name, arguments, origin),
    )


def approval_by_arguments(name: str, arguments: JsonObject, origin: str | None = None) -> Approval:
    """Build a question about a call from its arguments.

    Args:
        origin: Whose tool it is, if it is none of the session's own.
    """
    called = name if origin is None else f"{name} of {origin}"
    return Approval(
        question=f"Call {called}?",
        preview=json.dumps(arguments, indent=2, ensure_ascii=False, default=str),
        language="json",
        effects=(Effect("unknown", f"tool {called}", f"calls {called}"),),
    )


def summarised(arguments: JsonObject) -> tuple[str, JsonObject]:
    r"""Return the argument that best describes a call in one line, and the other arguments.

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


def title_of(work: str) -> str:
    r"""Return a short title of a command or of code: its leading comment, or its first telling line.

    >>> title_of("import time\n\nfor epoch in range(60):\n    train()")
    'for epoch in range(60): …'
    >>> title_of("# Train the model\nmodel.fit(x, y)"), title_of("make -j4")
    ('Train the model', 'make -j4')
    """
    lines = [line.strip() for line in work.splitlines() if line.strip()]
    comment = lines[0].lstrip("#").strip() if lines and lines[0].startswith("#") and lines[0][1:2] != "!" else ""
    if comment:
        return textcut.one_line(comment, _MAX_TITLE_CHARACTERS)
    does = [at for at, line in enumerate(lines) if not line.startswith("#") and _PREPARES.match(line) is None]
    at = does[0] if does else 0
    begins = textcut.one_line(lines[at] if lines else "", _MAX_TITLE_CHARACTERS)
    return f"{begins} …" if len(lines) > at + 1 and not begins.endswith("…") else begins
