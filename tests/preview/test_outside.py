"""What a copy is about to do outside is named and does not happen; its files are its own, and look like others."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest
from copied import EVERYTHING, Done, copied

from indus_nb.safety.effects import EffectKind
from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the copy, with a file, a directory and a pipe."""
    (tmp_path / "there.txt").write_text("here\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.txt").write_text("b")
    os.mkfifo(tmp_path / "pipe")
    database = sqlite3.connect(tmp_path / "there.db")
    database.execute("create table t as select 1 a")
    database.close()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def states(folder: Path) -> list[object]:
    """All that a copy could have changed there."""
    return [
        (str(path), path.lstat().st_mode, path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    ]


STOPPED: dict[str, tuple[Callable[[], object], EffectKind, str]] = {
    "remove": (lambda: os.remove("there.txt"), "deletes", "deletes there.txt"),
    "unlink of a path": (lambda: Path("there.txt").unlink(), "deletes", "deletes there.txt"),
    "rmdir": (lambda: os.rmdir("sub"), "deletes", "deletes the directory sub"),
    "remove in a directory that is open": (
        lambda: os.remove("b.txt", dir_fd=os.open("sub", os.O_RDONLY)),
        "deletes",
        "deletes sub/b.txt",
    ),
    "a move of its own file": (lambda: os.rename(tempfile.mkstemp()[1], "new"), "writes_file", "moves "),
    "rmtree": (lambda: shutil.rmtree("sub"), "deletes", "deletes the directory sub"),
    "mkdir of a descriptor": (
        lambda: os.mkdir("new", dir_fd=os.open(".", os.O_RDONLY)),
        "writes_file",
        "makes the directory",
    ),
    "rename": (lambda: os.rename("there.txt", "new"), "writes_file", "moves there.txt → new"),
    "replace": (lambda: os.replace("there.txt", "sub/b.txt"), "writes_file", "moves there.txt → sub/b.txt"),
    "symlink": (lambda: os.symlink("there.txt", "new"), "writes_file", "makes a link to there.txt → new"),
    "link": (lambda: os.link("there.txt", "new"), "writes_file", "makes a link to there.txt → new"),
    "truncate": (lambda: os.truncate("there.txt", 0), "writes_file", "changes there.txt"),
    "chmod": (lambda: os.chmod("there.txt", 0), "writes_file", "changes the mode of there.txt"),
    "chown": (lambda: os.chown("there.txt", 1, 1), "writes_file", "changes the owner of there.txt"),
    "utime": (lambda: os.utime("there.txt"), "writes_file", "changes the times of there.txt"),
    "setxattr": (lambda: os.setxattr("there.txt", "user.a", b"1"), "writes_file", "changes attributes of there.txt"),
    "open of os": (lambda: os.open("there.txt", os.O_WRONLY), "writes_file", "writes there.txt"),
    "open of os that creates": (lambda: os.open("new", os.O_CREAT), "writes_file", "writes new"),
    "open of a file by an opener": (
        lambda: open("new", "w", opener=os.open),
        "writes_file",
        "writes new",
    ),
    "mkfifo": (lambda: os.mkfifo("new"), "unknown", "does what a copy of the kernel may not"),
    "mknod": (lambda: os.mknod("new"), "unknown", "does what a copy of the kernel may not"),
    "nice": (lambda: os.nice(-1), "unknown", "does what a copy of the kernel may not"),
    "a group of processes": (lambda: os.setpgid(0, 0), "unknown", "does what a copy of the kernel may not"),
    "a database": (lambda: sqlite3.connect("new.db"), "writes_file", "makes the database new.db"),
    "a program": (lambda: subprocess.run(["touch", "new"], check=False), "runs_program", "runs touch new"),
    "a program by a shell": (
        lambda: subprocess.run("touch new", shell=True, check=False),
        "runs_program",
        "runs touch new",
    ),
    "a program by the system": (lambda: os.system("touch new"), "runs_program", "runs touch new"),
    "a program in place of this one": (lambda: os.execv("/bin/true", ["true"]), "runs_program", "runs"),
    "a process": (os.fork, "runs_program", "starts a process"),
    "a terminal": (os.forkpty, "runs_program", "starts a process"),
    "a connection": (lambda: socket.create_connection(("127.0.0.1", 9)), "uses_network", "connects to 127.0.0.1:9"),
    "a name": (lambda: socket.getaddrinfo("example.com", 80), "uses_network", "connects to example.com:80"),
    "a datagram": (
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)),
        "uses_network",
        "connects to 127.0.0.1:9",
    ),
    "a server": (
        lambda: socket.create_server(("127.0.0.1", 8123)),
        "uses_network",
        "waits for connections at 127.0.0.1:8123",
    ),
    "a signal to the kernel": (lambda: os.kill(os.getppid(), 9), "sends_message", "sends signal 9 to this kernel"),
    "a signal to all": (lambda: os.kill(-1, 9), "sends_message", "sends signal 9 to this kernel"),
    "a signal to another": (lambda: os.kill(1, 15), "sends_message", "sends signal 15 to process 1"),
    "a browser": (
        lambda: webbrowser.GenericBrowser("true").open("http://a.b"),
        "sends_message",
        "opens in a browser: http://a.b",
    ),
    "an audit hook": (lambda: sys.addaudithook(print), "changes_setting", "adds an audit hook"),
    "a pipe that somebody else writes to": (lambda: open("pipe"), "reads_outside", "reads from pipe, which is no file"),
    "a thread's doing": (
        lambda: [each.start() or each.join() for each in [threading.Thread(target=os.remove, args=("there.txt",))]],
        "deletes",
        "deletes there.txt",
    ),
}


