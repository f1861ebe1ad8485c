"""Output of one cell, which its displays go to, whichever cell or thread runs by then.

IPython's own ``display`` goes to the cell that ran last. The agent draws from a thread of its own, and may still be at
it when other cells have run; so each display here names the cell that it belongs to.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast
from uuid import uuid4

from indus_nb.base.terminal import plain
from indus_nb.base.wire import JsonObject
from indus_nb.front.notebook.view.blocks import MimeBundle, joined

_MAX_SEPARATE_DISPLAYS = 30
_MAX_PAGE_CHARACTERS = 20_000
_TEXTS = {"text/html", "text/markdown", "text/plain"}
NOTHING: MimeBundle = {"text/html": "", "text/plain": ""}
"""Content of a display that is not needed any more."""
_CLEAR_LINE = "\r\x1b[K"


@dataclass(frozen=True)
class Own:
    """Properties of an output that stays as it is and in its place: of executed code, or of an answer with values."""

    metadata: Mapping[str, Any]
    display_id: str | None = None


class Display(Protocol):
    """One display in a cell's output."""

    def update(self, bundle: MimeBundle, *, final: bool, own: Own | None = None) -> None:
        """Replace the display's bundle.

        Args:
            bundle: The new content.
            final: Whether it will not change any more.
        """
        ...


class Screen(Protocol):
    """Surface that displays appear on."""

    def show(self, bundle: MimeBundle, *, final: bool, own: Own | None = None) -> Display:
        """Add a display below the others.

        Args:
            final: Whether it will not change any more.
        """
        ...


def screen_of(shell: Any) -> Screen:
    """Return the screen of the cell that runs now."""
    kernel: Any = getattr(shell, "kernel", None)
    if kernel is None:
        return TerminalScreen()
    cell = CellOutput(shell)
    return NotebookScreen(cell, has_beside=not _is_elsewhere(kernel)) if can_update(kernel) else OnceScreen(cell)


def can_change(screen: Screen) -> bool:
    """Return whether a screen can replace what it shows as final."""
    return not isinstance(screen, OnceScreen | TerminalScreen)


def is_compared(screen: Screen) -> bool:
    """Return whether a screen's content is kept in a file, whose versions differ by what differs from run to run.

    Our page draws that beside it. Where it cannot, the file is the only place for it.
    """
    return can_change(screen) and not draws_widgets_late(screen)


def typesets_html(screen: Screen) -> bool:
    """Return whether formulas in HTML are typeset: VS Code and Colab do so in Markdown alone."""
    return not draws_widgets_late(screen)


def draws_widgets_late(screen: Screen) -> bool:
    """Return whether another page than ours shows the notebook, as VS Code's, which waits for a widget's script.

    A widget may then be drawn over what took its place meanwhile.
    """
    return isinstance(screen, NotebookScreen) and not screen.has_beside


def can_update(kernel: Any) -> bool:
    """Return whether displays can change later.

    Consoles and qtconsole, which have no server, ignore updates.
    """
    return "JPY_SESSION_NAME" in os.environ or _is_elsewhere(kernel) or not asks_for_input(kernel)


def _is_elsewhere(kernel: Any) -> bool:
    """Return whether VS Code or Colab shows the notebook, where our page cannot reach the outputs of cells."""
    return is_vs_code(kernel) or "google.colab" in sys.modules


def is_vs_code(kernel: Any) -> bool:
    """Return whether VS Code shows the notebook."""
    return "__vsc_ipynb_file__" in (kernel.shell.user_ns or {})


def asks_for_input(kernel: Any) -> bool:
    """Return whether the front end of the running cell lets code ask for input.

    If it does, a user is there.
    """
    content: Any = kernel.get_parent("shell").get("content", {})
    return bool(content.get("allow_stdin", False))


def is_dashboard() -> bool:
    """Return whether Voilà runs the notebook: no user sees its cells, but a page connects that shows widgets."""
    return "VOILA_BASE_URL" in os.environ


