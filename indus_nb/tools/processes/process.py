"""Child process with its group: its output, chunk by chunk, and the certainty that it ends."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from indus_nb.safety.key_variables import child_environment
from indus_nb.tools.processes.guard import GuardedProgram

_CHUNK = 1 << 16
_PIPE = 1 << 20
_GRACE = 0.1
"""Seconds to go on reading when the process has ended but a descendant still holds the pipe."""
_REAP = 5.0


class Child:
    """A program running in a process group of its own, without input.

    As a context manager it leaves nothing of the group behind when the block is left by an exception (cancellation
    included) or before the program ended, nor when this process is killed meanwhile. A program that ended by itself
    keeps the background processes it started. Without an ``environment`` it gets ``child_environment()``; of our
    descriptors it has ``pass_fds``.
    Raises ``OSError`` or ``ValueError`` when the program cannot be started.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        stderr: int | IO[bytes] = subprocess.STDOUT,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._exited = asyncio.Event()
        self._ended = False
        self._give_up_at: float | None = None
        self._pipe, write_end = os.pipe()
        os.set_blocking(self._pipe, False)
        self._guarded = GuardedProgram()
        try:
            self._loop.add_reader(self._pipe, self._wake.set)
            # Popen and not asyncio's own: its start cannot be cancelled half-way, its end is distinguished from the
            # pipe's, and it needs no child watcher, so that any loop in any thread will do.
            self._process = subprocess.Popen(
                # In a locale without our letters Python encodes nothing else; programs, files and models speak UTF-8.
                [argument.encode("utf-8", "surrogateescape") for argument in self._guarded.arguments(arguments)],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=stderr,
                pass_fds=pass_fds,
                env=self._guarded.environment(child_environment() if environment is None else environment),
                start_new_session=True,
            )
            self._guarded.started(self._process.pid)
        except BaseException:
            self._guarded.release()
            self._close_pipe()
            raise
        finally:
            os.close(write_end)
        try:
            threading.Thread(target=self._reap, name=f"wait for {self._process.pid}", daemon=True).start()
        except BaseException as error:
            self.kill()
            self._process.wait()
            self._guarded.release()
            self._close_pipe()
            if isinstance(error, RuntimeError):  # what `threading` raises when the system has none left
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
            raise

    def _close_pipe(self) -> None:
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, negative for a signal; ``None`` while it runs."""
        return self._process.returncode

    def _reap(self) -> None:
        self._process.wait()
        self._guarded.release()
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(self._on_exit)

    def _on_exit(self) -> None:
        self._exited.set()
        self._wake.set()

    async def read(self, until: float | None = None) -> bytes:
        """Return the next output, empty at the end; raises ``TimeoutError`` when the loop's clock passes ``until``.

        The end is when the program has ended and its pipe is closed, or, should a descendant hold the pipe, a tenth of
        a second later.
        """
        # Also with output at hand, others get their turn and a cancellation its chance.
        await asyncio.sleep(0)
        while True:
            if until is not None and self._loop.time() >= until:
                raise TimeoutError
            self._wake.clear()
            over = self._give_up_at is not None and self._loop.time() >= self._give_up_at
            if chunk := self._read_now():
                self._ended = over
                return chunk
            if self._exited.is_set():
                if self._ended or over:
                    return b""
                if self._give_up_at is None:
                    self._give_up_at = self._loop.time() + _GRACE
            limits = [limit for limit in (until, self._give_up_at) if limit is not None]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(limits, default=None)):
                    await self._wake.wait()

    def _read_now(self) -> bytes:
        if self._ended:
            return b""
        try:
            chunk = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return b""
        if not chunk:
            self._ended = True
            self._loop.remove_reader(self._pipe)
        return chunk

    def kill(self) -> bytes:
        """Kill the whole group at once; return the rest of its output.

        What has left the group ends when the context is left.
        """
        self._guarded.kill()
        # A process that nothing could be known of may print without end: what fits into a pipe is enough.
        return b"".join(self._read_now() for _ in range(_PIPE // _CHUNK))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None or not self._exited.is_set():
            self.kill()
        try:
            await self._guarded.sweep()
            with contextlib.suppress(TimeoutError):  # stuck in the kernel: the waiting thread will see its end
                async with asyncio.timeout(_REAP):
                    await self._exited.wait()
        finally:
            self._close_pipe()
