"""Programs by the thousand in two kernels that are alike: tried in a copy of one, and really run in the other.

    python tests/fuzz/twins.py --programs 2000 --seed 7 [--ipykernel 6.29.5]

Of a trial that says "no effect", the real run must change nothing either; of one that only makes values, taking these
over must leave the kernel as the real run leaves its twin; whatever a trial says, it changes nothing where it is made.
After each program all of the state of both is read (``twin_state``) and compared. What breaks a rule is made as short
as it can be by leaving out statements, and told with what differs. What a trial asks about is then run in both.

No effect is what a library or Python keeps to be quicker the next time, such as results of ``lru_cache`` and modules
that are installed and imported; and ``_`` and its like, which the shell sets.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
import textwrap
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).parents[1]))

from kernels import Cell, Kernel, private_environment

PROGRAMS_IN_A_PAIR = 50
SECONDS = 60.0
"""Of one trial."""

SECTIONS = Path(__file__).with_name("twin_programs.txt")
EXPRESSIONS = (
    *("{}", "print({})", "$n = {}", "[{} for _ in range(2)]", "f'{{{}}}'", "(lambda: {})()", "{} and None"),
    *("$n = [{}, {}]", "print(repr({})[:40])", "$n = {{'k': {}}}", "str({})", "next(iter([{}]))"),
)
STATEMENTS = (
    *("{}", "{}", "{}", "try:¶    {}¶except Exception:¶    pass", "if x:¶    {}", "for _ in range($i):¶    {}"),
    *("def $n():¶    {}¶$n()", "import contextlib¶with contextlib.suppress(Exception):¶    {}", "{}¶print('done')"),
    *("class $N:¶    {}", "async def $n():¶    {}¶await $n()", "try:¶    1 / 0¶except ZeroDivisionError:¶    {}"),
)
"""What may be around an expression, and around statements; in most programs nothing is."""


@dataclass
class Section:
    """A part of what kernels hold, and code about it.

    Attributes:
        name: What it is called.
        needs: A module without which it is left out.
        setup: Makes it.
        looks: Code that looks harmless.
        acts: Code that has effects, hidden as well as plain.
        open: Code with effects that no trial finds as yet, which is in no program.
    """

    name: str
    needs: str
    setup: str
    looks: list[str] = field(default_factory=list[str])
    acts: list[str] = field(default_factory=list[str])
    open: list[str] = field(default_factory=list[str])


def sections() -> list[Section]:
    """Those whose libraries are installed."""
    found: list[Section] = []
    for text in SECTIONS.read_text().split("\n=== ")[1:]:
        (head, setup), *lists = (part.partition("\n")[::2] for part in text.split("\n--- "))
        name, _, needs = head.partition(" needs ")
        held = {title: [line.replace("¶", "\n") for line in lines.splitlines() if line] for title, lines in lists}
        if all(map(find_spec, needs.split())):
            found.append(Section(name, needs, setup, **held))
    return found


class Generator:
    """Makes programs about what a pair of kernels holds; each act comes once before one comes again."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._decks: dict[str, list[str]] = {}
        self._names = 0

    def sections(self, all_of_them: list[Section]) -> list[Section]:
        """What the next pair holds: the first section, and most, some or none of the others."""
        share = self.random.choice([1.0, 0.6, 0.3, 0.0])
        return [each for at, each in enumerate(all_of_them) if at == 0 or self.random.random() < share]

    def program(self, held: list[Section]) -> list[str]:
        """Statements, half of the time with none among them that is meant to have an effect."""
        acts = self.random.choices([0, 1, 2], [45, 45, 10])[0]
        looks = self.random.choices([0, 1, 2, 3], [30, 40, 20, 10] if acts else [0, 50, 30, 20])[0]
        parts = [self._drawn("acts", held) for _ in range(acts)] + [self._drawn("looks", held) for _ in range(looks)]
        self.random.shuffle(parts)
        return [self._filled(self._wrapped(part)) for part in parts]

    def _drawn(self, title: str, held: list[Section]) -> str:
        section = self.random.choices(held, [len(getattr(each, title)) for each in held])[0]
        deck = self._decks.setdefault(f"{section.name} {title}", [])
        if not deck:
            deck += getattr(section, title)
            self.random.shuffle(deck)
        return deck.pop()

    def _wrapped(self, part: str) -> str:
        if self.random.random() < 0.3 and _is_expression(part):
            part = self.random.choice(EXPRESSIONS).format(*[part] * 2)
        if self.random.random() < 0.35:
            before, _, after = self.random.choice(STATEMENTS).replace("¶", "\n").partition("{}")
            indent = before.rpartition("\n")[2]
            part = before[: len(before) - len(indent)] + textwrap.indent(part, indent) + after
        return part

    def _filled(self, part: str) -> str:
        self._names = (self._names + 1) % 40
        words = {"$n": f"new{self._names}", "$N": f"New{self._names}", "$i": str(self.random.randint(1, 3))}
        return re.sub(r"\$[nNi]", lambda found: words[found[0]], part)


