"""Detection of what code in a copy is about to do outside, from Python's audit events.

The system refuses it in any case. Here it gets a sentence, and the copy ends at once, so that no ``except`` of the
code's goes on as if it had failed. While a module is imported it fails instead, as do probes of libraries that go on
without.
"""

from __future__ import annotations

import codecs
import errno
import fcntl
import os
import re
import shlex
import stat
import sys
import threading
from collections.abc import Callable, Sequence
from functools import wraps
from types import BuiltinFunctionType, FrameType
from typing import Any, Literal, NoReturn, Protocol, cast

from indus_nb.base.installed import lies_installed
from indus_nb.base.textcut import one_line
from indus_nb.kernel.preview.report import Stop
from indus_nb.kernel.preview.words import shown_path
from indus_nb.safety.effects import Effect, EffectKind

_MAX_CHARACTERS = 160
_MAX_FRAMES = 400
_PROBES = frozenset({"platform", "ctypes.util", "matplotlib.font_manager", "joblib.externals.loky.backend.context"})
"""Modules that probe the system with programs or files, and do without where they cannot."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OF_FILES = {
    "os.remove": "deletes",
    "os.rmdir": "deletes the directory",
    "shutil.rmtree": "deletes the directory",
    "os.mkdir": "makes the directory",
    "os.truncate": "changes",
    "os.chmod": "changes the mode of",
    "os.chown": "changes the owner of",
    "os.utime": "changes the times of",
    "os.setxattr": "changes attributes of",
    "os.removexattr": "changes attributes of",
    "shutil.chown": "changes the owner of",
}
_DELETES = frozenset({"os.remove", "os.rmdir", "shutil.rmtree"})
_SETS = re.compile(r"set|sched_set|mk|nice")
_OF_DESCRIPTORS = re.compile(r"\(\$module, /?,? ?(in_|out_)?fd\b")
"""Functions of ``os`` that set something or make a file, by name, and that are given a descriptor, by signature."""
_LISTS = frozenset({"os.listdir", "os.scandir"})
_IN_DIRECTORY = ("os.remove", "os.rmdir", "shutil.rmtree")
"""Events whose second argument may be the descriptor of the directory."""
_OF_TWO_FILES = {"os.rename": "moves", "os.link": "makes a link to", "os.symlink": "makes a link to"}


class _MayRead(Protocol):
    def __call__(self, path: str, *, lists: bool) -> bool: ...


class Ending(Protocol):
    """The end of the copy."""

    begun: bool
    effects: list[Effect]

    @property
    def stop(self) -> Stop:
        """Return a function that ends the copy with a sentence."""
        ...


def watch(end: Ending, scratch: str, readable: Sequence[tuple[str, bool | None]]) -> None:
    """Watch the audit events of this process until its end.

    Args:
        scratch: The directory that it may change.
        readable: Real paths that it may read, and what is below them; with ``None`` only list the directories there.
    """
    own = sys._getframe(1)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    inside = f"{scratch}/"
    listed = tuple(f"{path.rstrip('/')}/" for path, _ in (*readable, ("/dev", False)))
    read = tuple(f"{path.rstrip('/')}/" for path, rule in (*readable, ("/dev", False)) if rule is not None)
    looking = threading.local()

    def is_own(path: str) -> bool:
        return f"{path}/".startswith(inside)

    def may_read(path: str, *, lists: bool) -> bool:
        real = f"{os.path.realpath(path)}/"
        return real.startswith((inside, *(listed if lists else read))) or not os.path.lexists(real.rstrip("/") or "/")

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event[0] not in _INITIALS or end.begun or getattr(looking, "on", False):
            return
        looking.on = True  # what is asked of the system here is no doing of the code's
        try:
            _note(event, args, end, own)
            effect = about_to(event, args, is_own) or _reading(event, args, may_read)
            if effect is not None and not end.begun:
                _refuse(effect, end, own)
        finally:
            looking.on = False

    _notice_refusals(end, own)
    _notice_codecs(end)
    sys.addaudithook(hook)


def _notice_refusals(end: Ending, own: FrameType) -> None:
    """Make functions of ``os`` without audit events end the copy where the system refuses them."""

    def noticing(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(plain)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return plain(*args, **kwargs)
            except OSError as error:
                is_dead = error.errno == errno.EBADF and any(map(_is_dead, args))
                if (is_dead or error.errno in (errno.EPERM, errno.EACCES)) and not end.begun and not prober(own):
                    end.stop(_effect("unknown", name, f"does what a copy of the kernel may not ({name}: {error})"))
                raise

        return call

    for name, plain in [*vars(os).items()]:
        if isinstance(plain, BuiltinFunctionType) and (_SETS.match(name) or _OF_DESCRIPTORS.match(_signature(plain))):
            setattr(os, name, noticing(f"os.{name}", plain))


def _notice_codecs(end: Ending) -> None:
    """Make the registries of codecs, which cannot be read, end the copy."""

    def register(*_: object) -> NoReturn:
        end.stop(_effect("changes_setting", "codecs", "changes codecs"))

    codecs.register = codecs.register_error = register


def _signature(function: Any) -> str:
    return getattr(function, "__text_signature__", None) or ""


def _is_dead(value: Any) -> bool:
    """Return whether a descriptor is one of the kernel's, replaced by one that can neither be read nor written."""
    try:
        return type(value) is int and bool(fcntl.fcntl(value, fcntl.F_GETFL) & os.O_PATH)
    except (OSError, OverflowError):
        return False


