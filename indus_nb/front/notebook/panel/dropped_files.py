"""Files that a user drops on a panel: their names come from a browser, and no existing file is replaced."""

from __future__ import annotations

import base64
import binascii
import re
from itertools import count
from pathlib import Path

from indus_nb.base.errors import UsageError

_MAX_NAME_CHARACTERS = 100
_MAX_TRIES = 1_000
_ODD = re.compile(r"[^\w.+()=-]+")


def content(data: str) -> bytes:
    """Decode the base64 content of a file; raises ``UsageError``."""
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        raise UsageError("The file came damaged from the page. Drop it again.") from None


def safe_name(name: str) -> str:
    """Turn a name into that of a visible file in one directory.

    >>> safe_name("../../.ssh/id rsa"), safe_name(".."), safe_name("Umsätze 2025.csv")
    ('id_rsa', 'file', 'Umsätze_2025.csv')
    """
    last = re.split(r"[/\\]", name)[-1]
    plain = _ODD.sub("_", last).lstrip(".-")
    stem, dot, kind = plain.rpartition(".")
    return f"{stem[:_MAX_NAME_CHARACTERS]}{dot}{kind[:20]}" if stem else plain[:_MAX_NAME_CHARACTERS] or "file"


def save(directory: Path, name: str, data: bytes) -> Path:
    """Write a new file.

    Args:
        name: Its name, to which a number is added where there is such a file already.

    Raises:
        UsageError: It cannot be written.
    """
    path = directory / name
    for number in count(2):
        try:
            with path.open("xb") as file:
                file.write(data)
        except FileExistsError:
            if number > _MAX_TRIES:
                raise UsageError(f"{directory} holds too many files named like {name}.") from None
            path = (directory / name).with_stem(f"{Path(name).stem}-{number}")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}.") from error
        else:
            return path
    raise AssertionError