def _is_expression(part: str) -> bool:
    try:
        return bool(compile(part, "", "eval")) and "await" not in part
    except SyntaxError:
        return False


class Twins:
    """Two kernels that hold the same: programs are tried in the first, and run in the second."""

    def __init__(self, root: Path, held: list[Section], ipykernel: str | None) -> None:
        self.root = root
        self._kernels = [self._begun(root / name, held, ipykernel) for name in ("a", "b")]
        for _ in range(20):  # until threads have imported what they do
            if not (apart := self.difference(*self.states(), (0, 1), (1, 1))):
                return
        raise RuntimeError(f"the twins are not alike: {apart}")

    def _begun(self, root: Path, held: list[Section], ipykernel: str | None) -> Kernel:
        for folder in (work := root / "work", root / "tmp"):
            folder.mkdir(parents=True)
        (work / "helper.py").write_text(HELPER)
        (work / "notes.txt").write_text("some notes\nand more\n")
        (work / "table.csv").write_text("a,b\n1,2\n3,4\n")
        (work / "mapped.bin").write_bytes(bytes(range(8)))
        for path in work.iterdir():
            os.utime(path, (10**9, 10**9))
        environment = private_environment(
            root, ipykernel=ipykernel, TMPDIR=str(root / "tmp"), PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1"
        )
        kernel = Kernel(work, environment)
        begin = f"import sys; sys.path.insert(1, {str(Path(__file__).parent)!r})\n%load_ext indus_nb"
        seeds = "import random; random.seed(1)"
        seeds += "\nimport numpy; numpy.random.seed(1); del numpy" if find_spec("numpy") else ""
        # Without a file, or a trial takes it for a module of the user's and compares what it holds.
        twin = "import twin_state; twin_state.twin = twin_state.Twin(); del twin_state.__file__"
        after = f"{seeds}\n{twin}; twin_state.twin.tried('x', 60); del twin_state"
        for code in (begin, *(each.setup for each in held), "rows", "{'shown': [1]}", after):
            cell = kernel.run(code, 120)
            assert cell.status == "ok", (code, cell.error)
        return kernel

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for kernel in self._kernels:
            kernel.__exit__()

    def asked(self, which: int, call: str) -> Any:
        kernel = self._kernels[which]
        code = (
            f"__import__('builtins').print('<' + __import__('json').dumps(__import__('twin_state').twin.{call}) + '>')"
        )
        message = kernel._client.execute(code, silent=True)
        cell = kernel._cells[message] = Cell(kernel._client, message, cells=kernel._cells)
        cell.finish(300)
        if cell.status != "ok" or "<" not in cell.streams:
            raise RuntimeError(f"{call[:300]}: {cell.error} {cell.streams[-300:]}")
        return json.loads(cell.streams[cell.streams.index("<") + 1 : cell.streams.rindex(">")])

    def state(self, which: int) -> dict[str, str]:
        return self.asked(which, "state()")

    def states(self) -> tuple[dict[str, str], dict[str, str]]:
        return self.state(0), self.state(1)

    def difference(self, one: dict[str, str], other: dict[str, str], *places: tuple[int, int]) -> list[str]:
        """What differs between two states, as kernels tell it; of each, the kernel and which of its last two states."""
        keys = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
        told = [(key, *(self.asked(which, f"text({key!r}, {state})") for which, state in places)) for key in keys[:6]]
        return [f"{key}: {_around(mine, theirs)} | {_around(theirs, mine)}" for key, mine, theirs in told]

    def alike(self, code: str) -> bool:
        """Whether both hold the same once a program that ran in the second alone has run in the first as well."""
        self.asked(0, f"ran({code!r}, [])")
        one, other = self.states()
        return one == other

    def judged(self, code: str) -> tuple[str, list[str]]:
        """Try a program, and run it.

        Returns:
            What the trial said, or the rule that it breaks; and how.
        """
        before = self.state(0)
        trial = self.asked(0, f"tried({code!r}, {SECONDS})")
        if trial["how"] == "none":
            return f"no trial ({trial['why']})", []
        if (now := self.state(0)) != before:
            return "BROKEN: a trial changes the kernel", self.difference(before, now, (0, 0), (0, 1))
        effects = trial["effects"]
        kind = "no effect" if not effects else "holds" if trial["holds"] else "asked"
        if kind == "holds" and (refused := self.asked(0, "taken()")):
            kind = f"refused: {refused}"
        if kind not in ("no effect", "holds"):
            self.asked(0, f"ran({code!r}, [])")
            trial["dropped"] = []
        real = self.asked(1, f"ran({code!r}, {trial['dropped']!r})")
        wrong = self.difference(*self.states(), (0, 1), (1, 1))
        if kind in ("no effect", "holds") and trial["printed"] != real:
            wrong.append(f"printed: {_around(trial['printed'], real)} | {_around(real, trial['printed'])}")
        if not wrong:
            return kind, []
        return (f"BROKEN: {kind}" if kind in ("no effect", "holds") else f"apart after: {kind}"), wrong


