"""Commands that are tried before the user is asked: what is asked about, and what becomes of each answer."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from gates import REFUSED, RecordingGate
from trial_places import HERE, KEY, Place, place, running
from waiting import until

from indus_nb.base.events import ToolOutput
from indus_nb.safety.effects import Effect
from indus_nb.safety.vault import Vault
from indus_nb.tools import Shell, ToolContext, ToolError, describe_call

__all__ = ["place"]

PYTHON = shlex.quote(sys.executable)
LISTENS = f"{PYTHON} -c 'import socket; socket.create_server((\"127.0.0.1\", 0))'"
EVERYDAY = [
    *("ls -la -- .", "git status", "git log --oneline -5", "git diff", "git show HEAD", "git branch", "wc -l *.csv"),
    *("rg foo", "du -sh *", "sed -n 1,20p x.py", "awk '{print $1}' x.csv", "cd sub && ls", "ls -la; pwd", "echo hi"),
    *("which git", f"{PYTHON} --version", f"{PYTHON} -m pip list", "date", "cat x.py", "head -2 x.csv", "jq .a d.json"),
    *(
        "find . -name '*.csv'",
        "sort x.csv | uniq -c",
        "git blame x.py",
        "git stash list",
        "env",
        "diff x.csv sub/y.csv",
    ),
    *("stat x.py", "file x.py", "make -n", "df -h", "ps aux", "tail -1 x.csv", "git grep foo", "git remote -v"),
    *("git ls-files", "git config --list", "git diff --stat HEAD", "id; whoami; hostname", "uname -a", "md5sum x.csv"),
    *(f"{PYTHON} -c 'print(1+1)'", f"{PYTHON} -m json.tool d.json", f"{PYTHON} x.py", "cat /etc/os-release"),
    *(
        "test -f x.py && echo yes",
        'for f in *.csv; do wc -l "$f"; done',
        "cat <<< x | tr x y",
        "time ls",
        "yes | head -1",
    ),
    *("seq 1 5 | xargs -n1 echo", "printf 'a\\n' | tee /dev/stderr | wc -c", "ls missing 2>/dev/null || echo none"),
    *(
        "grep -c foo x.csv > /dev/null && echo found",
        "f=$(mktemp) && echo x > $f && cat $f && rm $f",
        "tree",
        "type git",
    ),
    *(
        "timeout 5 sort -k2 -t, x.csv",
        "rm -f missing",
        "mkdir -p sub",
        "git rev-parse HEAD",
        "lscpu | head -1",
        "uptime",
    ),
    f"{PYTHON} -c \"import csv; print(list(csv.reader(open('x.csv'))))\"",
]
"""Commands of an ordinary day that change nothing. Where a program is missing, that is what the model reads."""
ASKED_WITH_A_REASON = {
    "grep -rn foo .": "reads .env",
    "cat .env": "reads .env",
    "cat ~/diary.txt": "reads {home}/diary.txt",
    "ls ~": "reads {home}",
}


def test_a_command_is_tried_where_thousands_of_files_lie_beside_a_key(place: Place) -> None:
    for number in range(2_000):
        (place.project / f"{number:0>80}.txt").touch()
    ran = place.tried("cat x.csv")
    assert (ran.failed, ran.gate.asked) == (False, []), ran.text
    assert "foo,2" in ran.text


def test_the_commands_of_an_ordinary_day_are_done_unasked(place: Place) -> None:
    tool = place.tool(seconds=120)

    async def asked() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for command in (*EVERYDAY, *ASKED_WITH_A_REASON):
            ran = await place.run(command, tool=tool)
            if ran.gate.asked:
                found[command] = ran.words
            else:
                assert ran.details["ran"] == "read-only", command
        return found

    before = place.states()
    words = asyncio.run(asked())
    assert words == {command: [reason.format(home=place.home)] for command, reason in ASKED_WITH_A_REASON.items()}
    assert place.states() == before


def test_what_a_command_said_while_it_was_held_up_is_not_shown_above_the_question(place: Place) -> None:
    ran = place.tried("touch new; echo went on")
    assert ran.words == ["writes new"]
    assert [block.text for block in ran.shown[-1].content] == []  # type: ignore[union-attr]


SWALLOWED = {
    "touch new; echo ok": "writes new",
    "echo x > new || true": "writes new",
    "echo x >> x.csv 2>/dev/null; true": "writes x.csv",
    "rm -f x.csv || true": "deletes x.csv",
    "rmdir sub 2>/dev/null; ls": "deletes sub",
    "mv x.csv z.csv; true": "moves x.csv",
    "mkdir new; true": "makes new",
    "ln -s x.csv link; true": "makes link",
    "ln x.csv link; true": "makes link",
    "mkfifo pipe; true": "makes pipe",
    "cp x.csv new.csv & wait; true": "writes new.csv",
    "cd sub && touch here; true": "writes sub/here",
    "chmod 600 x.csv; true": "changes the mode, owner, times or attributes of x.csv",
    "touch -d yesterday x.csv; true": "writes x.csv",
    "truncate -s 0 x.csv; true": "writes x.csv",
    "sed -i s/foo/bar/ x.csv; true": "writes x.csv",
    "git commit -qam two; true": "changes the repository (.git/index.lock)",
    "git checkout -q -b topic; true": "changes the repository (.git/",
    "exec 3<>/dev/tcp/127.0.0.1/9; true": "connects to 127.0.0.1:9",
    "sleep 60 & true": "leaves a program running",
    f'{PYTHON} -c \'open("new", "w")\' 2>/dev/null; true': "writes new",
    f"{PYTHON} -c 'import os; os.kill(1, 15)' 2>/dev/null; true": "signals process 1",
    f"{LISTENS} 2>/dev/null; true": "listens for connections",
    f"{PYTHON} -m http.server 0 2>/dev/null; true": "uses the network",
}


@pytest.mark.parametrize("command", SWALLOWED, ids=map(str, range(len(SWALLOWED))))
def test_an_effect_is_asked_about_however_the_command_ends_and_has_not_happened(place: Place, command: str) -> None:
    before = place.states()
    ran = place.tried(command)
    assert ran.failed
    assert ran.text == REFUSED
    assert ran.words[0].startswith(SWALLOWED[command])
    assert place.states() == before


GOES_ON = {
    "sed -i s/foo/bar/ x.csv sub/y.csv": ["writes x.csv", "writes sub/y.csv"],
    "perl -pi -e s/foo/bar/ x.csv": ["writes x.csv"],
    "t=$(mktemp ./t.XXXXXX) && sort x.csv > $t && mv $t x.csv": ["writes x.csv"],
    f'{PYTHON} -c \'import os; open("d.tmp", "w").write("1"); os.replace("d.tmp", "d.json")\'': ["writes d.json"],
    "touch q1\ntouch q2": ["writes q1", "writes q2"],
    "cat > new <<END\na; b\nEND": ["writes new"],
    "tar cf all.tar *.csv && rm *.csv": ["writes all.tar", "deletes x.csv"],
    "mkdir new && echo > new/file && chmod +x x.py": [
        *("makes new", "writes new/file", "changes the mode, owner, times or attributes of x.py"),
    ],
    "mv x.csv z.csv && rm -r out": ["moves x.csv", "writes z.csv", "deletes out/old.csv", "deletes out"],
}
"""Commands that are tried to their end, with all their effects."""


@pytest.mark.parametrize("command", GOES_ON, ids=map(str, range(len(GOES_ON))))
def test_a_trial_goes_on_after_what_it_cannot_do_and_its_question_names_the_files_that_change_in_the_end(
    place: Place, command: str
) -> None:
    before = place.states()
    ran = place.tried(command)
    assert ran.words == GOES_ON[command]
    goes_on = f"After “{ran.words[0]}” it was tried with the files as they are: what depends on that"
    is_one = not any(sign in command for sign in ("&&", "\n", "; ")) or "import os" in command
    assert ran.gate.asked[-1].outcome.startswith("" if is_one else goes_on)
    assert bool(ran.gate.asked[-1].outcome) is not is_one
    assert place.states() == before


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        ("rm d.json && { test -e d.json || rm -rf out; }", ["deletes d.json"]),
        ("ln -s out l && rm -rf l/*", ["makes l"]),
    ],
)
def test_a_question_says_from_where_on_a_trial_read_what_is_there_now(
    place: Place, command: str, seen: list[str]
) -> None:
    ran = place.tried(command)
    assert ran.words == seen
    assert f"After “{seen[0]}” it was tried with the files as they are" in ran.gate.asked[-1].outcome


def test_two_files_that_change_places_are_both_named(place: Place) -> None:
    exchange = "import ctypes; open('made', 'w'); ctypes.CDLL(None).renameat2(-100, b'made', -100, b'x.csv', 2)"
    assert place.tried(f'{PYTHON} -c "{exchange}"').words == ["writes made", "writes x.csv"]


def test_a_question_says_where_a_trial_ended_if_it_did_not_come_to_its_end(place: Place) -> None:
    for command, at in (
        ("exec 3<>/dev/tcp/127.0.0.1/9 && rm x.csv", "connects to 127.0.0.1:9"),
        ("exec 3<>/dev/tcp/127.0.0.1/9", "connects to 127.0.0.1:9"),
        ("mkdir new && cp x.csv new/ && rm x.csv", "makes new"),
        ("echo > new; sleep 1000.875; rm x.csv", "writes new"),
    ):
        ran = place.tried(command)
        assert ran.words == [at]
        assert ran.gate.asked[-1].outcome == f"Its trial ended at “{at}”: what it would do after that is not known."


def test_a_command_goes_another_way_where_it_could_not_have_changed_a_file(place: Place) -> None:
    (place.project / "out").chmod(0o555)
    (place.project / "x.csv").chmod(0o444)
    if os.access(place.project / "out", os.W_OK):
        pytest.skip("this user may write everywhere")
    assert place.tried("echo > out/new || rm d.json").words == ["writes out/new", "deletes d.json"]
    assert place.tried("echo > x.csv || rm d.json").words == ["writes x.csv", "deletes d.json"]


def test_what_a_trial_wrote_instead_of_files_is_removed_and_only_read_by_it(place: Place, tmp_path: Path) -> None:
    tool = place.tool()
    ran = asyncio.run(place.run("echo one > new; exec 4> new; echo two >&4; echo > x.csv; cat x.csv", tool=tool))
    assert ran.words == ["writes new", "writes x.csv"]
    assert not [*tmp_path.rglob(".stand-in-*")]


def test_a_directory_that_is_deleted_with_much_in_it_is_named_once_with_the_number_of_its_files(place: Place) -> None:
    for number in range(80):
        (place.project / f"out/{number}.csv").touch()
    files = sum(path.is_file() for path in (place.project / ".git").rglob("*"))
    ran = place.tried("rm -rf .git && rm -r out/ && rm x.csv")
    assert ran.words == [f"deletes .git ({files} files)", "deletes out (81 files)", "deletes x.csv"]
    assert ran.gate.asked[0].effects[0].what == str(place.project / ".git")


def test_files_of_a_directory_that_stays_are_named_or_counted(place: Place) -> None:
    for number in range(80):
        (place.project / f"out/{number:02}.csv").touch()
    ran = place.tried("rm out/[0-9]*.csv; rmdir out; true")
    assert ran.words == [*(f"deletes out/{number:02}.csv" for number in range(50)), "deletes 31 more"]


def test_a_question_names_what_it_is_about_by_absolute_paths(place: Place) -> None:
    asked = place.tried("rm -r out sub ../../diary.txt").gate.asked[0].effects
    assert asked[0] == Effect("deletes", str(place.project / "out/old.csv"), "deletes out/old.csv")
    assert asked[-1] == Effect("deletes", str(place.home / "diary.txt"), f"deletes {place.home}/diary.txt")


async def test_after_a_yes_the_command_runs_as_if_it_had_not_been_tried(place: Place) -> None:
    ran = await place.run("echo x > new; echo done", RecordingGate(answer="run"))
    assert (place.project / "new").read_text() == "x\n"
    assert (ran.text, ran.details) == ("done\n", {})


async def test_what_a_command_prints_is_reported_as_that_of_a_trial_until_it_is_allowed(place: Place) -> None:
    tool, reports = place.tool(), list[ToolOutput]()
    context = ToolContext("1", reports.append, gate=RecordingGate(answer="run"))
    await tool.execute(tool.check({"command": "echo said; touch new"}), context)
    told = [(report.details or {}).get("ran") for report in reports if report.content]
    assert (told[0], told[-1]) == ("read-only", None)


async def test_a_result_without_effects_is_asked_about_where_every_call_is(place: Place) -> None:
    gate = RecordingGate(allows=lambda _: True)
    assert (await place.run("seq 9", gate)).details == {"ran": "read-only"}

    class AsksAlways(RecordingGate):
        async def covers(self, effects: object) -> bool:
            return False

    asking = AsksAlways(answer="run")
    ran = await place.run("seq 9", asking)
    assert (ran.text, ran.details["ran"]) == ("".join(f"{number}\n" for number in range(1, 10)), "read-only")
    assert [(asked.effects, asked.outcome) for asked in asking.asked] == [([], "1\n2\n3\n4\n5\n…")]


async def test_a_command_of_the_background_is_asked_about_and_not_tried(place: Place) -> None:
    from indus_nb.tools.commands.bash import bash_tool
    from indus_nb.tools.jobs import Jobs

    tool = bash_tool(place.project, Shell(), Jobs(after=30.0))
    ran = await place.run("touch new", tool=tool, background=True)
    assert [(asked.effects, ran.text) for asked in ran.gate.asked] == [
        ([Effect("runs_program", "touch", "runs touch in the background")], REFUSED)
    ]


async def test_where_nothing_can_be_confined_the_question_says_so(place: Place) -> None:
    able = replace(HERE, bwrap=None, landlock=0)
    ran = await replace(place, here=able).run("ls", RecordingGate(answer="run"))
    assert ran.words == ["cannot be tried on this machine, so what it does is not known"]
    assert "x.csv" in ran.text


class TestLong:
    """Trials that take longer than the user is left alone for."""

    async def test_waiting_gives_the_result_of_the_trial(self, place: Place) -> None:
        gate = RecordingGate(answer="wait")
        ran = await place.run("sleep 1; echo end", gate, tool=place.tool(seconds=0.2))
        assert (ran.text, ran.details) == ("end\n", {"ran": "read-only"})
        assert [(asked.effects, asked.with_trial) for asked in gate.asked] == [([], True)]

    async def test_running_it_ends_the_trial(self, place: Place) -> None:
        gate = RecordingGate(answer="run")
        command = '[ -n "$GIT_OPTIONAL_LOCKS" ] && sleep 1000.25; echo real > new'
        ran = await place.run(command, gate, tool=place.tool(seconds=0.2))
        assert (ran.failed, (place.project / "new").read_text()) == (False, "real\n")
        await until(lambda: not running("1000.25"))

    async def test_an_effect_that_comes_later_is_asked_about(self, place: Place) -> None:
        gate = RecordingGate(answer="wait")
        await place.run("sleep 1; touch new; sleep 1000.75", gate, tool=place.tool(seconds=0.2))
        assert [asked.words for asked in gate.asked] == [[], ["writes new"]]
        await until(lambda: not running("1000.75"))

    async def test_refusing_ends_the_trial(self, place: Place) -> None:
        ran = await place.run("sleep 1000.125", tool=place.tool(seconds=0.2))
        assert ran.text == REFUSED
        await until(lambda: not running("1000.125"))

    async def test_a_time_limit_counts_for_the_trial(self, place: Place) -> None:
        ran = await place.run("echo begun; sleep 1000.625", timeout=1)
        assert ran.text.endswith("Command timed out after 1 seconds")
        assert not ran.gate.asked
        await until(lambda: not running("1000.625"))

    async def test_stop_ends_the_trial_with_all_that_it_started(self, place: Place) -> None:
        tool = place.tool()
        seen = asyncio.Event()
        context = ToolContext("1", lambda output: seen.set() if output.content else None, gate=RecordingGate())
        command = "(setsid sleep 1000.375 &) ; echo begun; sleep 1000.375"
        call = asyncio.create_task(tool.execute(tool.check({"command": command}), context))
        await seen.wait()
        await until(lambda: len(running("1000.375")) >= 2)
        call.cancel()
        with pytest.raises(ToolError, match="Command aborted"):
            await call
        await until(lambda: not running("1000.375"))


class TestHeld:
    """Commands that may write to some places unasked."""

    @staticmethod
    def gate(place: Place) -> RecordingGate:
        below = f"{place.project / 'out'}/"
        return RecordingGate(allows=lambda effect: effect.kind == "writes_file" and f"{effect.what}/".startswith(below))

    async def test_it_runs_unasked_where_it_can_write_to_these_files_and_do_nothing_else(self, place: Place) -> None:
        ran = await place.run("sort x.csv > out/old.csv; cat out/old.csv >> $TMPDIR/f; echo done", self.gate(place))
        if place.way != "landlock":  # a file cannot be held open by what remounts all of them
            assert ran.words == ["writes out/old.csv"]
            return
        assert (ran.text, ran.details, ran.gate.asked) == ("done\n", {"ran": "held"}, [])
        assert (place.project / "out" / "old.csv").read_text() == "a,b\nbar,3\nbaz,4\nfoo,2\n"

    async def test_what_it_does_besides_is_refused_and_said(self, place: Place) -> None:
        (place.project / "out" / "other.csv").write_text("other\n")
        before = place.states()
        besides = (
            "echo x > out/conftest.py; rm out/old.csv; mv -f out/other.csv out/old.csv; echo x > x.csv; mkdir out/.git"
        )
        lazy = f'if [ -e "$TMPDIR/once" ]; then {besides}; else touch "$TMPDIR/once"; fi'
        ran = await place.run(f"({lazy}) 2>/dev/null; echo >> out/old.csv", self.gate(place))
        after = place.states()
        if place.way == "landlock":
            refused = (
                "writes out/conftest.py, deletes out/old.csv, moves out/other.csv, writes out/old.csv, writes x.csv"
            )
            assert f"Refused: {refused}, makes out/.git." in ran.text
            assert after.pop(str(place.project / "out" / "old.csv"))[2] == b"old\n\n"
            del before[str(place.project / "out" / "old.csv")]
        assert after == before

    @pytest.mark.parametrize(
        "command",
        [
            *("rm out/old.csv", "echo > out/new", "echo >> out/old.csv; echo > z", "mv out/old.csv out/other.csv"),
            *("mkdir out/new", "touch out/old.csv", "chmod +x out/old.csv", "ln -s old.csv out/link"),
            "echo >> out/old.csv; exec 3<>/dev/tcp/1.2.3.4/5",
        ],
    )
    async def test_what_is_not_allowed_as_a_whole_or_is_more_than_writing_is_asked_about(
        self, place: Place, command: str
    ) -> None:
        (place.project / "out" / "other.csv").write_text("other\n")
        before = place.states()
        ran = await place.run(command, self.gate(place))
        assert (ran.text, [asked.holds for asked in ran.gate.asked]) == (REFUSED, [False])
        assert place.states() == before

    async def test_writing_to_files_that_are_there_is_offered_for_good(self, place: Place) -> None:
        for command in ("echo >> x.csv", "echo > out/old.csv; echo >> x.csv"):
            assert (await place.run(command)).gate.asked[0].holds == (place.way == "landlock")


async def test_files_of_a_trial_are_there_for_the_next_one_and_gone_with_the_session(
    place: Place, tmp_path: Path
) -> None:
    tool = place.tool()
    name = (await place.run("f=$(mktemp); echo kept > $f; echo $f", tool=tool)).text.strip()
    assert (await place.run(f"cat {name}", tool=tool)).text == "kept\n"
    assert tmp_path in Path(name).parents
    del tool
    assert not Path(name).exists()


async def test_the_whole_of_long_output_can_be_read_unasked(place: Place) -> None:
    tool = place.tool()
    full = (await place.run("seq 5000", tool=tool)).details["fullOutputPath"]
    assert (await place.run(f"head -n 1 {full}", tool=tool)).text == "1\n"


async def test_what_the_user_has_opened_can_be_read_unasked(place: Place) -> None:
    plan = place.home / "work" / "other" / "plan.txt"
    assert (await place.run(f"cat '{plan}'")).words
    assert (await place.run(f"cat '{plan}'", RecordingGate(readable=[plan.parent]))).text == KEY


async def test_keys_below_what_the_user_has_opened_are_asked_about(place: Place) -> None:
    other = place.home / "work" / "other"
    for name in (".env", "sub/id_rsa"):
        (other / name).parent.mkdir(exist_ok=True)
        (other / name).write_text(KEY)
        ran = await place.run(f"base64 '{other / name}'", RecordingGate(readable=[other]))
        assert ran.words == [f"reads {other / name}"]


def test_what_another_program_is_to_read_from_a_pipe_is_left_there(place: Place) -> None:
    os.mkfifo(place.project / "sub" / "pipe")
    held = os.open(place.project / "sub" / "pipe", os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(held, b"for another")
        assert place.tried("head -c 3 sub/pipe").words == ["reads sub/pipe"]
        assert os.read(held, 100) == b"for another"
        assert place.tried("ls sub; cat sub/y.csv").words == []
    finally:
        os.close(held)


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A directory that is neither the project's nor the system's, and in no home."""
    where = next((each for each in ("/srv", "/opt", "/mnt") if os.access(each, os.W_OK)), None)
    if where is None:
        pytest.skip("needs the right to write beside the system")
    with tempfile.TemporaryDirectory(dir=where) as directory:
        yield Path(directory)


