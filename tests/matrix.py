"""The package as users have it: a built wheel in fresh environments, on every Python of this machine.

    python3 tests/matrix.py                      all of it, as a table; the status is 1 if anything failed
    python3 tests/matrix.py --quick              this Python, bare and at its lowest versions, without kernels
    python3 tests/matrix.py --python 3.12 --environment bare --environment lowest
    python3 tests/matrix.py --offline            fetch nothing; needs uv, and what an earlier run left in its cache

Pythons are those that uv or pyenv know or that are on PATH, the newest of each minor version from 3.11 on. In every
environment the console answers as text, JSON and RPC, and a kernel in a cell, each with Claude, with a server that
speaks OpenAI's language, and offline. The servers are those of the other tests, in this process. Nothing may be written
to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from installing import Installer, InstallError
from openai_api import OpenAIApi
from rpc_process import RpcProcess, environment, indusagi

ANSWER = "Hello from the server."
PROVIDERS = ("anthropic", "openai", "offline")
WAYS = ("text", "json", "rpc", "kernel")
SECONDS = 240  # for an answer, on a machine that has other things to do


@dataclass(frozen=True)
class Recipe:
    """What is installed beside the package: some of its extras, in the newest or in the lowest versions."""

    name: str
    extras: tuple[str, ...] = ()
    lowest: bool = False
    ways: tuple[str, ...] = ()
    """Ways that only it has; without any the usual ones."""
    before: tuple[str, ...] = ()
    """What is installed already, and is to stay as it is."""
    pythons: tuple[str, ...] = ()
    """The versions of Python that it is for; without any all."""


OLDER = (
    "ipykernel==6.17.1",
    "ipython==7.34.0",
    "ipywidgets==7.7.1",
    "jupyter-client==6.1.12",
    "jupyter-server==1.16.0",
    "traitlets==5.7.1",
    "tornado==6.3.3",
    "pyzmq<25",
)
"""The kernel and the widgets of a hosted notebook that brings its own, as Colab's did."""
RECIPES = (
    Recipe("bare", ways=("text", "json", "rpc")),
    Recipe("notebook", ("notebook",)),
    Recipe("older kernel", before=OLDER, ways=("kernel",), pythons=("3.11",)),
    Recipe("older kernel, widgets", ("widgets",), before=OLDER, ways=("kernel",), pythons=("3.11",)),
    Recipe("mcp", ("mcp",)),
    Recipe("lab", ("lab",)),
    Recipe("newest", ("openai", "mcp", "lab", "dask", "ipyparallel")),
    Recipe("jupyter-ai", ("jupyter-ai",), ways=("persona",)),
    Recipe("lowest", ("notebook",), lowest=True),
    Recipe("lowest, all extras", ("openai", "mcp", "lab", "dask", "ipyparallel"), lowest=True),
    Recipe("lowest, evaluations", ("eval",), ways=("tasks", "kernel"), lowest=True),
)


@dataclass(frozen=True)
class Python:
    """An interpreter of this machine."""

    version: tuple[int, ...]
    path: str

    @property
    def minor(self) -> str:
        """Such as 3.12."""
        return ".".join(map(str, self.version[:2]))

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


@dataclass
class Outcome:
    """One row of the table: by check how many seconds it took, and what went wrong where something did."""

    python: Python
    recipe: Recipe
    seconds: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def run(self, name: str, check: Callable[[], object]) -> bool:
        """Run a check; returns whether it passed."""
        began = time.monotonic()
        try:
            check()
        except Exception as error:
            self.failures[name] = f"{type(error).__name__}: {error}"
        self.seconds[name] = time.monotonic() - began
        return name not in self.failures

    def cell(self, name: str) -> str:
        """What the table says of a check."""
        if name in self.failures:
            return "FAILED"
        return f"{self.seconds[name]:.1f} s" if name in self.seconds else ""


# --- what is checked -------------------------------------------------------------------------------------------------


