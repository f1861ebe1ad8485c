"""Parts of the extension for programs attached to this kernel: its question, steps, and list of variables.

They are other processes (`indus_nb.kernel.attached`), whose helper calls this on the main thread and runs the code
itself. Arguments and results are JSON-compatible.
"""

from __future__ import annotations

from typing import Any, cast

from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject
from indus_nb.kernel.toolset.undoing import line
from indus_nb.kernel.toolset.user_kernel import UserKernel
from indus_nb.kernel.undo import Touched


class Lent:
    """The kernel of one shell, for attached programs."""

    def __init__(self, kernel: UserKernel) -> None:
        """Store the kernel to lend."""
        self._kernel = kernel
        self._before: dict[str, int] = {}

    def outlook(self, code: str) -> JsonObject:
        """Return the warning and the names for the question before code."""
        asked = self._kernel.approval(code)
        return {"warning": asked.warning, "names": [*asked.names]}

    def begin(self, call: str, run: str, code: str) -> None:
        """Take a checkpoint of what code can change, right before it runs.

        Args:
            run: A key that the calls of one prompt share.
        """
        self._before = self._kernel.names()
        self._kernel.steps.announce(call, run)
        self._kernel.before_code(call, code)

    def end(self, call: str) -> tuple[str, str]:
        """Return the call's changes as a line, and why they cannot be undone."""
        changed, problem, _ = self._kernel.steps.end(call)
        self._kernel.note_names(self._before, self._kernel.names())
        return changed, problem

    def listing(self, pattern: str) -> str:
        """Describe variables for the model."""
        return self._kernel.listing(pattern)

    def move(self, verb: str, argument: str) -> str:
        """Undo or redo the last steps.

        Args:
            verb: ``undo`` or ``redo``.
            argument: Empty, or a number or ``prompt``, and what becomes of what the user changed since.

        Returns:
            The moved changes, as a line.

        Raises:
            UsageError: It is not possible; nothing was done.
        """
        words = argument.split()
        touched: Any = words.pop() if words and words[-1] in ("keep", "over", "both") else ""
        if len(words) > 1 or not all(word.isdigit() or word == "prompt" for word in words):
            raise UsageError(f"`/{verb}` takes a number or `prompt`, and `keep`, `over` or `both` behind it.")
        steps = self._kernel.steps
        count = steps.of_last_run(verb) if words == ["prompt"] else int(words[0]) if words else 1
        if steps.cells(verb, count):
            raise UsageError(f"Cells of the notebook belong to that: write `%agent {verb}` in the notebook.")
        try:
            return line(steps.move(verb, count, cast("Touched", touched)))
        except UsageError as error:
            raise UsageError(str(error).replace(f"`%agent {verb}", f"`/{verb}")) from None