def unquoted(text: str) -> str:
    return text.replace("\N{LEFT DOUBLE QUOTATION MARK}", "").replace("\N{RIGHT DOUBLE QUOTATION MARK}", "")


@pytest.mark.parametrize("what", STOPPED)
def test_an_effect_outside_is_named_and_does_not_happen(folder: Path, what: str) -> None:
    do, kind, words = STOPPED[what]
    before = states(folder)

    def do_in_any_case() -> None:
        with contextlib.suppress(BaseException):  # which is of no use: the copy ends
            do()

    report = copied(do_in_any_case).report
    (effect,) = report.effects
    assert (report.how, report.why, effect.kind) == ("stopped", effect.words, kind)
    assert unquoted(effect.words).startswith(words)
    assert states(folder) == before


HARMLESS: dict[str, Callable[[], object]] = {
    "a database in memory": lambda: sqlite3.connect(":memory:").execute("select 1").fetchall()[0][0],
    "a database that is there": lambda: sqlite3.connect("there.db").execute("select a from t").fetchall()[0][0],
    "a pair of sockets": lambda: [each.close() for each in socket.socketpair()] and 1,
    "the null device": lambda: open(os.devnull, "w").write("x"),
    "what is about a file": lambda: int(os.path.exists("there.txt")) + os.stat("there.txt").st_nlink - 1,
    "a thread": lambda: [each.start() or each.join() for each in [threading.Thread(target=int)]] and 1,
    "a list of files": lambda: sorted(os.listdir(".")).index("sub"),
    "a temporary file that is removed": lambda: tempfile.TemporaryFile().write(b"x"),
    "a temporary directory that is removed": lambda: (
        [each.__enter__() and each.cleanup() for each in [tempfile.TemporaryDirectory()]] and 1
    ),
}


@pytest.mark.parametrize("what", HARMLESS)
def test_what_has_no_effect_outside_is_done(folder: Path, what: str) -> None:
    done = copied(HARMLESS[what])
    assert (done.report.how, done.words, done.raised, bool(done.gave)) == ("done", [], "", True)


