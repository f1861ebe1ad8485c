"""Files of users: settings, skills, prompt templates, context files and stream rules.

The names below are imported when they are first asked for, so that reading the settings loads nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indus_nb.core.resources.loading import (
        ContextFile,
        Diagnostic,
        PromptTemplate,
        Resources,
        Skill,
        expand,
        load_resources,
    )

__all__ = ["ContextFile", "Diagnostic", "PromptTemplate", "Resources", "Skill", "expand", "load_resources"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("indus_nb.core.resources.loading"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
