"""Keys that the user has typed into a form: for this process only, or kept in the system's keyring or in ``auth.json``.

What this module promises: a key stands in the memory of this process, in the keyring, or in ``auth.json`` where there
is no keyring and the user has chosen it. No other file of ours, no variable that other programs inherit, no
representation and no error holds it. A file lists the providers whose key is in the keyring, which is therefore asked
only for a key that is there and is used. ``auth.json`` may be another program's, too: what else it holds stays, and a
file that could not be written again as it is is left alone.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import Any, TypeVar, cast

from indus_nb.base.errors import CredentialsError, UsageError
from indus_nb.base.files import (
    is_open_to_others,
    keep_private,
    make_private_directory,
    others_can_write,
    read_file,
    without_home,
    write_atomically,
)
from indus_nb.base.locks import FileLock

T = TypeVar("T")
SERVICE = "indus_nb"
"""The name under which a keyring lists our keys."""
_SECONDS = 30.0
_MAX_LIST_BYTES = 64 << 10
_NOT_INSTALLED = 'The package keyring is not installed: pip install ".[keyring]" in the clone of indus_nb.'
_NO_BACKEND = "This machine has no keyring that programs can use."
_NO_FILE = (
    "To keep a key all the same, set its variable, such as ANTHROPIC_API_KEY, in the environment that Jupyter or this "
    "program is started from."
)
_PLAIN = "The file is not encrypted: copies of your files hold the key, too."
_LOCK_SECONDS = 5.0
_given: dict[str, str] = {}

GIVEN: Mapping[str, str] = MappingProxyType(_given)
"""Keys by provider that were given to this process."""


def give(provider: str, key: str) -> None:
    """Use a key in this process, from now on and before any other; its child processes do not get it."""
    _given[provider] = key


class _FailedError(Exception):
    """Why a keyring does not answer, without the words of its backend, which may hold anything."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key can be kept: its name for people, empty where there is none, and what is to be known of that."""

    name: str = ""
    note: str = ""
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class KeptKeys:
    """All places that keep keys: the system's keyring, and where there is none the user's ``auth.json``."""

    keyring: Keyring
    file: KeyFile

    def place(self) -> Place:
        """Find the place for a key; imports a library, and may take a second."""
        found = _backend()
        if found.name:
            return found
        problem = self.file.problem()
        if problem:
            return Place(note=f"{found.note} {problem} {_NO_FILE}")
        return Place(self.file.name, f"{found.note} {_PLAIN}", is_file=True)

    def keep(self, provider: str, key: str) -> Place:
        """Keep a key, also for later processes.

        Returns:
            Where it is.

        Raises:
            UsageError: There is no such place, it rejects the key, or what belongs to it cannot be written.
        """
        place = self.place()
        if not place.name:
            raise UsageError(f"The key cannot be kept. {place.note}")
        if place.is_file:
            self.file.keep(provider, key)
        else:
            self.keyring.keep(provider, key, place.name)
            self.file.forget(provider)  # it would go before the one in the keyring
        return place

    def providers(self) -> frozenset[str]:
        """List the providers whose key is kept; a place that cannot be used lists none."""
        return self.keyring.providers() | self.file.providers()

    def forget(self, provider: str) -> list[str]:
        """Remove a provider's key from all places.

        Returns:
            The names of those that had it.

        Raises:
            UsageError: One of them cannot be changed.
        """
        _given.pop(provider, None)
        had: list[str] = []
        if provider in self.keyring.providers():
            self.keyring.forget(provider)
            had.append("the keyring")
        if self.file.forget(provider):
            had.append(str(self.file.path))
        return had


def _backend() -> Place:
    """Find the keyring of this machine."""
    try:
        found: Any = _within(_usable_backend)
    except _FailedError as error:
        return Place(note=_NOT_INSTALLED if str(error) == _NOT_INSTALLED else f"{_NO_BACKEND} ({error})")
    return Place(note=_NO_BACKEND) if found is None else Place(str(found.name))


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

    def keep(self, provider: str, key: str, name: str) -> None:
        """Keep a key.

        Args:
            name: The keyring's, for people.

        Raises:
            UsageError: It rejects the key, or the list of providers cannot be written.
        """
        try:
            _within(lambda: _library().set_password(SERVICE, provider, key))
        except _FailedError as error:
            raise UsageError(f"The key cannot be kept: {name} rejects it ({error}).") from None
        self._list({*self.providers(), provider})

    def forget(self, provider: str) -> None:
        """Remove a provider's key, which may be gone.

        Raises:
            UsageError: The keyring or the list of providers cannot be changed.
        """
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


