"""Files that Python code writes in a copy: redirected to a directory of the copy's, and found at their own paths.

Only the functions of Python that name a file are covered. What a library writes by its own means is refused by the
kernel, as is what is not covered here.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from indus_nb.kernel.preview.report import Stop
from indus_nb.kernel.preview.words import shown_path
from indus_nb.safety.effects import Effect, EffectKind

_MAX_FILES = 32
_MAX_COPIED_BYTES = 16 << 20
_GONE = ""


class Overlay:
    """Overlay of the file system that keeps what code writes."""

    def __init__(self, scratch: str, stop: Stop, effects: list[Effect], *, counts: Callable[[], bool]) -> None:
        """Begin with no changes.

        Args:
            effects: List to which its effects are added.
            counts: Returns whether it is the code that does something now, and no library for itself.
        """
        self._counts = counts
        self._effects = effects
        self._scratch = scratch
        self._stop = stop
        self._places: dict[str, str] = {}
        self._temporary: dict[str, None] = {}
        self._open = io.open
        self._plain: dict[str, Callable[..., Any]] = {}

    def install(self) -> None:
        """Replace Python's functions, for the rest of the process."""
        import tempfile

        tempfile.tempdir = self._scratch
        sys.dont_write_bytecode = True
        builtins.open = io.open = self.open
        interactive: Any = sys.modules.get("IPython.core.interactiveshell")
        if interactive is not None:
            interactive.io_open = self.open
        for name, function in (
            ("stat", partial(self._moved, "stat")),
            ("lstat", partial(self._moved, "lstat")),
            ("remove", self._remove),
            ("unlink", self._remove),
            ("mkdir", self._mkdir),
            ("rename", self._rename),
            ("replace", self._rename),
        ):
            plain = getattr(os, name)
            self._plain[name] = plain
            setattr(os, name, function)
            for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
                if plain in known:
                    known.add(function)

    def open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """Open a file as ``open`` does; one that is written lies in the directory.

        Args:
            *args: Further arguments of ``open``.
            **kwargs: Further arguments of ``open``.
        """
        path = _path(file)
        if path is not None and path.startswith(f"{self._scratch}/") and {*"wax+"} & {*str(mode)} and self._counts():
            self._temporary[path] = None
        if path is None or kwargs.get("opener") is not None or self._is_own(path):
            return self._open(file, mode, *args, **kwargs)
        place = self._places.get(path)
        if isinstance(mode, str) and not {*"wax+"}.isdisjoint(mode):  # pyright: ignore[reportUnnecessaryIsInstance] - whatever the code gives
            place = self._writable(path, mode, file) if place in (None, _GONE) or "x" in mode else place
        if place == _GONE:
            raise _error(errno.ENOENT, file)
        if place is not None and isinstance(mode, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            mode = mode.replace("x", "w")  # it is new, and lies there already
        return self._open(file if place is None else place, mode, *args, **kwargs)

    def left(self) -> list[Effect]:
        """Return the temporary files that the code has made and not removed, as effects."""
        left = [path.removeprefix(f"{self._scratch}/") for path in self._temporary if os.path.lexists(path)]
        return [Effect("writes_file", path, f"leaves the temporary file {path}") for path in left]

    def _writable(self, path: str, mode: str, given: Any) -> str | None:
        """Return the path to write a file at; ``None`` if it must be opened as it is, to fail as it does."""
        exists = self._places.get(path) != _GONE and (path in self._places or os.path.lexists(path))
        if "x" in mode and exists:
            raise _error(errno.EEXIST, given)
        if exists and not os.path.isfile(path):
            return None
        above = os.path.dirname(path)
        if ("r" in mode and not exists) or not os.path.isdir(above):
            raise _error(errno.ENOENT, given)
        if not os.access(path if exists else self._places.get(above, above), os.W_OK):
            raise _error(errno.EACCES, given)
        data = b""
        if exists and "w" not in mode:
            if self._plain["stat"](path).st_size > _MAX_COPIED_BYTES:
                self._stop(Effect("writes_file", path, f"changes {shown_path(path)}"))
            with self._open(path, "rb") as file:
                data = file.read()
        place = self._new(path)
        with self._open(place, "wb") as file:
            file.write(data)
        self._note("overwrites" if exists and "w" in mode else "changes" if exists else "writes", path)
        return place

    def _new(self, path: str) -> str:
        if len(self._places) >= _MAX_FILES:
            self._stop(Effect("writes_file", "", f"changes more than {_MAX_FILES} files"))
        place = f"{self._scratch}/{len(self._places)}"
        self._places[path] = place
        return place

    def _note(self, verb: str, path: str) -> None:
        if self._counts():
            kind: EffectKind = "deletes" if verb == "deletes" else "writes_file"
            self._effects.append(Effect(kind, path, f"{verb} {shown_path(path)}"))

    def _is_own(self, path: str) -> bool:
        return path.startswith((f"{self._scratch}/", "/dev/"))

    def _moved(self, name: str, path: Any, *args: Any, **kwargs: Any) -> Any:
        known = None if kwargs.get("dir_fd") is not None else _path(path)
        place = None if known is None else self._places.get(known)
        if place == _GONE:
            raise _error(errno.ENOENT, str(path))
        return self._plain[name](path if place is None else place, *args, **kwargs)

    def _remove(self, path: Any, *args: Any, **kwargs: Any) -> None:
        known = None if kwargs else _path(path)
        if known is None or not self._places.get(known):
            return self._plain["remove"](path, *args, **kwargs)
        self._plain["remove"](self._places[known])
        self._places[known] = _GONE
        self._note("deletes", known)
        return None

    def _mkdir(self, path: Any, *args: Any, **kwargs: Any) -> None:
        known = None if kwargs.get("dir_fd") is not None else _path(path)
        if known is None or self._is_own(known):
            return self._plain["mkdir"](path, *args, **kwargs)
        if os.path.lexists(known):
            raise _error(errno.EEXIST, str(path))
        if not os.path.isdir(os.path.dirname(known)):
            raise _error(errno.ENOENT, str(path))
        self._plain["mkdir"](self._new(known))
        self._note("makes the directory", known)
        return None

    def _rename(self, source: Any, target: Any, *args: Any, **kwargs: Any) -> None:
        known, wanted = (None, None) if kwargs else (_path(source), _path(target))
        if known is None or wanted is None or not self._places.get(known):
            return self._plain["rename"](source, target, *args, **kwargs)
        exists = os.path.lexists(wanted)
        self._places[wanted] = self._places[known]
        self._places[known] = _GONE
        self._note("overwrites" if exists else "writes", wanted)
        return None


def _path(path: Any) -> str | None:
    try:
        return os.path.abspath(os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else None  # pyright: ignore[reportUnknownArgumentType]
    except (TypeError, ValueError, OSError):
        return None


def _error(number: int, path: str | os.PathLike[str]) -> OSError:
    return OSError(number, os.strerror(number), os.fspath(path))
