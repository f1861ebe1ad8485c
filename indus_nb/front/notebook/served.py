"""The tools of this kernel for other programs: ``%agent serve``.

What this module promises: calls of other programs have a session of their own, so that what the user has allowed the
agent counts for none of them, and the other way round; without ``--approve`` each is asked about as after
``--approve writes``, whatever the settings say.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from indus_nb.base.errors import UsageError
from indus_nb.core.resources.settings import agent_directory
from indus_nb.core.session.session import AgentSession, ApproveMode
from indus_nb.kernel.document import NotebookTools
from indus_nb.kernel.toolset.user_kernel import UserKernel
from indus_nb.safety.policy import MODES
from indus_nb.start import SessionOptions, open_session

if TYPE_CHECKING:
    from indus_nb.front.serving.http import HttpServer
    from indus_nb.front.serving.served_tools import ServedTools

_ASKED = {
    "never": "⚠ Nobody is asked: whoever knows the token runs code in this kernel as you.",
    "effects": "You are asked before code runs that does more than look and make new variables.",
    "writes": "You are asked before code runs that does more than look.",
    "always": "You are asked before every call.",
    "looks": "Calls that would change something are refused.",
}


class Served:
    """Server of the tools of one kernel; used on the agent's thread, but for making it.

    Args:
        notebook: Its tools for the notebook.

    Attributes:
        session: The session of the calls; ``None`` while nothing is served.
    """

    def __init__(self, kernel: UserKernel, notebook: NotebookTools) -> None:
        self.session: AgentSession | None = None
        self._extensions = (kernel, notebook)
        self._names = (*kernel.tools, *notebook.tools)
        self._tools: ServedTools | None = None
        self._http: HttpServer | None = None

    async def do(self, wanted: str) -> str:
        """Start the server, stop it, or return its status.

        Args:
            wanted: ``stop``, ``status``, ``--approve MODE``, or nothing.

        Raises:
            UsageError: It is not possible; nothing is served then that was not before.
        """
        if wanted in ("stop", "status"):
            return await self._stop() if wanted == "stop" else self._status()
        mode = wanted.rsplit(maxsplit=1)[-1] if wanted else None
        if mode is not None and mode not in MODES:
            raise UsageError(f"--approve {mode}: choose {', '.join(MODES[:-1])} or {MODES[-1]}.")
        if self.session is None:
            await self._start(mode or "writes")
        elif mode is not None:
            self.session.settings.approve = mode
        return f"{self._status()}\n\n{self._to_paste()}\n\n`%agent serve stop` ends it."

    async def _start(self, mode: ApproveMode) -> None:
        from indus_nb.front.serving.clients import check_library

        check_library()
        from indus_nb.front.serving.http import HttpServer
        from indus_nb.front.serving.served_tools import ServedTools

        options = SessionOptions(
            no_session=True, approve=mode, jobs_after=0, extensions=self._extensions, more_tools=self._names
        )
        session = open_session(options)
        tools = ServedTools(session, self._names)
        http = HttpServer(tools, agent_directory())
        try:
            await session.set_name("other programs")
            await http.start()
        except BaseException:
            await session.end()
            raise
        self.session, self._tools, self._http = session, tools, http

    async def _stop(self) -> str:
        session, http = self.session, self._http
        if session is None or http is None:
            return "Nothing is served."
        self.session = self._tools = self._http = None
        await http.stop()
        await session.end()
        return "This kernel is not served any more: the port is free, and the token is of no use."

    def _status(self) -> str:
        if self.session is None or self._http is None or self._tools is None:
            return "Nothing is served. `%agent serve` begins."
        names = ", ".join(f"`{name}`" for name in self._names)
        callers = "; ".join(f"{who} (calls: {count})" for who, count in self._tools.callers.items())
        where = f"at {self._http.url}" if self._http.serves else "no more: the server has ended. `%agent serve stop`"
        asked = _ASKED[self.session.settings.approve]
        return f"Served {where}: {names}. {asked} Callers so far: {callers or 'none'}."

    def _to_paste(self) -> str:
        from indus_nb.front.serving.clients import text_to_paste

        http = cast("HttpServer", self._http)
        return text_to_paste(_connection_file(), http.url, http.token_file)


def _connection_file() -> Path | None:
    from ipykernel.connect import get_connection_file

    try:
        return Path(get_connection_file())
    except RuntimeError:  # a shell in a terminal, which nothing else can be connected to
        return None
