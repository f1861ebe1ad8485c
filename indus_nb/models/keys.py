"""Sources of providers' keys: the caller, a form, ``auth.json``, the environment, a keyring, and configuration.

What this module promises: a key is looked up when it is used, so a changed file or variable counts at once; commands
run only when their output is needed; and no representation, problem or error shows a key.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from indus_nb.base.errors import CredentialsError
from indus_nb.base.files import read_file
from indus_nb.base.wire import JsonObject, read_object
from indus_nb.models.kept_keys import Keyring
from indus_nb.safety.key_variables import KEY_VARIABLES

_MAX_COMMAND_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Secret:
    """A key or header value as it was written.

    Attributes:
        value: The secret itself (``is_final``), or a ``!command``, the name of a variable, or the secret itself.
        where: What to name in problems instead of the value.
        is_final: Whether ``value`` is used as it stands.
    """

    value: str = field(repr=False)
    where: str
    is_final: bool

    def resolve(self, provider: str, environment: Mapping[str, str]) -> str:
        """Read the secret; a ``!command`` is run, for ten seconds at the most.

        Args:
            environment: The variables that ``value`` may name.

        Raises:
            CredentialsError: The command failed, printed nothing or took too long.
        """
        if self.is_final:
            return self.value
        if self.value.startswith("!"):
            return _output(self.value[1:], self.where, provider)
        return environment.get(self.value, "").strip() or self.value


@dataclass(frozen=True, slots=True)
class InKeyring:
    """A key in the system's keyring, which is read when the key is used."""

    keyring: Keyring
    where: str = "the key in the keyring"

    def resolve(self, provider: str, _: Mapping[str, str]) -> str:
        """Read the key; raises ``CredentialsError``."""
        return self.keyring.key_of(provider)


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """Content of ``auth.json``.

    It has entries by provider, and a sentence or two for each defect.
    """

    path: Path | None
    entries: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    problems: tuple[str, ...] = ()

    def key_of(self, provider: str) -> str:
        """Return the provider's key as it stands there; empty when there is none."""
        key = self._entry(provider).get("key")
        return key if isinstance(key, str) else ""

    def secrets(self) -> Iterator[tuple[str, str]]:
        """Yield the label and value of each secret in the file; commands are skipped."""
        from indus_nb.safety.redaction import is_secret_name

        for name, entry in self.entries.items():
            fields = cast("JsonObject", entry) if isinstance(entry, dict) else {}
            for field_name, value in fields.items():
                is_secret = field_name in ("key", "access", "refresh") or is_secret_name(field_name)
                if is_secret and isinstance(value, str) and not value.startswith("!"):
                    yield f"{field_name} of {name} in auth.json", value

    def is_sign_in(self, provider: str) -> bool:
        """Return whether the provider's entry is a sign-in, which cannot be used here."""
        return self._entry(provider).get("type") == "oauth"

    def _entry(self, provider: str) -> JsonObject:
        entry: object = self.entries.get(provider)
        return cast("JsonObject", entry) if isinstance(entry, dict) else {}


def read_stored_keys(path: Path | None) -> StoredKeys:
    """Read ``auth.json`` as it is now. A file that is missing holds nothing.

    One that is broken has ``problems``.
    """
    if path is None:
        return StoredKeys(path)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        entries = read_object(read_file(path))
    except FileNotFoundError:
        return StoredKeys(path)
    except OSError as error:
        return StoredKeys(path, {}, (f"{path}: cannot be read ({error.strerror}). The keys in it are not used.",))
    except ValueError as error:
        return StoredKeys(path, {}, (f"{path}: {error}. The keys in it are not used; correct it by hand.",))
    return StoredKeys(path, entries, tuple(_defects(path, mode, entries)))


def _defects(path: Path, mode: int, entries: Mapping[str, Any]) -> Iterator[str]:
    if mode & 0o077:
        yield f"{path}: others than you can get at the keys in it (mode {mode:04o}): `chmod 600 {path}`."
    for name, entry in entries.items():
        if not isinstance(entry, dict):
            yield f"{path}: `{name}` must be an object with `type` and `key`."
        elif not isinstance(cast("JsonObject", entry).get("key", ""), str):
            yield f"{path}: `{name}.key` must be a text."


def keys_in_environment(provider: str, environment: Mapping[str, str]) -> list[Secret]:
    """List the provider's own variables, best first.

    The value of one that is not set is empty.

    Returns:
        One secret for each variable; none for a provider that has no variables.
    """
    return [
        Secret(environment.get(variable, ""), variable, is_final=True) for variable in KEY_VARIABLES.get(provider, ())
    ]


def how_to_get_key(provider: str, stored: StoredKeys, others: Sequence[str] = ()) -> str:
    """Describe the ways to provide a missing key.

    Args:
        stored: What ``auth.json`` holds.
    """
    ways = [f"set {variable}" for variable in KEY_VARIABLES.get(provider, ())[:1]]
    if stored.path is not None:
        ways.append(f"put it into {stored.path}")
    note = " (Its sign-in in that file is of a kind that cannot be used here.)" if stored.is_sign_in(provider) else ""
    ways += [f"use `--provider {other}`, which has one" for other in others[:1]]
    ways.append("use `--provider offline`, which needs none")
    return f"No API key for {provider}: {', or '.join(ways)}.{note}"


def check_key(key: str, where: str, provider: str) -> None:
    """Reject a key that no header can hold.

    Args:
        where: Where it comes from.

    Raises:
        CredentialsError: It holds a character that no key has; the message names ``where``.
    """
    if not (key.isascii() and key.isprintable()):
        raise CredentialsError(provider, f"The key for {provider} holds a character that no key has: set {where} anew.")


def _output(command: str, where: str, provider: str) -> str:
    """Return the output of the shell command, stripped; raise ``CredentialsError``."""
    problem = "printed nothing"
    with subprocess.Popen(  # noqa: S602 - the user's own file asks for a shell
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            output = process.communicate(timeout=_MAX_COMMAND_SECONDS)[0].decode(errors="replace").strip()
        except subprocess.TimeoutExpired:
            output, problem = "", f"took longer than {_MAX_COMMAND_SECONDS:g} seconds"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode > 0:
        output, problem = "", f"ended with status {process.returncode}"
    if not output:
        raise CredentialsError(provider, f"{where}: the command {problem}. Run it in a terminal to see why.")
    return output
