"""Search for a running kernel: by connection file, id or notebook, or because it is the only one.

Jupyter's servers list which notebooks are open and which kernels work for them (``/api/sessions``, with the token in
their runtime file). Kernels of other programs, such as VS Code, are known by their connection files alone; files of
kernels that are gone do not count, for nothing answers on their heartbeat.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from indus_nb.base.errors import UsageError
from indus_nb.base.files import expand_user, without_home
from indus_nb.base.installed import has_package, how_to_install
from indus_nb.base.terminal import plain
from indus_nb.base.textcut import one_line
from indus_nb.base.wire import JsonObject

_SERVER_SECONDS = 3.0
_HEARTBEAT_SECONDS = 2.0
_MAX_ANSWER_BYTES = 8 << 20
_MAX_FILE_BYTES = 1 << 20
_MAX_FILES = 200
_MAX_LISTED = 12
_PORTS = ("shell_port", "iopub_port", "control_port", "hb_port")


@dataclass(frozen=True, slots=True)
class JupyterServer:
    """A Jupyter server that runs a kernel.

    Attributes:
        url: Where its API is.
    """

    url: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class FoundKernel:
    """A running kernel, and how to reach it.

    Attributes:
        notebook: The notebook that it works for, if a server lists it.
    """

    connection: Path
    id: str
    notebook: Path | None = None
    server: JupyterServer | None = None

    @property
    def label(self) -> str:
        """Return the name that users know: of the notebook, else of the connection file."""
        return self.notebook.name if self.notebook is not None else self.connection.name

    def line(self) -> str:
        """Write the kernel's line in a list of kernels."""
        what = f"{self.id} · " if self.id else ""
        where = self.notebook if self.notebook is not None else self.connection
        return one_line(plain(f"{what}{without_home(str(where))}"), 200)


def find(spec: str, cwd: Path, *, how: str = "--kernel ID") -> FoundKernel:
    """Find the running kernel that is meant.

    Args:
        spec: A connection file, a kernel's id or the beginning of it, a notebook, or ``auto``.
        cwd: Where relative paths start, and where the notebook of ``auto`` lies.
        how: How the user can name one of several.

    Raises:
        UsageError: There is none, or more than one; the message lists those that there are.
    """
    if not has_package("jupyter_client"):
        raise UsageError(f"Kernels are reached by jupyter-client, which is not installed: {how_to_install('attach')}.")
    path = cwd / expand_user(spec)
    is_notebook = path.suffix == ".ipynb"
    if spec != "auto" and not is_notebook:
        for place in (path, runtime_directory() / spec):
            if place.is_file():
                return _of_file(place.resolve())
        if path.suffix == ".json":
            raise UsageError(f"There is no connection file {without_home(str(path))}. {_listed(_running())}")
    running = _running()
    if spec == "auto":
        return _the_one(running, cwd, how)
    if is_notebook:
        wanted = path.resolve()
        found = [kernel for kernel in running if kernel.notebook is not None and kernel.notebook.resolve() == wanted]
        what = f"No running kernel is known to work for {without_home(str(wanted))}: open it in Jupyter, or name the"
        what += " kernel's connection file or id."
    else:
        found = [kernel for kernel in running if len(spec) >= 4 and kernel.id.startswith(spec)]
        what = f"There is no running kernel {plain(one_line(spec, 100))!r}, and no such connection file."
    if len(found) > 1:
        what = f"{plain(one_line(spec, 100))!r} may be more than one kernel: name one by its id."
    if len(found) != 1:
        raise UsageError(f"{what} {_listed(found or running)}")
    return found[0]


def _of_file(path: Path) -> FoundKernel:
    described(path)
    known = next((kernel for kernel in _of_servers() if _same(kernel.connection, path)), None)
    found = known or FoundKernel(path, _id_of(path))
    if not beating([found]):
        raise UsageError(
            f"No kernel answers behind {without_home(str(path))}: it has ended, or runs on another machine. "
            f"{_listed(_running())}"
        )
    return found


def _same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.samefile(other)
    return False


def _the_one(running: Sequence[FoundKernel], cwd: Path, how: str) -> FoundKernel:
    if len(running) == 1:
        return running[0]
    here = [kernel for kernel in running if kernel.notebook is not None and kernel.notebook.parent == cwd.resolve()]
    if len(here) == 1:
        return here[0]
    if not running:
        raise UsageError(
            "No running kernel was found. Open a notebook and run a cell of it, or start one with `jupyter kernel`."
        )
    raise UsageError(f"More than one kernel is running. Name one of them: {how}. {_listed(here or running)}")


def _listed(kernels: Sequence[FoundKernel]) -> str:
    if not kernels:
        return "No kernel was found that is running."
    lines = [f"\n  {kernel.line()}" for kernel in kernels[:_MAX_LISTED]]
    more = f"\n  … and {len(kernels) - _MAX_LISTED} more" if len(kernels) > _MAX_LISTED else ""
    return f"Running kernels:{''.join(lines)}{more}"


def runtime_directory() -> Path:
    """Return the directory of Jupyter's runtime files."""
    from jupyter_core.paths import jupyter_runtime_dir

    return Path(jupyter_runtime_dir())


def _running() -> list[FoundKernel]:
    """List all kernels that answer; those that a server lists come first."""
    known = _of_servers()
    seen = {kernel.id for kernel in known}
    files = [FoundKernel(path, _id_of(path)) for path in _newest(runtime_directory().glob("kernel-*.json"))]
    return beating([*known, *(kernel for kernel in files if kernel.id not in seen)])


