"""Servers of other front ends, with one notebook each, for tests in a real browser: marimo and Voilà."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Self

START_SECONDS = 90


class AppServer:
    """A server that shows one notebook at ``url``, with its processes in a group of their own."""

    def __init__(self, arguments: tuple[str, ...], folder: Path, environment: Mapping[str, str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/"
        self._log = (folder.parent / f"{folder.name}.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments, f"--port={port}"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def log(self) -> str:
        """What the server has said so far."""
        return Path(self._log.name).read_text(errors="replace")

    def close(self) -> None:
        """End the server and its kernels."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._log.close()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                # Voilà would start a kernel for its page itself.
                urllib.request.urlopen(f"{self.url}favicon.ico", timeout=5).close()
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(0.1)
                continue
            return
        raise AssertionError(f"{self._process.args} did not start:\n{self.log[-3000:]}")


def marimo(notebook: Path, environment: Mapping[str, str]) -> AppServer:
    """A marimo server in which a notebook can be edited."""
    options = ("--headless", "--no-token", "--skip-update-check", "--host=127.0.0.1")
    return AppServer(("marimo", "--quiet", "edit", notebook.name, *options), notebook.parent, environment)


def voila(notebook: Path, environment: Mapping[str, str]) -> AppServer:
    """A Voilà server."""
    options = ("--no-browser", "--Voila.ip=127.0.0.1", "--show_tracebacks=True")
    return AppServer(("voila", notebook.name, *options), notebook.parent, environment)