async def test_what_is_neither_the_projects_nor_the_systems_is_asked_about(place: Place, elsewhere: Path) -> None:
    for name in ("x.csv", "app/.env", "id_rsa"):
        (elsewhere / name).parent.mkdir(exist_ok=True)
        (elsewhere / name).write_text(KEY)
        assert (await place.run(f"base64 {elsewhere / name}")).words == [f"reads {elsewhere / name}"]
    ran = await place.run(f"cat {elsewhere}/x.csv; base64 {elsewhere}/id_rsa", RecordingGate(readable=[elsewhere]))
    assert ran.words == [f"reads {elsewhere}/id_rsa"]
    assert not (await place.run("ls /usr/lib > /dev/null; cat /etc/passwd | wc -l")).words


async def test_programs_run_unasked_wherever_they_are_on_the_path(
    place: Place, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "app" / "bin").mkdir(parents=True)
    (elsewhere / "app" / "lib").mkdir()
    (elsewhere / "links").mkdir()
    (elsewhere / "app" / "lib" / "words").write_text("hello\n")
    (program := elsewhere / "app" / "bin" / "greet").write_text(f"#!/bin/sh\ncat {elsewhere}/app/lib/words\n")
    program.chmod(0o755)
    (elsewhere / "links" / "greet").symlink_to(program)
    for where in ("app/bin", "links"):
        monkeypatch.setenv("PATH", f"{elsewhere / where}:{os.environ['PATH']}")
        ran = await place.run("greet")
        assert (ran.text, ran.words) == ("hello\n", [])


