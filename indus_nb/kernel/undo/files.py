"""Undo and redo of what code did to files: content, mode and existence.

What this module promises:

- A file is written in the place of what was compared, and through no symbolic link; each at once, so that a process
  that is killed leaves every file as it was or as it should be. The same step can then be taken back again: what is as
  it should be already is passed over.
- What is neither what the code left nor what it should be was changed by others since, and is asked about; so is
  every file outside the directory, and every one that something else may have changed while the code ran.
- A file that is there since the call is removed only if the call made it: what it may have moved here, from a place of
  which nothing was kept, is perhaps the only copy of something.
- What was not kept is named, and left as it is.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from indus_nb.base.files import write_atomically
from indus_nb.base.textcut import head_bytes, one_line, tail
from indus_nb.kernel.undo.contents import Contents, digest_of
from indus_nb.kernel.undo.directory import (
    DATABASES,
    SETTLED_NS,
    Bounds,
    Directory,
    Look,
    Sign,
    differing,
    read_regular,
    sign_of,
)
from indus_nb.kernel.undo.transaction import RefusedError, TouchedError

_MAX_FILE_BYTES = 64 << 20
_MAX_NAMED = 8
_MAX_NAME_CHARACTERS = 80
_MAX_ALIKE = 16
"""Number of files of the same size and time that are looked at for one of which another is a copy."""
_MAX_FILES = 1000
"""Number of files that one step takes back; with more of them none is kept."""


class FileState(NamedTuple):
    """State of a regular file: digest, size and permissions."""

    digest: str
    size: int
    mode: int


class _Other(NamedTuple):
    """Something other than a file of at most the size that is kept."""

    why: str


State = FileState | _Other | None
"""State of a path; ``None`` if nothing is there."""


@dataclass(frozen=True, slots=True)
class FileStep:
    """State of one file before and after a step.

    Attributes:
        path: The file, by its real path.
        parents: Directories that are there only while the file is.
        source: Another file from before the call whose inode or content it had afterwards, as by a move or a hard link.
        own: The state that the step itself had left, where ``other`` is something else that a move has overwritten.
        is_doubtful: Whether something else may have changed it while the code ran.
    """

    path: Path
    other: FileState | None
    now: FileState | None
    parents: tuple[Path, ...] = ()
    source: Path | None = None
    own: tuple[FileState | None, ...] = ()
    is_doubtful: bool = False

    def turned(self, state: FileState | None) -> FileStep:
        """Return the step once ``other`` is in the place of a state, which it may not have left there."""
        own = () if state in (self.now, self.other) else (self.now,)
        now = self.own[0] if self.own else self.other
        return replace(self, other=state, now=now, own=own, is_doubtful=False)  # whose it is was decided


def _state(path: Path) -> tuple[State, bytes]:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None, b""
    except OSError as error:
        return _Other(error.strerror or "unreadable"), b""
    if not stat.S_ISREG(found.st_mode):
        return _Other("a link" if stat.S_ISLNK(found.st_mode) else "no regular file"), b""
    read = read_regular(path, _MAX_FILE_BYTES)
    if read is None:
        return _Other(f"{found.st_size / 2**20:,.0f} MB" if found.st_size > _MAX_FILE_BYTES else "unreadable"), b""
    return FileState(digest_of(read[0]), len(read[0]), stat.S_IMODE(read[1].st_mode)), read[0]


def _sign(path: Path) -> Sign | None:
    try:
        return sign_of(path.lstat())
    except OSError:
        return None


class LostFile(NamedTuple):
    """A file that was changed, and of which what it held before cannot be put back.

    Attributes:
        was: What the change of files expects there.
        now: What is there; of what is no file of the size that is kept, its sign.
    """

    path: Path
    was: FileState | None
    now: FileState | Sign | None


def there(path: Path) -> FileState | Sign | None:
    """Return what is at a path, to be compared with what is there later."""
    state = _state(path)[0]
    return _sign(path) if isinstance(state, _Other) else state


HeldFile: TypeAlias = tuple[State, bytes]
"""Snapshot of a file: its state and its content."""


def hold(path: Path) -> HeldFile:
    """Return a snapshot of a file."""
    return _state(path)


class Files:
    """Files below one directory, with what is needed to restore them."""

    def __init__(
        self, root: Path, contents: Contents, bounds: Bounds | None = None, apart: Collection[Path] = ()
    ) -> None:
        """Set the root; nothing is read yet.

        Args:
            bounds: Limits of a look.
            apart: Directories below it that are not looked at.
        """
        self.root: Path = Path(os.path.realpath(root))
        self.contents = contents
        self._directory = Directory(self.root, bounds, [Path(os.path.realpath(path)) for path in apart])

    def prepare(self) -> None:
        """Read small files ahead, so that a later snapshot has to read only new ones."""
        self._directory.look(keep=True)

    def begin(self, targets: Iterable[Path] = ()) -> FilesCheckpoint:
        """Take a snapshot of the files, right before they may be changed.

        Args:
            targets: Files that are known to be changed, inside the directory or not.

        Returns:
            The checkpoint, to be closed afterwards.
        """
        before = self._directory.look(keep=True)
        began = time.time_ns()
        known = {path: (_state(path), _missing_above(path)) for path in {Path(os.path.realpath(t)) for t in targets}}
        return FilesCheckpoint(self.root, self.contents, self._directory, before, known, began)

    def only(self, known: Mapping[Path, HeldFile]) -> FilesCheckpoint:
        """Return a checkpoint of the given files, and of no others.

        Args:
            known: Results of `hold`, by the files' real paths.
        """
        there = {path: (held, ()) for path, held in known.items()}
        return FilesCheckpoint(self.root, self.contents, self._directory, Look(), there, time.time_ns())


def _missing_above(path: Path) -> tuple[Path, ...]:
    missing: list[Path] = []
    for above in path.parents:
        if os.path.lexists(above):
            break
        missing.append(above)
    return tuple(missing)


class _Found(NamedTuple):
    """A file that differs; ``why`` says why it cannot be restored, and is empty if it can."""

    path: Path
    was: State
    now: State
    data: bytes
    parents: tuple[Path, ...]
    why: str


@dataclass
class FilesCheckpoint:
    """Snapshot of files before they may be changed."""

    _root: Path
    _contents: Contents
    _directory: Directory
    _before: Look
    _known: Mapping[Path, tuple[tuple[State, bytes], tuple[Path, ...]]]
    _began: int
    _meanwhile: dict[Path, HeldFile] = field(default_factory=dict[Path, HeldFile])
    """What somebody else saved into files of the snapshot before the code changed them."""

    def keep_meanwhile(self, path: str) -> None:
        """Take a snapshot of a file that was changed or made since the checkpoint, right before the code changes it."""
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self._root) or real in self._known:
            return
        if _sign(real) in (self._before.files.get(str(real.relative_to(self._root))), None):
            return
        held = _state(real)
        if isinstance(held[0], FileState):
            self._meanwhile[real] = held

    def close(self, written: Iterable[str] | None = None) -> FilesChange:
        """Find the changes since; the checkpoint is of no use afterwards.

        Args:
            written: Paths that the code is known to have changed, besides those that were known before: files,
                directories that it has made with what is in them, and those that it has moved or deleted. ``None`` if
                nothing else can have changed any.
        """
        certain = {*self._known, *(Path(os.path.realpath(path)) for path in written or ())}
        after = self._directory.look(keep=False)
        paths = {*self._known, *(self._root / path for path in differing(self._before, after))}
        found = [each for path in sorted(paths) if (each := self._compared(path, after)) is not None]
        too_many = sum(not each.why for each in found) > _MAX_FILES
        sentences: list[str] = []
        doubtful: list[str] = []
        left_out: dict[str, str] = {}
        steps: list[FileStep] = []
        gone = {each.was.digest: each.path for each in found if isinstance(each.was, FileState) and each.was.size}
        for path, was, now, data, parents, problem in found:
            name = shown(path, self._root)
            why = problem or ("too many files" if too_many else "")
            if not why and isinstance(was, FileState) and not self._is_kept(data):
                why = "no room to keep it"
            source = self._source(path, gone.get(now.digest)) if isinstance(now, FileState) else None
            places = (path, *(parents if was is None else path.parents if now is None else ()))
            moved = () if source is None or os.path.lexists(source) else (source, *source.parents)
            is_doubtful = written is not None and certain.isdisjoint((*places, *moved))
            over = ", over what was saved while the code ran" if path in self._meanwhile else ""
            sentence = _changed(name, was, now) + over + (f" (cannot be undone: {why})" if why else "")
            (doubtful if is_doubtful else sentences).append(sentence)
            if why:
                left_out[name] = why
            elif not isinstance(was, _Other) and not isinstance(now, _Other):
                steps.append(FileStep(path, was, now, parents, source, is_doubtful=is_doubtful))
        which = "" if len(doubtful) < 2 else f"the last {len(doubtful)} "
        note = f" ({which}perhaps by you or another program)" if doubtful else ""
        return FilesChange(self._root, _few([*sentences, *doubtful]) + note, left_out, self._contents, steps)

    def _compared(self, path: Path, after: Look) -> _Found | None:
        was, data, missing = self._was(path)
        now, _ = _state(path)
        if was == now:
            return None
        why = next((each.why for each in (was, now) if isinstance(each, _Other)), "")
        if path.name.endswith(DATABASES):
            why = "a database"
        if not why and isinstance(now, FileState) and path not in self._known and self._is_moved(path, now, after):
            why = "it may have been moved here"
        parents = missing if was is None else _missing_above(path) if now is None else ()
        return _Found(path, was, now, data, parents, why)

    def _was(self, path: Path) -> tuple[State, bytes, tuple[Path, ...]]:
        if path in self._known:
            (state, data), missing = self._known[path]
            return state, data, missing
        if path in self._meanwhile:
            return *self._meanwhile[path], ()
        relative = str(path.relative_to(self._root))
        sign = self._before.files.get(relative)
        if sign is None:
            missing = [
                above
                for above in path.parents
                if above.is_relative_to(self._root)
                and above != self._root
                and str(above.relative_to(self._root)) not in self._before.directories
            ]
            return None, b"", tuple(missing)
        if not stat.S_ISREG(sign.mode):
            return _Other("no regular file"), b"", ()
        data = self._directory.content(relative, sign)
        if data is None:
            size = f"{sign.size / 2**20:,.1f} MB" if sign.size >= 1 << 20 else "it was not kept"
            return _Other(size), b"", ()
        return FileState(digest_of(data), len(data), stat.S_IMODE(sign.mode)), data, ()

    def _is_moved(self, path: Path, now: FileState, after: Look) -> bool:
        """Return whether a new file may be the only one with the content of a file that was elsewhere."""
        try:
            sign = sign_of(path.lstat())
        except OSError:
            return False
        held = self._before.files.get(str(path.relative_to(self._root)))
        if held is not None and held.inode == sign.inode:
            return False
        moved = self._signs.get(sign.inode, [])
        if sign.modified >= self._began - SETTLED_NS and not moved:
            return False
        alike = self._signs.get((sign.size, sign.modified), [])[:_MAX_ALIKE]
        return not (
            any(self._is_safe(name, after) for name in moved)
            or any(self._digest(name, after) == now.digest for name in alike)
        )

    def _source(self, path: Path, alike: Path | None) -> Path | None:
        """Return the file of the snapshot that has a changed one's inode; else ``alike``, which has its content."""
        with suppress(OSError):
            moved = (self._root / name for name in self._signs.get(path.lstat().st_ino, ()))
            alike = next((each for each in moved if each != path), alike)
        return None if alike == path else alike

    @cached_property
    def _signs(self) -> Mapping[object, list[str]]:
        """Index the files of the snapshot by inode, and by size and time, which copies share."""
        found: dict[object, list[str]] = {}
        for name, sign in self._before.files.items():
            found.setdefault(sign.inode, []).append(name)
            found.setdefault((sign.size, sign.modified), []).append(name)
        return found

    def _is_safe(self, name: str, after: Look) -> bool:
        """Return whether a file of the snapshot is unchanged, or can be restored."""
        sign = self._before.files[name]
        there = after.files.get(name)
        data = self._directory.content(name, sign)
        return (there is not None and there.inode == sign.inode) or (data is not None and self._is_kept(data))

    def _digest(self, name: str, after: Look) -> str:
        """Return the digest of a file of the snapshot, or ``""`` if it is not safe."""
        if not self._is_safe(name, after):
            return ""
        data = self._directory.content(name, self._before.files[name])
        state = _state(self._root / name)[0]
        return digest_of(data) if data is not None else state.digest if isinstance(state, FileState) else ""

    def _is_kept(self, data: bytes) -> bool:
        try:
            return self._contents.put(data) is not None
        except OSError:
            return False