def _note(event: str, args: tuple[Any, ...], end: Ending, own: FrameType) -> None:
    """Record an effect that is let through."""
    if event in ("os.putenv", "os.unsetenv"):
        if prober(own):
            set_by_imports.add(_text(args[0]))
        elif _caller() != "os":  # past ``os.environ``, which would show it
            name = "environment variables"
            end.effects.append(Effect("changes_setting", name, f"changes {name}"))
    if event == "open" and (known := _absolute(args[0])) is not None and not paths_changed(event, args):
        (_read_by_libraries if _is_librarys_call() else _read_by_code).add(os.path.realpath(known))
    if event == "ctypes.dlsym" and _is_users_call():
        name = one_line(_text(args[1]), _MAX_CHARACTERS)
        end.effects.append(Effect("unknown", name, f"calls {name} in C, whose effects cannot be seen"))


def _refuse(effect: Effect, end: Ending, own: FrameType) -> None:
    """End the copy at an effect outside; modules that are imported, and probes of libraries, fail instead."""
    if effect.kind == "reads_outside" and f"{effect.what}/".startswith("/proc/"):
        raise OSError(errno.EACCES, "a copy of the kernel sees no other processes", effect.what)
    by = prober(own)
    if not by:
        end.stop(effect)
    if by == "import" and effect.kind != "reads_outside":
        end.effects.append(Effect("unknown", "", f"imports a module that {effect.words}"))
    raise OSError(errno.EACCES, f"a copy of the kernel {effect.words}")


_INITIALS = frozenset("ospw_fc")
set_by_imports: set[str] = set()
"""Environment variables that modules have set while they were imported, which they do again where they are used."""
_read_by_libraries: set[str] = set()
_read_by_code: set[str] = set()
"""Real paths of files that were opened to be read: by installed packages, and by other code."""


def _caller() -> object:
    """Return the name of the module whose code causes the event."""
    return sys._getframe(3).f_globals.get("__name__")  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _is_users_call() -> bool:
    """Return whether code of the user's asks ``ctypes`` for a function, and no library."""
    frame: FrameType | None = sys._getframe(3)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_globals.get("__name__") == "ctypes":
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == "__main__"


