"""Ignore files mean what they mean to git, and no line of them, however hostile, takes long."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hostile import IGNORE_LINES
from hypothesis import given, settings
from hypothesis import strategies as st

from indus_nb.base.ignore import MAX_LINE, IgnoreFile, PathGlob

NAMES = ["a", "b", "ab", "ba", "aab", "a b", "A", "]", "-", "!a", "#a", "a ", "\\"]
INNER = ["a", "b", "ab"]
# Git counts bytes where others count characters, so all are of one byte.
ATOMS = [
    "a", "b", "A", "*", "?", "/", "!", "#", " ", "-", "]", "\\\\", "\\*", "\\a", "\\ ", "\\", "\\/", "[ab]", "[!a]",
    "[^b]", "[a-b]", "[]]", "[!]a]", "[]-a]", "[b-a]", "[a", "[a-", "[\\]a]", "[[:alpha:]]", "[[:nope:]]", "[[:",
    "[a/b]", "[![:upper:]-]",
]  # fmt: skip
PART = st.lists(st.sampled_from([atom for atom in ATOMS if atom != "/"]), min_size=1, max_size=4).map("".join)
# Git takes two stars behind plain text for any path (`/a**/b`), against its own description.
PART = PART.filter(lambda part: "**" not in part)
PATTERN = st.tuples(
    st.sampled_from(["", "", "/", "!", "!/", "**/"]),
    st.lists(st.one_of(PART, st.sampled_from(["a", "*", "**"])), min_size=1, max_size=4).map("/".join),
    st.sampled_from(["", "", "/", "/**", "/*", " ", "\r", "//"]),
).map("".join)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", path], check=True)
    for first in ("a", "b", "ab", "a b"):
        for second in INNER:
            (path / first / second).mkdir(parents=True)
            for third in INNER:
                (path / first / second / third).touch()
        for name in set(NAMES) - set(INNER):
            (path / first / name).touch()
    for name in NAMES:
        if not (path / name).exists():
            (path / name).touch()
    return path


def ours(root: Path, ignored: IgnoreFile) -> set[str]:
    """What is hidden, with all that lies in what is hidden."""
    hidden: set[str] = set()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name.partition("/")[0] in (".git", ".gitignore"):
            continue
        if path.parent.relative_to(root).as_posix() in hidden or ignored.hides(f"{name}/" if path.is_dir() else name):
            hidden.add(name)
    return hidden


@given(st.lists(PATTERN, min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_what_is_hidden_is_what_git_hides(repository: Path, lines: list[str]) -> None:
    text = "\n".join(lines)
    (repository / ".gitignore").write_bytes(text.encode())
    paths = [path.relative_to(repository).as_posix() for path in repository.rglob("*")]
    wanted = [path for path in paths if path.partition("/")[0] not in (".git", ".gitignore")]
    command = ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "-z", "--stdin"]
    asked = b"".join(path.encode() + b"\0" for path in wanted)
    answer = subprocess.run(command, cwd=repository, input=asked, capture_output=True, check=False).stdout
    git = {path.decode() for path in answer.split(b"\0") if path}
    assert ours(repository, IgnoreFile(text.split("\n"))) == git


@pytest.mark.parametrize("line", IGNORE_LINES)
def test_no_line_however_hostile_takes_long(line: str) -> None:
    ignored = IgnoreFile([line] * 100)
    assert ignored.hides("a" * 255) is None
    assert ignored.hides("/".join(["a" * 250] * 100)) is None
    assert ignored.hides("/".join(["a"] * 1000)) is None


def test_broken_and_endless_lines_leave_the_others_in_force() -> None:
    ignored = IgnoreFile(["!", "/", "[", "a\\", "[[:nope:]]", "*" * (MAX_LINE + 1), "# *", "", "   ", "kept*", "!kept"])
    assert [ignored.hides(path) for path in ("kept-not", "kept", "other")] == [True, False, None]
    assert IgnoreFile(["\u00fc?.txt"]).hides("\u00fc\u00e9.txt")


def test_a_directory_is_hidden_within_another() -> None:
    ignored = IgnoreFile(["build/", "!build/kept/"])
    assert ignored.hides_within("build/kept")
    assert not ignored.hides_within("src")


@pytest.mark.parametrize("glob", ["[", "a[b", "a\\"])
def test_a_glob_that_is_none_is_refused(glob: str) -> None:
    with pytest.raises(ValueError, match=r"not closed|nothing follows"):
        PathGlob(glob)
