"""Keys that the user has typed into a form: for this process only, or kept in the system's keyring.

What this module promises: a key stands in the memory of this process or in the keyring. No file of ours, no variable
that other programs inherit, no representation and no error holds it. A file lists the providers whose key is in the
keyring, which is therefore asked only for a key that is there and is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import Any, TypeVar, cast

from indus_nb.base.errors import CredentialsError, UsageError
from indus_nb.base.files import make_private_directory, read_file, write_atomically

T = TypeVar("T")
SERVICE = "indus_nb"
"""The name under which a keyring lists our keys."""
_SECONDS = 30.0
_MAX_LIST_BYTES = 64 << 10
_NOT_INSTALLED = 'The package keyring is not installed: pip install ".[keyring]" in the clone of indus_nb.'
_NO_BACKEND = (
    "This machine has no keyring that programs can use. To keep a key all the same, set its variable, such as "
    "ANTHROPIC_API_KEY, in the environment that Jupyter or this program is started from."
)
_given: dict[str, str] = {}

GIVEN: Mapping[str, str] = MappingProxyType(_given)
"""Keys by provider that were given to this process."""


def give(provider: str, key: str) -> None:
    """Use a key in this process, from now on and before any other; its child processes do not get it."""
    _given[provider] = key


class _FailedError(Exception):
    """Why a keyring does not answer, without the words of its backend, which may hold anything."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The system's keyring: its name for people, or why there is none."""

    name: str = ""
    problem: str = ""


def backend() -> Backend:
    """Find the keyring of this machine; imports a library, and may take a second."""
    try:
        found: Any = _within(_usable_backend)
    except _FailedError as error:
        return Backend(problem=_NOT_INSTALLED if str(error) == _NOT_INSTALLED else f"{_NO_BACKEND} ({error})")
    return Backend(problem=_NO_BACKEND) if found is None else Backend(name=str(found.name))


def _usable_backend() -> Any:
    import keyring
    from keyring.backends import fail, null

    found = keyring.get_keyring()
    return None if isinstance(found, fail.Keyring | null.Keyring) else found


@dataclass(frozen=True, slots=True)
class Keyring:
    """Keys in the system's keyring.

    Args:
        listing: The file that lists the providers whose key is there; ``None`` where none is used.
    """

    listing: Path | None = None

    def providers(self) -> frozenset[str]:
        """List the providers whose key is in the keyring, as the file says; one that cannot be used lists none."""
        try:
            listed: Any = json.loads(read_file(self.listing, most=_MAX_LIST_BYTES)) if self.listing else []
        except (OSError, ValueError):
            return frozenset()
        names = cast("list[object]", listed) if isinstance(listed, list) else []
        return frozenset(name for name in names if isinstance(name, str))

    def key_of(self, provider: str) -> str:
        """Read a provider's key.

        Raises:
            CredentialsError: It is not there, or the keyring does not answer within 30 seconds.
        """
        try:
            key = _within(lambda: _library().get_password(SERVICE, provider))
        except _FailedError as error:
            problem = f"The key for {provider} is in the system's keyring, which does not answer: {error}"
            raise CredentialsError(provider, problem) from None
        if not key:
            raise CredentialsError(provider, f"The system's keyring has no key for {provider} any more: give it anew.")
        return key

    def keep(self, provider: str, key: str) -> str:
        """Keep a key, also for later processes.

        Returns:
            The name of the keyring.

        Raises:
            UsageError: There is no keyring, it rejects the key, or the list of providers cannot be written.
        """
        found = backend()
        if found.problem:
            raise UsageError(f"The key cannot be kept. {found.problem}")
        try:
            _within(lambda: _library().set_password(SERVICE, provider, key))
        except _FailedError as error:
            raise UsageError(f"The key cannot be kept: {found.name} rejects it ({error}).") from None
        self._list({*self.providers(), provider})
        return found.name

    def forget(self, provider: str) -> None:
        """Remove a provider's key; one that is not there is none to remove.

        Raises:
            UsageError: The keyring or the list of providers cannot be changed.
        """
        _given.pop(provider, None)
        if provider not in self.providers():
            return
        try:
            _within(lambda: _library().delete_password(SERVICE, provider))
        except _FailedError as error:
            if str(error) != "PasswordDeleteError":  # which says that it is not there
                raise UsageError(f"The key for {provider} cannot be removed ({error}).") from None
        self._list(self.providers() - {provider})

    def _list(self, providers: frozenset[str] | set[str]) -> None:
        if self.listing is None:
            return
        try:
            make_private_directory(self.listing.parent)
            write_atomically(self.listing, json.dumps(sorted(providers)).encode())
        except OSError as error:
            raise UsageError(
                f"{self.listing}, which says whose keys are in the keyring, cannot be written ({error.strerror})."
            ) from None


def _library() -> Any:
    import keyring

    return keyring


def _within(work: Callable[[], T]) -> T:
    """Do work of a backend in a thread, which may wait for the user; raises ``_FailedError``."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except ImportError:
            done.set_exception(_FailedError(_NOT_INSTALLED))
        except BaseException as error:  # noqa: BLE001 - backends fail in many ways, each of which means the same here
            done.set_exception(_FailedError(type(error).__name__))

    Thread(target=run, name="indus_nb keyring", daemon=True).start()
    try:
        return done.result(_SECONDS)
    except TimeoutError:
        raise _FailedError("it takes too long. Is it locked?") from None
