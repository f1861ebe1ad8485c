"""A supervisor of system calls that the filter of ``filters`` hands over, in a thread beside a tried program.

What this module promises: the program cannot forge a report, for what is read of it are the arguments of its own calls,
and it neither has the listener nor the socket; when the thread ends, calls that wait fail.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import threading

from indus_nb.safety.sandbox.calls import Call, Given
from indus_nb.safety.sandbox.filters import call_names
from indus_nb.safety.sandbox.wanted import Wanted

_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_CONTINUE = 1


class Supervisor:
    """Supervision of one tried program.

    Args:
        control: This end of the socket that ``launcher`` reports at.

    Attributes:
        ended: Whether the launcher said that the program has ended, with all that it had started.
    """

    def __init__(self, control: socket.socket, wanted: Wanted) -> None:
        self.ended: bool = False
        self._control = control
        self._wanted = wanted
        self._names = call_names()
        self._listener: int | None = None
        self._received = b""
        self._poll = select.poll()
        self._stopping, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._run, name="indus_nb supervisor", daemon=True)
        self._thread.start()

    @property
    def watched(self) -> bool:
        """Return whether the program was started, watched."""
        return self._wanted.group is not None

    def kill(self) -> None:
        """Kill the program and its children, unless they have ended."""
        if self._wanted.group is not None and not self.ended:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._wanted.group, signal.SIGKILL)

    def close(self) -> None:
        """End the thread, once the launcher's output is read."""
        os.write(self._stop, b"x")
        self._thread.join()
        os.close(self._stop)
        os.close(self._stopping)
        self._control.close()
        self._wanted.close()

    def _run(self) -> None:
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(self._stopping, select.POLLIN)
        try:
            while self._goes_on(dict(self._poll.poll())):
                pass
        except (OSError, ValueError):  # without an end that is known the trial counts for nothing
            self.ended = False
        finally:
            if self._listener is not None:
                os.close(self._listener)
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)

    def _goes_on(self, ready: dict[int, int]) -> bool:
        if self._control.fileno() in ready:
            self._receive()
        elif self._stopping in ready:
            return False
        if self._listener is not None and (events := ready.get(self._listener, 0)):
            if events & select.POLLIN:
                self._answer_next(self._listener)
            else:  # no process has the filter any more
                self._poll.unregister(self._listener)
        return True

    def _receive(self) -> None:
        piece, descriptors, _, _ = socket.recv_fds(self._control, 256, 1)
        if descriptors:
            self._listener = descriptors[0]
        self._received += piece
        if piece and not self._received.endswith(b"\n"):
            return
        if self._wanted.group is None and self._listener is not None:
            self._wanted.group = int(self._received)
            self._poll.register(self._listener, select.POLLIN)
            self._control.send(b"y")
        else:
            self._poll.unregister(self._control)
            self._note_end(self._received.split()[1:])
        self._received = b""

    def _note_end(self, how: list[bytes]) -> None:
        if how == [b"stays"]:
            self._wanted.add("runs_program", "", "leaves a program running")
        elif how == [b"many"]:
            self._wanted.add("runs_program", "", "starts hundreds of programs at once")
        self.ended = bool(how)

    def _answer_next(self, listener: int) -> None:
        buffer = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, buffer, True)  # noqa: FBT003
        except OSError:  # it was killed meanwhile
            return
        call_id, thread, _, number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
        call = Call(call_id, thread, self._names.get(number, str(number)), (*arguments,))
        match self._wanted.decide(call, listener):
            case Given(descriptor):
                ends = descriptor, 0, 0
            case None:
                ends = 0, 0, _CONTINUE
            case error:
                ends = 0, -error, 0
        answer = struct.pack("=QqiI", call_id, *ends)
        with contextlib.suppress(FileNotFoundError):  # it was killed meanwhile
            fcntl.ioctl(listener, _SEND, answer)