def shown(path: Path, root: Path) -> str:
    """Return a path as it is shown to the user.

    Args:
        root: Directory that the path is shown relative to if it is below it.

    Returns:
        Its name, in one line.
    """
    name = str(path.relative_to(root) if path.is_relative_to(root) else path)
    return tail(one_line(name.encode(errors="replace").decode(), len(name)), _MAX_NAME_CHARACTERS)


def _few(sentences: Sequence[str]) -> str:
    if len(sentences) > _MAX_NAMED:
        sentences = [*sentences[: _MAX_NAMED - 1], f"{len(sentences) - _MAX_NAMED + 1} more files"]
    return ", ".join(sentences)


def _changed(name: str, was: State, now: State) -> str:
    if was is None:
        return f"{name} new"
    if now is None:
        return f"{name} deleted"
    if isinstance(was, FileState) and isinstance(now, FileState) and was.digest == now.digest:
        return f"{name} mode {was.mode:o} \N{RIGHTWARDS ARROW} {now.mode:o}"
    return f"{name} edited"


def net_changes(changes: Iterable[FilesChange]) -> str:
    """Describe how files differ from what they would be if changes were undone or redone, in this order.

    Returns:
        Their names in one line, with "new", "deleted" or "edited"; empty where none differs.
    """
    there: dict[Path, FileState | None] = {}
    now: dict[Path, tuple[FileState | None, Path]] = {}
    for change in changes:
        for step in change.steps:
            there[step.path] = step.other
            now.setdefault(step.path, (step.now, change.root))
    differing = [(shown(path, root), there[path], state) for path, (state, root) in now.items() if state != there[path]]
    return _few([_changed(*each) for each in sorted(differing, key=lambda each: each[0])])