class CellOutput:
    """Publisher of displays of the cell that runs when this is made."""

    def __init__(self, shell: Any) -> None:
        self._publisher: Any = shell.display_pub
        self._parent: Any = shell.kernel.get_parent("shell")

    @property
    def cell(self) -> str | None:
        """Return the cell's id, if the front end gave it one."""
        return self._parent.get("metadata", {}).get("cellId")

    @property
    def client(self) -> str | None:
        """Return the kernel client id of the page that ran the cell."""
        return self._parent.get("header", {}).get("session")

    @property
    def source(self) -> str:
        """Return what the cell held when it ran."""
        return str(self._parent.get("content", {}).get("code", ""))

    @property
    def is_alone(self) -> bool:
        """Return whether the cell is nothing but one ``%agent``, so that nothing else is shown in it."""
        code = self.source.strip()
        return code.startswith("%%agent") or (code.startswith("%agent") and "\n" not in code)

    def clear(self) -> None:
        """Remove all that the cell shows, once the next display comes."""
        publisher = self._publisher
        if hasattr(publisher, "pub_socket"):
            kind, parent = "clear_output", self._parent
            publisher.session.send(publisher.pub_socket, kind, {"wait": True}, parent=parent, ident=publisher.topic)

    def publish(
        self, bundle: MimeBundle, display_id: str, *, update: bool, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Send a display to the front end.

        Args:
            update: Whether a display of that id is there, to be replaced.
        """
        publisher, transient = self._publisher, {"display_id": display_id}
        noted = dict(metadata or {})
        if not hasattr(publisher, "pub_socket"):  # captured, as by %%capture
            publisher.publish(data=bundle, metadata=noted, transient=transient, update=update)
            return
        kind = "update_display_data" if update else "display_data"
        content = {"data": bundle, "metadata": noted, "transient": transient}
        publisher.session.send(publisher.pub_socket, kind, content, parent=self._parent, ident=publisher.topic)


class NotebookScreen:
    """The output of one run of a cell.

    JupyterLab shows no more than 50 outputs of a cell until the user asks for the others. So after the first 30
    displays finished ones move together, as many into one as make a page, and what follows moves up.
    """

    def __init__(self, cell: CellOutput, *, has_beside: bool = True) -> None:
        """Create the output.

        Args:
            has_beside: Whether a page of ours can draw beside it.
        """
        self._cell = cell
        self.has_beside = has_beside
        self._displays: list[_NotebookDisplay] = []
        self._page = _MAX_SEPARATE_DISPLAYS
        self._freed: list[str] = []

    def show(self, bundle: MimeBundle, *, final: bool, own: Own | None = None) -> Display:
        """Add a display below the others, or in one that was freed.

        Args:
            final: Whether it will not change any more.
        """
        freed = None if own is not None and own.display_id else self._freed_id()
        display_id = freed or (own.display_id if own is not None else None) or uuid4().hex
        display = _NotebookDisplay(self._cell, display_id, bundle, final, own)
        display.publish(update=freed is not None)
        self._displays.append(display)
        if own is not None and own.display_id:
            self._page = len(self._displays)  # the user's code knows it by that id: it keeps its place
            self._freed.clear()  # what comes next stands below it
        return display

    @property
    def cell(self) -> CellOutput:
        """Return the cell of the displays."""
        return self._cell

    def outputs(self) -> list[JsonObject]:
        """Return the current displays as outputs of the notebook format."""
        shown = [display for display in self._displays if display.bundle != NOTHING]
        return [{"data": dict(each.bundle), "metadata": dict(each.own.metadata) if each.own else {}} for each in shown]

    def settle(self) -> None:
        """Show the displays anew if they would be others after a run that took another time: some empty, or joined.

        VS Code loses a change that comes soon after what it changes: there they are always shown anew. Front ends do
        not forget the place of one that is known by its id, so where there is one all stay.
        """
        kept = [display for display in self._displays if display.bundle != NOTHING]
        if not self._cell.is_alone or any(map(_has_a_place, kept)):
            return
        scratch = NotebookScreen(cast("CellOutput", _Unshown()))
        for bundle, own in [(part, display.own) for display in kept for part in display.parts]:
            scratch.show(bundle, final=True, own=own)
        anew = scratch._displays
        are_same = not self._freed and [each.bundle for each in anew] == [each.bundle for each in self._displays]
        if are_same and self.has_beside:
            return
        self._cell.clear()
        self._displays, self._freed = anew, []
        for display in anew:
            display.cell = self._cell
            display.publish(update=False)

    def _freed_id(self) -> str | None:
        """Join finished displays, and return the id of a freed one below all others, or ``None``."""
        self._move_together()
        return self._freed.pop(0) if self._freed else None

    def _move_together(self) -> None:
        """Join finished displays, and send each changed display once, however many there are.

        Of a few no more are joined than there is need for, so that none stays empty; of many, all that can be.
        """
        first = self._displays[self._page : self._page + 2]
        if len(first) < 2 or not all(display.final for display in first):
            return
        ids = [display.display_id for display in self._displays]
        following = self._displays[self._page :]
        kept: list[_NotebookDisplay] = following[:1]
        grown: set[str] = set()
        needed = 1 if len(following) <= _MAX_SEPARATE_DISPLAYS else len(following)
        for at, display in enumerate(following[1:], 1):
            page = kept[-1]
            if at - len(kept) == needed or not (page.final and display.final):
                kept += following[at:]
                break
            together = _on_one_page(page, display)
            if together is None:
                self._page += 1
                kept.append(display)
                continue
            page.bundle = together
            page.parts += display.parts
            grown.add(page.display_id)
        self._displays[-len(following) :] = kept
        if len(kept) == len(following):
            return
        for display, display_id in zip(self._displays, ids, strict=False):
            if display.display_id != display_id or display.display_id in grown:
                display.display_id = display_id
                display.publish(update=True)
        freed = ids[len(self._displays) :]
        for display_id in freed[1:]:  # what stood there stands above; the first is used at once
            self._cell.publish(NOTHING, display_id, update=True)
        self._freed[:0] = freed


def _on_one_page(page: _NotebookDisplay, following: _NotebookDisplay) -> MimeBundle | None:
    if not (page.own is following.own is None and page.bundle.keys() == following.bundle.keys() == _TEXTS):
        return None  # a picture, and what code has displayed, has a display of its own
    together = joined(page.bundle, following.bundle)
    return together if len(together["text/markdown"]) <= _MAX_PAGE_CHARACTERS else None


def _has_a_place(display: _NotebookDisplay) -> bool:
    """Return whether a display is known by its id, or shows a widget."""
    is_known = display.own is not None and display.own.display_id is not None
    return is_known or any(kind.startswith("application/vnd.jupyter.widget") for kind in display.bundle)


class _Unshown:
    """Output that is not sent."""

    def publish(self, *_: object, **__: object) -> None:
        """Send nothing."""


@dataclass
class _NotebookDisplay:
    cell: CellOutput
    display_id: str
    bundle: MimeBundle
    final: bool
    own: Own | None = None
    parts: list[MimeBundle] = field(init=False)
    """What was joined in it."""

    def __post_init__(self) -> None:
        self.parts = [self.bundle]

    def update(self, bundle: MimeBundle, *, final: bool, own: Own | None = None) -> None:
        is_shown = own is not None and bundle is self.bundle
        self.bundle, self.final, self.own, self.parts = bundle, final, own, [bundle]
        if not is_shown:
            self.publish(update=True)

    def publish(self, *, update: bool) -> None:
        metadata = self.own.metadata if self.own is not None else None
        self.cell.publish(self.bundle, self.display_id, update=update, metadata=metadata)


class OnceScreen:
    """Output of a cell where displays cannot change: final bundles are shown, once."""

    def __init__(self, cell: CellOutput) -> None:
        self._cell = cell

    def show(self, bundle: MimeBundle, *, final: bool, own: Own | None = None) -> Display:
        """Publish a bundle if it is final.

        Args:
            final: Whether it will not change any more.

        Returns:
            A display that publishes the final bundle in its ``update``.
        """
        self.update(bundle, final=final, own=own)
        return self

    def update(self, bundle: MimeBundle, *, final: bool, own: Own | None = None) -> None:
        """Publish a bundle if it is final.

        Args:
            final: Whether it will not change any more.
        """
        if final:
            display_id = (own.display_id if own is not None else None) or uuid4().hex
            self._cell.publish(bundle, display_id, update=False, metadata=own.metadata if own is not None else None)


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

    def show(self, bundle: MimeBundle, *, final: bool, own: Own | None = None) -> Display:
        """Print a bundle's text.

        Args:
            final: Whether it will not change any more.
        """
        self.update(bundle, final=final, own=own)
        return self

    def update(self, bundle: MimeBundle, *, final: bool, own: Own | None = None) -> None:
        """Print a bundle's text, or only a line of it while it is not final.

        Args:
            final: Whether it will not change any more.
            own: Properties of an output of executed code, whose text is in its card.
        """
        if own is not None:
            return
        text = plain(str(bundle.get("text/plain", "")))
        live = self._stream.isatty()
        if final:
            self._stream.write((_CLEAR_LINE if live else "") + text + "\n")
        elif live and not _typing.is_set():
            self._stream.write(_CLEAR_LINE + text.split("\n", 1)[0][: shutil.get_terminal_size().columns - 1])
        self._stream.flush()
