"""Questions for the user before code runs in a kernel that the agent is attached to.

Such code cannot be tried in a copy of that kernel from outside, so it is always asked about. Where the extension is
loaded there, it names the changes that could not be undone.
"""

from __future__ import annotations

from typing import Any, cast

from indus_nb.base.wire import JsonObject
from indus_nb.safety.effects import Effect
from indus_nb.tools.description import Approval


def by_extension(code: str, said: JsonObject, where: str) -> Approval:
    """Build the question about code as the extension in the kernel does."""
    names: Any = said.get("names")
    warning = said.get("warning")
    return _approval(
        code,
        where,
        warning=warning if isinstance(warning, str) else None,
        names=[str(name) for name in cast("list[object]", names)] if isinstance(names, list) else [],
    )


def unknown(code: str, where: str, problem: str | None) -> Approval:
    """Build the question about code of which nothing could be found out.

    Args:
        problem: Why not, as a sentence, if the user is to know.
    """
    return _approval(code, where, warning=problem, names=[])


def _approval(code: str, where: str, *, warning: str | None, names: list[str]) -> Approval:
    unseen = Effect("unknown", "", "runs code in another kernel, which cannot be tried before")
    return Approval(
        f"Run this code in the kernel of {where}?",
        code,
        warning=warning,
        language="python",
        names=names,
        effects=[unseen],
    )
