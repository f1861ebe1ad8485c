"""Trials of code by the thousand in a real kernel: what they tell, and that nothing comes of them.

    python tests/fuzz/previews.py --previews 1000 [--seed 7] [--ipykernel 6.29.5 --ipykernel 7.4.0]

Each of the snippets below is tried again and again, in an order that is drawn. Those that may run are run once in
another kernel, and what the trial said is compared with that. After each round the kernel is looked at: its
descriptors, children and memory, the user's variables, the files of the directory and outside of it, what listens for
connections, a process that could be signalled. The first thing that is not as it was ends this with an error. After
some rounds there is another kernel, in which other things go on: threads, connections, signals, tasks, large objects.

The copies may take longer than those of a user, so that a busy machine does not end them: what is ended then hangs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from kernels import Kernel, private_environment

VARIABLES = """
import random as _random, os, json, sqlite3
x = 5; name = "Ann"; rows = [3, 1, 2]; prices = {"tea": 3.5, "milk": 1.2}; nested = {"a": [1, {"b": 2}]}; also = rows
class Point:
    def __init__(self, x, y): self.x, self.y = x, y
point = Point(1, 2)
def double(value): return 2 * value
try:
    import numpy as np, pandas as pd
    sales = pd.DataFrame({"city": ["Oslo", "Rome", "Oslo", "Bern"] * 300, "units": range(1200), "price": 2.5})
    matrix = np.arange(12.0).reshape(3, 4); mapped = np.memmap("mapped.bin", mode="r+", shape=(8,))
except ImportError:
    pass
held = open("notes.txt")
shared_log = open("log.txt", "a")
"""

DRIVER = """
import asyncio as _asyncio, pathlib as _pathlib, re as _re, time as _time
from indus_nb.kernel.trials import trial as _trial, trying as _trying
from indus_nb.kernel.run.agent_thread import AgentThread as _AgentThread, Inbox as _Inbox
from indus_nb.kernel.run.execution import Execution as _Execution
from indus_nb.kernel.run.watch import Watch as _Watch
from indus_nb.kernel.undo import CheckpointBudget as _Budget, take as _take
_kept = {"In", "Out", "exit", "quit", "get_ipython", "open"}
_watch, _thread = _Watch(get_ipython()), _AgentThread()
_trials = _trying.Trials(get_ipython(), _watch.main, _watch.routes)
def _nothing(*_): pass
def _told(text):
    return _re.sub(r'File "[^"]*/ipykernel_', 'File "ipykernel_', text)  # in the directory for temporary files
def _open_files():
    places = ["/proc/self/fd/" + number for number in os.listdir("/proc/self/fd")]
    targets = [os.readlink(place) for place in places if os.path.islink(place)]
    return [target for target in targets if "history.sqlite" not in target]
def _driven(work):
    inbox = _Inbox()
    with _watch.main.serving(inbox):
        return _thread.drive(work, inbox)
def _seen(shown, how, why, changed, effects=()):
    words = [effect.words for effect in effects]
    return {"how": how, "why": why, "printed": _told(shown.card_text()), "changed": changed, "effects": words,
        "shown": shown.displays.titles}
def _try(code, limit):
    async def work():
        began = _time.perf_counter()
        here = _pathlib.Path.cwd()
        trial = await _trials.begin(code, limit, cwd=here, readable=[], own={}, keys={}, on_text=_nothing)
        await trial.follow()
        report = trial.report
        trial.tail.close()
        if trial.tail.path: os.unlink(trial.tail.path)  # the whole of long output, for the model
        seen = _seen(trial, report.how, report.why, report.outcome, trial.effects)
        return {**seen, "seconds": _time.perf_counter() - began}
    return _driven(work)
def _real(code):
    shell, found = get_ipython(), []
    def start(_): found.append(_take(shell.user_ns, code, _Budget(2.0, 512 << 20), transform=shell.transform_cell))
    def end(_): found[:] = [checkpoint.close() for checkpoint in found]
    async def work():
        run = _Execution(shell, code, name="trial", routes=_watch.routes, on_text=_nothing, on_start=start, on_end=end)
        await _watch.main.do(run)
        how, why = ("done", "") if run.error is None else _trial._ended_by(run.error)
        return _seen(run, how, why, found[0].outcome if found else "")
    return _driven(work)
