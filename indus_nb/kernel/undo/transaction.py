"""Several writes that are done as a whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol


class RefusedError(Exception):
    """Nothing was taken back; the message says why."""


class TouchedError(RefusedError):
    """Something was changed since, and nobody has decided what becomes of that.

    Attributes:
        names: What was changed since, in alphabetical order.
    """

    def __init__(self, names: Collection[str]) -> None:
        """Name what was changed."""
        self.names = sorted(names)
        super().__init__(f"changed since: {', '.join(self.names)}")


class Prepared(Protocol):
    """Writes that have been checked: what is there is as expected, and what will be there is at hand."""

    def write(self) -> None:
        """Write all; may fail, or be interrupted, anywhere."""
        ...

    def back(self) -> None:
        """Write all that was there before, whatever of it has been overwritten; may be repeated."""
        ...

    def commit(self) -> None:
        """Note that it is done."""
        ...


def carry_out(prepared: Sequence[Prepared]) -> None:
    """Write all of them; after a failure or an interrupt everything is as it was before.

    Raises:
        RefusedError: Something could not be written.
    """
    commits = [part.commit for part in prepared]
    written = False
    try:
        for part in prepared:
            part.write()
        written = True
        _surely(commits)
    except BaseException as error:
        if written:  # what is written stands, an interrupt comes too late
            _surely(commits)
            raise
        failures = _surely([part.back for part in reversed(prepared)])
        if failures:
            reasons = "; ".join(map(str, failures))
            raise RefusedError(f"{error or type(error).__name__}; and not all could be put back: {reasons}") from error
        if isinstance(error, Exception):
            raise RefusedError(str(error) or type(error).__name__) from error
        raise


def _surely(steps: Sequence[Callable[[], None]]) -> list[Exception]:
    """Take all steps to their ends, however often they are interrupted; returns their failures."""
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
