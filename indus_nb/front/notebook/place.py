"""What the system prompt says of a live shell: which Python it is, and how answers and messages are shown there."""

from __future__ import annotations

import platform
import sys

from indus_nb.base import textcut

_MOST_PATH_CHARACTERS = 500
_NOTEBOOK = (
    "You are an agent in the user's notebook, and work in its live kernel: what they defined is there, and what you "
    "define stays. Your answers are shown in the notebook as Markdown with tables and LaTeX."
)
_TERMINAL = (
    "You are an agent in the user's IPython session, and work in its live process: what they defined is there, and "
    "what you define stays. Your answers are shown in a terminal, as they are written."
)
_LIVE = (
    "In answers write a number that comes from its variables as inline code with {python}, such as "
    '`{python} f"{flights.delay.mean():.1f}"`: the user sees the value, and you get it later. It only looks at what is '
    "there."
)
_ALONG = (
    "A message may bring the cells that the user ran since the last one, and the variables there are, both shortened: "
    "look closer before you rely on a detail."
)


def live_place(notebook: str | None, *, in_terminal: bool) -> str:
    """Describe a live shell; it stays the same as long as its process, so that providers can cache it.

    Args:
        notebook: Path of the notebook's file; ``None`` where that is not known.
    """
    kernel = f"Kernel: Python {platform.python_version()} in {sys.prefix}; %pip installs there."
    if not in_terminal and sys.platform == "linux":  # elsewhere there are no copies in which values are looked up
        kernel = f"{kernel} {_LIVE}"
    facts = [kernel] if notebook is None else [kernel, f"Notebook: {textcut.one_line(notebook, _MOST_PATH_CHARACTERS)}"]
    return "\n\n".join([_TERMINAL if in_terminal else _NOTEBOOK, _ALONG, "\n".join(facts)])