"""

EXACT = """
x + 1
===
print(name, rows)
===
rows.append(4); total = sum(rows)
===
rows.sort(); print(also)
===
prices["coffee"] = 4.2; del prices["tea"]
===
del x
===
point.x = 10; print(vars(point))
===
double(21)
===
[number ** 2 for number in range(10)]
===
nested["a"][1]["b"] = 3; nested
===
print(json.dumps(prices, indent=1))
===
for number in range(200): print("line", number)
===
1 / 0
===
print(prices["sugar"])
===
x = = 1
===
import datetime; datetime.date(2024, 2, 29).isoformat()
===
import random; random.seed(7); print(random.random(), random.choice(rows))
===
import re; re.findall(r"[a-z]+", "one two")
===
import collections; collections.Counter("mississippi").most_common(2)
===
from pathlib import Path; print(Path("notes.txt").read_text())
===
open("out.txt", "w").write("hello"); print(open("out.txt").read())
===
with open("notes.txt", "a") as file: file.write("more")
print(open("notes.txt").read())
===
import csv
with open("table.csv", "w", newline="") as file: csv.writer(file).writerows([[1, 2], [3, 4]])
print(os.path.exists("table.csv"), os.path.getsize("table.csv"))
===
os.makedirs("made/deep", exist_ok=True); open("made/deep/file.txt", "w").write("x"); print(os.path.isdir("made"))
===
import tempfile
with tempfile.TemporaryDirectory() as place: open(place + "/a", "w").write("b"); print(len(os.listdir(place)))
===
open("fresh.tmp", "w").write("1"); os.replace("fresh.tmp", "fresh.txt"); print(open("fresh.txt").read())
===
base = sqlite3.connect(":memory:"); base.execute("create table t (a)"); base.execute("insert into t values (1)")
base.execute("select * from t").fetchall()
===
reading = sqlite3.connect("shop.db"); print(reading.execute("select name from item").fetchall()); reading.close()
===
import asyncio; await asyncio.sleep(0.01); print("slept")
===
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as pool: print(list(pool.map(double, rows)))
===
import threading
thread = threading.Thread(target=rows.append, args=(9,)); thread.start(); thread.join(); print(rows)
===
from IPython.display import display, HTML, Markdown; display(Markdown("**bold**")); print("after")
===
%timeit -n1 -r1 pass
""".strip().split("\n===\n")[:-1]

NUMPY = """
sales.head(3)
===
sales.describe()
===
sales["total"] = sales["units"] * sales["price"]
===
sales = sales.drop(sales.index[:52]); sales.shape
===
sales.groupby("city")["units"].sum()
===
big = sales[sales["units"] > 1000].copy(); big["units"].mean()
===
sales.to_csv("sales.csv", index=False); pd.read_csv("sales.csv").shape
===
sales.pivot_table(index="city", values="units", aggfunc="mean")
===
sales.merge(pd.DataFrame({"city": ["Oslo"], "land": ["NO"]}), how="left")["land"].value_counts()
===
matrix @ matrix.T
===
matrix[0, 0] = 99; print(matrix.sum())
===
np.linalg.svd(np.random.default_rng(1).normal(size=(200, 50)))[1][:3]
===
np.random.seed(3); print(np.random.normal(size=3))
===
mapped[0] = 7; print(mapped[0])
===
np.save("saved.npy", matrix); print(np.load("saved.npy").shape)
""".strip().split("\n===\n")

PLOTS = """
import matplotlib.pyplot as plt; plt.plot([1, 2, 3]); plt.show()
===
import matplotlib.pyplot as plt
figure, axes = plt.subplots(); axes.bar(["a", "b"], [1, 2]); figure
===
import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.savefig("figure.png"); plt.close()
""".strip().split("\n===\n")

LEARNING = """
from sklearn.linear_model import LinearRegression
model = LinearRegression().fit([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0]); print(model.coef_.round(3))
===
from sklearn.cluster import KMeans
print(KMeans(2, n_init=1, random_state=0).fit_predict([[0.0], [0.1], [5.0], [5.1]]))
===
from sklearn.ensemble import RandomForestClassifier
forest = RandomForestClassifier(5, n_jobs=2, random_state=0).fit(matrix, [0, 1, 0]); forest.predict(matrix)
""".strip().split("\n===\n")

STOPPED = {
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:PORT/x', timeout=1)": "connects to 127.0.0.1:PORT",
    "import socket; socket.create_connection(('127.0.0.1', PORT), timeout=1)": "connects to 127.0.0.1:PORT",
    "import socket; s = socket.socket(); s.connect_ex(('127.0.0.1', PORT))": "connects to 127.0.0.1:PORT",
    "import socket; socket.socket(type=2).sendto(b'x', ('127.0.0.1', PORT))": "connects to 127.0.0.1:PORT",
    "import http.client; http.client.HTTPSConnection('example.com').request('GET', '/')": "connects to example.com:443",
    "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()": "waits for connections",
    "try:\n    import socket; socket.create_connection(('127.0.0.1', PORT))\nexcept:\n    pass": "connects to",
    "!ls *.csv": "runs ls *.csv",
    "files = !ls": "runs ls",
    "%%bash\ntouch touched-by-bash": "runs bash",
    "import os; os.system('touch OUTSIDE/touched')": "runs touch OUTSIDE/touched",
    "import subprocess; subprocess.run(['touch', 'touched'], check=True)": "runs touch touched",
    "import subprocess; subprocess.run('echo a; touch b', shell=True)": "runs echo a; touch b",
    "import multiprocessing; multiprocessing.get_context('fork').Process(target=print).start()": "starts a process",
    "import os\nwhile True: os.fork()": "starts a process",
    "import os; os.execv('/bin/sh', ['sh', '-c', 'touch OUTSIDE/exec'])": "runs touch",
    "import os; os.kill(os.getppid(), 9)": "sends signal 9 to this kernel",
    "import os, signal; os.kill(VICTIM, signal.SIGTERM)": "to process VICTIM",
    "import os; os.killpg(os.getpgid(os.getppid()), 15)": "sends signal 15",
    "import ctypes; ctypes.CDLL(None).kill(VICTIM, 9); print('went on')": None,
    "import ctypes; ctypes.CDLL(None).kill(KERNEL, 9); print('went on')": None,
    "import ctypes; print(ctypes.CDLL(None).fork())": None,
    "import ctypes; ctypes.CDLL(None).system(b'touch OUTSIDE/by-system')": None,
    "import ctypes; c = ctypes.CDLL(None); f = c.open(b'OUTSIDE/precious.txt', 0o1001); c.write(f, b'x', 1)": None,
    "import ctypes; ctypes.CDLL(None).open(b'OUTSIDE/precious.txt', 0o1000)": None,
    "import ctypes; ctypes.CDLL(None).unlink(b'OUTSIDE/precious.txt')": None,
    "import ctypes; ctypes.CDLL(None).chmod(b'OUTSIDE/precious.txt', 0)": None,
    "import ctypes; ctypes.CDLL(None).prlimit(KERNEL, 7, ctypes.byref((ctypes.c_ulong * 2)(8, 8)), None)": None,
    "import ctypes; ctypes.CDLL(None).nothing_of_that_name": None,
    "import ctypes; ctypes.string_at(0)": None,
    "import os; os.abort()": None,
    "import os; os.write(1, b'x'); os.write(held.fileno(), b'x')": "was open before",
    "held.seek(0, 2); held.read()": "was open before",
    "shared_log.write('x'); shared_log.flush()": "was open before",
    "import mmap\nwith open('mapped.bin', 'r+b') as f: m = mmap.mmap(f.fileno(), 0); m[0] = 65; m.flush()": None,
    "from multiprocessing import shared_memory; shared_memory.SharedMemory(create=True, size=100)": "Permission denied",
    "os.remove('notes.txt')": "deletes notes.txt",
    "import shutil; shutil.rmtree('OUTSIDE')": "deletes the directory OUTSIDE",
    "import pathlib; pathlib.Path('OUTSIDE/precious.txt').unlink()": "deletes OUTSIDE/precious.txt",
    "os.rename('notes.txt', 'other.txt')": "moves notes.txt",
    "os.chmod('OUTSIDE/precious.txt', 0)": "changes the mode of OUTSIDE/precious.txt",
    "os.truncate('notes.txt', 0)": "changes notes.txt",
    "os.symlink('notes.txt', 'link')": "makes a link",
    "os.open('notes.txt', os.O_RDWR | os.O_TRUNC)": "writes notes.txt",
    "open('OUTSIDE/precious.txt', 'w').write('gone'); open('/tmp/indus-trial-leak', 'w').write('x')": None,
    "sqlite3.connect('new.db').execute('create table t (a)')": "makes the database new.db",
    "base = sqlite3.connect('shop.db'); base.execute('delete from item'); base.commit()": None,
    "input('name? ')": "asks for input",
    "import getpass; getpass.getpass()": "asks for input",
    "block = bytearray(8 << 30)": "more memory",
    "hog = [bytearray(64 << 20) for _ in range(40)]": "more memory",
    "files = [open(f'file-{n}.txt', 'w') for n in range(100)]": "more than 32 files",
    "import os; os.nice(1); os.setpriority(os.PRIO_PROCESS, KERNEL, 19)": None,
    "import atexit; atexit.register(open, 'OUTSIDE/at-exit', 'w')": None,
    "import sys; sys.exit(3)": None,
    "exit()": None,
    "import signal; signal.raise_signal(signal.SIGKILL)": None,
    "import faulthandler; faulthandler._sigsegv()": None,
    "def deep(): deep()\ndeep()": None,
}

ROUNDS = 8
"""In one kernel."""

LATE = [
    "while True: pass",
    "while True: print('again and again')",
    "import time; time.sleep(60)",
    "import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()\nthreading.Event().wait()",
    "import signal; signal.pause()",
]


GOING_ON = """
from concurrent.futures import ThreadPoolExecutor as _Pool
_pool = _Pool(4); list(_pool.map(len, [""] * 16))
===
import threading as _threading
def _tick():
    while True: _time.sleep(0.01)
