"""Old names, which still work with a warning.

Modules are found by ``MOVED``: ``indus_nb.store`` is ``indus_nb.storage``. What has another name or place within a
module that is there is found by that module's ``__getattr__``, a ``Renamed``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

_PACKAGE = "indus_nb."
MOVED = {
    "cli": "console.cli",
    "client": "console.client",
    "modes": "console",
    "modes.rpc": "console.rpc",
    "modes.commands": "console.commands",
    "modes.frames": "console.frames",
    "modes.host_tools": "console.host_tools",
    "modes.once": "console.once",
    "modes.stdio": "console.stdio",
    "modes.strict": "console.strict",
    "modes.trees": "console.trees",
    "watchers": "loop.watchers",
    "turns": "session.turns",
    "recorder": "session.recorder",
    "hooks": "session.hooks",
    "ui": "session.dialogs",
    "conversation": "session.conversation",
    "recovery": "session.recovery",
    "retry": "loop.retry",
    "compaction": "session.compaction",
    "compactor": "session.compactor",
    "stats": "session.stats",
    "user_shell": "session.user_shell",
    "store": "storage",
    "session_files": "storage.file",
    "session_format": "storage.format",
    "settings": "resources.settings",
    "frontmatter": "resources.frontmatter",
    "prompts": "resources.system_prompt",
    "stream_rules": "resources.stream_rules",
    "markup": "render.markup",
    "export": "render.session_page",
    "notebook.tree_rows": "render.tree",
    "providers.replay": "cassettes",
    "notebook.request": "notebook.magic",
    "notebook.completion": "notebook.magic.completion",
    "notebook.commands": "notebook.magic.subcommands",
    "notebook.transcript": "notebook.view.transcript",
    "notebook.blocks": "notebook.view.blocks",
    "notebook.output": "notebook.view.output",
    "notebook.live": "notebook.page.widget",
    "notebook.bridge": "notebook.page.comm_gate",
    "notebook.dialogs": "notebook.page.dialogs",
    "notebook.panel": "notebook.page.panel",
    "notebook.page_requests": "notebook.page.protocol",
    "notebook.thread": "notebook.kernel.agent_thread",
    "notebook.jobs": "notebook.kernel.main_thread",
    "notebook.execution": "notebook.kernel.execution",
    "notebook.journal": "notebook.kernel.journal",
    "notebook.variables": "notebook.kernel.describe",
    "notebook.cells": "notebook.document",
    "notebook.pictures": "notebook.document.pictures",
}


class _Loader:
    def create_module(self, spec: ModuleSpec) -> None:
        """Have an empty module made."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the new name in the place of the empty one that was made for the old name."""
        new = _PACKAGE + MOVED[module.__name__.removeprefix(_PACKAGE)]
        warnings.warn(f"{module.__name__} is named {new} now. Import it from there.", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = import_module(new)

    def get_code(self, fullname: str) -> object:
        """The code of the module of the new name, for ``python -m``."""
        from importlib.machinery import SourceFileLoader
        from importlib.util import find_spec

        new = _PACKAGE + MOVED[fullname.removeprefix(_PACKAGE)]
        spec = find_spec(new)
        return spec.loader.get_code(new) if spec is not None and isinstance(spec.loader, SourceFileLoader) else None


class _Finder:  # the base class for it would load twenty modules of the library at every start
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - part of the protocol
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """A loader for the old names, which no file has any more."""
        if fullname.startswith(_PACKAGE) and fullname.removeprefix(_PACKAGE) in MOVED:
            return ModuleSpec(fullname, cast("Any", _Loader()), is_package=fullname == f"{_PACKAGE}modes")
        return None


def install() -> None:
    """Make the old names importable."""
    sys.meta_path.insert(0, _Finder())  # first, or what lies in ``console/`` would be found again under ``modes``


class Renamed:
    """The ``__getattr__`` of a module in which some names are no longer found.

    What has the new name is imported when the old one is first asked for.

    Args:
        module: The module.
        names: The new name for each old one, as ``package.module:name``.
        stacklevel: Which caller is warned, as ``warnings.warn`` counts them; by default who asks this.
    """

    def __init__(self, module: str, names: dict[str, str], stacklevel: int = 2) -> None:
        self._names = names
        self._module = module
        self._stacklevel = stacklevel

    def __call__(self, name: str) -> object:
        """What has the new name, with a warning; raises ``AttributeError`` for any other name."""
        if name not in self._names:
            raise AttributeError(f"module {self._module!r} has no attribute {name!r}")
        home, _, new = self._names[name].partition(":")
        told = f"{self._module}.{name} is {home}.{new} now. Import it from there."
        warnings.warn(told, DeprecationWarning, stacklevel=self._stacklevel)
        return getattr(import_module(home), new)