def _is_librarys_call() -> bool:
    """Return whether an installed package does it, by itself or with Python's own modules."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        top = str(frame.f_globals.get("__name__")).partition(".")[0]
        if top != "indus_nb" and top not in sys.stdlib_module_names:
            return lies_installed(frame.f_code.co_filename)
        frame = frame.f_back
    return False


def read_by_libraries() -> set[str]:
    """Return the real paths of files that installed packages alone have opened, and to read them."""
    return _read_by_libraries - _read_by_code


def about_to(event: str, args: Sequence[Any], is_own: Callable[[str], bool]) -> Effect | None:
    """Return the effect that an audit event announces, if it is outside of the process.

    Args:
        is_own: Returns whether a path is one that may be changed.

    Returns:
        The effect, or nothing.
    """
    if event in _OF_FILES or event in _OF_TWO_FILES:
        return _changing(event, args, is_own)
    if (say := _DESCRIBERS.get(event)) is not None:
        return say(event, args)
    if event == "open":
        return _opening(args, is_own)
    return _effect("sends_message", "syslog", "writes to the system's log") if event.startswith("syslog.") else None


def _effect(kind: EffectKind, what: str, words: str) -> Effect:
    return Effect(kind, what, one_line(words, _MAX_CHARACTERS))


def paths_changed(event: str, args: Sequence[Any]) -> list[str]:
    """Return the full paths of what an audit event announces a change of: the file, or both that it is moved between.

    >>> paths_changed("os.rename", ("/a", "/b", -1, -1)), paths_changed("open", ("/a", "r", os.O_RDONLY))
    (['/a', '/b'], [])
    """
    if event == "open":
        path, _, flags = (*args, None, None, 0)[:3]
        known = _absolute(path) if isinstance(flags, int) and flags & _WRITES else None
        return [] if known is None else [known]
    if event not in _OF_FILES and event not in _OF_TWO_FILES:
        return []
    directory = args[1] if event in _IN_DIRECTORY and len(args) > 1 else None
    return [path for each in args[:2] if (path := _absolute(each, directory))]


def starts_process(event: str) -> bool:
    """Return whether an audit event announces another process."""
    return event in _STARTS or event in _FORKS


def _changing(event: str, args: Sequence[Any], is_own: Callable[[str], bool]) -> Effect | None:
    paths = paths_changed(event, args)
    if paths and all(is_own(path) for path in paths):
        return None
    named = [shown_path(path) for path in paths] or [str(args[0])]
    kind: EffectKind = "deletes" if event in _DELETES else "writes_file"
    verb = f"{_OF_FILES[event]} {named[0]}" if event in _OF_FILES else f"{_OF_TWO_FILES[event]} {' → '.join(named)}"
    return _effect(kind, paths[0] if paths else "", verb)


def _asking(_: str, args: Sequence[Any]) -> Effect:
    address = f"{_text(args[0])}{f':{_text(args[1])}' if len(args) > 1 and args[1] else ''}"
    return _effect("uses_network", address, f"connects to {address}")


def _signalling(_: str, args: Sequence[Any]) -> Effect:
    whom = "this kernel" if args[0] in (os.getpid(), os.getppid(), 0, -1) else f"process {args[0]}"
    return _effect("sends_message", whom, f"sends signal {args[1]} to {whom}")


def _database(_: str, args: Sequence[Any]) -> Effect | None:
    name = _text(args[0])
    if name in (":memory:", "") or os.path.exists(name):
        return None
    return _effect("writes_file", os.path.abspath(name), f"makes the database {name}")


def _opening(args: Sequence[Any], is_own: Callable[[str], bool]) -> Effect | None:
    path, _, flags = (*args, None, None, 0)[:3]
    known = _absolute(path)
    if known is None or is_own(known):
        return None
    if isinstance(flags, int) and flags & _WRITES:
        return None if known == os.devnull else _effect("writes_file", known, f"writes {shown_path(known)}")
    try:
        mode = _plain_stat(known).st_mode
    except OSError:
        return None  # the code learns that by itself
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISBLK(mode):
        return _effect("reads_outside", known, f"reads from {shown_path(known)}, which is no file")
    return None


def _reading(event: str, args: Sequence[Any], may_read: _MayRead) -> Effect | None:
    if event != "open" and event not in _LISTS:
        return None
    known = _absolute(args[0] if args and args[0] is not None else ".")
    if known is None or may_read(known, lists=event in _LISTS):
        return None
    return _effect("reads_outside", known, f"reads {shown_path(known)}")


_plain_stat = os.stat


def _absolute(path: Any, directory: Any = None) -> str | None:
    """Return a path in full; it may be relative to a descriptor."""
    if not isinstance(path, str | bytes):
        return None
    if not isinstance(directory, int) or directory < 0:
        return os.path.abspath(os.fsdecode(path))
    try:
        return os.path.join(os.readlink(f"/proc/self/fd/{directory}"), os.fsdecode(path))
    except OSError:
        return os.fsdecode(path)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _command(args: Sequence[Any]) -> str:
    for words in args[:2]:
        if not isinstance(words, list | tuple):
            continue
        listed = [_text(word) for word in cast("Sequence[Any]", words)]
        is_shell = len(listed) == 3 and listed[1] == "-c" and listed[0].endswith("sh")
        return listed[2] if is_shell else shlex.join(listed)
    return _text(args[0])


def _address(address: Any) -> str:
    if isinstance(address, tuple):
        return ":".join(_text(part) for part in cast("tuple[Any, ...]", address)[:2])
    return _text(address)


def _running(_: str, args: Sequence[Any]) -> Effect:
    command = _command(args)
    return _effect("runs_program", command.split(maxsplit=1)[0] if command.strip() else "", f"runs {command}")


def _connecting(_: str, args: Sequence[Any]) -> Effect:
    address = _address(args[1])
    return _effect("uses_network", address, f"connects to {address}")


_STARTS = frozenset({"os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn", "subprocess.Popen"})
_FORKS = frozenset({"os.fork", "os.forkpty", "_posixsubprocess.fork_exec"})

_DESCRIBERS: dict[str, Callable[[str, Sequence[Any]], Effect | None]] = {
    **dict.fromkeys(_STARTS, _running),
    **dict.fromkeys(_FORKS, lambda _, __: _effect("runs_program", "", "starts a process")),
    **dict.fromkeys(("socket.connect", "socket.sendto", "socket.sendmsg"), _connecting),
    **dict.fromkeys(("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"), _asking),
    "socket.bind": lambda _, args: _effect(
        "uses_network", _address(args[1]), f"waits for connections at {_address(args[1])}"
    ),
    **dict.fromkeys(("os.kill", "os.killpg"), _signalling),
    "sqlite3.connect": _database,
    "sys.addaudithook": lambda _, __: _effect("changes_setting", "audit hooks", "adds an audit hook"),
    "webbrowser.open": lambda _, args: _effect("sends_message", "a browser", f"opens in a browser: {_text(args[0])}"),
}


def prober(last: FrameType) -> Literal["import", "probe", ""]:
    """Return what makes the call: an import, or the probe of an installed module; empty if the code does."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    file = ""
    for _ in range(_MAX_FRAMES):
        if frame is None or frame is last:
            return ""
        if frame.f_globals.get("__name__") in _PROBES:
            return "probe"
        if frame.f_code.co_name == "<module>":
            file = frame.f_code.co_filename
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>" and frame.f_code.co_name == "_find_and_load":
            return "import" if not file or lies_installed(file) else ""
        frame = frame.f_back
    return ""