def test_a_function_in_c_is_named_as_its_effects_cannot_be_seen(folder: Path) -> None:
    source = "import ctypes\ndef do(): return ctypes.CDLL(None).unlink(b'there.txt')"
    namespace = {"__name__": "__main__"}
    exec(source, namespace)
    done = copied(namespace["do"])  # type: ignore[arg-type]
    assert (done.words, done.gave) == (["calls unlink in C, whose effects cannot be seen"], -1)
    assert (folder / "there.txt").exists()
    assert copied(lambda: ctypes.CDLL(None).getpid() > 0).words == []  # as a library may


class TestReading:
    """Files that a copy may not read."""

    @staticmethod
    def tried(folder: Path, do: Callable[[], object]) -> Done:
        """Do something where the interpreter and ``sub`` may be read, and the folder itself only be listed."""
        rules: list[tuple[str, bool | None]] = [(sys.prefix, False), (sys.base_prefix, False), ("/usr", False)]
        return copied(do, readable=[*rules, (str(folder), None), (str(folder / "sub"), False)])

    def test_one_that_may_be_read_is_read(self, folder: Path) -> None:
        assert self.tried(folder, lambda: open("sub/b.txt").read()).gave == "b"
        assert self.tried(folder, lambda: os.listdir("sub")).gave == ["b.txt"]

    def test_a_directory_that_may_only_be_listed_is_listed_and_nothing_in_it_read(self, folder: Path) -> None:
        assert "there.txt" in self.tried(folder, lambda: os.listdir(".")).gave
        assert [each.name for each in os.scandir(".")]
        report = self.tried(folder, lambda: open("there.txt").read()).report
        assert (report.how, report.why) == ("stopped", "reads there.txt")

    @pytest.mark.parametrize(
        "do",
        [
            lambda: open("../outside.txt").read(),
            lambda: os.open("../outside.txt", os.O_RDONLY),
            lambda: open("sub/link").read(),
            lambda: os.chdir("sub") or open("../../outside.txt").read(),
            lambda: shutil.copyfile("../outside.txt", "sub/new"),
            lambda: Path("../outside.txt").read_bytes().decode(),
            lambda: os.listdir(".."),
            lambda: [*os.scandir("..")],
            lambda: os.listdir("/var"),
            lambda: open(b"../outside.txt").read(),
        ],
    )
    def test_what_may_not_be_read_stops_it_by_whatever_way(self, folder: Path, do: Callable[[], object]) -> None:
        outside = folder.parent / "outside.txt"
        outside.write_text("secret")
        (folder / "sub" / "link").symlink_to(outside)
        done = self.tried(folder, do)
        assert (done.report.how, done.gave) == ("stopped", None)
        assert done.report.effects[-1].kind == "reads_outside"
        outside.unlink()

    def test_what_is_not_there_is_not_found_and_nothing_more(self, folder: Path) -> None:
        assert self.tried(folder, lambda: open("nothing.txt")).raised.startswith("FileNotFoundError")
        assert self.tried(folder, lambda: os.listdir("nothing")).raised.startswith("FileNotFoundError")

    def test_other_processes_are_not_there_and_its_own_environment_is_not_readable(self, folder: Path) -> None:
        for path in ("/proc/1/environ", "/proc/self/environ", f"/proc/{os.getpid()}/maps", "/proc/self/mem"):
            done = copied(lambda path=path: open(path).read(), readable=[("/usr", False)])
            assert (done.report.how, done.raised.partition(":")[0]) == ("done", "PermissionError"), path
        assert "Name:" in copied(lambda: open("/proc/self/status").read(), readable=[("/usr", False)]).gave

    def test_a_module_that_reads_what_it_may_not_is_told_so_and_can_do_without(self, folder: Path) -> None:
        (folder.parent / "outside.txt").write_text("secret")
        (folder / "sub" / "curious.py").write_text(
            "try:\n    found = open('../outside.txt').read()\nexcept OSError:\n    found = 'nothing'\n"
        )

        def look() -> str:
            sys.path.insert(0, "sub")
            import curious  # type: ignore[import-not-found]

            return str(curious.found)

        report = self.tried(folder, look).report
        assert (report.how, report.effects[-1].kind) == ("stopped", "reads_outside")  # as no installed one


