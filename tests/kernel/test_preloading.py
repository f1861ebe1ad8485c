"""What the first prompt needs is there before it: in the background, and not on the user's thread."""

from __future__ import annotations

from pathlib import Path

from kernels import Kernel, private_environment

HOLD_IMPORTS = """
import os, threading, time
from indus_nb.front.notebook.preloading import importing

def release():
    while not os.path.exists("go-on"):
        time.sleep(0.01)
    importing.release()

importing.acquire()
threading.Thread(target=release).start()
%load_ext indus_nb
"""
BEGINS = "\N{HORIZONTAL ELLIPSIS} starting the agent"

WATCH_IMPORTS = """
import sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        ready = hasattr(sys.modules.get("indus_nb.front.notebook.conversations"), "Conversations")
        if loaded and name.startswith("indus_nb.") and not ready and not loaded[0].importing.locked():
            unguarded.append(name)

loaded, unguarded = [], []
sys.meta_path.insert(0, Finder)
%load_ext indus_nb
loaded.append(sys.modules["indus_nb.front.notebook.preloading"])
"""


def test_the_first_use_and_the_background_never_import_at_the_same_time(tmp_path: Path) -> None:
    with Kernel(tmp_path, private_environment(tmp_path)) as kernel:
        assert kernel.run(WATCH_IMPORTS).status == "ok"
        kernel.run("%agent --provider offline --no-session what is 6 * 7?")
        assert (
            kernel.run(
                "print(hasattr(sys.modules['indus_nb.front.notebook.conversations'], 'Conversations'), unguarded)"
            ).streams
            == "True []\n"
        )


def test_a_first_prompt_shows_that_it_begins_before_its_imports_and_nothing_of_that_stays(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    environment = private_environment(tmp_path, JPY_SESSION_NAME=str(work / "first.ipynb"))
    with Kernel(work, environment) as kernel:
        kernel.run(HOLD_IMPORTS)
        cell = kernel.begin("%agent --provider offline what is 6 * 7?", asks=True)
        cell.wait_for(lambda cell: cell.shown == [BEGINS])
        (work / "go-on").touch()
        assert BEGINS not in cell.finish().shown
        assert any("42" in text for text in cell.shown)
        assert not kernel.begin("%agent --provider offline what is 6 * 7?", asks=True).finish().cleared


def test_where_other_outputs_would_go_or_no_user_looks_a_first_prompt_clears_nothing(tmp_path: Path) -> None:
    environment = private_environment(tmp_path, JPY_SESSION_NAME=str(tmp_path / "first.ipynb"))
    with Kernel(tmp_path, environment) as kernel:
        first = kernel.begin("%load_ext indus_nb\nprint('mine')\n%agent --provider offline what is 6 * 7?", asks=True)
        assert first.finish().streams.startswith("mine\n")
        assert not first.cleared
