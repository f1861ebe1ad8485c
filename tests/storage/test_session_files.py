"""One writer per session file, and lines that are whole or not there: with real processes, signals and limits."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from living import ending

from indus_nb.base.errors import SessionFileError, SessionLockedError, SessionNotFoundError
from indus_nb.base.messages import UserMessage, parse_message
from indus_nb.core.storage.store import SessionStore

HEADER = b'{"type":"session","version":3,"id":"s1","timestamp":"2026-01-02T03:04:05.678Z","cwd":"/w"}\n'
FIRST = (
    b'{"type":"message","id":"00000001","parentId":null,"timestamp":"t","message":{"role":"user","content":"one"}}\n'
)
SECOND = FIRST.replace(b"00000001", b"00000002").replace(b"null", b'"00000001"').replace(b"one", b"two")

HOLD = """
import sys
from pathlib import Path
from indus_nb.base.messages import UserMessage
from indus_nb.core.storage.store import SessionStore
store = SessionStore.open(Path(sys.argv[1]))
store.append_message(UserMessage(content="from the other process"))
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    path.write_bytes(HEADER + FIRST)
    return path


def contents(store: SessionStore) -> list[object]:
    return [message.content for message in store.context().messages()]


def names(directory: Path) -> list[str]:
    return sorted(item.name for item in directory.iterdir())


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True)


# The lock


def test_a_second_process_is_kept_out_and_told_by_whom(path: Path) -> None:
    with ending(
        subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    ) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"open\n"
        for _ in range(2):
            with pytest.raises(SessionLockedError, match=f"process {owner.pid} on ") as caught:
                SessionStore.open(path)
        assert caught.value.owner.startswith("python")
        assert contents(SessionStore.read(path)) == ["one", "from the other process"]
        owner.stdin.close()
        assert owner.wait() == 0
    with SessionStore.open(path) as store:
        assert contents(store) == ["one", "from the other process"]