def net_fates(changes: Iterable[FilesChange]) -> dict[str, str]:
    """Name those files that undoing or redoing changes, in this order, would remove or put back, with which of both."""
    there: dict[str, tuple[bool, bool]] = {}
    for change in changes:
        for step in change.steps:
            name = shown(step.path, change.root)
            before = there[name][0] if name in there else os.path.lexists(step.path)
            there[name] = before, step.other is not None
    return {
        name: "put back" if after else "removed" for name, (before, after) in there.items() if not before or not after
    }


def all_touched(changes: Iterable[FilesChange]) -> frozenset[str]:
    """Return the files that undoing or redoing changes in order would overwrite and that are asked about.

    These were changed since, perhaps by something else, or are outside the directory.
    """
    there: dict[Path, State] = {}
    names = set[str]()
    for change in changes:
        names |= change.outside
        for step in change.steps:
            state = there[step.path] if step.path in there else _state(step.path)[0]
            there[step.path] = step.other
            if step.is_doubtful or state not in (step.now, step.other):
                names.add(shown(step.path, change.root))
    return frozenset(names)


@dataclass
class FilesChange:
    """Changes of files by one call, which can be undone and redone in turn.

    Attributes:
        root: The directory outside of which nothing is written unasked.
        summary: The changes in one line; empty if there are none.
    """

    root: Path
    summary: str
    left_out: Mapping[str, str]
    contents: Contents = field(repr=False)
    steps: list[FileStep]
    undone: bool = False
    _compared: dict[Path, tuple[Sign, FileState]] = field(
        default_factory=dict[Path, tuple[Sign, FileState]], repr=False, compare=False
    )

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to be taken back."""
        return not self.steps

    @property
    def names(self) -> frozenset[str]:
        """Return the paths of the files that it concerns."""
        return frozenset(shown(step.path, self.root) for step in self.steps)

    @property
    def outside(self) -> frozenset[str]:
        """Return the paths that are outside the directory."""
        return frozenset(str(step.path) for step in self.steps if not step.path.is_relative_to(self.root))

    def doubtful(self) -> frozenset[str]:
        """Return the paths of the files that something else may have changed while the code ran, and nothing since."""
        doubtful = (step for step in self.steps if step.is_doubtful and _state(step.path)[0] == step.now)
        return frozenset(shown(step.path, self.root) for step in doubtful)

    def digests(self) -> set[str]:
        """Return the digests of the contents that it needs."""
        return {state.digest for step in self.steps for state in (step.other, step.now, *step.own) if state is not None}

    def touched(self) -> frozenset[str]:
        """Return the files that are asked about: changed since, perhaps by something else, or outside the directory."""
        return all_touched([self])

    def shared(self, other: FilesChange) -> frozenset[str]:
        """Return those of its files that another change concerns too."""
        paths = {step.path for step in other.steps}
        return frozenset(shown(step.path, self.root) for step in self.steps if step.path in paths)

    def part(self, mark: Iterable[FileStep], names: Collection[str], *, undone: bool) -> FilesChange:
        """Return a change with what it held of some files at ``mark``."""
        return self._other([step for step in mark if shown(step.path, self.root) in names], undone=undone)

    def since(self, seen: set[Path]) -> tuple[list[FilesChange], dict[str, LostFile]]:
        """Find what was changed since in files, each as another change would keep it; reads what it does not know yet.

        Args:
            seen: Files that are not looked at; its own are added.

        Returns:
            The changes; files that cannot be kept, or of which what they held is no longer kept, by their names.
        """
        found, lost = list[FilesChange](), dict[str, LostFile]()
        for step in (each for each in self.steps if each.path not in seen):
            sign, at = _sign(step.path), time.time_ns()
            if sign is not None and self._compared.get(step.path) == (sign, step.now):
                continue
            state, data = _state(step.path)
            if state == step.now:
                is_settled = sign is not None and max(sign.modified, sign.changed) < at - SETTLED_NS
                if step.now is not None and sign is not None and is_settled and sign == _sign(step.path):
                    self._compared[step.path] = sign, step.now
                continue
            was_kept = step.now is None or self.contents.get(step.now.digest) is not None
            if isinstance(state, _Other) or not was_kept or (state is not None and not self._is_room(data)):
                was, now = step.other if self.undone else step.now, sign if isinstance(state, _Other) else state
                lost[shown(step.path, self.root)] = LostFile(step.path, was, now)
            else:
                theirs = replace(step, other=step.now, now=state, own=(), is_doubtful=False)
                found.append(self._other([theirs], undone=False))
        seen.update(step.path for step in self.steps)
        return found, lost

    def with_later(self, later: FilesChange) -> FilesChange:
        """Return this and a later change of the same files as one change."""
        now = {step.path: step.now for step in later.steps}
        return self._other([replace(step, now=now[step.path], own=()) for step in self.steps], undone=self.undone)

    def joined(self, other: FilesChange) -> FilesChange:
        """Return this and a change of other files by the same call as one change."""
        own = {step.path for step in self.steps}
        summary = ", ".join(filter(None, (self.summary, other.summary)))
        steps = [*self.steps, *(step for step in other.steps if step.path not in own)]
        return FilesChange(self.root, summary, {**self.left_out, **other.left_out}, self.contents, steps, self.undone)

    def _other(self, steps: list[FileStep], *, undone: bool) -> FilesChange:
        return FilesChange(self.root, "", {}, self.contents, steps, undone)

    def _is_room(self, data: bytes) -> bool:
        try:
            return self.contents.put(data) is not None
        except OSError:
            return False

    def prepare(
        self, *, keep: Collection[str] = (), over: Collection[str] = (), both: Collection[str] = ()
    ) -> FilesWriting:
        """Check that it can be undone or redone, and write nothing.

        Args:
            over: Files that are written although they were changed since, or are outside the directory.
            both: Files that stay as they are, and what they would be is written beside them.

        Returns:
            The writes, for ``carry_out``.

        Raises:
            TouchedError: Others were changed since, or are outside the directory.
            RefusedError: It is not possible.
        """
        if undecided := self.touched() - {*keep} - {*over} - {*both}:
            raise TouchedError(undecided)
        writes: list[_Write] = []
        mine = {step.path for step in self.steps}
        for step in self.steps:
            name = shown(step.path, self.root)
            if name in keep or (name in both and step.other is None):
                continue
            chosen = FileStep(_beside(step.path), step.other, None) if name in both else step
            state, found = _state(chosen.path)
            if isinstance(state, _Other):
                raise RefusedError(f"{name} is {state.why} now")
            if os.path.realpath(chosen.path) != str(chosen.path):
                raise RefusedError(f"a symbolic link is on the way to {name} now")
            data = None if chosen.other is None else self.contents.get(chosen.other.digest)
            if data is None and chosen.other is not None:
                raise RefusedError(f"what {name} held before is no longer kept")
            if state is not None and not self._remember(found) and state not in (step.now, step.other):
                raise RefusedError(f"there is no room to keep what {name} holds now")
            writes.append(_Write(chosen, data, state, found))
        beside = frozenset(shown(write.step.path, self.root) for write in writes if write.step.path not in mine)
        return FilesWriting(self, writes, beside)

    def _remember(self, data: bytes) -> bool:
        try:
            return self.contents.put(data) is not None
        except OSError as error:
            raise RefusedError(f"what is there now cannot be kept ({error.strerror})") from error

    def remove_leftovers(self) -> None:
        """Remove the hidden copies left by a process that was killed during an undo."""
        for step in self.steps:
            for state in (step.other, step.now):
                if state is not None and step.path.is_relative_to(self.root):
                    with suppress(OSError):
                        (step.path.parent / _temporary(step.path, state)).unlink()

    def turned(self, writing: FilesWriting) -> None:
        """Record that ``writing`` was carried out; idempotent."""
        if self.steps is not writing.turned:
            self.steps, self.undone = writing.turned, not self.undone

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON, for another process."""
        return {
            "root": str(self.root),
            "summary": self.summary,
            "leftOut": dict(self.left_out),
            "undone": self.undone,
            "files": [
                {
                    "path": str(step.path),
                    "other": step.other and [*step.other],
                    "now": step.now and [*step.now],
                    "parents": [str(path) for path in step.parents],
                    "source": step.source and str(step.source),
                    "own": [state and [*state] for state in step.own],
                    "doubtful": step.is_doubtful,
                }
                for step in self.steps
            ],
        }


