"""What is found of code that ran in a copy of a shell: each effect on objects of all kinds, and none that is none."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from trial_shell import TrialShell, trial_shell

from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")

SETUP = """
import array, collections, contextlib, enum, functools, io, itertools, random, threading, types, weakref
import numpy as np, pandas as pd
rows = [1, 2, 3]; nested = [[1], [2]]; table = {'a': [1]}; text = 'x'; also = rows
buffer = bytearray(b'abc'); view = memoryview(buffer)
values = np.arange(6.0); part = values[1:3]; square = np.zeros((3, 3)); few = square[::2]
large = np.zeros(2_000_000); piece = large[10:20]
frame = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']}); series = pd.Series([1, 2], name='s')
class Kind:
    items = []; count = 0
    def __init__(self): self.value = 1
class Slotted:
    __slots__ = ('value',)
thing = Kind(); slotted = Slotted(); slotted.value = [1]
def counter():
    n, seen = 0, []
    def count():
        nonlocal n
        n += 1; seen.append(n)
        return n
    return count
tick = counter()
numbers = (n for n in range(9)); items = iter(rows); turns = itertools.count()
def noting(x, seen=[]): seen.append(x); return x
generator = random.Random(1); draws = np.random.default_rng(1); old_draws = np.random.RandomState(1)
queue = collections.deque([1], maxlen=2); missing = collections.defaultdict(list)
ordered = collections.OrderedDict(a=1, b=2)
memory = io.StringIO('abc'); codes = array.array('i', [1]); space = types.SimpleNamespace(a=1)
weak = weakref.WeakValueDictionary(a=thing); event = threading.Event(); lock = threading.Lock()
half = functools.partial(dict, a=[1]); error = ValueError([1]); own = types.ModuleType('own'); own.kept = []
class Color(enum.Enum): RED = 1
log = open('log.txt', 'a')
"""
EFFECTS = {
    "nested[0].append(2)": "changes nested",
    "also.append(4)": "changes also 3 → 4 items, changes rows 3 → 4 items",
    "rows[0] = True": "changes rows",
    "rows[0] = 1.0": "changes rows",
    "table['a'].append(1)": "changes table",
    "text += 'y'": "changes text",
    "view[0] = 1": "changes buffer, changes view",
    "part[0] = 9": "changes part, changes values",
    "square.T[0, 1] = 9": "changes square",
    "few[0, 0] = 5": "changes few, changes square",
    "piece[0] = 2": "changes large, changes piece",
    "large[1_000_000] = 1": "changes large",
    "np.multiply(values, 2, out=values); None": "changes values",
    "values.shape = (2, 3)": "changes values 6 → 2",
    "values.flags.writeable = False": "changes values",
    "frame['c'] = 1": "changes frame 2 → 3 columns",
    "frame.index.name = 'i'": "changes frame",
    "frame.attrs['x'] = 1": "changes frame",
    "frame['b'].array[0] = 'z'": "changes frame",
    "series.name = 't'": "changes series",
    "thing.value = 2": "changes thing",
    "thing.fresh = 1": "changes thing",
    "del thing.value": "changes thing",
    "object.__setattr__(thing, 'value', 9)": "changes thing",
    "thing.items.append(1)": "changes thing",
    "Kind.count += 1": "changes Kind",
    "Kind.items.append(1)": "changes Kind",
    "Kind.__init__ = len": "changes Kind",
    "Color.extra = 1": "changes Color",
    "slotted.value.append(1)": "changes slotted",
    "tick(); None": "changes tick",
    "noting(1); None": "changes noting",
    "noting.mark = 1": "changes noting",
    "noting.__defaults__ = (1,)": "changes noting",
    "noting.__code__ = (lambda x, seen: x).__code__": "changes noting",
    "next(numbers); None": "reaches numbers (a generator), whose changes cannot be seen",
    "next(items); None": "reaches items (a list_iterator), whose changes cannot be seen",
    "next(turns); None": "reaches turns (a count), whose changes cannot be seen",
    "generator.random(); None": "changes generator",
    "draws.random(); None": "changes draws",
    "old_draws.rand(); None": "changes old_draws",
    "random.random(); None": "draws random numbers",
    "np.random.rand(); None": "draws random numbers",
    "random.seed(1); random.shuffle(rows)": "changes rows, draws random numbers",
    "queue.append(2)": "changes queue 1 → 2 items",
    "missing['x']; None": "changes missing 0 → 1 keys",
    "ordered.move_to_end('a')": "changes ordered",
    "memory.read(); None": "changes memory",
    "codes.append(1)": "changes codes",
    "space.a = 2": "changes space",
    "weak.clear()": "changes weak",
    "event.set()": "changes event",
    "half.keywords['a'].append(2)": "changes half",
    "error.args[0].append(1)": "changes error",
    "own.kept.append(1)": "changes own",
    "log.write('x'); None": "reaches log (a TextIOWrapper), whose changes cannot be seen",
    "with open('log.txt', 'a') as file: _ = file.write('x')\ndel file": "changes log.txt",
    "exec('rows.append(4)')": "reaches",
    "(lambda: rows.append(4))()": "changes rows 3 → 4 items",
    "with contextlib.suppress(ValueError):\n    rows.append(4)\n    raise ValueError": "changes rows 3 → 4 items",
    "rows.append(4); 1 / 0": "changes rows 3 → 4 items",
    "threading.Thread(target=rows.append, args=(4,)).start()": "changes rows 3 → 4 items",
    "import os; os.environ['OF_TEST'] = '1'; del os": "changes environment variables",
    "import os; os.putenv('OF_TEST', '1'); del os": "changes environment variables",
    "import os; os.unsetenv('OF_TEST'); del os": "changes environment variables",
    "import os; os.chdir('/'); del os": "changes the working directory",
    "import sys; sys.setrecursionlimit(5000); del sys": "changes the recursion limit",
    "import sys; sys.displayhook = print; del sys": "changes sys.displayhook",
    "import logging; logging.disable(50); del logging": "changes loggers",
    "%precision 3": "changes how values are displayed",
    "%pdb on": "changes how errors are shown",
    "%xmode Plain": "changes how errors are shown",
    "%autocall 2": "changes the shell's settings",
    "import asyncio; asyncio.get_running_loop().set_task_factory(print); del asyncio": "changes the event loop",
    "del rows": "deletes rows",
}
LOOKS = r"""
len(rows), sorted(rows), rows[::-1]
rows[0] = 1; None
[row * 2 for row in rows]
dict(table, b=2)
table.get('a'), 'b' in table, missing.get('x')
values.sum(), part.mean(), square.T @ square
values.copy().sort()
frame.describe()
frame.assign(c=1).drop(columns='a')
frame.copy().insert(0, 'z', 1)
series.sort_values(ascending=False)
thing.value, Kind.count, slotted.value
list(queue), list(ordered.items()), memory.getvalue()
random.Random(3).random()
np.random.default_rng(3).random()
event.is_set(), lock.locked()
import copy; copy.deepcopy(nested).append(1); del copy
import this; del this
(lambda seen=[]: seen.append(1))()
def local():\n    rows = []\n    rows.append(1)\nlocal(); del local
for _ in range(3): pass
try:\n    rows.index(9)\nexcept ValueError:\n    pass
with open('log.txt') as file: file.read()\ndel file
print(str(error), repr(thing.value))
""".strip().splitlines()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrialShell]:
    folder, before = tmp_path_factory.mktemp("trials"), Path.cwd()
    (folder / "log.txt").write_text("a\n")
    os.chdir(folder)
    try:
        with trial_shell(folder) as opened:
            opened.run(SETUP)
            yield opened
            opened.run("log.close()")
    finally:
        os.chdir(before)


STATE = (
    "repr((rows, nested, table, text, bytes(buffer), values.tolist(), values.shape, square.tolist(), large.sum(), "
    "frame.to_dict(), frame.attrs, frame.index.name, series.name, vars(thing), Kind.items, Kind.count, slotted.value, "
    "noting.__defaults__, vars(noting), list(queue), dict(missing), list(ordered), memory.tell(), list(codes), space, "
    "sorted(weak), event.is_set(), lock.locked(), half.keywords, error.args, own.kept, random.getstate(), "
    "np.random.get_state(), generator.getstate(), draws.bit_generator.state, __import__('os').getcwd(), "
    "dict(__import__('os').environ)))"
)


def state(shell: TrialShell) -> str:
    """All that the code could have changed."""
    return Path("log.txt").read_text() + str(eval(STATE, shell.shell.user_ns))


def unquoted(words: list[str]) -> str:
    text = ", ".join(words)
    return text.replace("\N{LEFT DOUBLE QUOTATION MARK}", "").replace("\N{RIGHT DOUBLE QUOTATION MARK}", "")


@pytest.mark.parametrize("code", EFFECTS, ids=[code[:40] for code in EFFECTS])
def test_an_effect_is_found_and_has_not_happened(shell: TrialShell, code: str) -> None:
    before = state(shell)
    assert EFFECTS[code] in unquoted(shell.effects(code))
    assert state(shell) == before


def test_code_without_an_effect_has_none(shell: TrialShell) -> None:
    before = state(shell)
    found = {code: words for look in LOOKS if (words := shell.effects(code := look.replace("\\n", "\n")))}
    assert found == {}
    assert state(shell) == before


ENDS = {
    "block = bytearray(8 << 30)": ("stopped", "needs more memory than a copy of the kernel may have"),
    "try:\n    bytearray(8 << 30)\nexcept MemoryError as error:\n    raise ValueError('no')": (
        "stopped",
        "needs more memory than a copy of the kernel may have",
    ),
    "log.write('x'); log.flush()": ("stopped", "uses a file or connection that was open before"),
    "import sys; sys.exit(3)": ("stopped", "ends in a copy of the kernel as it may not elsewhere (SystemExit: 3)"),
    "raise KeyboardInterrupt": ("stopped", "ends in a copy of the kernel as it may not elsewhere (KeyboardInterrupt)"),
    "import asyncio; raise asyncio.CancelledError": (
        "stopped",
        "ends in a copy of the kernel as it may not elsewhere (CancelledError)",
    ),
    "raise OSError(1, 'no')": ("stopped", "does what a copy of the kernel may not (PermissionError: [Errno 1] no)"),
    "raise OSError(2, 'no')": ("failed", "FileNotFoundError: [Errno 2] no"),
    'raise RuntimeError("can\'t start new thread")': (
        "stopped",
        "ends in a copy of the kernel as it may not elsewhere (RuntimeError: can't start new thread)",
    ),
    "1 / 0": ("failed", "ZeroDivisionError: division by zero"),
    "raise ValueError": ("failed", "ValueError"),
    "x = (": ("failed", "SyntaxError"),
    "import os; os._exit(0)": ("none", "its copy ended without a result"),
    "import ctypes; ctypes.string_at(0)": ("none", "its copy ended by SIGSEGV"),
    "input()": ("stopped", "asks for input"),
    "import getpass; getpass.getpass()": ("stopped", "asks for input"),
    "!touch new": ("stopped", "runs touch new"),
    "%%bash\ntouch new": ("stopped", "runs"),
    "found = !touch new": ("stopped", "runs touch new"),
}


@pytest.mark.parametrize("code", ENDS, ids=[code[:40] for code in ENDS])
def test_how_code_ends_is_said(shell: TrialShell, code: str) -> None:
    how, why = ENDS[code]
    trial = shell.trial(code)
    assert trial.report is not None
    assert (trial.report.how, unquoted([trial.report.why])[: len(why)]) == (how, why)
    assert trial.holds is (how == "failed")
    assert not Path("new").exists()


class TestOutput:
    """What code shows in a copy."""

    def test_it_is_shown_in_order(self, shell: TrialShell) -> None:
        trial = shell.trial("import sys\nprint('one')\nprint('two', file=sys.stderr)\nrows")
        assert trial.card_text() == "one\ntwo\n[1, 2, 3]\n"

    def test_of_long_output_the_model_gets_the_ends_and_the_rest_is_kept(self, shell: TrialShell) -> None:
        trial = shell.trial("for n in range(20_000): print('line', n)")
        assert [each.words for each in trial.effects] == ["adds n"]
        assert trial.card_text().endswith("line 19999\n")
        path = trial.tail.path
        trial.tail.close()
        assert path is not None
        assert len(Path(path).read_text().splitlines()) == 20_000
        Path(path).unlink()

    def test_a_line_without_an_end_is_shown(self, shell: TrialShell) -> None:
        trial = shell.trial("print('x' * 3_000_000, end='')")
        assert trial.report is not None
        assert trial.report.how == "done"
        assert trial.card_text().count("x") > 1000
        trial.tail.close()
        if trial.tail.path is not None:
            Path(trial.tail.path).unlink()

    def test_an_error_is_shown_with_the_lines_of_the_code_alone(self, shell: TrialShell) -> None:
        shown = shell.trial("def fail():\n    return 1 / 0\nfail()").card_text()
        assert "ZeroDivisionError: division by zero" in shown
        assert "return 1 / 0" in shown
        assert "indus_nb" not in shown


class TestKeys:
    """Keys, which no copy has."""

    @pytest.fixture
    def key(self, shell: TrialShell) -> Iterator[str]:
        shell.keys["open-sesame-6e1f-0123"] = "[secret X]"
        yield "open-sesame-6e1f-0123"
        shell.keys.clear()

    def test_code_that_holds_one_is_not_tried(self, shell: TrialShell, key: str) -> None:
        (words,) = shell.effects(f"print('{key}')")
        assert words == "could not be tried in a copy of the kernel: it holds a key, which a copy does not have"

    def test_variables_do_not_hold_it_there(self, shell: TrialShell, key: str) -> None:
        shell.run(f"held = ['{key[:9]}' + '{key[9:]}']")
        trial = shell.trial("print(held[0][::-1])")
        assert key[::-1] not in trial.card_text()
        assert trial.card_text().startswith("xxxx")
        assert shell.shell.user_ns["held"] == [key]

    def test_variables_of_the_environment_have_its_name_instead(
        self, shell: TrialShell, key: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OF_TEST", f"a:{key}@b")
        assert shell.trial("import os; print(os.environ['OF_TEST'])").card_text() == "a:[secret X]@b\n"

    def test_what_is_made_of_it_is_not_taken_over(self, shell: TrialShell, key: str) -> None:
        shell.run(f"held = ['{key[:9]}' + '{key[9:]}']")
        trial = shell.trial("made = held[0] + '!'")
        assert not trial.holds
        assert "uses a key, which a copy of the kernel does not have" in unquoted(
            [each.words for each in trial.effects]
        )


class TestTakingOver:
    """Values that code has made in a copy, taken over without running it again."""

    @staticmethod
    def taken(shell: TrialShell, code: str) -> list[str]:
        """Take over what code makes; returns its effects."""
        trial = shell.trial(code)
        assert trial.holds
        trial.take_over(shell.shell, shell.own)
        return [each.words for each in trial.effects]

    def test_they_refer_to_what_was_there(self, shell: TrialShell) -> None:
        space = shell.shell.user_ns
        words = self.taken(shell, "both = {'rows': rows, 'fresh': [1]}; again = both['fresh']")
        assert words == ["adds again", "adds both"]
        assert space["both"]["rows"] is space["rows"]
        assert space["again"] is space["both"]["fresh"]

    def test_what_ran_before_an_error_is_kept(self, shell: TrialShell) -> None:
        assert self.taken(shell, "before = 5\n1 / 0\nbehind = 6") == ["adds before"]
        assert shell.shell.user_ns["before"] == 5
        assert "behind" not in shell.shell.user_ns

    def test_functions_are_made_again_and_see_the_variables(self, shell: TrialShell) -> None:
        self.taken(shell, "def twice(x=2, *, add: 'int' = -1): return x * len(rows) + add")
        assert shell.shell.user_ns["twice"]() == 5

    def test_random_numbers_go_on_where_they_were_left_there(self, shell: TrialShell) -> None:
        random.seed(3)
        expected = [random.random() for _ in range(3)]
        random.seed(3)
        self.taken(shell, "first = random.random(); second = random.random()")
        assert [shell.shell.user_ns["first"], shell.shell.user_ns["second"], random.random()] == expected

    @pytest.mark.parametrize(
        "code",
        [
            "made = lambda: rows",
            "made = (n for n in rows)",
            "class Made: pass",
            "made = open('log.txt')",
            "_hidden = 5",
            "rows.append(4); made = 5",
            "made = 5; print(next(numbers))",
        ],
    )
    def test_what_has_to_be_made_in_the_kernel_or_has_other_effects_is_not(self, shell: TrialShell, code: str) -> None:
        trial = shell.trial(code)
        assert trial.effects
        assert not trial.holds

    def test_the_agents_own_variables_are_no_changes_of_the_users_until_they_have_them(self, shell: TrialShell) -> None:
        space = shell.shell.user_ns
        self.taken(shell, "mine = [1]")
        assert shell.effects("mine = [2]") == ["changes mine"]  # nobody has said whose it is
        shell.own["mine"] = id(space["mine"])
        (effect,) = shell.trial("mine = [2, 3]").effects
        assert (effect.kind, effect.words) == ("new_names", "changes mine 1 → 2 items")
        trial = shell.trial("mine.append(2)")  # others may hold the object, and some of them where nobody can look
        assert [(each.kind, each.words) for each in trial.effects] == [("changes_variable", "changes mine 1 → 2 items")]
        assert not trial.holds
        space["mine"] = [3]
        assert shell.effects("mine = [2]") == ["changes mine"]
        shell.own.clear()

    def test_a_name_of_pythons_is_not_a_new_one(self, shell: TrialShell) -> None:
        assert shell.effects("print = 5") == ["takes the place of print"]


class TestObstacles:
    """Why there is no copy."""

    @staticmethod
    def why(shell: TrialShell, code: str = "1") -> str:
        (words,) = shell.effects(code)
        return words.removeprefix("could not be tried in a copy of the kernel: ")

    def test_another_system_cannot_confine_one(self, shell: TrialShell, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.platform", "darwin")
        assert self.why(shell) == "this system cannot confine one"

    def test_no_place_for_its_files(self, shell: TrialShell, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", "/nowhere")
        assert self.why(shell) == "it cannot be prepared (No such file or directory)"

    def test_its_time_is_over(self, shell: TrialShell) -> None:
        trial = shell.trial("while True: pass", seconds=0.5)
        assert [each.words for each in trial.effects] == [
            "could not be tried in a copy of the kernel: it takes longer than 0.5 s"
        ]

    def test_signals_that_come_during_the_fork_are_not_lost(self, shell: TrialShell) -> None:
        noted: list[int] = []
        before = signal.signal(signal.SIGALRM, lambda number, _: noted.append(number))
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            assert shell.trial("1 + 1").card_text() == "2\n"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert noted
