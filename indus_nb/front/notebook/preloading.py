"""Imports for the first prompt, in a background thread that hardly slows the user's cells.

A thread that imports shares the interpreter with the cell that runs. So the imports are cut into steps, and as long as
a cell runs the thread rests nine times as long as the last step took.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module

_MODULES = (
    "pydantic",
    "indus_nb.base.messages",
    "indus_nb.base.events",
    "indus_nb.base.streaming",
    "indus_nb.models",
    "indus_nb.tools",
    "indus_nb.core.storage",
    "indus_nb.core.resources.settings",
    "indus_nb.core.session.session",
    "indus_nb.start",
    "indus_nb.extend.definitions",
    "indus_nb.extend.host",
    "indus_nb.extend.approval.permission_gate",
    "indus_nb.core.resources.loading",
    "indus_nb.core.resources.system_prompt",
    "indus_nb.core.session.stats",
    "indus_nb.tools.files.writing",
    "indus_nb.tools.files.search",
    "docstring_parser",
    "markdown_it",
    "mdit_py_plugins.dollarmath",
    "nh3",
    "pygments.lexers",
    "indus_nb.front.notebook.conversations",
)
_WIDGETS = ("ipywidgets", "anywidget", "indus_nb.front.notebook.page.widget")
_RESTS_PER_WORK = 9
_FIRST_REST = 0.05
importing: threading.Lock = threading.Lock()
"""Held in each step, and while the first use imports: of two threads that import the modules of a package, one may find
a module half made and fail."""


def preload_in_steps(*, widgets: bool, cell_runs: Callable[[], bool]) -> Callable[[], None]:
    """Start to import the modules of the first prompt in a thread, and return at once.

    Failures are ignored: the first prompt imports the same, and reports them.

    Args:
        widgets: Whether the front end may show widgets.

    Returns:
        A function that stops it after the current step.
    """
    stopped = threading.Event()

    def work() -> None:
        rest = _FIRST_REST  # in which the cell that brought us ends
        for step in _steps(widgets=widgets):
            if stopped.wait(rest if cell_runs() else 0):
                return
            began = time.thread_time()
            with contextlib.suppress(Exception), importing:
                step()
            rest = _RESTS_PER_WORK * (time.thread_time() - began)

    threading.Thread(target=work, name="indus_nb preload", daemon=True).start()
    return stopped.set


def _steps(*, widgets: bool) -> Iterator[Callable[[], object]]:
    for module in _MODULES + (_WIDGETS if widgets else ()):
        yield lambda module=module: import_module(module)
    yield _preload_schemas
    yield _preload_drawing
    yield _preload_provider


def _preload_schemas() -> None:
    from indus_nb.tools.tool import preload_schemas

    preload_schemas()


def _preload_drawing() -> None:
    from indus_nb.front.notebook.view import blocks

    blocks.answer("```python\n1\n```")


def _preload_provider() -> None:
    """Import the client of the default provider, if it has a key."""
    from indus_nb.base.files import current_directory
    from indus_nb.core.resources.settings import agent_directory, load_settings, model_registry

    name = load_settings(current_directory(), agent_directory()).settings.default_provider
    registry = model_registry(agent_directory())
    model = registry.default(name) if name else registry.first_available()
    if model is not None and registry.has_key(model):
        registry.provider_of(model).preload()
