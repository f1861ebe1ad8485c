"""Real Jupyter kernels in a world of their own, for tests: nothing of the user's is read or written."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

import psutil
from jupyter_client.manager import KernelManager
from living import lives
from other_versions import ipykernel_path
from rpc_process import OURS


def private_environment(root: Path, *, ipykernel: str | None = None, **more: str) -> dict[str, str]:
    """An environment in which every folder that Jupyter, IPython and the agent use lies below ``root``.

    Kernels in it are of the given version of ipykernel, else of that in INDUS_NB_IPYKERNEL, else of the installed one.
    """
    folders = {
        "HOME": "home",
        "IPYTHONDIR": ".ipython",
        "JUPYTER_CONFIG_DIR": "jupyter/config",
        "JUPYTER_DATA_DIR": "jupyter/data",
        "JUPYTER_RUNTIME_DIR": "jupyter/runtime",
        "JUPYTERLAB_SETTINGS_DIR": "jupyter/lab-settings",
        "JUPYTERLAB_WORKSPACES_DIR": "jupyter/lab-workspaces",
        "XDG_CACHE_HOME": "cache",
        "INDUS_NB_AGENT_DIR": "agent",
    }
    own = {name: str(root / folder) for name, folder in folders.items()}
    for folder in own.values():
        Path(folder).mkdir(parents=True, exist_ok=True)
    # Nobody is there to be asked.
    (Path(own["INDUS_NB_AGENT_DIR"]) / "settings.json").write_text('{"approve": "never"}')
    keys = ("ANTHROPIC_", "INDUSAGI_", "PI_", "JUPYTER", *OURS)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(keys)}
    version = ipykernel or os.environ.get("INDUS_NB_IPYKERNEL")
    if version:
        path = os.pathsep.join(filter(None, [str(ipykernel_path(version)), inherited.get("PYTHONPATH")]))
        inherited.update(PYTHONPATH=path, PYTHONNOUSERSITE="1")
    fixed = {"JUPYTER_PLATFORM_DIRS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1", "MPLCONFIGDIR": list_of_fonts()}
    return {**inherited, **own, **fixed, **more}


@cache
def list_of_fonts() -> str:
    """Where matplotlib keeps its list of fonts: to make it takes seconds, and it says so in a cell's output.

    It is the only folder that all kernels of all tests have in common.
    """
    place = Path(sys.prefix) / "matplotlib"
    if not any(place.glob("fontlist-*.json")):
        command = [sys.executable, "-c", "import matplotlib.font_manager"]
        subprocess.run(command, env={**os.environ, "MPLCONFIGDIR": str(place)}, check=True)
    return str(place)


BELOW_TEXT = ("dismiss: ", "dismisses: ", "[y/N] ")
"""How lines end in which a user answers what is printed above."""


@dataclass
class Cell:
    """A cell that runs or ran: every bundle of every display in order of appearance, its streams, and its end."""

    client: Any
    message_id: str
    displays: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The metadata that each display has now."""
    streams: str = ""
    results: list[dict[str, str]] = field(default_factory=list)
    """The bundles of values that the cell displayed, as what stands alone at its end."""
    error: dict[str, Any] | None = None
    cleared: list[list[dict[str, str]]] = field(default_factory=list)
    """The displays that were taken away."""
    clears: bool = False
    """Whether the next display takes the place of all."""
    idle: bool = False
    status: str | None = None
    heard: int = 0
    """How much of the streams was returned with questions."""
    states: list[str] = field(default_factory=list)
    """What the kernel said of itself while this was waited for: ``busy``, ``idle``."""
    cells: dict[str, Cell] = field(default_factory=dict, repr=False)
    """All cells of the kernel: what comes for another one while this one is waited for is not lost."""

    @property
    def shown(self) -> list[str]:
        """What the displays show now, as plain text."""
        return [bundles[-1]["text/plain"] for bundles in self.displays.values()]

    def wait_for(self, condition: Callable[[Self], bool], timeout: float = 240) -> None:
        """Take messages until the condition holds."""
        deadline = time.monotonic() + timeout
        while not condition(self):
            if self.idle:
                raise AssertionError(f"the cell ended without it; shown: {self.shown}, streams: {self.streams!r}")
            try:
                message = self.client.get_iopub_msg(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"waited in vain; shown: {self.shown}, streams: {self.streams!r}") from None
            if message["msg_type"] == "status":
                self.states.append(message["content"]["execution_state"])
            cell = self.cells.get(message["parent_header"].get("msg_id"))
            if cell is not None:
                cell._take(message["msg_type"], message["content"])

    def goes_on(self) -> Self:
        """Wait for the end of the cell, but not of what it left behind."""
        self.wait_for(lambda cell: cell.idle)
        self.idle = False
        return self

    def answer(self, text: str | None) -> str:
        """Answer what the cell asks, ``None`` by an interrupt instead; returns all of the question."""
        question = self.client.get_stdin_msg(timeout=240)["content"]["prompt"]
        if question.endswith(BELOW_TEXT) and "is none of" not in question:
            self.wait_for(lambda cell: re.search(r"(?ms)^│ .*\n\Z", cell.streams[self.heard :]) is not None)
            question = self.streams[self.heard :] + question
            self.heard = len(self.streams)
        if text is not None:
            self.client.input(text)
        return question

    def finish(self, timeout: float = 240) -> Self:
        """Take messages until the cell has ended."""
        self.wait_for(lambda cell: cell.idle, timeout)
        while self.status is None:
            reply = self.client.get_shell_msg(timeout=timeout)
            if reply["parent_header"].get("msg_id") == self.message_id:
                self.status = reply["content"]["status"]
        return self

    def _take(self, kind: str, content: dict[str, Any]) -> None:
        match kind:
            case "clear_output":
                self.clears = True  # all that is sent here waits for what comes next
            case "display_data" | "update_display_data":
                if self.clears:
                    self.cleared += self.displays.values()
                    self.displays.clear()
                    self.clears = False
                key = content["transient"].get("display_id") or f"#{len(self.displays)}"
                self.displays.setdefault(key, []).append(content["data"])
                self.metadata[key] = content["metadata"]
            case "execute_result":
                self.results.append(content["data"])
            case "stream":
                self.streams += content["text"]
            case "error":
                self.error = content
            case "status":
                self.idle = content["execution_state"] == "idle"
            case _:
                pass


