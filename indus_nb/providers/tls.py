"""The TLS context that all clients share."""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

_lock = threading.Lock()


def tls_context() -> ssl.SSLContext:
    """Return the context that the HTTP library makes, made once for what the environment says of certificates.

    Reading the certificates takes longest by far; a request that needs them while a thread reads them waits for it.
    """
    with _lock:
        return _made(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _made(_file: str | None, _directory: str | None) -> ssl.SSLContext:
    from httpx2 import create_ssl_context

    return create_ssl_context()  # which reads the two variables itself
