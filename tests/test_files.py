"""Files are written whole or not at all, and stay the same files: their mode, owner, links and names."""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path

import pytest

from indus_nb.base.files import without_home, write_atomically

NOBODY = 65534


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def little_room(size: int) -> Iterator[None]:
    """No file may become larger than that, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that a user without rights can get to."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    yield directory
    for path in (directory, *directory.rglob("*")):
        with suppress(OSError):
            path.chmod(0o700)
    shutil.rmtree(directory)


@contextmanager
def without_rights(*owned: Path) -> Iterator[None]:
    """Be a user like any other, to whom these files belong."""
    if os.geteuid() != 0:
        yield
        return
    for path in owned:
        os.chown(path, NOBODY, NOBODY)
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


def test_a_new_file_gets_the_mode_that_any_new_file_gets(tmp_path: Path) -> None:
    with umask(0o027):
        write_atomically(tmp_path / "a", b"new")
        write_atomically(tmp_path / "private", b"new", mode=0o600)
    assert (mode(tmp_path / "a"), mode(tmp_path / "private")) == (0o640, 0o600)
    assert names(tmp_path) == ["a", "private"]


@pytest.mark.parametrize("before", [0o755, 0o640, 0o666, 0o2755, 0o600])
def test_a_file_keeps_its_mode_and_is_another_one_in_its_place(tmp_path: Path, before: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(before)
    number = path.stat().st_ino
    with path.open("rb") as reader, umask(0o077):
        write_atomically(path, b"new", in_place=True)
        assert reader.read() == b"old"  # who reads it sees no mixture
    assert (path.read_bytes(), mode(path)) == (b"new", before)
    assert path.stat().st_ino != number
    assert names(tmp_path) == ["a"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    os.chown(path, 1234, 5678)
    path.chmod(0o4750)
    write_atomically(path, b"new")
    found = path.stat()
    assert (found.st_uid, found.st_gid, mode(path)) == (1234, 5678, 0o4750)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")
def test_somebody_elses_file_stays_theirs_and_is_written_into(place: Path) -> None:
    path = place / "shared"
    path.write_bytes(b"a longer old text")
    path.chmod(0o666)
    number = path.stat().st_ino
    with without_rights(place):
        write_atomically(path, b"new", in_place=True)
    assert (path.read_bytes(), path.stat().st_uid, path.stat().st_ino) == (b"new", 0, number)
    assert names(place) == ["shared"]


def test_attributes_of_a_file_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.origin", b"https://example.org")
    except (AttributeError, OSError):
        pytest.skip("no extended attributes here")
    write_atomically(path, b"new")
    assert os.getxattr(path, "user.origin") == b"https://example.org"


def test_the_time_of_change_is_that_of_the_writing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    os.utime(path, (1, 1))
    write_atomically(path, b"new")
    assert path.stat().st_mtime > 1


def test_of_a_symbolic_link_the_target_is_written(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "a").write_bytes(b"old")
    (tmp_path / "first").symlink_to("real/a")
    (tmp_path / "second").symlink_to("first")
    (tmp_path / "dangling").symlink_to("real/b")
    write_atomically(tmp_path / "second", b"new")
    write_atomically(tmp_path / "dangling", b"made")
    assert all((tmp_path / name).is_symlink() for name in ("first", "second", "dangling"))
    assert ((real / "a").read_bytes(), (real / "b").read_bytes()) == (b"new", b"made")
    assert names(real) == ["a", "b"]


def test_a_file_with_several_names_keeps_them_all(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_bytes(b"a longer old text")
    other.hardlink_to(path)
    write_atomically(path, b"new", in_place=True)
    assert other.read_bytes() == b"new"
    write_atomically(path, b"apart")
    assert other.read_bytes() == b"new"


def test_a_file_that_may_not_be_written_to_is_not_replaced_either(place: Path) -> None:
    path = place / "a"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with without_rights(place, path), pytest.raises(PermissionError):
        write_atomically(path, b"new", in_place=True)
    assert (path.read_bytes(), names(place)) == (b"old", ["a"])


def test_in_a_directory_that_may_not_be_written_to_a_file_is_written_into(place: Path) -> None:
    path = place / "a"
    path.write_bytes(b"a longer old text")
    with without_rights(place, path):
        place.chmod(0o555)
        with pytest.raises(PermissionError):
            write_atomically(path, b"new")
        with pytest.raises(PermissionError):
            write_atomically(place / "b", b"new", in_place=True)
        assert path.read_bytes() == b"a longer old text"
        write_atomically(path, b"new", in_place=True)
    assert (path.read_bytes(), names(place)) == (b"new", ["a"])


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_what_does_not_fit_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, *, exclusive: bool, in_place: bool
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with little_room(1000), pytest.raises(OSError, match="large"):
        write_atomically(path, b"x" * 10_000, exclusive=exclusive, in_place=in_place)
    with little_room(1000), pytest.raises(OSError, match="large"):
        write_atomically(tmp_path / "b", b"x" * 10_000, exclusive=exclusive, in_place=in_place)
    assert (path.read_bytes(), names(tmp_path)) == (b"old", ["a"])


def test_what_does_not_fit_into_a_file_with_several_names_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old" * 200)
    (tmp_path / "b").hardlink_to(path)
    with little_room(1000), pytest.raises(OSError, match="large"):
        write_atomically(path, b"x" * 10_000, in_place=True)
    assert path.read_bytes() == b"old" * 200


def test_a_directory_is_never_replaced(tmp_path: Path) -> None:
    for in_place in (False, True):
        with pytest.raises(IsADirectoryError):
            write_atomically(tmp_path, b"new", in_place=in_place)


def test_a_device_is_written_to_and_stays_one(tmp_path: Path) -> None:
    write_atomically(Path(os.devnull), b"new", in_place=True)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no regular file"):
        write_atomically(pipe, b"new")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_name_may_be_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 127)
    write_atomically(path, b"one")
    write_atomically(path, b"two", exclusive=True)
    assert path.read_bytes() == b"two"


def test_what_a_process_left_that_died_while_it_wrote_is_removed_under_a_lock(tmp_path: Path) -> None:
    (tmp_path / ".a.new").write_bytes(b"half of i")
    write_atomically(tmp_path / "a", b"new", exclusive=True)
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("unknown", ["replace", "chmod", "utime"])
def test_where_a_file_system_does_not_know_a_call_a_file_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unknown: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    path = tmp_path / "a"
    path.write_bytes(b"a longer old text")
    monkeypatch.setattr(os, unknown, fail)
    write_atomically(path, b"new", in_place=True)
    write_atomically(tmp_path / "b", b"new", in_place=True)
    assert (path.read_bytes(), (tmp_path / "b").read_bytes(), names(tmp_path)) == (b"new", b"new", ["a", "b"])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG])
def test_a_disk_that_fails_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    path = tmp_path / "a"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match=re.escape(os.strerror(number))):
        write_atomically(path, b"new", in_place=True)
    assert (path.read_bytes(), names(tmp_path)) == (b"old", ["a"])


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs the files of processes")
def test_what_has_no_path_of_its_own_is_written_through_the_path_that_leads_to_it(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path\n"
        "from indus_nb.base.files import write_atomically\n"
        "write_atomically(Path('/dev/stdout'), b'to the pipe', in_place=True)\n"
        "write_atomically(Path('/proc/self/comm'), b'renamed', in_place=True)\n"
        "assert Path('/proc/self/comm').read_bytes() == b'renamed\\n'\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert ended.stdout == b"to the pipe"


def test_a_file_that_may_be_written_to_but_not_read_is_written(place: Path) -> None:
    path = place / "a"
    path.write_bytes(b"a longer old text")
    (place / "b").hardlink_to(path)
    path.chmod(0o222)
    with without_rights(place, path):
        write_atomically(path, b"new", in_place=True)
    path.chmod(0o600)
    assert (path.read_bytes(), (place / "b").read_bytes()) == (b"new", b"new")


def test_the_home_directory_is_written_as_shells_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    path = "/home/ada/.indusagi/agent/sessions/--home-ada-engine--/1.jsonl"
    assert without_home(f"saved in {path}, and not in /home/adam or /srv/home/ada/x") == (
        "saved in ~/.indusagi/agent/sessions/*-engine--/1.jsonl, and not in /home/adam or /srv/home/ada/x"
    )
    assert without_home("/home/ada: no such file") == "~: no such file"
    of_home = "/home/ada/sessions/--home-ada--/1.jsonl"
    assert without_home(of_home) == "~/sessions/--????????--/1.jsonl"
    assert fnmatch(of_home.replace("/home/ada/", "~/"), without_home(of_home))
    monkeypatch.setenv("HOME", "/")
    assert without_home("/etc/hosts") == "/etc/hosts"
