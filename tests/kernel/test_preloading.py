"""What the first prompt needs is there before it: in the background, and not on the user's thread."""

from __future__ import annotations

from pathlib import Path

from kernels import Kernel, private_environment

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
