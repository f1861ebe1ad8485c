"""The process's own standard streams: frames out, lines in, and nothing else between.

What this module promises:

- After ``claim`` file descriptors 0 and 1 belong to the stream: a ``print`` goes to standard error, and a child process
  reads nothing and writes nothing there.
- Frames leave in the order in which they were sent, each whole and on a line of its own.
- Deltas that arrive in one step of the event loop leave as one frame, at the end of that step; nothing else waits.
- A slow reader never blocks the event loop, for a thread of its own writes. It causes *backpressure* instead: ``send``
  returns an awaitable to the producer of events, so memory stays bounded. Only deltas of one block are joined
  meanwhile, and reports of one tool replace each other.
- A frame that cannot be encoded is logged and left out; a reader that is gone is reported once, by ``on_broken``, on
  Linux also while nothing is written.
- Lines come in as bytes, split at LF alone. One longer than ``MAX_LINE_BYTES`` is skipped and reported, without being
  held in memory. No more than four chunks are read ahead.
- ``leave`` ends the process whatever its threads do, and no command of it goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from indus_nb.base.errors import IndusError, MissingKeyError
from indus_nb.base.events import MessageUpdate, SessionEvent, ToolExecutionUpdate
from indus_nb.base.streaming import DELTAS, BlockDelta
from indus_nb.base.terminal import PlainFormatter, plain
from indus_nb.front.console.frames import FrameEncoder, Wire
from indus_nb.tools.processes.guard import kill_guarded

MAX_LINE_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_MAX_BEGINNING_BYTES = 1024
_log = logging.getLogger("indus_nb")
_LONG_LINE_BYTES = 256 * 1024
_MAX_PENDING_BYTES = 1024 * 1024
UNREAD: str = os.strerror(errno.EPIPE)
"""Why nothing can be written to a pipe that is not read any more."""
UNREAD_STATUS = 141
"""The exit status then: 128 and SIGPIPE, which ends other programs without a word."""


def claim() -> tuple[int, int]:
    """Reserve descriptors 0 and 1 for the stream; return private copies of them, for input and output.

    From then on prints go to standard error and reads find nothing.
    """
    sys.stdout.flush()
    private_in, private_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(PlainFormatter())
    return private_in, private_out


def complain(sentence: str) -> None:
    """Write a sentence to the user, on standard error if that is read."""
    shown = plain(sentence).replace("\n", "\n  ")  # or a line in it could pose as a sentence of its own
    with contextlib.suppress(OSError):
        print(f"indus-nb: {shown}", file=sys.stderr, flush=True)  # noqa: T201 - the one place that speaks to a person


def in_words(error: IndusError) -> str:
    """Return an error as a sentence for a terminal: where a key is missing with the command that asks for one."""
    if not isinstance(error, MissingKeyError):
        return str(error)
    from indus_nb.start.key_setup import managed

    return f"{error} {managed() or '`indus-nb setup` asks for a key and keeps it.'}"


def on_signals(end: Callable[[int], None]) -> None:
    """Call ``end`` on the running loop with the exit status that SIGTERM, SIGINT or SIGHUP asks for."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, end, 128 + number)


def leave(status: int) -> None:
    """End the process at once with an exit status; kills running commands, and waits for no thread."""
    kill_guarded()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(status)


@dataclass(slots=True)
class _JoinedDelta:
    """Deltas of one block that the reader has not seen yet; they go out as one."""

    update: MessageUpdate
    delta: BlockDelta
    pieces: list[str] = field(default_factory=list[str])

    def event(self) -> MessageUpdate:
        joined = type(self.delta)(content_index=self.delta.content_index, delta="".join(self.pieces))
        return MessageUpdate(assistant_message_event=joined, growing=self.update.growing)