_threading.Thread(target=_tick, daemon=True).start()
===
import socket as _socket
_listening = _socket.create_server(("127.0.0.1", 0)); _ours, _theirs = _socket.socketpair(); _ours.send(b"unread")
===
async def _forever():
    while True: await _asyncio.sleep(0.05)
_task = _asyncio.get_event_loop().create_task(_forever())
===
import mmap as _mmap
_shared = _mmap.mmap(-1, 1 << 20); _shared[:5] = b"hello"
===
from multiprocessing import shared_memory as _memory
_block = _memory.SharedMemory(create=True, size=1 << 20)
===
import subprocess as _subprocess
_program = _subprocess.Popen(["sleep", "100000"], stdin=_subprocess.PIPE, stdout=_subprocess.PIPE)
===
import logging as _logging
_logging.getLogger("app").addHandler(_logging.FileHandler("log.txt")); _logging.getLogger("app").warning("begun")
===
import signal as _signal
_alarms = []; _signal.signal(_signal.SIGALRM, lambda *_: _alarms.append(1))
_signal.setitimer(_signal.ITIMER_REAL, 0.05, 0.05)
===
_many = [{"number": number} for number in range(200_000)]; _cycle = [_many]; _cycle.append(_cycle)
===
_bytes = bytearray(200 << 20)
===
import gc as _gc; _gc.disable()
===
import gc as _gc; _gc.set_threshold(50, 2, 2)
===
_base = sqlite3.connect("shop.db"); _base.execute("begin"); _rows = _base.execute("select * from item")
===
import tempfile as _tempfile
_temporary = _tempfile.TemporaryFile(); _temporary.write(b"unwritten"); _reader, _writer = os.pipe()
===
def _numbers():
    try: yield from range(10)
    finally: print("closed")
