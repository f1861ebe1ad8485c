"""A fresh kernel for one trial: confined to its directory, without a network, reached by sockets in the file system.

What this module promises: code of an agent that is evaluated can neither reach a network nor write outside its
directory, and it finds neither the evaluation's own code nor its results; what it prints and how long it takes are
bounded; after ``close`` nothing of it runs.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from indus_nb.base.errors import IndusError, UsageError
from indus_nb.base.terminal import plain
from indus_nb.base.wire import JsonObject, clean_text, load_object, random_hex
from indus_nb.safety.sandbox import Confined, Sandbox, SandboxError, machine, make_policy

_START_SECONDS = 120.0
_END_SECONDS = 5.0
_MAX_OUTPUT_CHARACTERS = 200_000
_MAX_COLLECTED_CHARACTERS = 8_000_000
_MEMORY_BYTES = 16 << 30
_FILE_BYTES = 4 << 30
_COLLECTED = "application/vnd.indus-nb.collected"
_LAUNCH = """
import os, resource, sys
connection, place, memory, size = sys.argv.pop(1), sys.argv.pop(1), int(sys.argv.pop(1)), int(sys.argv.pop(1))
os.environ.update(IPYTHONDIR=place, MPLCONFIGDIR=place, PYDEVD_DISABLE_FILE_VALIDATION="1")
for kind, limit in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, size)):
    most = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (limit if most < 0 else min(limit, most), most))
from ipykernel.kernelapp import launch_new_instance
launch_new_instance(argv=["-f", connection, "--HistoryManager.enabled=False"])
"""
_COLLECT = """
exec(compile({text!r}, "<collected>", "exec"), helper := {{}})
get_ipython().display_pub.publish({{{mime!r}: helper["collected"](get_ipython().user_ns, {names!r})}})
del helper
"""


class KernelFailedError(IndusError):
    """A trial's kernel did not start, or has ended before its time."""


@dataclass(slots=True)
class CellResult:
    """Output of one cell as text, the name and message of its error, and what it displayed by type."""

    text: str = ""
    error: str | None = None
    displayed: JsonObject = field(default_factory=dict[str, Any])
    ended: bool = False

    def take(self, kind: str, content: JsonObject) -> None:
        """Take a message of the kernel that belongs to the cell."""
        data: JsonObject = content.get("data") or {}
        match kind:
            case "stream":
                self._add(str(content.get("text", "")))
            case "display_data" | "execute_result":
                self.displayed.update(data)
                self._add(f"{data.get('text/plain', '')}\n")
            case "error":
                self.error = f"{content.get('ename')}: {content.get('evalue')}"
                self._add("\n".join(map(str, content.get("traceback") or [])))
            case "status":
                self.ended = content.get("execution_state") == "idle"
            case _:
                pass

    def _add(self, text: str) -> None:
        self.text = (self.text + plain(clean_text(text)))[:_MAX_OUTPUT_CHARACTERS]


class SandboxedKernel:
    """A running kernel in a directory; made by ``sandboxed_kernel``."""

    def __init__(self, directory: Path, connection_file: Path, process: asyncio.subprocess.Process) -> None:
        self.directory = directory
        self.connection_file = connection_file
        self._process = process

    async def run(self, cells: Sequence[str], seconds: float) -> list[CellResult]:
        """Run cells one after another, also behind one that fails.

        Args:
            seconds: How long all of them may take; what does not end then is interrupted and the rest left out.

        Raises:
            KernelFailedError: The kernel has ended.
        """
        results: list[CellResult] = []
        async with _client(self.connection_file) as client:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    for code in cells:
                        results.append(CellResult())
                        await self._run_cell(client, code, results[-1])
            if results and not results[-1].ended:
                await self._interrupt(client)
        return results

    async def collect(self, names: Sequence[str], seconds: float = 60.0) -> JsonObject:
        """Return what variables hold, as ``collector`` writes it; what is not there, or cannot be had, is left out."""
        text = Path(__file__).with_name("collector.py").read_text("utf-8")
        code = _COLLECT.format(text=text, mime=_COLLECTED, names=list(names))
        found = (await self.run([code], seconds))[0].displayed.get(_COLLECTED)
        if not isinstance(found, str) or len(found) > _MAX_COLLECTED_CHARACTERS:
            return {}
        try:
            return load_object(found.encode())
        except ValueError:
            return {}

    async def _interrupt(self, client: Any) -> None:
        client.control_channel.send(client.session.msg("interrupt_request", {}))
        with suppress(TimeoutError, KernelFailedError):
            async with asyncio.timeout(_END_SECONDS):
                await self._run_cell(client, "pass", CellResult())

    async def _run_cell(self, client: Any, code: str, result: CellResult) -> None:
        request = client.execute(code, allow_stdin=False, stop_on_error=False)
        while not result.ended:
            message: Any = await self._next(client)
            if message["parent_header"].get("msg_id") == request:
                result.take(message["msg_type"], message["content"])

    async def _next(self, client: Any) -> Any:
        from queue import Empty

        while True:
            try:
                return await client.get_iopub_msg(timeout=1.0)
            except Empty:
                if self._process.returncode is not None:
                    raise KernelFailedError("A trial's kernel has ended.") from None