def change_from_json(value: Mapping[str, Any], contents: Contents) -> FilesChange:
    """Read a change from the JSON of ``to_json``.

    Raises:
        ValueError, TypeError, KeyError: It was written by something else.
    """

    def state(given: Any) -> FileState | None:
        return None if given is None else FileState(str(given[0]), int(given[1]), int(given[2]) & 0o7777)

    steps = [
        FileStep(
            Path(str(each["path"])),
            state(each["other"]),
            state(each["now"]),
            tuple(map(Path, each["parents"])),
            None if each.get("source") is None else Path(str(each["source"])),
            tuple(map(state, each.get("own", ()))),  # which earlier versions did not write down
            bool(each.get("doubtful")),
        )
        for each in value["files"]
    ]
    return FilesChange(
        Path(str(value["root"])), str(value["summary"]), value["leftOut"], contents, steps, bool(value["undone"])
    )


def _beside(path: Path) -> Path:
    """Return an unused name beside a file, for its former content."""
    names = (path.with_stem(f"{path.stem}.before{'' if at == 1 else at}") for at in count(1))
    return next(name for name in names if not os.path.lexists(name))


@dataclass(frozen=True, slots=True)
class _Write:
    step: FileStep
    data: bytes | None
    state: FileState | None
    found: bytes


