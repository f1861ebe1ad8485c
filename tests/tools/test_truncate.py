"""Heads and tails of texts, compared with what a simple, wasteful way would give."""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from indus_nb.tools.truncate import MAX_BYTES, MAX_LINES, GrowingTail, head


@pytest.fixture(autouse=True)
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def random_text(dice: random.Random) -> str:
    longest = dice.choice([3, 30, 300, 60_000])
    lines = ["".join(dice.choices("aä€😀", k=5)) * (dice.randrange(longest) // 5) for _ in range(dice.randrange(3000))]
    if longest > 300:
        lines = lines[:20]
    return "\n".join(lines) + dice.choice(["", "\n"])


def whole_lines(text: str) -> list[str]:
    return [line for line in text.splitlines(keepends=True) if line]


@pytest.mark.parametrize("seed", range(40))
def test_a_head_is_as_many_whole_lines_as_fit(seed: int) -> None:
    text = random_text(random.Random(seed))
    shown = head(text)
    lines = whole_lines(text)
    count = 0
    while count < len(lines) and count < MAX_LINES and len("".join(lines[: count + 1]).encode()) <= MAX_BYTES:
        count += 1
    assert shown.content == "".join(lines[:count])
    assert shown.truncated == (count < len(lines))
    assert (shown.total_lines, shown.total_bytes) == (len(lines), len(text.encode()))
    assert (shown.output_lines, shown.output_bytes) == (count, len(shown.content.encode()))
    assert shown.first_line_exceeds_limit == (count == 0 and bool(lines))


@pytest.mark.parametrize("seed", range(60))
def test_a_tail_is_as_many_whole_lines_as_fit_however_it_grew(seed: int) -> None:
    dice = random.Random(seed)
    text = random_text(dice)
    tail = GrowingTail("test")
    position = 0
    step = dice.choice([100, 5000, 100_000])
    while position < len(text):
        size = dice.randrange(1, step)
        tail.append(text[position : position + size])
        if dice.random() < 0.2:
            tail.shown()
        position += size
    shown = tail.shown()
    tail.close()
    lines = whole_lines(text)
    count = 0
    while count < len(lines) and count < MAX_LINES and len("".join(lines[-count - 1 :]).encode()) <= MAX_BYTES:
        count += 1
    assert (shown.total_lines, shown.total_bytes) == (len(lines), len(text.encode()))
    assert shown.truncated == (count < len(lines))
    if count or not lines:
        assert shown.content == "".join(lines[len(lines) - count :])
        assert shown.output_lines == count
        assert not shown.last_line_partial
    else:
        assert shown.last_line_partial
        assert lines[-1].endswith(shown.content)
        assert MAX_BYTES - 4 < len(shown.content.encode()) <= MAX_BYTES
    assert shown.output_bytes == len(shown.content.encode())
    assert (tail.path is not None) == shown.truncated
    if tail.path:
        assert tail.path.read_bytes() == text.encode()


@pytest.fixture
def small_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_can_grow_no_more_does_not_stop_the_text(small_files: None) -> None:
    tail = GrowingTail("test")
    for _ in range(10):
        tail.append("line\n" * 100_000)
    tail.append("end\n")
    shown = tail.shown()
    tail.close()
    assert shown.content.endswith("line\nend\n")
    assert shown.total_lines == 1_000_001
    assert "too large" in (tail.file_problem or "")
    assert tail.path is not None


def test_lines_that_are_written_over_are_kept_as_a_terminal_shows_them_wherever_pieces_are_cut() -> None:
    text = "".join(f"\r{done:3}%" for done in range(101)) + "\nab\bc\r\nlonger\rnew\n\x1b" + "50%\r"
    for size in (1, 2, 7, len(text)):
        tail = GrowingTail("test", folds=True)
        for start in range(0, len(text), size):
            tail.append(text[start : start + size])
        assert tail.shown().content == "100%\nac\nnewger\n50%"
        assert (tail.shown().total_lines, tail.shown().total_bytes) == (4, 18)
        tail.clear()
        tail.append("after")
        assert tail.shown().content == "after"
        tail.close()


def test_the_file_of_a_long_text_ends_with_the_last_state_of_its_last_line() -> None:
    tail = GrowingTail("test", folds=True)
    tail.append("line\n" * 3000 + " 10%\r")
    tail.append(" 99%\r")
    assert tail.shown().content.endswith("line\n 99%")
    tail.append("100%")
    tail.close()
    assert tail.path is not None
    assert tail.path.read_text().endswith("line\n100%")
    assert tail.shown().content.endswith("line\n100%")
    tail.path.unlink()


def test_an_old_file_is_removed_only_when_nothing_writes_it_any_more(temporary_files: Path) -> None:
    long = "line\n" * (MAX_LINES + 1)
    running, ended = GrowingTail("bash"), GrowingTail("bash")
    for tail in (running, ended):
        tail.append(long)
    ended.close()
    for path in temporary_files.glob("*.log"):
        os.utime(path, (1, 1))
    another = GrowingTail("bash")
    another.append(long)
    another.close()
    assert running.path is not None
    assert ended.path is not None
    assert (running.path.exists(), ended.path.exists()) == (True, False)
    running.close()
