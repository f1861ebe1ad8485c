"""Prompts about a cell that failed, and the hint at them below its traceback."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from indus_nb.base.errors import UsageError
from indus_nb.base.messages import Attachment, going_along
from indus_nb.kernel.run.journal import Cell, Journal, as_text, is_users, shown_cell

if TYPE_CHECKING:
    from indus_nb.front.notebook.door.messages import AskAboutError

Task = Literal["fix", "explain"]
_WORDS: dict[Task, str] = {"fix": "Fix this error", "explain": "Explain this error"}
"""What the user says by it, as the conversation shows it."""
_TASKS: dict[Task, str] = {
    "fix": (
        "This cell of my notebook failed. Find the cause: look at the variables it uses, and try it out if need be. "
        "Then propose the mended cell in its place with propose_cell if you have that tool, else show it; or say what "
        "else has to be done."
    ),
    "explain": (
        "This cell of my notebook failed. Explain in a few sentences why, with the values that led to it, and how it "
        "can be mended. Change nothing."
    ),
}

_CHANGED: dict[Task, str] = {
    "fix": "The cell was changed since, and did not run so. What you propose must keep that. It holds now:",
    "explain": "The cell was changed since, and did not run so. It holds now:",
}


def prompt_about_error(task: Task, journal: Journal) -> tuple[str, Attachment]:
    """Write the prompt about the cell that failed last.

    Returns:
        The words of the user, and what goes along for the model.

    Raises:
        UsageError: No cell failed, or it ran well since.
    """
    if journal.failed is None:
        raise UsageError(
            "No cell of yours failed in this kernel, or it ran well since. Nothing was sent. "
            f"To {task} something else, say what: `%agent {task} …`."
        )
    return _prompt(task, journal.failed)


def prompt_about_shown_error(asked: AskAboutError, journal: Journal) -> tuple[str, Attachment]:
    """Write the prompt about a cell whose error a page shows.

    What this kernel knows of that failure is told rather than what the page says: the code as it ran, and what it is
    now if it was changed since.

    Returns:
        The words of the user, and what goes along for the model.
    """
    ran = journal.failed_at(asked.cell)
    if ran is None:
        return _prompt(asked.kind, shown_cell(asked.cell, asked.source, asked.error))
    if not asked.changed:
        return _prompt(asked.kind, ran)
    now = as_text(Cell(index=0, number=None, code=asked.source))
    return _prompt(asked.kind, ran, f"{_CHANGED[asked.kind]}\n{now}")


def _prompt(task: Task, cell: Cell, since: str = "") -> tuple[str, Attachment]:
    named = f" Its id is {cell.cell_id}." if cell.cell_id else ""
    parts = (f"{_TASKS[task]}{named}", as_text(cell), since)
    return _WORDS[task], going_along("the failed cell", "\n\n".join(filter(None, parts)))


class ErrorHint:
    """Line below the first traceback of a kernel, unless `notebook.errorHint` is off or the page has buttons there."""

    def __init__(self, shell: Any, has_buttons: Callable[[], bool]) -> None:
        """Watch cells.

        Args:
            has_buttons: Whether the page that runs the cell has buttons below errors.
        """
        self._shell = shell
        self._has_buttons = has_buttons
        shell.events.register("post_run_cell", self._look)

    def close(self) -> None:
        """Stop watching cells."""
        with suppress(ValueError):
            self._shell.events.unregister("post_run_cell", self._look)

    def _look(self, result: Any) -> None:
        info = getattr(result, "info", None)
        error = getattr(result, "error_in_exec", None) or getattr(result, "error_before_exec", None)
        if not isinstance(error, Exception) or info is None or not is_users(info) or "%agent" in info.raw_cell:
            return
        if self._has_buttons():
            return
        self.close()
        with suppress(Exception):  # settings that cannot be read are reported elsewhere
            self._show()

    def _show(self) -> None:
        from indus_nb.core.resources.settings import agent_directory, load_settings
        from indus_nb.front.notebook.view import blocks
        from indus_nb.front.notebook.view.output import asks_for_input, screen_of

        front = getattr(self._shell, "kernel", None)
        if front is None or not asks_for_input(front):  # a notebook that is run without its user
            return
        if load_settings(Path.cwd(), agent_directory(), trusted=False).settings.notebook.error_hint:
            screen_of(self._shell).show(blocks.hint("%agent fix asks the agent about this error."), final=True)
