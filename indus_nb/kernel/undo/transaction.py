"""Transaction of several writes, done as a whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from indus_nb.base.errors import failure_text


class RefusedError(Exception):
    """Undo or redo was refused and nothing was done; the message says why."""


class TouchedError(RefusedError):
    """Something was changed since, and the user has not decided what becomes of it.

    Attributes:
        names: Names of the changed variables and files, in alphabetical order.
        removed: Those of them that would be there no more if they were overwritten.
    """

    def __init__(self, names: Collection[str], removed: Collection[str] = ()) -> None:
        """Store the names of what was changed."""
        self.names: list[str] = sorted(names)
        self.removed: frozenset[str] = frozenset(removed).intersection(names)
        super().__init__(f"changed since: {', '.join(self.names)}")


class Prepared(Protocol):
    """Writes that have been checked and can be carried out or rolled back."""

    def write(self) -> None:
        """Write all; may fail, or be interrupted, anywhere."""
        ...

    def back(self) -> None:
        """Roll back, whatever has been written; may be repeated."""
        ...

    def commit(self) -> None:
        """Record that it is done."""
        ...


def carry_out(prepared: Sequence[Prepared]) -> None:
    """Carry out all writes; roll back after a failure or an interrupt.

    Raises:
        RefusedError: Something could not be written.
    """
    commits = [part.commit for part in prepared]
    written = False
    try:
        for part in prepared:
            part.write()
        written = True
        surely(commits)
    except BaseException as error:
        if written:  # what is written stands, an interrupt comes too late
            surely(commits)
            raise
        failures = surely([part.back for part in reversed(prepared)])
        if failures:
            reasons = "; ".join(map(str, failures))
            raise RefusedError(f"{failure_text(error)}; and not all could be put back: {reasons}") from error
        if isinstance(error, Exception):
            raise RefusedError(failure_text(error)) from error
        raise


def surely(steps: Sequence[Callable[[], None]]) -> list[Exception]:
    """Finish all steps, which may be repeated, however often they are interrupted; return their failures."""
    waiting = [*reversed(steps)]
    failures: list[Exception] = []
    interrupt: BaseException | None = None
    while waiting:
        try:
            while waiting:
                waiting[-1]()
                waiting.pop()
        except Exception as error:  # noqa: BLE001 - the other steps are taken all the same
            failures.append(error)
            waiting.pop()
        except BaseException as error:  # noqa: BLE001 - an interrupt: the step is begun again
            interrupt = error
    if interrupt is not None and not failures:
        raise interrupt
    return failures
