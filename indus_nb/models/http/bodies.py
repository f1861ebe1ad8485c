"""The body of an answer, within bounds: a layer between any HTTP client and the reader.

What this module promises, whatever a server sends:

- It is unpacked here, in slices, from gzip or deflate. Other encodings, and one within another, are rejected.
- No more of it is passed on than its limit; what is cut off is not read.
- The event loop has its turn between pieces, however fast they come, so that an abort is felt.
"""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import httpx2

MAX_ERROR_BYTES = 1024 * 1024
"""Most bytes read of an answer with an error status: the rest is cut off."""
MAX_STREAM_BYTES = 256 * 1024 * 1024
"""Most bytes of one stream: several times what the longest answer takes, with each token in an event of its own."""
IDENTITY = {"accept-encoding": "identity"}
"""Headers that ask for an answer that is not compressed."""
_MAX_FRAME_BYTES = 4 * 1024 * 1024
_MIN_FRAME_BYTES = 16  # two lengths and two checksums
_FRAME_LENGTH_BYTES = 4
_UPLOAD_SECONDS = 60.0
_PIECE_BYTES = 64 * 1024
_SECONDS_AT_A_TIME = 0.01
_UNPACKED = {"gzip", "deflate"}
_PACKED = _UNPACKED | {"br", "zstd", "compress", "x-gzip", "x-compress"}
_ANY_ZLIB = zlib.MAX_WBITS | 32  # a gzip or a zlib header, whichever there is


class BodyError(ValueError):
    """A body that is too large or has an unrequested encoding. The text is a clause about it."""


class TooLargeError(BodyError):
    """A body that is larger than its limit."""


class Pace:
    """Turns for the event loop: work that waits for nothing calls ``rest`` between its steps."""

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._since = self._time()

    async def rest(self) -> None:
        """Let other tasks run if they have not had a turn for a while."""
        if self._time() - self._since > _SECONDS_AT_A_TIME:
            await asyncio.sleep(0)
            self._since = self._time()


@asynccontextmanager
async def begun_in_time(idle_timeout: float) -> AsyncGenerator[None]:
    """Bound the wait for headers, or for a body that is no stream: a server may send parts of them for ever.

    Args:
        idle_timeout: How many seconds it may be silent.

    Raises:
        BodyError: It said nothing else for longer than a slow machine or a long upload explains.
    """
    seconds = 2 * idle_timeout + _UPLOAD_SECONDS
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            yield
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise BodyError(f"nothing usable had come after {seconds:g} seconds") from error


def packing(headers: Mapping[str, str]) -> list[str]:
    """Return the encodings of a body by its headers, the outermost last; names of none are left out.

    >>> packing({"content-encoding": "utf-8, GZip"})
    ['gzip']
    """
    # There are servers that write "none" or "utf-8", and mean it.
    names = (name.strip().lower() for name in headers.get("content-encoding", "").split(","))
    return [name for name in names if name in _PACKED]


def refused_packing(headers: Mapping[str, str]) -> str | None:
    """Return the encoding of a body if it is not supported, else ``None``."""
    names = packing(headers)
    return None if not names or (len(names) == 1 and names[0] in _UNPACKED) else ", ".join(names[:5])


async def bounded(
    pieces: AsyncIterable[bytes], headers: Mapping[str, str], *, limit: int, cut: bool = False
) -> AsyncGenerator[bytes]:
    """Yield a body, decoded.

    Args:
        limit: How many bytes of it, unpacked, are passed on.
        cut: End there, instead of raising.

    Yields:
        Pieces of at most 64 KB.

    Raises:
        BodyError: It is larger, or packed in a way that is rejected.
    """
    if (names := refused_packing(headers)) is not None:
        if cut:
            return
        raise BodyError(f"it is compressed ({names}), which nobody asked for")
    size, pace = 0, Pace()
    unpacked = _unpacked(pieces) if packing(headers) else _sliced(pieces)
    async with aclosing(unpacked):
        async for piece in unpacked:
            size += len(piece)
            if size > limit:
                if not cut:
                    raise TooLargeError(f"it is larger than {limit // 1024 // 1024} MB")
                yield piece[: len(piece) - (size - limit)]
                return
            yield piece
            await pace.rest()