_half = _numbers(); next(_half)
===
import sys, faulthandler as _faulthandler; sys.setrecursionlimit(3000); _faulthandler.enable(open(os.devnull, "w"))
===
try:
    import numpy as _np; _large = _np.random.default_rng(0).normal(size=(800, 800)); _large = _large @ _large
except ImportError:
    pass
""".strip().split("\n===\n")
"""What may go on in a kernel."""


class World:
    """What a trial must not change."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self._root = root
        self.directory, self.outside, self.temporary = (root / name for name in ("work", "outside", "tmp"))
        for path in (self.directory, self.outside, self.temporary):
            path.mkdir()
        (self.directory / "notes.txt").write_text("some notes\n")
        (self.directory / "log.txt").write_text("")
        (self.directory / "mapped.bin").write_bytes(bytes(8))
        (self.outside / "precious.txt").write_text("do not touch\n")
        with contextlib.closing(sqlite3.connect(self.directory / "shop.db")) as shop:
            shop.execute("create table item (name)")
            shop.execute("insert into item values ('tea')")
            shop.commit()
        self.victim = subprocess.Popen(["sleep", "100000"])
        self.connections = 0
        self._tcp, self._udp = socket.create_server(("127.0.0.1", 0)), socket.socket(type=socket.SOCK_DGRAM)
        self.port = self._tcp.getsockname()[1]
        self._udp.bind(("127.0.0.1", self.port))
        for receive in (self._tcp.accept, lambda: self._udp.recv(100)):
            threading.Thread(target=self._count, args=(receive,), daemon=True).start()

    def _count(self, receive: Any) -> None:
        while True:
            with contextlib.suppress(OSError):
                receive()
                self.connections += 1

    def kernel(self, ipykernel: str | None, going_on: Sequence[str] = ()) -> Kernel:
        environment = private_environment(self._root, ipykernel=ipykernel, TMPDIR=str(self.temporary))
        kernel = Kernel(self.directory, environment)
        learning = "import sklearn.cluster, sklearn.ensemble, sklearn.linear_model; del sklearn"
        drawing = "import matplotlib.pyplot as plt; plt.close(plt.figure()); del plt"
        imports = [code for code in (learning, drawing) if find_spec(code.split()[1].partition(".")[0])]
        for code in ("%load_ext indus_nb", VARIABLES, DRIVER, *imports, *going_on):
            cell = kernel.run(code, 120)
            assert cell.status == "ok", cell.error
        return kernel

    def files(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for place in (self.directory, self.outside, self.temporary, self.directory.parent / "home"):
            for path in sorted(place.rglob("*")):
                state = path.lstat()
                data = path.read_bytes() if path.is_file() else b""
                found[str(path)] = hashlib.sha256(f"{state.st_mode}{state.st_uid}".encode() + data).hexdigest()
        return found

    def close(self) -> None:
        self.victim.kill()
        self.victim.wait()


def asked(kernel: Kernel, expression: str, timeout: float = 60) -> Any:
    cell = kernel.run(f"print('<' + json.dumps({expression}, default=str) + '>')", timeout)
    assert cell.status == "ok", (expression, cell.error)
    return json.loads(cell.streams[cell.streams.index("<") + 1 : cell.streams.rindex(">")])


STATE = (
    "dict(position=held.tell(), cwd=os.getcwd(), files=sorted(_open_files()),"
    " names=sorted(n for n in globals() if not n.startswith('_')), rows=rows, prices=prices, x=x, nested=nested,"
    " point=vars(point), random=hash(_random.getstate()), environment=len(os.environ),"
    " frames=str((list(sales), sales.shape, float(matrix.sum()), mapped[0])) if 'sales' in globals() else '')"
)


class EffectError(Exception):
    """A trial had an effect, or the kernel is not as it was."""


def looked_at(world: World, kernel: Kernel, process: psutil.Process, programs: int) -> dict[str, Any]:
    state = asked(kernel, STATE)
    deadline = time.monotonic() + 5
    while len(children := process.children()) > programs and time.monotonic() < deadline:
        time.sleep(0.05)  # a copy that was ended is about to be waited for
    state |= {"children": sorted(child.name() for child in children), "files": world.files()}
    state |= {
        "connections": world.connections,
        "victim": world.victim.poll(),
        "leak": Path("/tmp/indus-trial-leak").exists(),
    }
    return state


def snippets() -> list[str]:
    found = [*EXACT]
    for module, more in (("pandas", NUMPY), ("matplotlib", PLOTS), ("sklearn", LEARNING)):
        found += more if find_spec(module) else []
    return found


def truth_of(world: World, ipykernel: str | None, codes: list[str]) -> dict[str, Any]:
    """What the snippets do when they run, in a kernel of their own; the files are put back afterwards."""
    truth: dict[str, Any] = {}
    with world.kernel(ipykernel) as kernel:
        for code in codes:
            kernel.run("for _name in {*globals()} - _kept:\n    if _name[0] != '_': del globals()[_name]\n" + VARIABLES)
            truth[code] = asked(kernel, f"_real({code!r})")
    for path in world.directory.iterdir():
        if path.name not in ("notes.txt", "log.txt", "mapped.bin", "shop.db"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (world.directory / "notes.txt").write_text("some notes\n")
    (world.directory / "mapped.bin").write_bytes(bytes(8))
    return truth


class Tally:
    """How trials ended."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.odd: Counter[str] = Counter()
        self.times: list[float] = []
        self.grown: list[int] = []
        self.kernels = self.rounds = 0

    def add(self, kind: str, code: str, found: dict[str, Any], real: dict[str, Any] | None) -> None:
        self.kinds[kind] += 1
        if kind != "late":
            self.times.append(found["seconds"])
        if kind not in ("exact", "stopped", "late"):
            told = f"{found['how']}: {found['why'][:100]} {found['printed'][:60]!r} {found['changed'][:80]}"
            told = f"{told} {found['effects']}"
            self.odd[f"{kind}: {code[:70]!r} {told} | {real and (real['printed'][:60], real['changed'][:80])}"] += 1

    def show(self) -> None:
        times = sorted(self.times)
        print(f"{self.kinds.total()} trials in {self.kernels} kernels, {self.rounds} rounds: {dict(self.kinds)}")
        print(
            f"seconds: median {times[len(times) // 2]:.3f}, 95 % {times[int(len(times) * 0.95)]:.3f}, {times[-1]:.3f}"
        )
        print(f"MB that kernels grew by after their first round: {self.grown}", flush=True)


def soak(world: World, count: int, seconds: float, versions: list[str | None], limit: float) -> Tally:
    """Try in one kernel after another."""
    known = snippets()
    truth = {version: truth_of(world, version, known) for version in versions}
    tally, end = Tally(), time.monotonic() + seconds
    while tally.kinds.total() < count and time.monotonic() < end:
        version = versions[tally.kernels % len(versions)]
        going_on = world.random.sample(GOING_ON, world.random.randint(0, 6))
        tally.kernels += 1
        try:
            with world.kernel(version, going_on) as kernel:
                rounds(world, kernel, truth[version], tally, (count, end, limit))
        except Exception:
            print(f"kernel {version}, in which goes on:", *going_on, sep="\n    ")
            raise
        tally.show()
    return tally


def rounds(world: World, kernel: Kernel, truth: dict[str, Any], tally: Tally, until: tuple[int, float, float]) -> None:
    """Try everything several times in a kernel, and look at it after each time."""
    count, end, limit = until
    process = psutil.Process(asked(kernel, "os.getpid()"))
    words = {"PORT": world.port, "OUTSIDE": world.outside, "VICTIM": world.victim.pid, "KERNEL": process.pid}
    stopped = {filled(code, words): what and filled(what, words) for code, what in STOPPED.items()}
    asked(kernel, "_try('x', 60)")
    programs = len(process.children())
    before = looked_at(world, kernel, process, programs)
    memory = 0
    for number in range(ROUNDS):
        late = LATE if number == 0 else []
        codes = [*truth, *stopped, *late]
        world.random.shuffle(codes)
        codes = codes[: max(count - tally.kinds.total(), 0)]
        wanted = [(code, 1 if code in late else limit) for code in codes]
        found = asked(kernel, f"[_try(code, limit) for code, limit in {wanted!r}]", 3600)
        for code, told in zip(codes, found, strict=True):
            tally.add(_judged(code, told, truth, stopped, late), code, told, truth.get(code))
        now = looked_at(world, kernel, process, programs)
        tally.rounds += 1
        memory = memory or process.memory_info().rss
        if wrong := {key: (before[key], now[key]) for key in before if before[key] != now[key]}:
            wrong["files"] = sorted({path for path, _ in before["files"].items() ^ now["files"].items()})
            raise EffectError(f"after {tally.kinds.total()} trials: {wrong}")
        if tally.kinds.total() >= count or time.monotonic() > end:
            break
    tally.grown.append((process.memory_info().rss - memory) >> 20)
    for child in process.children():
        child.kill()


def filled(text: str, words: dict[str, Any]) -> str:
    for word, value in words.items():
        text = text.replace(word, str(value))
    return text


def _judged(
    code: str, found: dict[str, Any], truth: dict[str, Any], stopped: dict[str, str | None], late: list[str]
) -> str:
    too_long = found["how"] == "none" and "longer than" in found["why"]
    if found["how"] == "none" and ("busy" in found["why"] or "at work" in found["why"]):
        return "no trial"
    if code in late:
        return "late" if too_long else "different"
    if too_long:
        return "hang"
    if code in truth:
        same = all(found[key] == truth[code][key] for key in ("how", "why", "printed", "changed", "shown"))
        return "exact" if same else "different"
    wanted = stopped[code]
    if wanted is None:
        return "stopped"  # whatever it says, nothing must come of it
    return "stopped" if any(wanted in words for words in found["effects"]) else "different"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--previews", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=1e9, help="when to begin no other round")
    parser.add_argument("--limit", type=float, default=60, help="of one trial, in seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ipykernel", action="append", help="several take turns")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        world = World(Path(root), options.seed)
        try:
            tally = soak(world, options.previews, options.seconds, options.ipykernel or [None], options.limit)
        finally:
            world.close()
    print("no effect outside; no child, descriptor or file left; each kernel answered to its end")
    for line, number in tally.odd.most_common(60):
        print(f"{number:5} {line}")
    sys.exit(1 if tally.kinds["hang"] else 0)


if __name__ == "__main__":
    main()
