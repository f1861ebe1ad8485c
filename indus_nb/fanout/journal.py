"""What was asked and answered, row by row, in a file that survives whatever becomes of the process.

What this module promises: a row that ``add`` returned for is read again by the next process, also after ``kill -9`` at
any point and a power cut. Lines are only ever appended; one that is torn is cut off when the file is opened. Of several
lines of a row the last counts. One process writes to a file at a time. A file that is no journal is left as it is.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Self, cast

from indus_nb.errors import UsageError
from indus_nb.files import current_directory, make_private_directory
from indus_nb.wire import JsonObject, dump, from_json, random_hex

if TYPE_CHECKING:
    from filelock import FileLock

_HEADER: JsonObject = {"type": "fanout-journal", "version": 1}


def key_of(**parts: Any) -> str:
    """Return what a row is found by: the same in every process for the same parts.

    >>> key_of(prompt="a", row={"x": 1, "y": 2}) == key_of(row={"y": 2, "x": 1}, prompt="a")
    True

    Args:
        **parts: JSON values that the answer depends on.

    Returns:
        A digest.
    """
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a row.

    Attributes:
        value: The answer, as JSON; ``None`` if it failed.
        error: Why it failed; ``None`` if it did not.
        cost: What it has cost, in US dollars.
        session: The file of its session, if it has one.
        unconfirmed: What requests that broke off may have cost besides, in US dollars.
    """

    value: Any = None
    error: str | None = None
    cost: float = 0.0
    session: str | None = None
    unconfirmed: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether the row need not be asked again."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch that is going to be sent, or was.

    Attributes:
        planned: When, in seconds since 1970.
        names: What its requests are called; none when it was never made, or its results are gone.
        id: By what the server knows it; ``None`` as long as nobody has heard that.
        token: By what the journal knows it.
    """

    planned: float
    names: tuple[str, ...]
    id: str | None = None
    token: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "token", self.token or random_hex(8))

    def with_id(self, batch: str) -> PlannedBatch:
        """Return it with what the server calls it."""
        return replace(self, id=batch)

    def without_requests(self) -> PlannedBatch:
        """Return it as one whose requests are asked again."""
        return replace(self, names=())


class Journal:
    """The rows of one file, open for writing. Use it as a context manager, or ``close`` it.

    Args:
        path: The file; it is made if there is none.

    Raises:
        UsageError: Another process writes to it, it is no journal, or it cannot be read or written.
    """

    def __init__(self, path: Path | str) -> None:
        # Whatever it is called: the file must have one lock.
        self.path = (current_directory() / path).resolve()
        self._rows: dict[str, Done] = {}
        self._times: Counter[str] = Counter()
        self._batches: dict[str, PlannedBatch] = {}
        self._appending = threading.Lock()
        self.cost = 0.0
        """What all rows in the file have cost together, those that were asked again included."""
        self.unconfirmed = 0.0
        """What they may have cost besides."""
        try:
            make_private_directory(self.path.parent)
            self._lock = _locked(self.path)
            try:
                self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    self._read()
                except BaseException:
                    os.close(self._descriptor)
                    raise
            except BaseException:
                self._lock.release()
                raise
        except OSError as error:
            raise UsageError(f"The journal {self.path} cannot be used: {error.strerror}.") from error

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: str) -> Done | None:
        """Return what came of a row; ``None`` if it was not asked, or not to its end."""
        return self._rows.get(key)

    def add(self, key: str, done: Done) -> None:
        """Write down what came of a row; it is on the disk when this returns.

        Args:
            key: What it is found by.
            done: What came of it.

        Raises:
            OSError: It could not be written; nothing of it is in the file then, or what is torn is cut off later.
        """
        self.add_all([(key, done)])

    def add_all(self, rows: Sequence[tuple[str, Done]]) -> None:
        """Write down what came of several rows, as ``add`` does, with one wait for the disk.

        Args:
            rows: What each is found by, and what came of it.

        Raises:
            OSError: They could not be written; none of them counts as done.
        """
        self._append(*(_line(key, done) for key, done in rows))
        for key, done in rows:
            self._keep(key, done)

    def times(self, key: str) -> int:
        """Return how often it was written down what came of a row."""
        return self._times[key]

    def note(self, batch: PlannedBatch) -> None:
        """Write down what is known of a batch; it is on the disk when this returns.

        Args:
            batch: The batch, before it is sent and once its id is known.

        Raises:
            OSError: It could not be written.
        """
        known = self._batches.get(batch.token)
        line: JsonObject = {"batch": batch.token, "planned": batch.planned, "id": batch.id}
        if known is None or known.names != batch.names:
            line["names"] = list(batch.names)
        self._append(line)
        self._batches[batch.token] = batch

    @property
    def batches(self) -> list[PlannedBatch]:
        """The batches that may hold answers, oldest first."""
        return [batch for batch in self._batches.values() if batch.names]

    def close(self) -> None:
        """Let another process write; does nothing the second time."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep(self, key: str, done: Done) -> None:
        self._rows[key] = done
        self._times[key] += 1
        self.cost += done.cost
        self.unconfirmed += done.unconfirmed

    def _append(self, *lines: JsonObject) -> None:
        left = memoryview(b"".join(dump(line) + b"\n" for line in lines))
        with self._appending:  # rows and batches are written by threads of their own
            end = os.fstat(self._descriptor).st_size
            try:
                while left:
                    left = left[os.write(self._descriptor, left) :]
                os.fsync(self._descriptor)
            except BaseException:
                os.ftruncate(self._descriptor, end)
                raise

    def _read(self) -> None:
        if not S_ISREG(os.fstat(self._descriptor).st_mode):
            raise UsageError(f"{self.path} is no regular file, so it can be no journal. Name another file.")
        with open(self._descriptor, "rb", closefd=False) as file:
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        lines = iter(whole.splitlines())
        header = _object(next(lines, b""))
        if content and (header is None or header.get("type") != _HEADER["type"]):
            if whole or not dump(_HEADER).startswith(content):  # else the header itself is torn
                raise UsageError(f"{self.path} is no journal of this program. It is left as it is; name another file.")
        elif header is not None and header.get("version") != _HEADER["version"]:
            raise UsageError(f"The journal {self.path} is of another version of this program. Name another file.")
        if len(whole) < len(content):
            os.ftruncate(self._descriptor, len(whole))
        if not whole:
            self._append(_HEADER)
        for line in lines:
            match _object(line):
                case {"key": str(key), **fields}:
                    self._keep(key, _done(fields))
                case {"batch": str(token), "planned": int() | float() as planned, **fields}:
                    self._keep_batch(token, planned, fields)
                case _:
                    continue  # damaged: the row is asked again

    def _keep_batch(self, token: str, planned: float, fields: Mapping[str, Any]) -> None:
        known = self._batches.get(token)
        names, batch = fields.get("names"), fields.get("id")
        if isinstance(names, list):
            named = tuple(str(name) for name in cast("list[object]", names))
        else:
            named = () if known is None else known.names
        self._batches[token] = PlannedBatch(planned, named, batch if isinstance(batch, str) else None, token)


def _line(key: str, done: Done) -> JsonObject:
    line: JsonObject = {"key": key, "value": done.value, "cost": done.cost}
    more = (("error", done.error), ("session", done.session), ("unconfirmed", done.unconfirmed or None))
    return line | {name: value for name, value in more if value is not None}


def _done(fields: Mapping[str, Any]) -> Done:
    error, session = fields.get("error"), fields.get("session")
    return Done(
        fields.get("value"),
        error if isinstance(error, str) else None,
        _amount(fields.get("cost")),
        session if isinstance(session, str) else None,
        _amount(fields.get("unconfirmed")),
    )


def _amount(value: object) -> float:
    return max(0.0, float(value)) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def _object(line: bytes) -> JsonObject | None:
    try:
        value: object = from_json(line)
    except ValueError:
        return None
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _locked(path: Path) -> FileLock:
    from filelock import FileLock, Timeout

    lock = FileLock(path.with_name(f".{path.name}.lock"), mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UsageError(
            f"Another process writes to the journal {path}. Wait for its end, or name another file."
        ) from error
    return lock