@asynccontextmanager
async def sandboxed_kernel(
    directory: Path, *, hidden: Sequence[Path] = (), confined: bool = True
) -> AsyncGenerator[SandboxedKernel]:
    """Start a kernel that works in a directory; it is killed at the end.

    Args:
        directory: The kernel's working directory, the only place that it may write to.
        hidden: What it may not read, besides what no sandbox lets be read and the code of evaluations.
        confined: ``False`` runs it as it is, where nothing can be confined.

    Raises:
        UsageError: It cannot be confined here.
        KernelFailedError: It did not start.
    """
    place = Path(tempfile.mkdtemp(prefix="indus-k-"))
    sandbox = _sandbox(directory, place, hidden) if confined else None
    process: asyncio.subprocess.Process | None = None
    held = Confined([])
    try:
        connection, log = place / "kernel.json", place / "log"
        connection.write_text(json.dumps(_connection(place / "k")))
        await asyncio.to_thread(_lend_fonts, place)
        limits = str(_MEMORY_BYTES), str(_FILE_BYTES)
        arguments = [sys.executable, "-c", _LAUNCH, str(connection), str(place), *limits]
        held = await sandbox.confined(arguments) if sandbox is not None else Confined(arguments)
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *held.arguments,
                cwd=directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=held.pass_fds,
                start_new_session=True,
            )
        held.release()
        kernel = SandboxedKernel(directory, connection, process)
        await _until_ready(process, kernel, log)
        yield kernel
    finally:
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await asyncio.to_thread(held.close)
        if sandbox is not None:
            await asyncio.to_thread(sandbox.close)
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


def check_confinement() -> None:
    """Check that kernels of trials can be confined on this machine.

    Raises:
        UsageError: They cannot.
    """
    here = machine()
    if here.backend != "bwrap":
        raise UsageError(
            "A trial's kernel is confined with bubblewrap, which is not to be had here "
            f"({here.bwrap_problem}). Install it, or choose --unconfined in a container that may be thrown away."
        )


def _sandbox(directory: Path, place: Path, hidden: Sequence[Path]) -> Sandbox:
    check_confinement()
    try:
        return Sandbox(
            make_policy(
                "workspace",
                directory,
                writable=[str(place)],
                hidden=[str(path) for path in (Path(__file__).parent, *hidden)],
                unix_sockets=True,
            )
        )
    except SandboxError as error:
        raise UsageError(str(error)) from error


def _connection(sockets: Path) -> JsonObject:
    ports = {f"{name}_port": number for number, name in enumerate(("shell", "iopub", "stdin", "control", "hb"), 1)}
    signing = {"key": random_hex(32), "signature_scheme": "hmac-sha256", "kernel_name": "python3"}
    return {"transport": "ipc", "ip": str(sockets), **ports, **signing}


def _lend_fonts(place: Path) -> None:
    """Copy matplotlib's list of fonts, which takes seconds to make anew, into the directory of a kernel's caches."""
    with suppress(ImportError, OSError):
        from matplotlib import font_manager, get_cachedir

        font_manager.fontManager  # noqa: B018 - made, and kept in the cache, when it is first asked for
        for listed in Path(get_cachedir()).glob("fontlist-*.json"):
            shutil.copyfile(listed, place / listed.name)


async def _until_ready(process: asyncio.subprocess.Process, kernel: SandboxedKernel, log: Path) -> None:
    ready, ended = asyncio.ensure_future(kernel.run(["pass"], _START_SECONDS)), asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait([ready, ended], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            why = (await asyncio.to_thread(log.read_text, "utf-8", "replace"))[-500:].strip()
            raise KernelFailedError(f"A trial's kernel did not start: {plain(why) or 'it ended at once'}")
        ready.result()
    finally:
        ready.cancel()
        ended.cancel()


@asynccontextmanager
async def _client(connection: Path) -> AsyncGenerator[Any]:
    """Open channels of their own for each use, so that nothing waits in them that nobody reads."""
    from jupyter_client.asynchronous.client import AsyncKernelClient

    client: Any = AsyncKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels(stdin=False, hb=False)
    try:
        await client.wait_for_ready(timeout=_START_SECONDS)
        yield client
    except RuntimeError as error:
        raise KernelFailedError("A trial's kernel does not answer.") from error
    finally:
        client.stop_channels()