def test_the_lock_of_a_killed_owner_is_taken_over(path: Path) -> None:
    with ending(
        subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"open\n"
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
    assert names(path.parent) == [".session.jsonl.lock", "session.jsonl"]
    with SessionStore.open(path) as store:
        store.append_message(UserMessage(content="three"))
        with pytest.raises(SessionLockedError, match=f"process {os.getpid()} on"):
            SessionStore.open(path)
    assert names(path.parent) == ["session.jsonl"]


def test_two_stores_in_one_process_exclude_each_other_even_by_another_name(path: Path) -> None:
    link = path.with_name("link.jsonl")
    link.symlink_to(path)
    with SessionStore.open(path) as store:
        for name in (path, link):
            with pytest.raises(SessionLockedError, match="this process"):
                SessionStore.open(name)
        store.append_message(UserMessage(content="two"))
    with SessionStore.open(link) as store:
        assert contents(store) == ["one", "two"]
        store.append_message(UserMessage(content="three"))
    assert link.is_symlink()


def test_a_new_session_is_locked_from_its_first_message_on(tmp_path: Path) -> None:
    with SessionStore.create(tmp_path, tmp_path) as store:
        store.append_message(UserMessage(content="one"))
        assert store.path is not None
        with pytest.raises(SessionLockedError):
            SessionStore.open(store.path)
    SessionStore.open(store.path).close()


def test_a_failed_opening_leaves_nothing_locked(path: Path) -> None:
    path.write_bytes(HEADER.replace(b'"version":3,', b"") + b'{"type":"message"}\n')
    blocker = path.with_name(".session.jsonl.new")
    blocker.mkdir()
    with pytest.raises(SessionFileError, match="cannot be rewritten"):
        SessionStore.open(path)
    assert names(path.parent) == [".session.jsonl.new", "session.jsonl"]
    blocker.rmdir()
    SessionStore.open(path).close()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    for odd in (tmp_path, pipe):
        with pytest.raises(SessionFileError, match="not a file"):
            SessionStore.open(odd)
    for missing in (tmp_path / "missing.jsonl", Path("zero\0byte.jsonl")):
        with pytest.raises(SessionNotFoundError):
            SessionStore.open(missing)


def test_an_owner_that_writes_nonsense_into_its_lock_cannot_mark_up_the_error(path: Path) -> None:
    with SessionStore.open(path):
        path.with_name(".session.jsonl.lock").write_bytes(b"\n\x1b[31mevil\xff\x00\nsecond line")
        with pytest.raises(SessionLockedError) as caught:
            SessionStore.open(path)
        assert caught.value.owner == "[31mevil�"


def test_a_symlink_in_the_place_of_the_lock_is_not_followed(path: Path) -> None:
    victim = path.with_name("victim")
    victim.write_text("precious")
    path.with_name(".session.jsonl.lock").symlink_to(victim)
    with pytest.raises(SessionFileError, match="cannot be locked"):
        SessionStore.open(path)
    assert victim.read_text() == "precious"


def test_without_locks_in_the_file_system_a_session_opens_with_a_warning(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object, **__: object) -> bool:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with SessionStore.open(path) as store:
        assert len(store.warnings) == 1
        assert "no locks (No locks available)" in store.warnings[0]
        store.append_message(UserMessage(content="two"))
        with SessionStore.open(path) as other:
            other.append_message(UserMessage(content="three"))
        with pytest.raises(SessionFileError, match="another program"):
            store.append_message(UserMessage(content="four"))


def test_a_lock_does_not_outlive_its_owner_in_a_forked_child(path: Path) -> None:
    code = """
import multiprocessing, os, sys
from pathlib import Path
from indus_nb.base.errors import SessionFileError
from indus_nb.base.messages import UserMessage
from indus_nb.core.storage.store import SessionStore

store = SessionStore.open(Path(sys.argv[1]))
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    try:
        store.append_message(UserMessage(content="two writers"))
    except SessionFileError as error:
        os.write(writing, str(error).encode())
    store.close()
    os.close(1)
    os.close(2)
    sys.stdin.read()
    os._exit(0)
print(os.read(reading, 1000).decode(), flush=True)
print((Path(sys.argv[1]).parent / ".session.jsonl.lock").exists(), flush=True)
os._exit(0)
"""
    with ending(
        subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ) as owner:
        assert owner.stdout is not None
        refusal, still_locked = owner.stdout.read().splitlines()
        owner.wait()
        assert "belongs to the parent" in refusal
        assert still_locked == "True"
        SessionStore.open(path).close()  # while the child still runs
        assert owner.stdin is not None
        owner.stdin.close()


def take_turns(path: Path, failures: multiprocessing.queues.Queue[str], turns: int) -> None:
    done = 0
    while done < turns:
        try:
            with SessionStore.open(path) as store:
                store.append_message(UserMessage(content="turn"))
                done += 1
        except SessionLockedError:
            continue
        except BaseException as error:
            failures.put(repr(error))
            return


def test_writers_that_come_and_go_never_hold_the_file_together(path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    failures = spawn.Queue()
    writers = [spawn.Process(target=take_turns, args=(path, failures, 60)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert failures.empty()
    with SessionStore.open(path) as store:
        assert len(store.branch()) == 1 + 3 * 60
        assert store.warnings == []


# Reading


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the system does not count what a process reads")
@pytest.mark.parametrize("end", [b"", b'{"torn', SECOND[:-1]], ids=["whole", "torn", "unended"])
def test_a_file_is_opened_once_and_read_once(path: Path, end: bytes) -> None:
    path.write_bytes(HEADER + FIRST + FIRST.replace(b"one", b"more " * 100_000) + end)
    code = """
import sys
from pathlib import Path
from indus_nb.core.storage import SessionStore, list_sessions

path = Path(sys.argv[1])
SessionStore.open(path.with_name("another.jsonl")).close()  # what is imported late is imported
opened = []
# With a mode it is a file object; what that calls to open the file is audited once more, without one.
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" and given[1] else None)


def measured(work):
    opened.clear()
    before = read()
    work()
    return opened.count(str(path)), (read() - before) / path.stat().st_size


def read():
    return int(Path("/proc/self/io").read_text().split()[1])


print(*measured(lambda: SessionStore.open(path).append("custom")))
print(*measured(lambda: SessionStore.read(path)))
print(*measured(lambda: list_sessions(path.parent)))
"""
    path.with_name("another.jsonl").write_bytes(HEADER + FIRST)
    for line in run(code, path).stdout.splitlines():
        times, share = line.split()
        assert times == "1"
        assert float(share) < 1.1


# Torn and foreign lines


@pytest.mark.parametrize("left", [1, 50, len(SECOND) - 2])
def test_a_torn_last_line_is_set_aside_and_reported(path: Path, left: int) -> None:
    path.write_bytes(HEADER + FIRST + SECOND)
    os.truncate(path, len(HEADER + FIRST) + left)
    reader = SessionStore.read(path)
    assert contents(reader) == ["one"]
    assert "not complete" in reader.warnings[0]
    assert path.stat().st_size == len(HEADER + FIRST) + left
    with SessionStore.open(path) as store:
        kept = path.with_name("session.jsonl.torn-1")
        assert kept.read_bytes() == SECOND[:left]
        assert len(store.warnings) == 1
        assert str(kept) in store.warnings[0]
        store.append_message(UserMessage(content="three"))
        assert contents(store) == ["one", "three"]
    with SessionStore.open(path) as again:
        assert contents(again) == ["one", "three"]
        assert again.warnings == []


def test_a_second_torn_line_does_not_replace_the_first(path: Path) -> None:
    for number, torn in enumerate((b'{"a', b"\x00" * 5000), 1):
        with path.open("ab") as file:
            file.write(torn)
        SessionStore.open(path).close()
        assert path.with_name(f"session.jsonl.torn-{number}").read_bytes() == torn
    assert path.read_bytes() == HEADER + FIRST


def test_a_last_line_that_lacks_only_its_end_counts(path: Path) -> None:
    path.write_bytes(HEADER + FIRST + SECOND[:-1])
    with SessionStore.open(path) as store:
        assert contents(store) == ["one", "two"]
        assert store.warnings == []
        store.append_message(UserMessage(content="three"))
    assert path.read_bytes().startswith(HEADER + FIRST + SECOND)
    path.write_bytes(HEADER[:-1])
    with SessionStore.open(path) as store:
        store.append_message(UserMessage(content="first"))
    assert contents(SessionStore.read(path)) == ["first"]


def test_a_line_that_does_not_fit_on_the_disk_leaves_no_trace(path: Path) -> None:
    code = """
import json, resource, signal, sys
from pathlib import Path
from indus_nb.base.errors import SessionFileError
from indus_nb.base.messages import UserMessage
from indus_nb.core.storage.store import SessionStore

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
store = SessionStore.open(path)
before = path.read_bytes(), store.leaf_id
resource.setrlimit(resource.RLIMIT_FSIZE, (len(before[0]) + 300, resource.RLIM_INFINITY))
try:
    store.append_message(UserMessage(content="x" * 1000))
except SessionFileError as error:
    assert (path.read_bytes(), store.leaf_id) == before, "a trace was left"
    assert len(store.entries) == 1
    print(error)
store.append_message(UserMessage(content="it fits"))
new = SessionStore.create(path.parent, path.parent / "new")
try:
    new.append_message(UserMessage(content="y" * 5000))
except SessionFileError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(list((path.parent / "new").iterdir()))
new.append_message(UserMessage(content="y" * 5000))
new.close()
print(len(SessionStore.read(new.path).entries))
"""
    first, second, listing, count = run(code, path).stdout.splitlines()
    assert first == f"{path}: nothing was added to the session (File too large). What the file held is still there"
    assert "File too large" in second
    assert (listing, count) == ("[]", "1")
    assert contents(SessionStore.read(path)) == ["one", "it fits"]


def test_a_foreign_write_stops_appending_instead_of_interleaving(path: Path) -> None:
    with SessionStore.open(path) as store:
        with path.open("ab") as foreign:
            foreign.write(SECOND)
        with pytest.raises(SessionFileError, match="another program wrote to the session"):
            store.append_message(UserMessage(content="three"))
        assert path.read_bytes() == HEADER + FIRST + SECOND
        assert contents(store) == ["one"]
    with SessionStore.open(path) as store:
        assert contents(store) == ["one", "two"]


def test_an_edit_in_place_is_noticed_also_when_the_size_stays(path: Path) -> None:
    with SessionStore.open(path) as store:
        store.append_message(UserMessage(content="two"))
        edited = path.read_bytes().replace(b"one", b"ONE")
        path.write_bytes(edited)
        for _ in range(2):
            with pytest.raises(SessionFileError, match="another program changed what the session's file holds"):
                store.append_message(UserMessage(content="three"))
        assert path.read_bytes() == edited
    with SessionStore.open(path) as store:
        assert contents(store) == ["ONE", "two"]


def test_a_file_that_was_only_touched_goes_on(path: Path) -> None:
    with SessionStore.open(path) as store:
        store.append_message(UserMessage(content="two"))
        os.utime(path, (1, 1))
        store.append_message(UserMessage(content="three"))
    assert contents(SessionStore.read(path)) == ["one", "two", "three"]


def test_a_file_that_went_away_is_not_written_into_the_void(path: Path) -> None:
    with SessionStore.open(path) as store:
        kept = path.rename(path.with_name("moved"))
        with pytest.raises(SessionFileError, match="has gone"):
            store.append_message(UserMessage(content="two"))
        path.write_bytes(kept.read_bytes())
        with pytest.raises(SessionFileError, match="another program"):
            store.append_message(UserMessage(content="two"))
        kept.replace(path)
        store.append_message(UserMessage(content="two"))
    assert contents(SessionStore.read(path)) == ["one", "two"]


def test_an_owner_killed_in_the_middle_of_writing_loses_no_line_it_reported(path: Path) -> None:
    code = """
import sys
from pathlib import Path
from indus_nb.base.messages import UserMessage
from indus_nb.core.storage.store import SessionStore

store = SessionStore.open(Path(sys.argv[1]))
while True:
    print(store.append_message(UserMessage(content="z" * 3000)), flush=True)
"""
    with ending(subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True)) as writer:
        assert writer.stdout is not None
        reported = [writer.stdout.readline().strip() for _ in range(200)]
        os.kill(writer.pid, signal.SIGKILL)
        reported += [line.strip() for line in writer.stdout if line.endswith("\n")]
        writer.wait()
    with SessionStore.open(path) as store:
        assert {entry.id for entry in store.entries} >= set(reported)


def test_where_no_file_can_be_made_the_store_stays_in_memory_and_names_the_place(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    store = SessionStore.create(tmp_path, tmp_path / "taken" / "sessions")
    store.append_message(UserMessage(content="hi"))
    assert len(store.entries) == 1
    assert store.path is None
    assert "taken" in str(store.kept_in_memory)
    with pytest.raises(SessionFileError, match="taken"):
        store.copy(tmp_path, tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "a file"


def test_every_line_on_disk_is_one_json_object(tmp_path: Path) -> None:
    with SessionStore.create(tmp_path, tmp_path) as store:
        for text in ("a\nb", "\r", "\u2028\u2029", "\x00\x1b[0m", "\ud800", "🎉"):
            store.append_message(UserMessage(content=text))
    assert store.path is not None
    raw = store.path.read_bytes().decode()
    assert [type(json.loads(line)) for line in raw.split("\n")[:-1]] == [dict] * 7


def test_what_the_user_would_miss_most_is_on_the_disk_before_it_counts_as_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    answer = {"role": "assistant", "content": [], "api": "a", "provider": "p", "model": "m"}
    with SessionStore.create(tmp_path, tmp_path / "sessions") as store:
        store.append_message(UserMessage(content="hello"))
        synced.clear()
        store.append_message(parse_message({**answer, "stopReason": "toolUse"}))
        assert synced == []
        store.append_message(parse_message({**answer, "stopReason": "stop"}))
        store.append_message(UserMessage(content="again"))
    assert len(synced) == 2