def _connected(manager: KernelManager) -> Any:
    """Return a client of a kernel that has begun to answer."""
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=240)
    except RuntimeError:
        client.stop_channels()
        raise
    return client


class Kernel:
    """A running kernel whose working directory is ``folder``."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *, id: str = "") -> None:  # noqa: A002
        self.folder = folder
        self._cells: dict[str, Cell] = {}
        try:
            self._manager, self._client = self._started(environment, id)
        except RuntimeError:  # another process took a port between its choice and its use
            self._manager, self._client = self._started(environment, id)

    def _started(self, environment: Mapping[str, str], own_id: str) -> tuple[Any, Any]:
        manager = KernelManager(kernel_name="python3")
        if own_id:  # as servers name it, else the file lies among temporary ones
            manager.connection_file = str(Path(environment["JUPYTER_RUNTIME_DIR"], f"kernel-{own_id}.json"))
        manager.start_kernel(cwd=str(self.folder), env=dict(environment))
        try:
            return manager, _connected(manager)
        except RuntimeError:
            manager.shutdown_kernel(now=True)
            manager.cleanup_resources()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()

    def begin(self, code: str, *, asks: bool = False, cell_id: str = "") -> Cell:
        """Start a cell; with ``asks`` somebody is there to answer ``input()``.

        With ``cell_id`` it is a notebook's cell of that id.
        """
        if cell_id:
            content = {"code": code, "silent": False, "store_history": True, "allow_stdin": asks, "stop_on_error": True}
            message = self._client.session.msg("execute_request", content, metadata={"cellId": cell_id})
            self._client.shell_channel.send(message)
            cell = Cell(self._client, message["header"]["msg_id"], cells=self._cells)
        else:
            cell = Cell(self._client, self._client.execute(code, allow_stdin=asks), cells=self._cells)
        self._cells[cell.message_id] = cell
        return cell

    def run(self, code: str, timeout: float = 240, *, cell_id: str = "") -> Cell:
        """Run a cell to its end."""
        return self.begin(code, cell_id=cell_id).finish(timeout)

    def load_from_page(self) -> None:
        """Load the extension between cells, as JupyterLab's extension does."""
        expression = '__import__("importlib").import_module("indus_nb.front.notebook").open_doors()'
        message_id = self._client.execute("", silent=True, user_expressions={"loaded": expression})
        cell = self._cells[message_id] = Cell(self._client, message_id, cells=self._cells)
        assert cell.finish().status == "ok"

    @property
    def connection_file(self) -> Path:
        """Where it says how to reach it."""
        return Path(self._manager.connection_file)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._manager.provisioner.process.pid

    def interrupt(self) -> None:
        """What the interrupt button does."""
        self._manager.interrupt_kernel()

    def kill(self) -> None:
        """What ends a kernel that runs out of memory: it can do nothing more."""
        psutil.Process(self._manager.provisioner.process.pid).kill()

    def restart(self) -> None:
        """What the restart button does: another process, reached in the same way."""
        self._manager.restart_kernel(now=True)
        self._client.stop_channels()
        self._client = _connected(self._manager)  # on the old channels, requests and replies of the old process lie

    def shut_down(self) -> None:
        """What the shut-down button does."""
        self._manager.shutdown_kernel()

    def children(self) -> list[psutil.Process]:
        """The processes that the kernel started and that still live."""
        kernel = psutil.Process(self._manager.provisioner.process.pid)
        return [child for child in kernel.children(recursive=True) if lives(child)]