class CheckError(Exception):
    """Something is not as it should be."""


def expect(actual: object, wanted: object, what: str) -> None:
    """Raise ``CheckError`` unless the two are equal."""
    if actual != wanted:
        raise CheckError(f"{what} is {actual!r} instead of {wanted!r}")


class Place:
    """An environment with the package, and a home in which its program finds the models and no key."""

    def __init__(self, python: Path, home: Path, api: OpenAIApi) -> None:
        self._python = python
        self._program = [str(python.parent / "indusagi")]
        self._home = home
        self._variables = {"ANTHROPIC_API_KEY": "sk-none", "ANTHROPIC_BASE_URL": api.url, "PYTHONPATH": ""}
        agent = home / "agent"
        agent.mkdir(parents=True)
        server = {"baseUrl": api.v1, "api": "openai-completions", "models": [{"id": "m"}]}
        (agent / "models.json").write_text(json.dumps({"providers": {"local": server}}))
        settings = {"approve": "never", "compaction": {"keepRecentTokens": 1}}
        (agent / "settings.json").write_text(json.dumps(settings))

    def check(self, provider: str, way: str) -> None:
        """Ask a provider in one of the ways; raises ``CheckError`` when the answer is not the one expected."""
        names = {"anthropic": "anthropic", "openai": "local", "offline": "offline"}
        prompt, answer = ("compute 6 * 7", "42") if provider == "offline" else ("hi", ANSWER)
        getattr(self, f"_{way}")(names[provider], prompt, answer)

    def _indusagi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        at = {"home": self._home, "program": self._program, "patience": SECONDS}
        return indusagi("--no-session", *arguments, **at, **self._variables)

    def _text(self, provider: str, prompt: str, answer: str) -> None:
        done = self._indusagi("--provider", provider, prompt)
        expect((done.returncode, done.stderr), (0, ""), "status and standard error")
        if answer not in done.stdout:
            raise CheckError(f"the answer is {done.stdout!r}")

    def _json(self, provider: str, prompt: str, answer: str) -> None:
        done = self._indusagi("--provider", provider, "--mode", "json", prompt)
        expect((done.returncode, done.stderr), (0, ""), "status and standard error")
        events = [json.loads(line) for line in done.stdout.splitlines()]
        expect((events[0]["type"], events[-1]["type"]), ("session", "agent_settled"), "first and last line")
        said = [event["message"] for event in events if event["type"] == "message_end"]
        if answer not in json.dumps(said[-1]):
            raise CheckError(f"the answer is {said[-1]}")

    def _rpc(self, provider: str, prompt: str, answer: str) -> None:
        at = {"home": self._home, "program": self._program, "patience": SECONDS}
        with RpcProcess("--provider", provider, "--no-session", **at, more=self._variables) as process:
            for said in ("remember this", prompt):
                expect(process.ask("prompt", message=said)["success"], True, "success of the prompt")
                process.wait("agent_settled")
            if answer not in json.dumps(process.frames[-2:]):
                raise CheckError(f"the answer is in none of {process.frames[-2:]}")
            compacted = process.ask("compact")
            expect(compacted["success"], True, f"{compacted}: success")
            messages = process.ask("get_messages")
            expect(messages["success"], True, f"{messages}: success")
            roles = [message["role"] for message in messages["data"]["messages"]]
            expect(roles[0], "compactionSummary", "first message after a compaction")
            process.close_stdin()
            expect((process.wait_for_end(), process.stderr), (0, ""), "status and standard error")

    def _persona(self, provider: str, prompt: str, answer: str) -> None:
        done = subprocess.run(
            [str(self._python), "-c", PERSONA, provider, prompt],
            cwd=self._home,
            env=environment(self._home, **self._variables),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode or answer not in done.stdout:
            raise CheckError(f"the chat shows {done.stdout!r}; standard error: {done.stderr}")

    def _tasks(self, *_: str) -> None:
        subprocess.run([str(self._python), "-c", "import sklearn, statsmodels.api"], check=True, timeout=SECONDS)

    def _kernel(self, provider: str, prompt: str, answer: str) -> None:
        cells = ("%load_ext indus_nb", f"%agent --provider {provider} {prompt}")
        done = subprocess.run(
            [str(self._python), "-c", KERNEL, *cells],
            cwd=self._home,
            env=environment(self._home, **self._variables),
            capture_output=True,
            text=True,
            timeout=SECONDS * 3,
            check=False,
        )
        if done.returncode or "Traceback" in done.stderr:
            raise CheckError(f"the kernel failed: {done.stderr}")
        shown = json.loads(done.stdout)
        expect([content for kind, content in shown if kind in ("error", "stderr")], [], "what went wrong in the cells")
        if answer not in json.dumps(shown):
            raise CheckError(f"the answer is in none of {shown}")


KERNEL = f"""
import json, sys
from jupyter_client.manager import start_new_kernel
shown = []
def hear(message):
    kind, content = message["msg_type"], message["content"]
    if kind in ("error", "stream", "display_data", "update_display_data"):
        shown.append([content.get("name", kind), content])
manager, client = start_new_kernel(startup_timeout={SECONDS})
try:
    for cell in sys.argv[1:]:
        client.execute_interactive(cell, allow_stdin=False, output_hook=hear, timeout={SECONDS})
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
print(json.dumps(shown))
"""


PERSONA = """
import asyncio, os, pathlib, sys
from importlib.metadata import entry_points
import acp

(found,) = entry_points(group="jupyter_ai.personas", name="indus")
persona = found.load()

class Client(acp.Client):
    async def session_update(self, session_id, update, **_):
        print(update.model_dump_json(), flush=True)

async def main(provider, prompt):
    arguments = (*persona.program, "--provider", provider)
    async with acp.spawn_agent_process(Client(), *arguments, env=dict(os.environ)) as (agent, _):
        await agent.initialize(protocol_version=1)
        session = await agent.new_session(cwd=str(pathlib.Path.cwd()), mcp_servers=[])
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block(prompt)])

asyncio.run(main(*sys.argv[1:]))
"""


# --- where it is checked ---------------------------------------------------------------------------------------------


def pythons() -> list[Python]:
    """The newest interpreter of each minor version from 3.11 on, oldest version first."""
    found: dict[str, Python] = {}
    for path in dict.fromkeys(_candidates()):
        if (python := _python_at(path)) and python.version >= (3, 11):
            found[python.minor] = max(found.get(python.minor, python), python, key=lambda known: known.version)
    return sorted(found.values(), key=lambda python: python.version)


def _candidates() -> Iterator[str]:
    yield sys.executable
    if uv := Installer().uv:
        listing = [uv, "python", "list", "--only-installed", "--output-format", "json"]
        listed = subprocess.run(listing, capture_output=True, text=True, check=False).stdout
        yield from (known["path"] for known in json.loads(listed or "[]") if known["path"])
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, pyenv.glob("versions/*/bin/python"))
    yield from filter(None, (shutil.which(f"python3.{minor}") for minor in range(11, 30)))


