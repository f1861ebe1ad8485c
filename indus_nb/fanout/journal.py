"""The journal of questions and answers, row by row: a file that survives whatever becomes of the process.

What this module promises: a row that ``add`` returned for is read again by the next process, also after ``kill -9`` at
any point and a power cut. Lines are only ever appended; one that is torn is cut off when the file is opened. Of several
lines of a row the last counts. One process writes to a file at a time, by whatever name. A file that is no journal is
left as it is. One that goes, is cut off or is replaced by a copy while rows are asked is written anew, and
``problems`` says so.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from typing import Any, Self, cast

from indus_nb.base.errors import UsageError
from indus_nb.base.files import current_directory, make_private_directory, others_can_write
from indus_nb.base.locks import FileLock, HeldError
from indus_nb.base.wire import JsonObject, dump, from_json, random_hex

_HEADER: JsonObject = {"type": "fanout-journal", "version": 1}
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_MAX_HEADER = 10_000
_TAKEN = "Another process writes to the journal {}. Wait for its end, or name another file."


def key_of(**parts: Any) -> str:
    """Return the key of a row: the same in every process for the same parts.

    >>> key_of(prompt="a", row={"x": 1, "y": 2}) == key_of(row={"y": 2, "x": 1}, prompt="a")
    True

    Args:
        **parts: JSON values that the answer depends on.
    """
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Done:
    """Outcome of a row.

    Attributes:
        value: The answer, as JSON; ``None`` if it failed.
        error: Why it failed; ``None`` if it did not.
        cost: Its cost, in US dollars.
        session: The file of its session, if it has one.
        unconfirmed: The most that interrupted requests may have cost besides, in US dollars.
    """

    value: Any = None
    error: str | None = None
    cost: float = 0.0
    session: str | None = None
    unconfirmed: float = 0.0

    @property
    def is_good(self) -> bool:
        """Return whether the row need not be asked again."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch that is going to be sent, or was.

    Attributes:
        planned: The time, in seconds since 1970.
        names: The names of its requests; none when it was never made, or its results are gone.
        id: The server's id of it; ``None`` as long as that is not known.
    """

    planned: float
    names: tuple[str, ...]
    id: str | None = None
    token: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "token", self.token or random_hex(8))

    def with_id(self, batch: str) -> PlannedBatch:
        """Return a copy with the server's id."""
        return replace(self, id=batch)

    def without_requests(self) -> PlannedBatch:
        """Return a copy without names, whose requests are asked again."""
        return replace(self, names=())