def _newest(paths: Iterable[Path]) -> list[Path]:
    dated: list[tuple[float, Path]] = []
    for path in paths:
        with suppress(OSError):
            dated.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(dated, reverse=True)[:_MAX_FILES]]


def _id_of(path: Path) -> str:
    return path.stem.removeprefix("kernel-")


def described(path: Path) -> JsonObject:
    """Parse a connection file.

    Raises:
        UsageError: It is no connection file.
    """
    try:
        value = _json(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{without_home(str(path))} cannot be read as a connection file: {error}.") from error
    if not all(isinstance(value.get(port), int) for port in _PORTS) or not isinstance(value.get("ip"), str):
        raise UsageError(f"{without_home(str(path))} is no connection file of a kernel: it names no ports.")
    return value


def _json(path: Path) -> JsonObject:
    with path.open("rb") as file:
        value: object = json.loads(file.read(_MAX_FILE_BYTES))
    if not isinstance(value, dict):
        raise ValueError("it is no object")
    return cast("JsonObject", value)


# Kernels that servers list


def _of_servers() -> list[FoundKernel]:
    """List the kernels of notebooks and consoles that are open in servers of this machine."""
    found: dict[str, FoundKernel] = {}
    directory = runtime_directory()
    for path in _newest([*directory.glob("jpserver-*.json"), *directory.glob("nbserver-*.json")]):
        with suppress(OSError, ValueError):
            for kernel in _of_server(_json(path), directory):
                held = found.get(kernel.id)
                if held is None or held.notebook is None:
                    found[kernel.id] = kernel
    return [*found.values()]


def _of_server(about: Mapping[str, Any], directory: Path) -> list[FoundKernel]:
    url, token, pid = about.get("url"), about.get("token"), about.get("pid")
    root = about.get("root_dir") or about.get("notebook_dir")
    if not isinstance(url, str) or not isinstance(pid, int) or about.get("sock"):
        return []
    with suppress(PermissionError):
        os.kill(pid, 0)  # a server that was killed leaves its file
    server = JupyterServer(url.rstrip("/"), token if isinstance(token, str) else "")
    found: list[FoundKernel] = []
    for session in _asked(server, "/api/sessions"):
        kernel: Any = session.get("kernel")
        kernel_id: object = cast("JsonObject", kernel).get("id") if isinstance(kernel, dict) else None
        if not isinstance(kernel_id, str) or "/" in kernel_id:
            continue
        path: object = session.get("path")
        is_notebook = session.get("type") == "notebook" and isinstance(path, str) and isinstance(root, str)
        notebook = Path(cast("str", root), cast("str", path).partition(":")[2] or cast("str", path))
        connection = directory / f"kernel-{kernel_id}.json"
        if connection.is_file():
            found.append(FoundKernel(connection, kernel_id, notebook if is_notebook else None, server))
    return found


def _asked(server: JupyterServer, path: str) -> list[JsonObject]:
    value: object = json.loads(_request(server, path))
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("JsonObject", entry) for entry in listed if isinstance(entry, dict)]


def interrupt_by_server(kernel: FoundKernel) -> None:
    """Request an interrupt from the server that runs a kernel, if one is known."""
    if kernel.server is not None:
        with suppress(OSError, ValueError):
            _request(kernel.server, f"/api/kernels/{kernel.id}/interrupt", method="POST")


def _request(server: JupyterServer, path: str, method: str = "GET") -> bytes:
    from urllib.request import ProxyHandler, Request, build_opener

    if not server.url.startswith(("http://", "https://")):
        raise ValueError(f"no server answers at {server.url}")
    headers = {"Authorization": f"token {server.token}"}
    request = Request(server.url + path, headers=headers, method=method)  # noqa: S310 - see above
    with build_opener(ProxyHandler({})).open(request, timeout=_SERVER_SECONDS) as answer:
        return answer.read(_MAX_ANSWER_BYTES)


# Liveness


def beating(kernels: Sequence[FoundKernel]) -> list[FoundKernel]:
    """Return the kernels that answer on their heartbeat, also while a cell runs."""
    import zmq

    context: Any = zmq.Context()
    poller: Any = zmq.Poller()
    waiting: dict[Any, FoundKernel] = {}
    alive: list[FoundKernel] = []
    try:
        for kernel in kernels:
            with suppress(UsageError, zmq.ZMQError):
                about = described(kernel.connection)
                if any(name.startswith("curve") for name in about):  # a client without a key gets no answer
                    alive.append(kernel)
                    continue
                socket = context.socket(zmq.REQ)
                waiting[socket] = kernel
                socket.connect(_address(about, "hb_port"))
                socket.send(b"ping")
                poller.register(socket, zmq.POLLIN)
        deadline = time.monotonic() + _HEARTBEAT_SECONDS
        while waiting and (left := deadline - time.monotonic()) > 0:
            for socket, _ in poller.poll(left * 1000):
                alive.append(waiting.pop(socket))
                poller.unregister(socket)
                socket.close()
    finally:
        context.destroy(linger=0)
    return [kernel for kernel in kernels if kernel in alive]


def _address(about: Mapping[str, Any], port: str) -> str:
    if about.get("transport") == "ipc":
        return f"ipc://{about['ip']}-{about[port]}"
    return f"tcp://{about['ip']}:{about[port]}"
