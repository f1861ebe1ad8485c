"""A shell in the process of the tests, and trials of code in copies of it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from IPython.terminal.interactiveshell import TerminalInteractiveShell
from traitlets.config import Config

from indus_nb.kernel.run.agent_thread import AgentThread, Inbox
from indus_nb.kernel.run.watch import Watch
from indus_nb.kernel.trials.trying import Trial, Trials


class TrialShell:
    """A shell whose cells are the tests', and code that is tried in copies of this process.

    Attributes:
        own: The agent's own variables, with the ids of their values.
        keys: Values that copies must not see, with their placeholders.
    """

    def __init__(self, folder: Path) -> None:
        settings = {"HistoryManager": {"enabled": False}, "TerminalInteractiveShell": {"simple_prompt": True}}
        self.shell: Any = TerminalInteractiveShell(ipython_dir=str(folder), config=Config(settings))
        self.own: dict[str, int] = {}
        self.keys: dict[str, str] = {}
        self._folder = folder
        self._watch = Watch(self.shell)
        self._thread = AgentThread()

    def run(self, code: str) -> None:
        """Run a cell of the user's."""
        self.shell.run_cell(code).raise_error()

    def trial(self, code: str, *, seconds: float = 240, readable: Sequence[Path] = ()) -> Trial:
        """Try code in a copy to its end."""
        trials = Trials(self.shell, self._watch.main, self._watch.routes)
        inbox = Inbox()

        async def work() -> Trial:
            trial = await trials.begin(
                code,
                seconds,
                cwd=self._folder,
                readable=readable,
                own=self.own,
                keys=self.keys,
                on_text=lambda: None,
            )
            await trial.follow()
            return trial

        # What the tests' own output is captured by is an open file, which no copy has.
        with self._watch.main.serving(inbox), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            return self._thread.drive(work, inbox, lambda: None)

    def effects(self, code: str) -> list[str]:
        """Return the effects of code that is tried, in words."""
        return [effect.words for effect in self.trial(code).effects]

    def close(self) -> None:
        """End what the shell has begun."""
        self._watch.close()
        self._thread.close()
        self.shell.restore_sys_module_state()


@contextmanager
def trial_shell(folder: Path) -> Iterator[TrialShell]:
    """Open a shell."""
    opened = TrialShell(folder)
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()  # those of Hypothesis note times in its module, which would be an effect of any code
    # Other modules of tests hold what our package changes, under names of their own.
    tests = {name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith("tests.")}
    try:
        yield opened
    finally:
        sys.modules.update(tests)
        gc.callbacks[:] = callbacks
        opened.close()
