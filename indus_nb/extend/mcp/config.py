"""The entries of ``mcpServers`` in the settings, and how problems with them are named without showing secrets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qsl, urlsplit

from indus_nb.base.wire_model import WireModel, wire_field
from indus_nb.safety.redaction import hide_shapes, shown_url

if TYPE_CHECKING:
    from indus_nb.safety.sandbox import Sandbox

CONNECT_SECONDS = 30.0
"""Time limit of connecting where ``timeoutMs`` is not set."""
MAX_MESSAGE_BYTES = 16 << 20
"""Largest message of a server, whatever the transport."""
_MIN_SECRET = 6


class McpServerConfig(WireModel):
    """One entry of ``mcpServers``.

    It has either a ``command`` with its arguments, or the ``url`` of a streamable HTTP server.

    ``cwd`` is relative to the session's working directory. ``timeout_ms`` limits connecting (30 seconds without it) and
    each call (unlimited without it). ``prefix`` goes before the names of the tools in place of the server's name; with
    an empty one they keep their own.
    """

    type: Literal["stdio", "http", "streamable-http"] | None = None
    command: str | None = wire_field(default=None, min_length=1)
    args: list[str] = wire_field(default_factory=list[str], repr=False)
    env: dict[str, str] = wire_field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    url: str | None = wire_field(default=None, pattern=r"^https?://[^/\s]\S*$", repr=False)
    headers: dict[str, str] = wire_field(default_factory=dict[str, str], repr=False)
    enabled: bool = True
    timeout_ms: float | None = wire_field(default=None, gt=0, finite=True)
    prefix: str | None = None

    def __post_init__(self) -> None:
        """Raise ``ValueError`` unless one of the two is there."""
        if (self.command is None) == (self.url is None):
            raise ValueError("give either `command` or `url`")
        urlsplit(self.url or "")  # raises ValueError

    @property
    def where(self) -> str:
        """Return the command or address, without anything that may be secret."""
        if self.url is None:
            return f"`{self.command}`"
        return shown_url(self.url)

    def hide(self, text: str) -> str:
        """Return ``text`` without the values of environment and headers, and the secret parts of the address."""
        parts = urlsplit(self.url or "")
        values = [*self.env.values(), *self.headers.values(), parts.username or "", parts.password or ""]
        values += [value for _, value in parse_qsl(parts.query)]
        return hide_shapes(
            text, [word for value in values for word in (value, *value.split())], min_characters=_MIN_SECRET
        )


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A configured server: its name and entry in the settings, its directory, and what confines its process."""

    name: str
    config: McpServerConfig
    directory: Path
    sandbox: Sandbox | None = None

    @property
    def time_limit(self) -> float | None:
        """Return the configured limit in seconds."""
        return None if self.config.timeout_ms is None else self.config.timeout_ms / 1000

    @property
    def prefix(self) -> str:
        """Return the prefix of the names of its tools."""
        return self.name if self.config.prefix is None else self.config.prefix
