"""The TLS context that all clients share."""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import TYPE_CHECKING

from indus_nb.errors import UsageError
from indus_nb.textcut import one_line

if TYPE_CHECKING:
    import ssl

_lock = threading.Lock()


def tls_context() -> ssl.SSLContext:
    """Return the context that the HTTP library makes, made once for what the environment says of certificates.

    Reading the certificates takes longest by far; a request that needs them while a thread reads them waits for it.

    Raises:
        UsageError: A variable names a file or a directory that holds no certificates.
    """
    with _lock:
        return _made(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _made(file: str | None, directory: str | None) -> ssl.SSLContext:
    from httpx2 import create_ssl_context

    if not file and directory and not any(map(_is_readable, directory.split(os.pathsep))):
        raise _unreadable("SSL_CERT_DIR", directory, "no directory that can be read")
    try:
        return create_ssl_context()  # which reads the two variables itself
    except (OSError, ValueError) as error:
        if not file:
            raise
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise _unreadable("SSL_CERT_FILE", file, reason) from error


def _is_readable(directory: str) -> bool:
    return directory != "" and os.access(f"{directory}/.", os.R_OK | os.X_OK)


def _unreadable(variable: str, value: str, reason: str) -> UsageError:
    return UsageError(
        f"The certificates that {variable} names cannot be read: {one_line(value, 200)} ({reason}). "
        f"Correct {variable}, or unset it."
    )