class Journal:
    """The rows of one file, open for writing. Use it as a context manager, or ``close`` it.

    Args:
        path: The file; it is made if there is none, in a folder that is there.
        model: Provider and id of the model that is asked, with a slash between them: a new file says so.

    Raises:
        UsageError: Its folder is not there, another process writes to it, it is no journal, or it cannot be used.
    """

    def __init__(self, path: Path | str, model: str | None = None) -> None:
        # Whatever it is called: the file must have one lock.
        named = current_directory() / path
        self.path: Path = named.resolve()
        if named.is_symlink() and not self.path.exists():
            raise UsageError(
                f"The journal {named} is a link to {self.path}, which is not there. Name that file itself."
            )
        if not os.path.exists(self.path.parent):  # noqa: PTH110 - ``Path.exists`` raises where it may not look
            raise UsageError(f"There is no folder {self.path.parent} for the journal {self.path.name}. Make it first.")
        self.problems: list[str] = []
        """Problems with the file while it was open, a sentence each."""
        self._header: JsonObject = _HEADER if model is None else {**_HEADER, "model": model}
        self._size = 0
        self._rows: dict[str, Done] = {}
        self._times: Counter[str] = Counter()
        self._costs: defaultdict[str, float] = defaultdict(float)
        self._batches: dict[str, PlannedBatch] = {}
        self._appending = threading.Lock()
        self.cost: float = 0.0
        """Cost of all rows in the file together, those that were asked again included."""
        self.unconfirmed: float = 0.0
        """Upper bound of what they may have cost besides."""
        try:
            self._lock = _locked(self.path)
            try:
                self._descriptor = os.open(self.path, _FLAGS, 0o600)
                try:
                    self._claim(self._descriptor)
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
        """Return the outcome of a row; ``None`` if it was not asked, or not to its end."""
        return self._rows.get(key)

    def add(self, key: str, done: Done) -> None:
        """Write down the outcome of a row; it is on the disk when this returns.

        Raises:
            OSError: It could not be written; nothing of it is in the file then, or what is torn is cut off later.
        """
        self.add_all([(key, done)])

    def add_all(self, rows: Sequence[tuple[str, Done]]) -> None:
        """Write down the outcomes of several rows, as ``add`` does, with one wait for the disk.

        Args:
            rows: The key and the outcome of each.

        Raises:
            OSError: They could not be written; none of them counts as done.
        """
        self._append(*(_line(key, done) for key, done in rows))
        for key, done in rows:
            self._keep(key, done)

    def times(self, key: str) -> int:
        """Return how many outcomes were written down for a row."""
        return self._times[key]

    def note(self, batch: PlannedBatch) -> None:
        """Write down the state of a batch; it is on the disk when this returns.

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
        """List the batches that may hold answers, oldest first."""
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
        self._costs[key] += done.cost
        self.cost += done.cost
        self.unconfirmed += done.unconfirmed

    def _append(self, *lines: JsonObject) -> None:
        with self._appending:  # rows and batches are written by threads of their own
            self._restore()
            self._write(b"".join(dump(line) + b"\n" for line in lines))

    def _write(self, content: bytes) -> None:
        end, left = os.fstat(self._descriptor).st_size, memoryview(content)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
            os.fsync(self._descriptor)
        except BaseException:
            os.ftruncate(self._descriptor, end)
            raise
        self._size = end + len(content)

    def _restore(self) -> None:
        """Restore what was written if another process has changed or removed the file."""
        ours = os.fstat(self._descriptor)
        try:
            there = self.path.stat()
        except FileNotFoundError:
            there = None
        if there is None or not os.path.samestat(ours, there):
            self._follow(gone=there is None)
            ours = os.fstat(self._descriptor)
        if ours.st_size < self._size:
            self._note("was cut off by another program")
            os.ftruncate(self._descriptor, 0)
            self._write(self._whole())
        elif ours.st_size > self._size and os.pread(self._descriptor, 1, ours.st_size - 1) != b"\n":
            self._write(b"\n")  # another program has added something: no line of ours is to be a part of that

    def _follow(self, *, gone: bool) -> None:
        """Go on in the file that is by that name now: in a new one, or in a copy of ours."""
        if gone:
            make_private_directory(self.path.parent)
        written = os.pread(self._descriptor, self._size, 0)
        now = os.open(self.path, _FLAGS, 0o600)
        try:
            content = os.pread(now, len(written) + 1, 0)
            if not written.startswith(content):
                raise OSError(errno.ESTALE, "another file has taken its place")  # noqa: TRY301 - it is closed first
            self._claim(now)
        except UsageError as error:  # as everything that keeps a row from being written while rows are asked
            os.close(now)
            raise OSError(errno.EPERM, str(error).rstrip(".")) from error
        except BaseException:
            os.close(now)
            raise
        self._descriptor, before = now, self._descriptor
        os.close(before)
        self._note("had gone" if gone else "was replaced")
        self._size = len(content)
        if len(content) < len(written):
            os.ftruncate(self._descriptor, 0)
            self._write(written)

    def _whole(self) -> bytes:
        lines = [self._header]
        for key, done in self._rows.items():
            earlier = Done(None, "It was asked again.", self._costs[key] - done.cost)
            lines += [_line(key, earlier)] * min(1, self._times[key] - 1)
            lines += [_line(key, replace(earlier, cost=0.0))] * (self._times[key] - 2)
            lines.append(_line(key, done))
        for batch in self._batches.values():
            known: JsonObject = {"batch": batch.token, "planned": batch.planned, "id": batch.id}
            lines.append(known | {"names": list(batch.names)})
        return b"".join(dump(line) + b"\n" for line in lines)

    def _note(self, what: str) -> None:
        sentence = f"The journal {self.path} {what} while rows were asked, and was written anew."
        if sentence not in self.problems:
            self.problems.append(sentence)

    def _claim(self, descriptor: int) -> None:
        """Check that the file is ours alone, and keep other processes from writing to it by another name."""
        state = os.fstat(descriptor)
        if not S_ISREG(state.st_mode):
            raise UsageError(f"{self.path} is no regular file, so it can be no journal. Name another file.")
        if others_can_write(state):
            raise UsageError(
                f"Other users can write to the journal {self.path}, so its answers may be theirs. Let nobody else "
                f"write to it (chmod go-w), or name another file."
            )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(_TAKEN.format(self.path)) from error
        except OSError:  # no such locks on this disk: that by the name counts
            return

    def _read(self) -> None:
        with open(self._descriptor, "rb", closefd=False) as file:
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        lines = iter(whole.splitlines())
        header = _object(next(lines, b""))
        if content and (header is None or header.get("type") != _HEADER["type"]):
            if whole or not dump(_HEADER)[:-1].startswith(content[: len(dump(_HEADER)) - 1]):  # else it is torn
                raise UsageError(f"{self.path} is no journal of this program. It is left as it is; name another file.")
        elif header is not None and header.get("version") != _HEADER["version"]:
            raise UsageError(f"The journal {self.path} is of another version of this program. Name another file.")
        if header is not None:
            self._header = header
        self._size = len(whole)
        if len(whole) < len(content):
            os.ftruncate(self._descriptor, len(whole))
        if not whole:
            self._append(self._header)
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


def stored_model(path: Path | str) -> str | None:
    """Return which model a journal was begun with, as ``provider/id``; ``None`` if it does not say so."""
    place, first = current_directory() / path, b""
    with suppress(OSError):
        if place.is_file():  # a pipe would be waited for
            with place.open("rb") as file:
                first = file.readline(_MAX_HEADER)
    model = (_object(first) or {}).get("model")
    return model if isinstance(model, str) else None


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
    try:
        return FileLock(path)
    except HeldError as error:
        raise UsageError(_TAKEN.format(path)) from error