@dataclass(frozen=True, slots=True)
class KeyFile:
    """Keys in ``auth.json``, as far as they are written from here.

    Args:
        path: The file, which may be missing; ``None`` where none is used.
    """

    path: Path | None = None

    @property
    def name(self) -> str:
        """Return the file's name for people."""
        return f"{without_home(str(self.path))}, readable by you alone"

    def problem(self) -> str:
        """Say why no key can be kept in the file; empty where one can."""
        if self.path is None:
            return "There is no file for keys either."
        try:
            self._read(self.path)
            self._check(self.path)
            nearest = self.path.parent
            while not os.path.lexists(nearest):
                nearest = nearest.parent
            if not os.access(nearest, os.W_OK | os.X_OK):
                return f"{nearest} cannot be written."
        except UsageError as error:
            return str(error)
        return ""

    def keep(self, provider: str, key: str) -> None:
        """Keep a key; all else in the file stays.

        Raises:
            UsageError: The file cannot be used, or the key cannot stand in it.
        """
        if self.path is None:
            raise UsageError(self.problem())
        if key.startswith("!") or key in os.environ:  # which a reader of the file would take for something else
            raise UsageError(f"This key cannot stand in {self.path}.")
        with self._changing(self.path) as entries:
            entry: Any = entries.get(provider, {})
            if provider in entries and not _is_key(entry):
                raise UsageError(f"`{provider}` in {self.path} is no key but another sign-in or a command: it stays.")
            entries[provider] = {**entry, "type": "api_key", "key": key}

    def providers(self) -> frozenset[str]:
        """List the providers whose key is in the file; one that cannot be used lists none."""
        try:
            entries = {} if self.path is None else self._read(self.path)
        except UsageError:
            return frozenset()
        return frozenset(name for name, entry in entries.items() if _is_key(entry))

    def forget(self, provider: str) -> bool:
        """Remove a provider's key.

        Returns:
            Whether it was there.

        Raises:
            UsageError: The file cannot be used.
        """
        if self.path is None or not _is_key(self._read(self.path).get(provider)):
            return False
        with self._changing(self.path) as entries:
            return entries.pop(provider, None) is not None

    @contextmanager
    def _changing(self, path: Path) -> Generator[dict[str, Any]]:
        """Give the file's entries to be changed, and write them."""
        try:
            make_private_directory(path.parent)
            with FileLock(path, _LOCK_SECONDS):
                self._check(path)
                entries = self._read(path)
                yield entries
                keep_private(path)  # before there is a new key in it
                text = json.dumps(entries, indent=2, allow_nan=False) + "\n"
                write_atomically(path, text.encode(), mode=0o600, sync=True)
        except ValueError:
            raise UsageError(f"{path} holds numbers that JSON does not have: it is left as it is.") from None
        except OSError as error:
            raise UsageError(f"{path} cannot be written ({error.strerror or 'another program holds it'}).") from None

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            entries: Any = json.loads(read_file(path), object_pairs_hook=_each_once)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
        except (ValueError, RecursionError):
            entries = None
        if not isinstance(entries, dict):
            raise UsageError(f"{path} is no plain JSON object, perhaps for a comment: it is left as it is.") from None
        return cast("dict[str, Any]", entries)

    def _check(self, path: Path) -> None:
        """Refuse a file that is not the user's alone to write: what it holds would be trusted with a key."""
        if is_open_to_others(path.parent):
            raise UsageError(f"Others than you can write to {path.parent}: no key is kept there.")
        try:
            found = path.lstat()
        except OSError:
            return  # what is wrong with it shows when it is read or written
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise UsageError(f"{path} is a link, or no regular file: it is left as it is.")
        if others_can_write(found):
            raise UsageError(f"Others than you can write to {path}: look at what it holds, then `chmod 600 {path}`.")


def _is_key(entry: object) -> bool:
    fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    key = fields.get("key")
    return fields.get("type", "api_key") == "api_key" and isinstance(key, str) and not key.startswith("!")


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


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; raises ``ValueError`` for one that names a thing twice, of which one would be lost."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a name stands there twice")
    return found