async def test_it_runs_by_the_shell_and_after_the_prefix_of_the_settings(place: Place) -> None:
    tool = place.tool(Shell(path="/bin/sh", prefix="greeting=hello"))
    assert (await place.run("echo $greeting $0", tool=tool)).text == "hello /bin/sh\n"


async def test_variables_that_are_named_like_secrets_are_not_there(place: Place) -> None:
    ran = await place.run('echo "${SOME_API_KEY-none}"; env')
    assert ran.text.startswith("none\n")
    assert KEY not in ran.text


async def test_values_of_known_keys_are_in_no_variable(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://me:hunter2Pa55word@db/x")
    tool = place.tool(Shell(vault=Vault()))
    ran = await place.run("echo $DATABASE_URL", tool=tool)
    assert ran.text == "postgres://me:[secret DATABASE_URL password]@db/x\n"
    assert "aHVudGVyMlBhNTV3b3Jk" not in (await place.run("printf %s ${DATABASE_URL:14:15} | base64", tool=tool)).text


async def test_a_command_that_is_given_a_key_is_asked_about(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://me:hunter2Pa55word@db/x")
    ran = await place.run("echo hunter2Pa55word | base64", tool=place.tool(Shell(vault=Vault())))
    assert ran.words == ["is given a key, and nothing that is tried gets one"]


async def test_a_failure_is_the_models_to_read(place: Place) -> None:
    ran = await place.run("echo x; exit 3")
    assert (ran.text, ran.details, ran.gate.asked) == ("x\n\n\nCommand exited with code 3", {"ran": "read-only"}, [])


async def test_words_that_look_like_a_refusal_are_none(place: Place) -> None:
    ran = await place.run("echo Permission denied; exit 1")
    assert (ran.gate.asked, ran.details) == ([], {"ran": "read-only"})


def test_only_commands_that_run_here_are_tried(place: Place) -> None:
    described = describe_call("bash", {"command": "ls"}, {"bash": place.tool()})
    assert described.tries
    assert described.approval().effects == ()


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
async def test_wishes_for_rights_are_effects(place: Place) -> None:
    words = (await place.run("unshare --user true 2>/dev/null; true")).words
    assert words == ["makes a system call (unshare) that may change more than itself"]