def _python_at(path: str) -> Python | None:
    code = "import sys; print(sys.implementation.name, *sys.version_info[:3], sys.abiflags or '-')"
    try:
        said = subprocess.run([path, "-I", "-c", code], capture_output=True, text=True, check=False).stdout.split()
    except OSError:
        return None
    if len(said) != 5 or (said[0], said[4]) != ("cpython", "-"):
        return None  # a shim for nothing, or a Python of another kind
    return Python(tuple(map(int, said[1:4])), path)


def try_out(
    python: Python, recipe: Recipe, ways: Sequence[str], installer: Installer, wheel: Path, api: OpenAIApi
) -> Outcome:
    """Make one environment, check everything in it, and remove it."""
    outcome = Outcome(python, recipe)
    with tempfile.TemporaryDirectory(prefix="indus_nb-matrix-") as folder:
        root = Path(folder)

        def install() -> None:
            interpreter = installer.make_environment(root / "environment", python.path)
            extras = f"[{','.join(recipe.extras)}]" if recipe.extras else ""
            if recipe.lowest:
                installer.install_lowest(interpreter, *recipe.extras)
            if recipe.before:
                installer.install(interpreter, "--only-binary", ":all:", *recipe.before)
            before = _versions(interpreter)
            installer.install(interpreter, "--only-binary", ":all:", f"indus_nb{extras} @ {wheel.as_uri()}")
            after = _versions(interpreter)
            expect({name: after.get(name) for name in before}, before, "what was installed before")

        if outcome.run("install", install):
            place = Place(root / "environment" / "bin" / "python", root / "home", api)
            for provider in PROVIDERS:
                for way in recipe.ways or ways:
                    outcome.run(f"{provider} {way}", lambda p=provider, w=way: place.check(p, w))
    summary = f"{len(outcome.failures)} FAILED" if outcome.failures else "ok"
    print(f"{recipe.name} on {python}: {summary}, {sum(outcome.seconds.values()):.0f} s", flush=True)
    return outcome


