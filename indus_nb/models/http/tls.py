"""The TLS context that all clients share."""

from __future__ import annotations

import os
import re
import sys
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from indus_nb.base.errors import UsageError
from indus_nb.base.textcut import one_line

if TYPE_CHECKING:
    import ssl

_lock = threading.Lock()
_HASHED = re.compile(r"[0-9a-fA-F]{8}\.\d")
"""Names of certificates in a directory that OpenSSL finds there."""


def tls_context() -> ssl.SSLContext:
    """Return the HTTP library's context, made once for the environment's certificate variables.

    Reading the certificates takes longest by far; a request that needs them while a thread reads them waits for it.

    Raises:
        UsageError: A variable names a file or a directory that holds no certificates.
    """
    with _lock:
        return _made(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _made(file: str | None, directory: str | None) -> ssl.SSLContext:
    if not file and directory and not any(map(_is_readable, directory.split(os.pathsep))):
        raise _unreadable("SSL_CERT_DIR", directory, "no directory that can be read")
    try:
        return _on_linux(file, directory) or _by_library()
    except (OSError, ValueError) as error:
        if not file:
            raise
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise _unreadable("SSL_CERT_FILE", file, reason) from error


def _by_library() -> ssl.SSLContext:
    from httpx2 import create_ssl_context

    return create_ssl_context()  # which reads the two variables itself


def _on_linux(file: str | None, directory: str | None) -> ssl.SSLContext | None:
    """Build the context that the library would make, without importing it; ``None`` where it looks further."""
    import ssl

    if file or directory:
        return ssl.create_default_context(cafile=file or None, capath=None if file else directory)
    paths = ssl.get_default_verify_paths()
    known, folder = Path(paths.openssl_cafile), Path(paths.openssl_capath)
    has_file = known.is_file()
    has_folder = folder.is_dir() and (has_file or any(_HASHED.fullmatch(each.name) for each in folder.iterdir()))
    if sys.platform != "linux" or not (has_file or has_folder):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(known if has_file else None, folder if has_folder else None)
    return context


def _is_readable(directory: str) -> bool:
    return directory != "" and os.access(f"{directory}/.", os.R_OK | os.X_OK)


def _unreadable(variable: str, value: str, reason: str) -> UsageError:
    return UsageError(
        f"The certificates that {variable} names cannot be read: {one_line(value, 200)} ({reason}). "
        f"Correct {variable}, or unset it."
    )
