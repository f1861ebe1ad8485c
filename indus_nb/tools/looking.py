"""Shell commands that only look: at files of the project, and at what other such commands print.

What this module promises: a command for which ``looks_at`` returns paths runs none but the programs that are named
here, with none but the options that are named here. These write to nothing but their output, start no other program,
connect to nothing, and read no file but those paths. What is not known to be so is left to the user's judgement.

Words are plain, or stand as a whole between quotes that hold nothing for the shell: so no expansion, no redirection,
nothing but pipes. Programs are found as the shell finds them, and are none of the project's own. ``git log`` runs
where the repository's configuration holds nothing but values that make git run and fetch nothing.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_MAX_COMMAND_CHARACTERS = 2000
_MAX_CONFIG_BYTES = 20_000
_WORD = re.compile(r"[A-Za-z0-9._/,:@%+=-]+|'[^'\n\\]*'|\"[^\"$`\\!\n]*\"")
_NUMBER = r"\d{1,6}"


@dataclass(frozen=True, slots=True)
class _Program:
    """What of a program's arguments is known to be harmless.

    ``flags`` are options of one letter, which may stand together; ``valued`` is a pattern for each option that is
    followed by a value, in the same word or in the next; ``words`` are options and others that stand alone. The first
    ``patterns`` other words are no paths; ``paths`` is how many paths there may be. With ``filters`` it reads its input
    where it is given no path, and it must be given some.
    """

    flags: str = ""
    valued: Mapping[str, str] | None = None
    words: str = r"(?!)"
    patterns: int = 0
    paths: int = 0
    filters: bool = False


_MANY = 100
_LINES = rf"[+-]?{_NUMBER}[kKM]?"
_PROGRAMS: Mapping[str, _Program] = {
    "cat": _Program("AbeEnstTv", paths=_MANY, filters=True),
    "cut": _Program(
        "s", {"-d": r".{1,3}", "-f": r"[\d,-]+", "-c": r"[\d,-]+", "-b": r"[\d,-]+"}, paths=_MANY, filters=True
    ),
    "df": _Program("hT"),
    "du": _Program("abchks", {"-d": _NUMBER, "--max-depth": _NUMBER}, paths=_MANY),
    "file": _Program(paths=_MANY),
    "grep": _Program(
        "cEFGhHilLnoqsvwx",
        {"-A": _NUMBER, "-B": _NUMBER, "-C": _NUMBER, "-m": _NUMBER},
        patterns=1,
        paths=_MANY,
        filters=True,
    ),
    "head": _Program("qv", {"-n": _LINES, "-c": _LINES}, words=rf"-{_NUMBER}", paths=_MANY, filters=True),
    "ls": _Program(
        "1AabBcCdfFgGhiklmnopqQrRsStuUvxX", words="--all|--almost-all|--human-readable|--size|--reverse", paths=_MANY
    ),
    "nl": _Program(paths=_MANY, filters=True),
    "nproc": _Program(),
    "pwd": _Program("LP"),
    "rg": _Program(
        "cFHhilNnosSvw", {"-A": _NUMBER, "-B": _NUMBER, "-C": _NUMBER, "-m": _NUMBER}, patterns=1, paths=_MANY
    ),
    "sort": _Program("bdfghiMnrRsuV", {"-k": r"[\d.,bdfginrMRV]+", "-t": r".{1,3}"}, paths=_MANY, filters=True),
    "stat": _Program(paths=_MANY),
    "tail": _Program("qv", {"-n": _LINES, "-c": _LINES}, words=rf"-{_NUMBER}", paths=_MANY, filters=True),
    "uniq": _Program("cdiu", paths=1, filters=True),
    "wc": _Program("clLmw", paths=_MANY, filters=True),
    "whoami": _Program(),
}
_OF_THE_DIRECTORY = ("ls", "find", "du", "git")
_SYSTEM = [*map(Path, ["/usr", "/bin", "/sbin", "/opt/homebrew", "/opt/local", "/nix/store", "/run/current-system"])]
"""Where the programs of a system are, rather than those of a project, an environment or a user."""
_FIND = re.compile(r"-(?:i?name|i?path|type|maxdepth|mindepth|size|mtime|mmin)")
"""Tests of ``find`` with a value; all others are left out, those that run, delete and write among them."""
_GIT_LOG = re.compile(
    rf"--oneline|--graph|--decorate|--no-decorate|--all|--no-color|--no-merges|--merges|--reverse|--abbrev-commit"
    rf"|-{_NUMBER}|-n{_NUMBER}|--max-count={_NUMBER}|--date=(?:short|iso|relative)"
)
_GIT_SAFE = re.compile(
    r"""
    \[core\]|\[user\]|\[color\]|\[init\]
    | \[(?:remote|branch)\ "[A-Za-z0-9._/-]+"\]
    | (?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol)
      \ =\ [a-z0-9]+
    | (?:url|fetch|remote|merge|name|email|rebase|pushurl|defaultbranch|ui)\ =\ [^\\"\#;]*
    | [\#;].*
    """,
    re.VERBOSE,
)
"""Lines of a repository's configuration that make ``git log`` run and fetch nothing."""


def looks_at(command: str, cwd: Path, environment: Mapping[str, str]) -> Sequence[str] | None:
    """The files and directories that a command looks at, if it does nothing else.

    Args:
        command: The command, for bash.
        cwd: Where it runs.
        environment: The variables that it is given.

    Returns:
        Their paths as the command has them; ``None`` where it is not known that it does nothing else.

    >>> looks_at("head -5 notes.txt | wc -l", Path("/srv"), {"PATH": "/usr/bin:/bin"})
    ['notes.txt']
    >>> [looks_at(command, Path("/"), {"PATH": "/usr/bin:/bin"}) for command in ("ls > x", "ls; rm x", "sort -o x y")]
    [None, None, None]
    """
    if len(command) > _MAX_COMMAND_CHARACTERS or any(_changes_shells(name) for name in environment):
        return None
    stages = _stages(command)
    if stages is None:
        return None
    found: list[str] = []
    for number, (program, *arguments) in enumerate(stages):
        if not _is_of_the_system(program, cwd, environment):
            return None
        if program == "git":
            paths = list[str]() if number == 0 and _is_harmless_log(arguments, cwd, environment) else None
        elif program == "find":
            paths = _found_in(arguments)
        else:
            paths = _paths_of(_PROGRAMS.get(program), arguments, has_input=number > 0)
        if paths is None or (program == "rg" and not _are_files(paths, cwd, environment)):
            return None
        found += paths or (["."] if number == 0 or program in _OF_THE_DIRECTORY else [])
    return found


_CHANGING = frozenset(
    ("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "EXECIGNORE", "POSIXLY_CORRECT", "_POSIX2_VERSION", "GREP_OPTIONS")
) | {"LD_PRELOAD", "LD_AUDIT", "GCONV_PATH", "LOCPATH", "MAGIC"}


def _changes_shells(name: str) -> bool:
    """Whether a variable makes a shell or a program run something of its own, or another thing under its name."""
    return name in _CHANGING or name.startswith(("BASH_FUNC_", "DYLD_"))


def _stages(command: str) -> list[list[str]] | None:
    """The words of each command of a pipe; ``None`` if there is more to it for a shell."""
    stages: list[list[str]] = [[]]
    position = 0
    command = command.strip(" ")
    while position < len(command):
        sign = command[position]
        if sign == " ":
            position += 1
        elif sign == "|":
            stages.append([])
            position += 1
        elif word := _WORD.match(command, position):
            position = word.end()
            if position < len(command) and command[position] not in " |":
                return None
            text = word.group()
            stages[-1].append(text[1:-1] if text[0] in "'\"" else text)
        else:
            return None
    return stages if all(stages) and all(re.fullmatch(r"[a-z]+", stage[0]) for stage in stages) else None


def _paths_of(program: _Program | None, arguments: Sequence[str], *, has_input: bool) -> list[str] | None:
    """The paths among the arguments of a program; ``None`` if one of these is not known to be harmless."""
    if program is None:
        return None
    left = [*arguments]
    others: list[str] = []
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            others.append(word)
        elif re.fullmatch(program.words, word) or _are_flags(word, program.flags):
            continue
        elif (option := _valued_option(word, program.valued or {})) is not None:
            name, value = option
            value = left.pop(0) if value is None and left else value
            if value is None or re.fullmatch((program.valued or {})[name], value) is None:
                return None
        else:
            return None
    if len(others) < program.patterns or "-" in others or any(word.startswith("+") for word in others):
        return None  # the last are options of old, one of which follows a file for ever
    paths = others[program.patterns :]
    if len(paths) > program.paths or (program.filters and not paths and not has_input):
        return None
    return paths


def _found_in(arguments: Sequence[str]) -> list[str] | None:
    """The directories in which ``find`` looks for names; ``None`` if it may do more."""
    left = [*arguments]
    paths: list[str] = []
    while left and not left[0].startswith("-"):
        paths.append(left.pop(0))
    while left:
        test = left.pop(0)
        if test not in ("-empty", "-not", "-o") and (_FIND.fullmatch(test) is None or not left or not left.pop(0)):
            return None
    return None if any(path in ("!", "(", ")", ",") for path in paths) else paths


def _are_files(paths: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> bool:
    """Whether a search reads these files and nothing below a directory, with options that stand in the command only."""
    return bool(paths) and "RIPGREP_CONFIG_PATH" not in environment and all((cwd / path).is_file() for path in paths)


def _are_flags(word: str, flags: str) -> bool:
    return len(word) > 1 and word[1] != "-" and set(word[1:]) <= {*flags}


def _valued_option(word: str, valued: Mapping[str, str]) -> tuple[str, str | None] | None:
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return (name, value if equals else None) if name in valued else None
    name, value = word[:2], word[2:]
    return (name, value or None) if name in valued else None


def _is_of_the_system(program: str, cwd: Path, environment: Mapping[str, str]) -> bool:
    """Whether the shell finds the program where nothing of the project's can be."""
    import shutil

    path = environment.get("PATH", "")
    libraries = environment.get("LD_LIBRARY_PATH", "")
    here = Path(os.path.realpath(cwd))
    if not path or not all(Path(each).is_absolute() for each in path.split(os.pathsep)):
        return False
    if libraries and any(_is_of_the_project(each, here) for each in libraries.split(os.pathsep)):
        return False
    found = shutil.which(program, path=path)
    if found is None:
        return False
    places = [Path(each) for each in (os.path.realpath(found), os.path.abspath(found))]  # noqa: PTH100
    return all(
        any(place.is_relative_to(directory) for directory in _SYSTEM) and not place.is_relative_to(here)
        for place in places
    )


def _is_of_the_project(directory: str, here: Path) -> bool:
    return not Path(directory).is_absolute() or Path(os.path.realpath(directory)).is_relative_to(here)


def _is_harmless_log(arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> bool:
    """Whether it is ``git log`` without a path, in a repository that makes git run nothing."""
    if not arguments or arguments[0] != "log" or any(name.startswith("GIT_") for name in environment):
        return False
    options = [*arguments[1:]]
    while options:
        option = options.pop(0)
        if option == "-n" and options and re.fullmatch(_NUMBER, options[0]):
            options.pop(0)
        elif _GIT_LOG.fullmatch(option) is None:
            return False
    repository = _repository(Path(os.path.realpath(cwd)))
    return repository is not None and _is_plain_repository(repository)


def _repository(here: Path) -> Path | None:
    """The directory that git finds for its data; ``None`` if it might find one that is none of ``.git``."""
    for directory in (here, *here.parents):
        if os.path.lexists(directory / "HEAD") or os.path.lexists(directory / "objects"):
            return None  # a repository without a working tree
        if os.path.lexists(directory / ".git"):
            return directory / ".git"
    return None


def _is_plain_repository(repository: Path) -> bool:
    looked: Callable[[str], os.stat_result] = lambda name: (repository / name).lstat()  # noqa: E731
    try:
        if not stat.S_ISDIR(repository.lstat().st_mode):
            return False
        if not all(stat.S_ISREG(looked(name).st_mode) for name in ("config", "HEAD")):
            return False
        if not all(stat.S_ISDIR(looked(name).st_mode) for name in ("objects", "objects/pack", "refs")):
            return False  # of another repository
        if any(
            os.path.lexists(repository / name) for name in ("config.worktree", "commondir", "objects/info/alternates")
        ):
            return False
        with (repository / "config").open("rb") as file:
            text = file.read(_MAX_CONFIG_BYTES + 1)
        lines = text.decode("ascii").split("\n")
    except (OSError, ValueError):
        return False
    return len(text) <= _MAX_CONFIG_BYTES and all(
        not line.strip() or _GIT_SAFE.fullmatch(line.strip()) is not None for line in lines
    )
