"""Mistakes of a caller, as one tree of exceptions.

A model's failure is data (an answer with ``stop_reason="error"``) and a tool's failure is a result that the model
reads, so neither stands here. Every message states what happened, where, and what to do about it::

    IndusError
    ├── UsageError              a flag, option or argument that makes no sense
    │   └── ModelNotFoundError  no such model                                 .wanted
    ├── SettingsError           a settings file that cannot be used           .path
    ├── CredentialsError        the provider needs a key and there is none    .provider
    ├── SessionBusyError        a prompt while another run is going on
    ├── RunFailedError          the last answer of a run ended badly          .stop_reason
    │   ├── InvalidAnswerError  a typed answer that is missing or not valid   .attempts
    │   └── NotAskedError       no model is asked in this process
    ├── CommandFailedError      the agent's process refused a command         .command
    ├── ClientClosedError       the agent's process has ended
    ├── CompactionError         a summary that could not be made; nothing has changed
    └── SessionFileError        a session file that cannot be used            .path
        ├── SessionNotFoundError
        └── SessionLockedError  another process writes to it                  .owner
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import Any


class IndusError(Exception):
    """The root of this package's exceptions; catch it to catch them all."""


def failure_text(error: BaseException) -> str:
    """Say how code failed that may be somebody else's: the type of the error and its text.

    An error of this package is a whole sentence, and stays as it is.

    >>> failure_text(KeyError("cats")), failure_text(TimeoutError()), failure_text(UsageError("No such model."))
    ("KeyError: 'cats'", 'TimeoutError', 'No such model.')
    """
    kind, text = type(error), str(error)
    if not text:
        return kind.__name__
    return text if kind.__module__.partition(".")[0] == "indus_nb" else f"{kind.__name__}: {text}"


class Interrupted(KeyboardInterrupt):
    """Interrupt by the user of code that waits here; IPython shows it as one line."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class UsageError(IndusError):
    """A flag, option or argument that makes no sense where it was given.

    A notebook shows its traceback as far as the caller's own code: what is wrong is there.
    """

    def _render_traceback_(self) -> list[str]:
        frames = list[TracebackType]()
        frame = self.__traceback__
        while frame is not None:
            frames.append(frame)
            frame = frame.tb_next
        own = None
        for each in reversed(frames):
            if own is not None or each.tb_frame.f_globals.get("__name__", "").partition(".")[0] != "indus_nb":
                own = TracebackType(own, each.tb_frame, each.tb_lasti, each.tb_lineno)
        shell: Any = sys.modules["IPython"].get_ipython()  # nobody else asks for this
        return shell.InteractiveTB.structured_traceback(type(self), self, own)


class SettingsError(IndusError):
    """A settings file that could not be read; it is left untouched."""

    def __init__(self, path: Path, problem: str, meanwhile: str = "") -> None:
        super().__init__(
            f"{path}: {problem}. The file is left as it is and its settings are ignored; mend it by hand.{meanwhile}"
        )
        self.path = path
        self.problem = problem


class ModelNotFoundError(UsageError):
    """No model of that name is known. Each interface adds where it lists the known ones."""

    def __init__(self, wanted: str, suggestions: list[str]) -> None:
        hint = f" Did you mean {' or '.join(suggestions)}?" if suggestions else ""
        self.summary: str = f"Model not found: {wanted}"
        super().__init__(f"{self.summary}.{hint}")
        self.wanted = wanted


class CredentialsError(IndusError):
    """The chosen provider needs a key and none was found."""

    def __init__(self, provider: str, problem: str) -> None:
        super().__init__(problem)
        self.provider = provider


class MissingKeyError(CredentialsError):
    """No key is known, or no model can be chosen for want of one."""


class SessionBusyError(IndusError):
    """A prompt arrived while a run is going on without a streaming behavior."""


class RunFailedError(IndusError):
    """The last answer of a run ended in an error or was aborted; the messages before it are kept."""

    def __init__(self, message: str, stop_reason: str) -> None:
        super().__init__(message)
        self.stop_reason = stop_reason


class NotAskedError(RunFailedError):
    """No model is asked in this process, and no answer to the request is kept; nothing was sent."""


class AnswerAttempt:
    """An answer that a model gave for a type, and why it is not valid.

    Attributes:
        given: The value as the model gave it, without secrets; ``None`` where it gave none.
        problems: What is wrong with it, a sentence each.
    """

    __slots__ = ("given", "problems")

    def __init__(self, given: Any, problems: tuple[str, ...]) -> None:
        self.given: Any = given
        self.problems: tuple[str, ...] = problems

    def __repr__(self) -> str:
        return f"AnswerAttempt(given={self.given!r}, problems={self.problems!r})"


class InvalidAnswerError(RunFailedError):
    """The run ended, and no answer of the type that was asked for was given; the messages are kept."""

    def __init__(self, wanted: str, attempts: tuple[AnswerAttempt, ...]) -> None:
        tried = {0: "", 1: " in one attempt"}.get(len(attempts), f" in {len(attempts)} attempts")
        last = "; ".join(attempts[-1].problems) if attempts else "the run ended without one"
        super().__init__(f"The model gave no valid answer ({wanted}){tried}. At last: {last}", "stop")
        self.attempts = attempts


class CommandFailedError(IndusError):
    """The agent's process refused a command."""

    def __init__(self, command: str, problem: str) -> None:
        super().__init__(f"{command}: {problem}")
        self.command = command


class ClientClosedError(IndusError):
    """The agent's process has ended, or was never started."""


class CompactionError(IndusError):
    """The conversation could not be compacted, or the branch not summarised; everything is as it was."""


class SessionFileError(IndusError):
    """A session file that cannot be used; it is left untouched."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


class SessionPlaceError(SessionFileError):
    """A new session file that can never be made where it belongs: the place is missing, read-only or another user's."""


class SessionNotFoundError(SessionFileError):
    """There is no session at that path or with that id."""


class SessionLockedError(SessionFileError):
    """Another process holds the session open for writing."""

    def __init__(self, path: Path, owner: str) -> None:
        super().__init__(
            path, f"the session is open for writing in {owner}. Close it there, or start a new session here."
        )
        self.owner = owner
