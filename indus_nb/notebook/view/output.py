"""The output of one cell: where its displays go, whichever cell or thread runs by then.

IPython's own ``display`` goes to the cell that ran last. The agent draws from a thread of its own, and may still be at
it when other cells have run; so what is shown here names the cell that it belongs to.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from indus_nb.notebook.view.blocks import MimeBundle, joined

_MAX_SEPARATE_DISPLAYS = 30
_MAX_PAGE_CHARACTERS = 20_000
_TEXTS = {"text/html", "text/markdown", "text/plain"}
_CLEAR_LINE = "\r\x1b[K"


class Display(Protocol):
    """One display in a cell's output."""

    def update(self, bundle: MimeBundle, *, final: bool) -> None:
        """Show something else.

        Args:
            bundle: What it shows now.
            final: Whether it will not change any more.
        """
        ...


class Screen(Protocol):
    """Where displays appear."""

    def show(self, bundle: MimeBundle, *, final: bool) -> Display:
        """Add a display below the others.

        Args:
            bundle: What it shows.
            final: Whether it will not change any more.

        Returns:
            The display, for updates.
        """
        ...


def screen_of(shell: Any) -> Screen:
    """Return the screen of the cell that runs now."""
    kernel: Any = getattr(shell, "kernel", None)
    if kernel is None:
        return TerminalScreen()
    cell = CellOutput(shell)
    return NotebookScreen(cell) if can_update(kernel) else OnceScreen(cell)


def can_update(kernel: Any) -> bool:
    """Return whether displays can change later.

    Consoles and qtconsole, which have no server, ignore updates.
    """
    by_vs_code = "__vsc_ipynb_file__" in (kernel.shell.user_ns or {})
    served = "JPY_SESSION_NAME" in os.environ or by_vs_code or "google.colab" in sys.modules
    return served or not asks_for_input(kernel)


def asks_for_input(kernel: Any) -> bool:
    """Return whether the front end of the running cell lets code ask for input.

    If it does, a user is there.
    """
    content: Any = kernel.get_parent("shell").get("content", {})
    return bool(content.get("allow_stdin", False))


class CellOutput:
    """Publishes displays of the cell that runs when this is made."""

    def __init__(self, shell: Any) -> None:
        self._publisher: Any = shell.display_pub
        self._parent: Any = shell.kernel.get_parent("shell")

    def publish(self, bundle: MimeBundle, display_id: str, *, update: bool) -> None:
        """Send a display to the front end.

        Args:
            bundle: What it shows.
            display_id: Its id.
            update: Whether a display of that id is there, to be replaced.
        """
        publisher, transient = self._publisher, {"display_id": display_id}
        if not hasattr(publisher, "pub_socket"):  # captured, as by %%capture
            publisher.publish(data=bundle, transient=transient, update=update)
            return
        kind = "update_display_data" if update else "display_data"
        content = {"data": bundle, "metadata": {}, "transient": transient}
        publisher.session.send(publisher.pub_socket, kind, content, parent=self._parent, ident=publisher.topic)


class NotebookScreen:
    """The output of one run of a cell.

    JupyterLab shows no more than 50 outputs of a cell until the user asks for the others. So after the first 30
    displays finished ones move together, as many into one as make a page, and what follows moves up.
    """

    def __init__(self, cell: CellOutput) -> None:
        self._cell = cell
        self._displays: list[_NotebookDisplay] = []
        self._page = _MAX_SEPARATE_DISPLAYS

    def show(self, bundle: MimeBundle, *, final: bool) -> Display:
        """Add a display below the others, or in one that was freed.

        Args:
            bundle: What it shows.
            final: Whether it will not change any more.

        Returns:
            The display, for updates.
        """
        freed = self._freed_id()
        display = _NotebookDisplay(self._cell, freed or uuid4().hex, bundle, final)
        self._cell.publish(bundle, display.display_id, update=freed is not None)
        self._displays.append(display)
        return display

    def _freed_id(self) -> str | None:
        """The last id, after the display behind the page moved onto it and the others moved up; or ``None``."""
        while len(self._displays) > self._page + 1:
            page, following = self._displays[self._page : self._page + 2]
            if not (page.final and following.final):
                return None
            if not page.bundle.keys() == following.bundle.keys() == _TEXTS:  # a picture has a display of its own
                self._page += 1
                continue
            together = joined(page.bundle, following.bundle)
            if len(together["text/markdown"]) > _MAX_PAGE_CHARACTERS:
                self._page += 1
                continue
            page.update(together, final=True)
            ids = [display.display_id for display in self._displays]
            del self._displays[self._page + 1]
            for display, display_id in zip(self._displays[self._page + 1 :], ids[self._page + 1 :], strict=False):
                display.display_id = display_id
                display.update(display.bundle, final=display.final)
            return ids[-1]
        return None


@dataclass
class _NotebookDisplay:
    cell: CellOutput
    display_id: str
    bundle: MimeBundle
    final: bool

    def update(self, bundle: MimeBundle, *, final: bool) -> None:
        self.bundle, self.final = bundle, final
        self.cell.publish(bundle, self.display_id, update=True)


class OnceScreen:
    """The output of a cell where displays cannot change: what is final is shown, once."""

    def __init__(self, cell: CellOutput) -> None:
        self._cell = cell

    def show(self, bundle: MimeBundle, *, final: bool) -> Display:
        """Publish a bundle if it is final.

        Args:
            bundle: What it shows.
            final: Whether it will not change any more.

        Returns:
            What publishes the final bundle in its ``update``.
        """
        self.update(bundle, final=final)
        return self

    def update(self, bundle: MimeBundle, *, final: bool) -> None:
        """Publish a bundle if it is final.

        Args:
            bundle: What it shows.
            final: Whether it will not change any more.
        """
        if final:
            self._cell.publish(bundle, uuid4().hex, update=False)


_typing = threading.Event()


@contextlib.contextmanager
def free_line() -> Generator[None]:
    """Hide a terminal's status line within this context, in which the user types."""
    _typing.set()
    if sys.stdout.isatty():
        sys.stdout.write(_CLEAR_LINE)
    try:
        yield
    finally:
        _typing.clear()


class TerminalScreen:
    """A terminal, where nothing can be erased.

    What is final is printed, above one line on what goes on.
    """

    def __init__(self) -> None:
        self._stream = sys.stdout  # as it is now: a tool's output may be redirected later

    def show(self, bundle: MimeBundle, *, final: bool) -> Display:
        """Print a bundle's text.

        Args:
            bundle: What it shows.
            final: Whether it will not change any more.

        Returns:
            What prints later versions of it.
        """
        self.update(bundle, final=final)
        return self

    def update(self, bundle: MimeBundle, *, final: bool) -> None:
        """Print a bundle's text, or only a line of it while it is not final.

        Args:
            bundle: What it shows.
            final: Whether it will not change any more.
        """
        text = bundle["text/plain"]
        live = self._stream.isatty()
        if final:
            self._stream.write((_CLEAR_LINE if live else "") + text + "\n")
        elif live and not _typing.is_set():
            self._stream.write(_CLEAR_LINE + text.split("\n", 1)[0][: shutil.get_terminal_size().columns - 1])
        self._stream.flush()
