"""The setting ``sandbox``: what confines commands and servers, and what a project may make of it.

What this module promises: settings that make no sense end the start of a session; they are not ignored, for what was to
be confined would run free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from indus_nb.base.errors import UsageError
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import WireModel, wire_field
from indus_nb.safety.sandbox import MODES, Mode, Sandbox, SandboxError, machine, make_policy


class SandboxSettings(WireModel):
    """Permissions of commands and stdio MCP servers.

    ``network`` is whether there is one, or the domains that may be reached. ``writable`` are directories besides the
    working directory, ``hidden`` paths besides the usual ones. ``unix_sockets`` allows sockets in the file system.
    """

    mode: Literal["off", "workspace", "read-only"] = "off"
    network: bool | list[str] = False
    writable: list[str] = wire_field(default_factory=list[str])
    hidden: list[str] = wire_field(default_factory=list[str])
    unix_sockets: bool = False


class Sandboxes:
    """The sandboxes of one session, by the directory that it works in.

    Args:
        asks: Whether commands are asked about like those that are not confined.
        before: Called with a directory before something there may be changed.
    """

    def __init__(
        self,
        settings: SandboxSettings,
        hidden: Sequence[Path],
        *,
        asks: bool = False,
        before: Callable[[Path], None] = lambda _: None,
    ) -> None:
        self._before = before
        self._settings = settings
        self._hidden = hidden
        self._asks = asks
        self._made: dict[Path, Sandbox] = {}

    @property
    def mode(self) -> Mode:
        """Return the mode that is enforced."""
        return self._settings.mode

    @property
    def problem(self) -> str | None:
        """Return why nothing can be confined on this machine, so that everything will be rejected."""
        here = machine()
        return None if here.backend else f"A sandbox was asked for, so commands are refused: {here.problem}."

    def of(self, cwd: Path) -> Sandbox:
        """Return the sandbox of a session that works in a directory.

        Raises:
            UsageError: Nothing can be confined to that directory.
        """
        if cwd not in self._made:
            settings = self._settings
            hidden = [str(path) for path in self._hidden if not cwd.is_relative_to(path)]
            try:
                policy = make_policy(
                    settings.mode,
                    cwd,
                    network=settings.network,
                    writable=settings.writable,
                    hidden=[*settings.hidden, *hidden],
                    unix_sockets=settings.unix_sockets,
                )
                self._made[cwd] = Sandbox(policy, asks=self._asks, before_change=partial(self._before, cwd))
            except SandboxError as error:
                raise UsageError(str(error)) from error
        return self._made[cwd]

    def close(self) -> None:
        """Remove temporary directories, and end proxies."""
        while self._made:
            self._made.popitem()[1].close()


def make_sandboxes(
    mode: Mode | None,
    settings: Mapping[str, Any] | None,
    hidden: Sequence[Path],
    own: object = None,
    before: Callable[[Path], None] = lambda _: None,
) -> Sandboxes | None:
    """Build the sandboxes for the programs of a session; ``None`` for nothing.

    Args:
        mode: What the user asked for; ``None`` leaves it to the settings.
        settings: The setting ``sandbox`` as it stands.
        own: The user's own setting, without the project's. Questions are left out only if this would leave them out.
        before: Called with a directory before something there may be changed.

    Returns:
        The sandboxes, or ``None`` if the mode is ``off``.

    Raises:
        UsageError: The setting makes no sense.
    """
    try:
        chosen = SandboxSettings.from_wire(settings or {})
    except InvalidFieldsError as error:
        raise UsageError(f"The setting `sandbox` is rejected, and nothing runs without it: {error}.") from error
    if mode is not None:
        chosen = chosen.replace(mode=mode)
    mine = _as_object(own)
    asks = (mode or mine.get("mode", "off")) == "off" or mine.get("network") is True
    return None if chosen.mode == "off" else Sandboxes(chosen, hidden, asks=asks, before=before)


def stricter(theirs: object, own: object) -> JsonObject:
    """Return the part of a project's ``sandbox`` that counts: what makes the user's own stricter.

    >>> stricter({"mode": "read-only", "network": True, "writable": ["/"]}, {"mode": "workspace"})
    {'mode': 'read-only'}
    """
    wanted, mine = _as_object(theirs), _as_object(own)
    chosen: JsonObject = {}
    mode, usual = wanted.get("mode"), mine.get("mode", "off")
    if mode in MODES and usual in MODES and MODES.index(mode) > MODES.index(usual):
        chosen["mode"] = mode
    if wanted.get("network") is False and mine.get("network", False) is not False:
        chosen["network"] = False
    if isinstance(hidden := wanted.get("hidden"), list):
        paths = [path for path in cast("list[object]", hidden) if isinstance(path, str)]
        chosen["hidden"] = [*mine.get("hidden", ()), *paths]
    if wanted.get("unixSockets") is False:
        chosen["unixSockets"] = False
    return chosen


def _as_object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
