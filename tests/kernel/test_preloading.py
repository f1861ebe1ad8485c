"""What the first prompt needs is there before it: in the background, and not on the user's thread."""

from __future__ import annotations

import ast
from pathlib import Path

from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply

WATCH = """
import threading
for thread in threading.enumerate():
    if "preload" in thread.name:
        thread.join()
from indus_nb.base import late_models

class Watched(dict):
    def pop(self, cls, *default):
        if cls in self and threading.current_thread() is threading.main_thread():
            completed.append(cls.__name__)
        return super().pop(cls, *default)

completed = []
late_models._WAITING = Watched(late_models._WAITING)
"""


def test_the_first_prompt_completes_no_model_on_the_users_thread(tmp_path: Path, api: MessagesApi) -> None:
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb")
        assert kernel.run(WATCH).status == "ok"
        api.add(Reply("hello"))
        kernel.run("%agent --model anthropic/claude-sonnet-4-5 --thinking off --no-session hi")
        completed = ast.literal_eval(kernel.run("print(completed)").streams)
    assert completed == []


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