class FrameWriter:
    """Writer of frames to ``descriptor``, at the reader's pace.

    While the reader has not read the previous frames, deltas of one block are joined and reports of one tool replace
    each other; nothing else is dropped or reordered. Deltas are joined as well when they were sent in one step of the
    event loop, as those of one piece from the network are.

    Args:
        on_broken: Called on the event loop when nothing can be written any more; what is sent then is dropped.
    """

    def __init__(self, descriptor: int, wire: Wire, on_broken: Callable[[], None]) -> None:
        self.wire: Wire = wire
        self._descriptor = descriptor
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._encoder = FrameEncoder(wire)
        self._pending: list[bytes | SessionEvent | _JoinedDelta] = []
        self._pending_bytes = 0
        self._writing = False
        self._flushes_soon = False
        self._room = asyncio.Event()
        self._room.set()
        self._handed: list[bytes] | None = None
        self._wake = threading.Condition()
        self._closed = False
        self._broken: str | None = None
        self._no_blocking = False
        self.written: int = 0
        """The bytes that were written to the descriptor."""
        self._thread = threading.Thread(target=self._write_all, name="indus_nb frames", daemon=True)
        self._thread.start()
        self._unwatch = _when_unread(descriptor, self._on_hang_up)

    def send_line(self, line: bytes) -> None:
        """Send a line that is no event: a response or a header."""
        self._pending.append(line)
        self._pending_bytes += len(line)
        self._flush()

    def send(self, event: SessionEvent) -> Awaitable[None] | None:
        """Send an event. Returns an awaitable to wait for before the next one is sent, or ``None``."""
        if self._join(event):
            return None
        if isinstance(event, MessageUpdate) and isinstance(delta := event.assistant_message_event, DELTAS):
            self._pending.append(_JoinedDelta(event, delta, [delta.delta]))
            if not self._flushes_soon:
                self._flushes_soon = True
                self._loop.call_soon(self._flush_step)
        else:
            self._pending.append(event)
            self._flush()
        return self.wait_for_reader() if len(self._pending) > 1 else None

    def stop_blocking(self) -> None:
        """Stop blocking senders. Called once, during shutdown."""
        self._no_blocking = True
        self._room.set()

    async def wait_for_reader(self) -> None:
        """Wait until the reader has read nearly all that was sent before (backpressure)."""
        self._flush()
        while self._pending and self._broken is None and not self._no_blocking:
            self._room.clear()
            await self._room.wait()

    @property
    def far_behind(self) -> bool:
        """Return whether more is pending than should be while new work is accepted."""
        return self._pending_bytes > _MAX_PENDING_BYTES and self._broken is None

    async def close(self, seconds: float) -> str | None:
        """Write what is pending.

        Args:
            seconds: The longest wait for a reader that does not read.

        Returns:
            Why not everything could be written, ``None`` if it was.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while (self._pending or self._writing) and self._broken is None:
                    self._room.clear()
                    await self._room.wait()
        self._unwatch()
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._broken is not None:
            self._thread.join(seconds)  # its write fails at once; a descriptor of that number may be another one later
        if self._broken is None and (self._pending or self._writing):
            return "nobody reads it"
        return self._broken

    def _join(self, event: SessionEvent) -> bool:
        if not self._pending:
            return False
        last = self._pending[-1]
        if isinstance(event, MessageUpdate) and isinstance(last, _JoinedDelta):
            delta = event.assistant_message_event
            if isinstance(delta, DELTAS) and delta.content_index == last.delta.content_index:
                last.pieces.append(delta.delta)
                return True
        if (
            isinstance(event, ToolExecutionUpdate)
            and isinstance(last, ToolExecutionUpdate)
            and event.tool_call_id == last.tool_call_id
        ):
            self._pending[-1] = event
            return True
        return False

    def _clear(self) -> None:
        self._pending, self._pending_bytes = [], 0

    def _on_hang_up(self) -> None:
        if self._broken is None:
            self._broken = UNREAD
            self._clear()
            self._room.set()
            self._on_broken()

    def _flush_step(self) -> None:
        self._flushes_soon = False
        self._flush()

    def _flush(self) -> None:
        if self._writing or not self._pending or self._broken is not None:
            return
        items = self._pending
        self._clear()
        lines = [line for item in items if (line := self._encoded(item))]
        if not lines:
            self._room.set()
            return
        self._writing = True
        with self._wake:
            self._handed = lines
            self._wake.notify()

    def _encoded(self, item: bytes | SessionEvent | _JoinedDelta) -> bytes | None:
        if isinstance(item, bytes):
            return item
        try:
            return self._encoder.encode(item.event() if isinstance(item, _JoinedDelta) else item)
        except Exception:  # noqa: BLE001 - one frame that cannot be written must not lose the others
            _log.exception("An event could not be written")
            return None

    def _written(self) -> None:
        self._writing = False
        if self._broken is not None:
            self._clear()
            self._on_broken()
        self._flush()
        self._room.set()

    def _write_all(self) -> None:
        while True:
            with self._wake:
                while self._handed is None and not self._closed:
                    self._wake.wait()
                lines, self._handed = self._handed, None
            if lines is None:
                return
            try:
                for piece in _pieces(lines):
                    rest = memoryview(piece)
                    while rest:
                        count = os.write(self._descriptor, rest[:_CHUNK_BYTES])
                        rest = rest[count:]
                        self.written += count
            except OSError as error:
                self._broken = error.strerror or type(error).__name__
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                self._loop.call_soon_threadsafe(self._written)


def _pieces(lines: list[bytes]) -> Iterator[bytes]:
    """Yield the lines with their ends, short ones together, and long ones without copying them."""
    together: list[bytes] = []
    for line in lines:
        if len(line) < _LONG_LINE_BYTES:
            together.append(line)
        else:
            yield b"\n".join((*together, b""))
            yield line
            together = [b""]
    yield b"\n".join((*together, b""))


class LineTooLongError(ValueError):
    """A line was longer than ``MAX_LINE_BYTES``; it was skipped but for its ``beginning``."""

    def __init__(self, limit: int, beginning: bytes) -> None:
        super().__init__(f"the line is longer than {limit} bytes and was skipped")
        self.beginning = beginning


class LineSplitter:
    r"""Splitter of a stream of bytes into lines at LF, and at nothing else; a CR before it is dropped.

    >>> splitter = LineSplitter()
    >>> splitter.feed(b"one\r\ntw"), splitter.feed(b"o\n\nthree"), splitter.end()
    ([b'one'], [b'two', b''], [b'three'])
    """

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._beginning = b""
        self._length = 0

    def feed(self, chunk: bytes) -> list[bytes | LineTooLongError]:
        """Return the lines that ``chunk`` completes; one that is longer than the limit comes as an error."""
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes | LineTooLongError] = []
        for piece in ended:
            self._append(piece)
            lines.append(self._line())
        self._append(rest)
        return lines

    def end(self) -> list[bytes | LineTooLongError]:
        """Return the rest that has no line end."""
        return [self._line()] if self._length else []

    def _append(self, piece: bytes) -> None:
        if self._length < _MAX_BEGINNING_BYTES:
            self._beginning += piece[: _MAX_BEGINNING_BYTES - self._length]
        self._length += len(piece)
        if self._length > self._limit:
            self._parts.clear()
        elif piece:
            self._parts.append(piece)

    def _line(self) -> bytes | LineTooLongError:
        too_long = self._length > self._limit
        line = b"".join(self._parts).removesuffix(b"\r")
        beginning, self._beginning = self._beginning, b""
        self._parts.clear()
        self._length = 0
        return LineTooLongError(self._limit, beginning) if too_long else line


def _when_unread(descriptor: int, call: Callable[[], None]) -> Callable[[], None]:
    """Call ``call`` on the running loop when a pipe or socket has no reader any more.

    Returns what ends the watch. Where the system cannot tell, the next write does.
    """
    if sys.platform != "linux":
        return lambda: None
    loop, watch = asyncio.get_running_loop(), select.epoll()

    def end() -> None:
        if not watch.closed:
            loop.remove_reader(watch.fileno())
            watch.close()

    def fire() -> None:
        end()
        call()

    try:
        watch.register(descriptor, 0)  # hang-ups and errors are reported without a mask
    except OSError:  # a file or device, which has no other end
        watch.close()
    else:
        loop.add_reader(watch.fileno(), fire)
    return end


def has_hung_up(descriptor: int) -> bool:
    """Return whether the writer of a pipe or socket has closed it, though much may wait in it."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return True
    poll = select.poll()
    poll.register(descriptor, getattr(select, "POLLRDHUP", 0))
    return any(found & ~select.POLLIN for _, found in poll.poll(0))


async def read_lines(descriptor: int) -> AsyncGenerator[bytes | LineTooLongError]:
    """Yield the lines of ``descriptor`` until it closes; see ``LineSplitter``."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    untaken = threading.Semaphore(4)

    def read() -> None:
        chunk = b"something"
        while chunk:
            untaken.acquire()
            try:
                chunk = os.read(descriptor, _CHUNK_BYTES)
            except OSError:
                chunk = b""
            try:
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            except RuntimeError:  # the loop is closed: there is no consumer left
                return

    threading.Thread(target=read, name="indus_nb input", daemon=True).start()
    splitter = LineSplitter()
    while chunk := await chunks.get():
        untaken.release()
        for line in splitter.feed(chunk):
            yield line
    for line in splitter.end():
        yield line
