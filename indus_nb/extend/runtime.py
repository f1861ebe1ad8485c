"""What the extensions of one session have in common: which they are, their defects, their work in the background.

What this module promises: a defect of an extension is published as ``extension_error`` and harms neither the session
nor the other extensions; what was made for extensions that are no longer in force can be told by its ``generation``.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from indus_nb.base import textcut
from indus_nb.base.errors import IndusError, failure_text
from indus_nb.base.events import ExtensionError
from indus_nb.extend.bus import EventBus
from indus_nb.extend.calling import HandlerCalls
from indus_nb.extend.events import BeforeAgentStart
from indus_nb.extend.registered import Extension
from indus_nb.safety.redaction import hide
from indus_nb.tools import Tool

if TYPE_CHECKING:
    from indus_nb.core.session.session import AgentSession

_log = logging.getLogger("indus_nb")
_SHOWN_PATH_CHARACTERS = 200
_KEPT_PROBLEMS = 50


class Runtime:
    """The extensions of ``session``, for the objects that they are given.

    Attributes:
        generation: Grows each time that they are loaded; objects of earlier generations are stale.
        ready: Whether all are set up, so that they may act.
        heard: Events that a handler was ever registered for.
        failed: Those that could not be set up.
        run_start: What the current run began with; its system prompt is what handlers have made of it so far.
    """

    def __init__(self, session: AgentSession, flag_values: Mapping[str, bool | str]) -> None:
        self.session = session
        self.flag_values = flag_values
        self.generation: int = 0
        self.ready: bool = False
        self.heard: set[str] = set()
        self.extensions: list[Extension] = []
        self.failed: list[Extension] = []
        self.run_start: BeforeAgentStart = BeforeAgentStart("", (), "")
        self.calls: HandlerCalls = HandlerCalls()
        self.bus: EventBus = EventBus(self.report_soon)
        self.problems: list[str] = []
        self._providers: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None

    def renew(self) -> None:
        """Begin another generation; the extensions of the one before stay in force until others are."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self.generation += 1
        self.ready = False
        self.problems.clear()
        self.bus = EventBus(self.report_soon)
        for name in self._providers:
            self.session.registry.unregister(name)
        self._providers.clear()

    def handlers(self, event: str) -> Sequence[tuple[Extension, Callable[[Any, Any], Any]]]:
        """Return the handlers of an event in the order in which they are called, each with its extension."""
        if event not in self.heard:
            return ()
        return [(each, handler) for each in self.extensions for handler in each.handlers.get(event, ())]

    def origin(self, name: str, tool: Tool | None) -> str | None:
        """Return the origin of a tool, if it is a user's extension that offers it."""
        for extension in self.extensions:
            if extension.tools.get(name) is tool and extension.source.is_foreign:
                return f"the extension {extension.source.path}"
        return None

    def tools_changed(self) -> None:
        """Offer the registered tools, from the next request on."""
        if self.ready:
            self.session.refresh_equipment()

    def register_provider(self, extension: Extension, name: str, config: Mapping[str, Any]) -> None:
        """Let an extension add models, or change how known ones are reached.

        Args:
            extension: The one that registers it; a configuration that is wrong is reported as its defect.
            config: The keys of a provider in ``models.json``.
        """
        try:
            self.session.registry.register(name, config)
        except IndusError as error:
            self.report_soon("register_provider", error, extension)
        else:
            self._providers.append(name)

    async def report(self, extension: Extension | None, event: str, error: BaseException) -> None:
        """Publish a defect of an extension.

        Args:
            extension: The extension, if it is known.
            event: What it was called for.
        """
        await self.session.emit(self._noted(extension, event, error))

    def report_soon(self, event: str, error: BaseException, extension: Extension | None = None) -> None:
        """Publish a defect from where nothing can be awaited.

        Args:
            event: What the extension was called for.
            extension: The extension, if it is known.
        """
        self.background(self.session.emit(self._noted(extension, event, error)), event)

    def _noted(self, extension: Extension | None, event: str, error: BaseException) -> ExtensionError:
        whole = str(extension.source.path) if extension is not None else "extensions"
        path = textcut.middle(hide(whole), _SHOWN_PATH_CHARACTERS)
        text = failure_text(error).replace(whole, path)
        problem = f"{path} failed on {event}: {text}"
        self.problems = [*self.problems[-_KEPT_PROBLEMS:], *([] if problem in self.problems else [problem])]
        _log.debug("The extension %s failed on %s", path, event, exc_info=error)
        return ExtensionError(extension_path=path, event=event, error=text)

    def background(self, work: Coroutine[Any, Any, Any], event: str, extension: Extension | None = None) -> None:
        """Run work in the background, from any thread.

        Args:
            event: The name under which a failure is reported.
            extension: The one that started it, if it is known.
        """

        async def carry_out() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - nothing awaits it
                await self.report(extension, event, error)

        if self._thread == threading.get_ident():
            self.calls.start(carry_out())
        elif self._loop is not None and not self._loop.is_closed():
            # A tool's function works in a thread of its own.
            self._loop.call_soon_threadsafe(lambda: self.calls.start(carry_out()))
        else:
            work.close()