def _around(one: str, other: str) -> str:
    """The part of a text where another one begins to differ."""
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return repr(one[max(at - 40, 0) : at + 80])


HELPER = """
total, table, items = 0, {"a": 1}, [1, 2]
_cache = None
class Kind:
    shared = []
    def __init__(self, value): self.value = value
kind = Kind([1])
def add(value):
    global total
    total += value
    return total
def listed(value):
    items.append(value)
    return len(items)
def cached():
    global _cache
    if _cache is None: _cache = {"made": True}
    return _cache
"""


class Fuzz:
    """Programs in one pair after another, and what came of them."""

    def __init__(self, seed: int, ipykernel: str | None = None) -> None:
        self.kinds: Counter[str] = Counter()
        self.broken: dict[str, tuple[str, list[str]]] = {}
        self.notes: Counter[str] = Counter()
        self._generator = Generator(seed)
        self._ipykernel = ipykernel
        self._pairs = 0

    def run(self, programs: int, root: Path, only: str = "", verbose: bool = False) -> None:
        """Judge so many programs."""
        known = [each for at, each in enumerate(sections()) if at == 0 or re.search(only or ".", each.name)]
        while self.kinds.total() < programs:
            held = known if only else self._generator.sections(known)
            with self._pair(root, held) as twins:
                for _ in range(PROGRAMS_IN_A_PAIR):
                    if self.kinds.total() >= programs:
                        return
                    program = self._generator.program(held)
                    kind, wrong = self._judged(twins, program)
                    if verbose:
                        print(f"{kind}: {program}", flush=True)
                    self.kinds[kind.partition(":")[0].partition(" (")[0] if "BROKEN" not in kind else "BROKEN"] += 1
                    if kind.startswith(("BROKEN", "apart", "no trial", "refused", "failed")):
                        self.notes[f"{kind}: {program!r:.200} {wrong}" if "BROKEN" not in kind else kind] += 1
                    if "BROKEN" in kind:
                        self._shrink(root, held, program, kind, wrong)
                    if wrong and not ("no effect" in kind and twins.alike("\n".join(program))):
                        break

    def _pair(self, root: Path, held: list[Section]) -> Twins:
        self._pairs += 1
        return Twins(root / str(self._pairs), held, self._ipykernel)

    def _judged(self, twins: Twins, program: list[str]) -> tuple[str, list[str]]:
        try:
            return twins.judged("\n".join(program))
        except Exception as error:
            return f"failed: {error!r:.600}", ["failed"]

    def _shrink(self, root: Path, held: list[Section], program: list[str], kind: str, wrong: list[str]) -> None:
        """Leave out statements as long as the rule stays broken, in kernels that are new."""
        parts = list(program)
        for part in program if len(program) > 1 else ():
            fewer = [part] if len(parts) == len(program) else [each for each in parts if each is not part]
            with self._pair(root, held) as twins:
                again, found = self._judged(twins, fewer)
            if "BROKEN" in again:
                parts, kind, wrong = fewer, again, found
            if len(parts) == 1:
                break
        self.broken.setdefault("\n".join(parts), (kind, wrong))
        print(f"{kind}\n{textwrap.indent(chr(10).join(parts), '    ')}", *wrong, sep="\n  -> ", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ipykernel")
    parser.add_argument("--only", default="", help="sections whose names match, and the first")
    parser.add_argument("--verbose", action="store_true", help="show each program and what came of it")
    options = parser.parse_args()
    began, fuzz = time.monotonic(), Fuzz(options.seed, options.ipykernel)
    with tempfile.TemporaryDirectory() as root:
        fuzz.run(options.programs, Path(root), options.only, options.verbose)
    print(f"{fuzz.kinds.total()} programs, {time.monotonic() - began:.0f} seconds: {dict(fuzz.kinds)}")
    for line, number in fuzz.notes.most_common(40):
        print(f"{number:5} {line:.600}")
    sys.exit(1 if fuzz.broken else 0)


if __name__ == "__main__":
    main()
