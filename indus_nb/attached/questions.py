"""What the user is asked before code runs in a kernel that the agent is attached to.

Where the extension is loaded in the kernel, it asks as it would there. Elsewhere the names and classes of the variables
are known, so that the question says which of them the code overwrites, deletes or changes; whether it only looks is not
known, so it is always asked about.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, cast

from indus_nb.notebook.kernel.effects import touched
from indus_nb.tools.description import Approval
from indus_nb.wire import JsonObject


def by_variables(code: str, kinds: Mapping[str, str], where: str) -> Approval:
    """Ask about code as far as the names and classes of variables tell what it does.

    Args:
        code: The code.
        kinds: The variables, with the names of their classes.
        where: The kernel, for the question.

    Returns:
        The question.
    """
    found = touched(code, {name: _stand_in(name, kind) for name, kind in kinds.items()}, _transformed)
    names = [*found.deleted, *found.overwritten, *found.changed]
    return _approval(code, where, warning=found.warning(), names=names)


def by_extension(code: str, said: JsonObject, where: str) -> Approval:
    """Ask about code as the extension in the kernel does.

    Args:
        code: The code.
        said: What that says of it.
        where: The kernel, for the question.

    Returns:
        The question.
    """
    names: Any = said.get("names")
    warning = said.get("warning")
    return _approval(
        code,
        where,
        warning=warning if isinstance(warning, str) else None,
        names=[str(name) for name in cast("list[object]", names)] if isinstance(names, list) else [],
    )


def unknown(code: str, where: str, problem: str | None) -> Approval:
    """Ask about code of which nothing could be found out.

    Args:
        code: The code.
        where: The kernel, for the question.
        problem: Why not, as a sentence, if the user is to know.

    Returns:
        The question.
    """
    return _approval(code, where, warning=problem, names=[])


def _approval(code: str, where: str, *, warning: str | None, names: list[str]) -> Approval:
    return Approval(f"Run this code in the kernel of {where}?", code, warning=warning, language="python", names=names)


def _stand_in(name: str, kind: str) -> object:
    """Something of a class of that name: all that ``effects`` looks at."""
    return ModuleType(name) if kind == "module" else type(kind, (), {})()


def _transformed(code: str) -> str:
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell(code)