async def beginning(pieces: AsyncIterable[bytes], headers: Mapping[str, str]) -> str:
    """Read the text of a body that is no stream.

    Returns:
        Its first megabyte, without blanks around it; nothing of one that cannot be unpacked.
    """
    content = bytearray()
    try:
        async with aclosing(bounded(pieces, headers, limit=MAX_ERROR_BYTES, cut=True)) as readable:
            async for piece in readable:
                content += piece
    except BodyError:
        pass
    return content.decode(errors="replace").strip()


def bound_response(
    response: httpx2.Response,
    *,
    limit: int = sys.maxsize,
    through: Callable[[AsyncGenerator[bytes]], AsyncGenerator[bytes]] | None = None,
    failure: Callable[[BodyError], Exception] | None = None,
) -> None:
    """Bound the body of an unread response; for event hooks of clients that other libraries use.

    Args:
        response: The response. It loses the header that names its encoding if it is unpacked here.
        limit: The bytes of its body. An error status has a limit of its own.
        failure: What is raised in place of a ``BodyError``.
    """
    import httpx2

    raw, headers, is_error = cast("httpx2.AsyncByteStream", response.stream), dict(response.headers), response.is_error
    limit = min(limit, MAX_ERROR_BYTES) if is_error else limit
    if refused_packing(headers) is None:
        response.headers.pop("content-encoding", None)

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            pieces = bounded(raw, headers, limit=limit, cut=is_error)
            if through is not None and not is_error:
                pieces = through(pieces)
            try:
                async with aclosing(pieces):
                    async for piece in pieces:
                        yield piece
            except BodyError as error:
                if failure is None:
                    raise
                raise failure(error) from error

        async def aclose(self) -> None:
            await raw.aclose()

    response.stream = Bounded()


async def whole_frames(pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the frames of a body in AWS's format, each whole: its readers copy all they have so far.

    Raises:
        TooLargeError: A frame says of itself that it is larger than any.
    """
    rest = bytearray()
    async with aclosing(pieces):
        async for piece in pieces:
            rest += piece
            # Nothing is cut from the beginning before all whole frames are found: that would copy the rest for each.
            start = 0
            while len(rest) - start >= _FRAME_LENGTH_BYTES:
                size = max(int.from_bytes(rest[start : start + _FRAME_LENGTH_BYTES]), _MIN_FRAME_BYTES)
                if size > _MAX_FRAME_BYTES:
                    raise TooLargeError(f"one of its events is larger than {_MAX_FRAME_BYTES // 1024 // 1024} MB")
                if len(rest) - start < size:
                    break
                yield bytes(rest[start : start + size])
                start += size
            del rest[:start]
    if rest:
        yield bytes(rest)


async def _sliced(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    received = aiter(pieces)
    try:
        async for piece in received:
            for start in range(0, len(piece), _PIECE_BYTES):
                yield piece[start : start + _PIECE_BYTES]
    finally:
        if (close := getattr(received, "aclose", None)) is not None:
            await close()


async def _unpacked(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    unpacker, is_first = zlib.decompressobj(_ANY_ZLIB), True
    async with aclosing(_sliced(pieces)) as slices:
        async for packed in slices:
            rest = packed
            while rest and not unpacker.eof:
                try:
                    piece = unpacker.decompress(rest, _PIECE_BYTES)
                except zlib.error as error:
                    if not is_first:
                        raise BodyError(f"it cannot be unpacked ({error})") from error
                    unpacker, piece = zlib.decompressobj(-zlib.MAX_WBITS), b""  # deflate without its header
                else:
                    rest = unpacker.unconsumed_tail
                is_first = False
                if piece:
                    yield piece