def _versions(python: Path) -> dict[str, str]:
    """The packages of an environment, with their versions."""
    code = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
    return json.loads(subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout)


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes in Markdown."""
    checks = list(dict.fromkeys(name for outcome in outcomes for name in outcome.seconds))
    checks.sort(key=lambda name: [name == "install", *(name.startswith(p) for p in PROVIDERS)], reverse=True)
    rows = [
        ["Python", "environment", *checks],
        ["---"] * (len(checks) + 2),
        *([str(one.python), one.recipe.name, *map(one.cell, checks)] for one in outcomes),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(arguments: Sequence[str]) -> int:
    """Run what is asked for; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="this Python, bare and lowest, without kernels")
    parser.add_argument("--python", action="append", metavar="3.N", help="only this version; may be repeated")
    parser.add_argument("--environment", action="append", choices=[recipe.name for recipe in RECIPES])
    parser.add_argument("--offline", action="store_true", help="fetch nothing")
    parser.add_argument("--jobs", type=int, default=2, help="how many environments at a time")
    options = parser.parse_args(arguments)
    installer = Installer(offline=options.offline)
    chosen = [python for python in pythons() if not options.python or python.minor in options.python]
    names = options.environment or [recipe.name for recipe in RECIPES]
    ways = WAYS
    if options.quick:
        own = _python_at(sys.executable)
        chosen, names, ways = [own] if own else [], ["bare", "lowest"], WAYS[:-1]
    recipes = [recipe for recipe in RECIPES if recipe.name in names]
    if installer.uv is None and any(recipe.lowest for recipe in recipes):
        print("The lowest versions are left out: only uv finds them (pip install uv).")
        recipes = [recipe for recipe in recipes if not recipe.lowest]
    with tempfile.TemporaryDirectory(prefix="indus_nb-wheel-") as folder, OpenAIApi() as api:
        api.default = ANSWER
        wheel = installer.build(Path(folder))
        with ThreadPoolExecutor(options.jobs) as pool:
            fits = [(python, recipe) for python in chosen for recipe in recipes]
            asked = [(python, recipe) for python, recipe in fits if python.minor in (recipe.pythons or (python.minor,))]
            outcomes = list(pool.map(lambda one: try_out(*one, ways, installer, wheel, api), asked))
    print(f"\n{table(outcomes)}\n")
    for outcome in outcomes:
        for name, problem in outcome.failures.items():
            print(f"{outcome.recipe.name} on {outcome.python}, {name}: {re.sub(r'(?m)^', '    ', problem).strip()}")
    return int(not outcomes or any(outcome.failures for outcome in outcomes))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except InstallError as error:
        sys.exit(str(error))