class TestFiles:
    """Files that a copy writes."""

    @staticmethod
    def done(folder: Path, do: Callable[[], object]) -> Done:
        before = states(folder)
        done = copied(do)
        assert states(folder) == before
        return done

    def test_what_is_written_is_read_again_at_its_own_place(self, folder: Path) -> None:
        def do() -> list[object]:
            with open("new.txt", "w") as file:
                file.write("one\ntwo\n")
            with open(Path("new.txt"), "ab") as file:
                file.write(b"three")
            return [open(b"./new.txt").read(), os.path.exists("new.txt"), os.stat("new.txt").st_size]

        done = self.done(folder, do)
        assert (done.gave, done.words) == (["one\ntwo\nthree", True, 13], ["writes new.txt"])

    @pytest.mark.parametrize(
        ("mode", "content", "words"),
        [
            ("a", "here\nx", "changes there.txt"),
            ("r+", "xere\n", "changes there.txt"),
            ("w", "x", "overwrites there.txt"),
            ("w+", "x", "overwrites there.txt"),
        ],
    )
    def test_a_file_that_is_there_is_changed_as_its_mode_says(
        self, folder: Path, mode: str, content: str, words: str
    ) -> None:
        def do() -> str:
            with open("there.txt", mode) as file:
                file.write("x")
            return open("there.txt").read()

        done = self.done(folder, do)
        assert (done.gave, done.words) == (content, [words])

    @pytest.mark.parametrize(
        ("path", "mode", "number"),
        [
            ("there.txt", "x", errno.EEXIST),
            ("nothing.txt", "r+", errno.ENOENT),
            ("nowhere/new.txt", "w", errno.ENOENT),
        ],
    )
    def test_what_fails_in_the_kernel_fails_there(self, folder: Path, path: str, mode: str, number: int) -> None:
        def do() -> int | None:
            try:
                open(path, mode)
            except OSError as error:
                return error.errno
            return None

        done = self.done(folder, do)
        assert (done.gave, done.words) == (number, [])

    def test_a_directory_is_not_opened_for_writing(self, folder: Path) -> None:
        assert self.done(folder, lambda: open("sub", "w")).report.why == "writes sub"

    def test_a_file_that_was_written_there_can_be_removed_there(self, folder: Path) -> None:
        def do() -> bool:
            Path("there.txt").write_text("x")
            os.remove("there.txt")
            return os.path.exists("there.txt")

        done = self.done(folder, do)
        assert (done.gave, done.words) == (False, ["overwrites there.txt", "deletes there.txt"])

    def test_a_new_file_is_made_once_by_the_mode_for_new_ones(self, folder: Path) -> None:
        def do() -> str:
            open("new.txt", "x").close()
            try:
                open("new.txt", "x")
            except FileExistsError:
                return "exists"
            return ""

        done = self.done(folder, do)
        assert (done.gave, done.words) == ("exists", ["writes new.txt"])

    def test_its_own_files_can_be_moved_and_removed(self, folder: Path) -> None:
        def do() -> list[object]:
            Path("a.txt").write_text("a")
            os.rename("a.txt", "b.txt")
            Path("c.txt").write_text("c")
            os.remove("c.txt")
            gone = []
            for path in ("a.txt", "c.txt"):
                try:
                    open(path)
                except FileNotFoundError:
                    gone.append(path)
            return [open("b.txt").read(), gone, os.path.exists("a.txt"), os.path.exists("c.txt")]

        done = self.done(folder, do)
        assert done.gave == ["a", ["a.txt", "c.txt"], False, False]
        assert done.words == ["writes a.txt", "writes b.txt", "writes c.txt", "deletes c.txt"]

    def test_a_file_that_was_removed_can_be_made_anew(self, folder: Path) -> None:
        def do() -> str:
            Path("a.txt").write_text("first")
            os.remove("a.txt")
            with open("a.txt", "a") as file:
                file.write("second")
            return open("a.txt").read()

        assert self.done(folder, do).gave == "second"

    def test_files_can_be_put_into_directories_of_its_own(self, folder: Path) -> None:
        def do() -> list[object]:
            os.makedirs("new/deep")
            Path("new/deep/a.txt").write_text("a")
            again = ""
            try:
                os.mkdir("sub")
            except FileExistsError:
                again = "sub"
            return [os.path.isdir("new"), again, open("new/deep/a.txt").read()]

        done = self.done(folder, do)
        assert done.gave == [True, "sub", "a"]
        assert done.words == ["makes the directory new", "makes the directory new/deep", "writes new/deep/a.txt"]

    def test_what_is_moved_over_another_overwrites_it(self, folder: Path) -> None:
        def do() -> str:
            Path("new.txt").write_text("new")
            os.replace("new.txt", "there.txt")
            return open("there.txt").read()

        done = self.done(folder, do)
        assert (done.gave, done.words) == ("new", ["writes new.txt", "overwrites there.txt"])

    def test_a_file_that_may_not_be_written_is_refused_as_it_would_be(self, folder: Path) -> None:
        if os.geteuid() == 0:
            pytest.skip("root may write anywhere")
        (folder / "there.txt").chmod(0o444)
        assert self.done(folder, lambda: open("there.txt", "w")).raised.startswith("PermissionError")

    def test_more_files_than_some_stop_it(self, folder: Path) -> None:
        done = self.done(folder, lambda: [Path(f"{number}.txt").write_text("x") for number in range(40)])
        assert (done.report.how, done.report.why) == ("stopped", "changes more than 32 files")
        assert done.words[:2] == ["writes 0.txt", "writes 1.txt"]

    def test_a_large_file_is_not_copied_to_be_changed(self, folder: Path) -> None:
        with (folder / "large.bin").open("wb") as file:
            file.truncate(17 << 20)
        done = copied(lambda: open("large.bin", "ab"))
        assert (done.report.how, done.report.why) == ("stopped", "changes large.bin")
        assert copied(lambda: open("large.bin", "wb").close()).words == ["overwrites large.bin"]
        assert (folder / "large.bin").stat().st_size == 17 << 20

    def test_more_than_a_copy_may_write_fails(self, folder: Path) -> None:
        done = self.done(folder, lambda: Path("large.bin").write_bytes(b"x" * (20 << 20)))
        assert (done.raised, done.words) == ("OSError: [Errno 27] File too large", ["writes large.bin"])

    def test_temporary_files_that_are_left_are_named(self, folder: Path) -> None:
        def do() -> None:
            with open(os.path.join(tempfile.mkdtemp(prefix="mine"), "left.txt"), "w") as file:
                file.write("x")
            with open(os.path.join(tempfile.gettempdir(), "gone.txt"), "w") as file:
                file.write("x")
            os.remove(file.name)

        (words,) = self.done(folder, do).words
        assert words.startswith("leaves the temporary file ")
        assert words.rstrip("\N{RIGHT DOUBLE QUOTATION MARK}").endswith("/left.txt")

    def test_a_file_of_its_own_has_the_mode_of_a_file(self, folder: Path) -> None:
        def do() -> bool:
            Path("new.txt").write_text("x")
            return stat.S_ISREG(os.lstat("new.txt").st_mode)

        assert self.done(folder, do).gave is True


def test_without_rules_nothing_can_be_read(folder: Path) -> None:
    assert copied(lambda: open("there.txt").read(), readable=[]).report.how == "stopped"
    assert copied(lambda: open("there.txt").read(), readable=EVERYTHING).gave == "here\n"
