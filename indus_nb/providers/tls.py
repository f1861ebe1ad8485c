"""The TLS context that the clients of all SDKs share."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


@cache
def tls_context() -> ssl.SSLContext:
    """Return the context that the HTTP library below the SDKs makes.

    Reading the certificates takes longest by far.

    An SDK brings one of two libraries, by its version. Each takes the other's context, so one serves every SDK.
    """
    try:
        from httpx2 import create_ssl_context
    except ModuleNotFoundError:
        from httpx import create_ssl_context
    return create_ssl_context()
