"""Arguments of a suspended system call, read in the memory of its program.

What this module promises: nothing that is read decides about more than the words of a report, and whether the kernel is
left to refuse a call by itself: another thread of the program may have written something else there since.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

_IS_VALID, _ADD_DESCRIPTOR = 0x40082102, 0x40182103
_AT_FDCWD = -100
_MAX_PATH = 4096
_PAGE = 4096
_DESCRIPTORS = {"/dev/stdin": "0", "/dev/stdout": "1", "/dev/stderr": "2"}


@dataclass(frozen=True, slots=True)
class Call:
    """One suspended call: its number among those that wait, its thread, its name and its arguments."""

    id: int
    thread: int
    name: str
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """A descriptor that the program of a call was given, and that its call returns."""

    descriptor: int


class UnreadableError(Exception):
    """Arguments of a call that cannot be read."""


class Arguments:
    """The arguments of a call.

    Args:
        listener: Where it was received.
    """

    def __init__(self, call: Call, listener: int) -> None:
        self._call = call
        self._listener = listener

    def read(self, address: int, size: int) -> bytes:
        """Read the program's memory.

        Args:
            size: How many bytes, at the most.
        """
        try:
            descriptor = os.open(f"/proc/{self._call.thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.pread(descriptor, size, address)
            finally:
                os.close(descriptor)
        except (OSError, OverflowError) as error:
            self._check_waits()
            raise UnreadableError from error
        self._check_waits()  # else the number may be another program's by now
        return data

    def give(self, descriptor: int, *, closes: bool) -> Given:
        """Give the program an open file of ours.

        Args:
            closes: Whether it is closed where the program runs another one.

        Raises:
            OSError: The kernel or the program can have none.
        """
        wanted = struct.pack("=QIIII", self._call.id, 0, descriptor, 0, os.O_CLOEXEC if closes else 0)
        return Given(fcntl.ioctl(self._listener, _ADD_DESCRIPTOR, bytearray(wanted), True))  # noqa: FBT003

    def _check_waits(self) -> None:
        """Raise ``FileNotFoundError`` if the call waits no more, for its program was killed."""
        fcntl.ioctl(self._listener, _IS_VALID, struct.pack("=Q", self._call.id))

    def path(self, directory: int | None, at: int) -> str:
        """Read a path.

        Args:
            directory: The argument that is the descriptor of a directory that it may be relative to.

        Returns:
            The path as absolute text.
        """
        given, address = b"", self._call.arguments[at]
        while address and b"\0" not in given and len(given) < _MAX_PATH:
            piece = self.read(address, _PAGE - address % _PAGE)
            if not piece:
                raise UnreadableError
            given, address = given + piece, address + len(piece)
        text = os.fsdecode(given.partition(b"\0")[0])
        if text.startswith("/"):
            return self._own(text)
        number = _AT_FDCWD if directory is None else signed(self._call.arguments[directory])
        start = self._link("cwd") if number == _AT_FDCWD else self.descriptor(number)
        return f"{start}/{text}" if text else start

    def descriptor(self, number: int) -> str:
        """Describe a descriptor as text; a file by its path."""
        return self._link(f"fd/{number}")

    def _link(self, name: str) -> str:
        try:
            return os.readlink(f"/proc/{self._call.thread}/{name}")  # noqa: PTH115 - of text
        except OSError as error:
            self._check_waits()
            if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
                raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from error
            raise UnreadableError from error

    def _own(self, text: str) -> str:
        """Translate a path below ``/proc/self`` or ``/dev/fd``, which is another one for each process."""
        text = os.path.normpath(text) if text.startswith(("//", "/./")) else text
        if (number := _DESCRIPTORS.get(text)) is not None or text.startswith("/dev/fd/"):
            return self._descriptor_path(number or text.removeprefix("/dev/fd/"))
        for name in ("/proc/self", "/proc/thread-self"):
            if text == name or text.startswith(f"{name}/"):
                text = f"/proc/{self._call.thread}{text.removeprefix(name)}"
        found = re.fullmatch(r"/proc/\d+(?:/task/\d+)?/fd/(\d+)", text)
        return text if found is None else self._descriptor_path(found[1], text)

    def _descriptor_path(self, number: str, path: str | None = None) -> str:
        try:
            return os.readlink(path or f"/proc/{self._call.thread}/fd/{number}")  # noqa: PTH115 - of text
        except OSError:
            return path or f"/dev/fd/{number}"


def resolved(text: str, *, follows: bool) -> Path | None:
    """Resolve a path to its file.

    Args:
        follows: Whether the file that a link leads to is meant, and not the link.

    Returns:
        The file; ``None`` for a pipe, a socket and what else has no name.
    """
    if not text.startswith("/") or text.startswith("/memfd:"):
        return None
    text = text.removesuffix(" (deleted)")
    if follows:
        return Path(os.path.realpath(text))
    directory, name = os.path.split(text.rstrip("/") or "/")
    if name in ("", ".", ".."):
        return Path(os.path.realpath(text))
    return Path(os.path.realpath(directory), name)


def signed(value: int) -> int:
    """Convert an argument to an ``int`` with a sign."""
    return ctypes.c_int(value & 0xFFFFFFFF).value


def host_and_port(family: int, address: bytes) -> str:
    """Format an address of the internet.

    Args:
        address: The whole of it, as the kernel reads it.

    Returns:
        Host and port; nothing if it is no such address.
    """
    try:
        port = int.from_bytes(address[2:4], "big")
        if family == socket.AF_INET:
            return f"{socket.inet_ntop(family, address[4:8])}:{port}"
        if family == socket.AF_INET6:
            return f"[{socket.inet_ntop(family, address[8:24])}]:{port}"
    except ValueError:
        pass
    return ""
