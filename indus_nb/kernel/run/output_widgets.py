"""Output widgets that the agent's code is within: what it prints and displays meanwhile is shown there.

ipywidgets has front ends do this by the id of the cell that runs, which is that of the user's cell here, and what views
draw into that cell meanwhile would go along. So the widgets are updated directly, and that id is reset.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

MODULE = "ipywidgets.widgets.widget_output"
_SEND_EVERY = 0.1
_MAX_TEXT_CHARACTERS = 200_000
"""Limit of a widget's text, in characters: a widget sends all its outputs whenever one is added."""


class OutputWidget:
    """One widget, while code is within it."""

    def __init__(self, widget: Any) -> None:
        """Take over the output of a widget.

        Args:
            widget: An ``ipywidgets.Output``.
        """
        self.widget = widget
        self._text = ""
        self._clears = False
        self._sent_at = 0.0
        widget.msg_id = ""

    def write(self, text: str) -> None:
        """Append printed text, which is sent at once or with later output."""
        self._text = (self._text + text)[-_MAX_TEXT_CHARACTERS:]
        if time.monotonic() - self._sent_at >= _SEND_EVERY:
            self.send()

    def show(self, bundle: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """Append a display, and send it at once."""
        self.send({"output_type": "display_data", "data": dict(bundle), "metadata": dict(metadata)})

    def clear(self, *, waits: bool) -> None:
        """Clear the widget.

        Args:
            waits: Whether to do so only when there is something new.
        """
        self._text, self._clears = "", True
        if not waits:
            self.widget.outputs = ()

    def send(self, *more: Mapping[str, Any]) -> None:
        """Send pending text and further outputs to the widget."""
        if not self._text and not more:
            return
        outputs: list[Any] = [] if self._clears else [*self.widget.outputs]
        if self._text:
            before = ""
            if outputs and outputs[-1].get("output_type") == "stream" and outputs[-1].get("name") == "stdout":
                before = outputs.pop()["text"]
            text = (before + self._text)[-_MAX_TEXT_CHARACTERS:]
            outputs.append({"output_type": "stream", "name": "stdout", "text": text})
        self._text, self._clears = "", False
        self._sent_at = time.monotonic()
        self.widget.outputs = (*outputs, *more)


def output_class() -> Any | None:
    """Return the class of output widgets, once it has been imported."""
    return getattr(sys.modules.get(MODULE), "Output", None)


def entered(kind: Any) -> list[Any]:
    """Return the widgets of that class that code is within."""
    widgets: Any = getattr(sys.modules.get("ipywidgets.widgets.widget"), "_instances", {})
    return [widget for widget in [*widgets.values()] if isinstance(widget, kind) and widget.msg_id]