@dataclass
class FilesWriting:
    """One undo or redo of a `FilesChange`, checked and not yet written."""

    change: FilesChange
    _writes: list[_Write]
    beside: frozenset[str] = frozenset()
    """New files with the contents that other files would have had, written beside those."""
    turned: list[FileStep] = field(default_factory=list[FileStep])
    _begun: int = 0

    @property
    def names(self) -> frozenset[str]:
        """Return the paths of the files that it concerns."""
        return frozenset(shown(write.step.path, self.change.root) for write in self._writes)

    def write(self) -> None:
        """Write all files."""
        self.change.remove_leftovers()
        self.turned = [w.step.turned(w.state) for w in self._writes]
        for at, write in enumerate(self._writes):
            self._begun = at + 1
            _put(write.step, write.step.other, write.data, write.state)

    def back(self) -> None:
        """Restore the files from before ``write``."""
        for write in self._writes[: self._begun]:
            _put(write.step, write.state, write.found, _state(write.step.path)[0])

    def commit(self) -> None:
        """Record in the change that it was undone or redone."""
        self.change.turned(self)


def _temporary(path: Path, wanted: FileState) -> str:
    """Return the hidden name under which a file is written first: another process knows it too."""
    return f".{head_bytes(path.name, _MAX_NAME_CHARACTERS)}.{wanted.digest[:16]}.undo"


def _put(step: FileStep, wanted: FileState | None, data: bytes | None, now: State) -> None:
    path = step.path
    if wanted == now:
        return
    try:
        if wanted is None or data is None:
            path.unlink(missing_ok=True)
            for parent in step.parents:
                _remove_empty(parent)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        at = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if isinstance(now, FileState) and now.digest != wanted.digest and not now.mode & stat.S_IWUSR:
                os.chmod(path.name, now.mode | stat.S_IWUSR, dir_fd=at)
            if not isinstance(now, FileState) or now.digest != wanted.digest:
                temporary = _temporary(path, wanted)
                write_atomically(Path(path.name), data, mode=wanted.mode, in_place=True, at=at, temporary=temporary)
            if stat.S_IMODE(os.stat(path.name, dir_fd=at, follow_symlinks=False).st_mode) != wanted.mode:
                os.chmod(path.name, wanted.mode, dir_fd=at)
        finally:
            os.close(at)
    except OSError as error:
        raise RefusedError(f"{path.name} cannot be written ({error.strerror or error})") from error


def _remove_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError:
        return  # something else is in it, or it has gone
