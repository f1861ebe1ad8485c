"""A keyring in a file, for processes of tests: they load it as users load theirs, by ``PYTHON_KEYRING_BACKEND``."""

from __future__ import annotations

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

NAME = "the keyring of the tests"


def with_keyring(path: Path) -> dict[str, str]:
    """The variables by which a process has its keyring in that file."""
    return {
        "PYTHON_KEYRING_BACKEND": "file_keyring.FileKeyring",
        "FILE_KEYRING": str(path),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")])),
    }


class FileKeyring(KeyringBackend):
    """Passwords in the JSON file that ``FILE_KEYRING`` names, by service and user."""

    name = NAME
    priority = 1

    def get_password(self, service: str, username: str) -> str | None:
        return self._read().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._write({**self._read(), f"{service}/{username}": password})

    def delete_password(self, service: str, username: str) -> None:
        held = self._read()
        if held.pop(f"{service}/{username}", None) is None:
            raise PasswordDeleteError(username)
        self._write(held)

    def _read(self) -> dict[str, str]:
        path = Path(os.environ["FILE_KEYRING"])
        return json.loads(path.read_text()) if path.exists() else {}

    def _write(self, held: dict[str, str]) -> None:
        Path(os.environ["FILE_KEYRING"]).write_text(json.dumps(held))
