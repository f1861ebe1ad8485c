"""The console program as a process of its own, spoken to through real pipes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from indus_nb.base.variables import NAMES

SECONDS = 240.0
OURS = tuple(f"INDUS_NB_{name}" for name in NAMES)
"""Our variables, which the user of the tests may have set."""
PROGRAM = (sys.executable, "-m", "indus_nb")


def environment(home: Path, **more: str) -> dict[str, str]:
    """A process environment that knows no key and no files of the user."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANTHROPIC_", "INDUSAGI_", "PI_", *OURS)) and not name.endswith("_API_KEY")
    }
    return {**kept, "HOME": str(home), "INDUS_NB_AGENT_DIR": str(home / "agent"), **more}


def indusagi(
    *arguments: str,
    home: Path,
    cwd: Path | None = None,
    stdin: str = "",
    program: Sequence[str] = PROGRAM,
    patience: float = SECONDS * 3,
    **more: str,
) -> Any:
    """Run the program to its end; returns ``subprocess.CompletedProcess`` with text."""
    return subprocess.run(
        [*program, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd or home,
        env=environment(home, **more),
        timeout=patience,
        check=False,
    )


class RpcProcess:
    """``indusagi --mode rpc``: send objects, wait for frames."""

    mode = "rpc"

    def __init__(
        self,
        *arguments: str,
        home: Path,
        cwd: Path | None = None,
        more: Mapping[str, str] = {},
        program: Sequence[str] = PROGRAM,
        patience: float = SECONDS,
    ) -> None:
        self._patience = patience
        self.frames: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [*program, "--mode", self.mode, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd or home,
            env=environment(home, **more),
        )
        self._arrived = threading.Condition()
        self._unseen: deque[dict[str, Any]] = deque()
        self._ended = False
        self.stderr = ""
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._read_errors)]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, *commands: object) -> None:
        """Write the commands in one go; bytes are sent as they are."""
        data = b"".join(
            command if isinstance(command, bytes) else json.dumps(command).encode() + b"\n" for command in commands
        )
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def ask(self, type_: str, /, **fields: Any) -> dict[str, Any]:
        """Send a command and return its response."""
        command = {"id": f"ask-{len(self.frames)}-{type_}", "type": type_, **fields}
        self.send(command)
        return self.wait(lambda frame: frame["type"] == "response" and frame.get("id") == command["id"])

    def answer_to(self, command_id: str) -> dict[str, Any]:
        """The response to a command that was sent earlier, seen already or not."""

        def found() -> dict[str, Any] | None:
            answers = (frame for frame in self.frames if frame["type"] == "response" and frame.get("id") == command_id)
            return next(answers, None)

        with self._arrived:
            if not self._arrived.wait_for(lambda: found() or self._ended, self._patience):
                raise TimeoutError(f"no answer to {command_id}; the last frames: {self.frames[-5:]}")
            answer = found()
        assert answer is not None, f"the process ended without an answer and said {self.stderr}"
        return answer

    def wait(self, wanted: Callable[[dict[str, Any]], bool] | str) -> dict[str, Any]:
        """The next frame not seen yet that is wanted (a function, or a type)."""
        accepts = (lambda frame: frame.get("type") == wanted) if isinstance(wanted, str) else wanted
        with self._arrived:
            while True:
                while self._unseen:
                    frame = self._unseen.popleft()
                    if accepts(frame):
                        return frame
                if self._ended:
                    raise AssertionError(f"the process ended; it had sent {self.frames[-5:]} and said {self.stderr}")
                if not self._arrived.wait(self._patience):
                    raise TimeoutError(f"nothing of that kind came in time; the last frames: {self.frames[-5:]}")

    def close_stdin(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait_for_end(self) -> int:
        """The exit status."""
        status = self._process.wait(self._patience)
        for thread in self._threads:
            thread.join(self._patience)
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_stdin()
        try:
            self._process.wait(self._patience)
        finally:
            self._process.kill()
            self._process.wait()
            for thread in self._threads:
                thread.join()
            self._process.stdout.close()
            self._process.stderr.close()

    def _read(self) -> None:
        for frame in self._lines():
            with self._arrived:
                self.frames.append(frame)
                self._unseen.append(frame)
                self._arrived.notify_all()
        with self._arrived:
            self._ended = True
            self._arrived.notify_all()

    def _lines(self) -> Iterator[dict[str, Any]]:
        for line in self._process.stdout:
            try:
                yield json.loads(line)
            except ValueError:
                yield {"type": "not a frame", "line": line}

    def _read_errors(self) -> None:
        for line in self._process.stderr:
            self.stderr += line.decode(errors="replace")
