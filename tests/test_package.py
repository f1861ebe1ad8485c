"""The package as a whole."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_package_loads_neither_ipython_nor_an_sdk_nor_widgets() -> None:
    program = (
        "import sys, indus_nb\n"
        "heavy = {'IPython', 'anthropic', 'openai', 'httpx2', 'ipywidgets', 'pydantic', 'PIL', 'markdown_it', 'nh3', "
        "'pygments'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "indus_nb.open_session, indus_nb.SessionOptions, indus_nb.AgentSession\n"
        "heavy -= {'pydantic'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_loading_the_extension_and_the_next_cells_import_nothing_heavy_on_the_users_thread() -> None:
    program = """
import sys, threading
from IPython.core.interactiveshell import InteractiveShell

asked = {}  # names of modules by thread

class Asks:
    def find_spec(self, name, *_):
        asked.setdefault(threading.current_thread().name, set()).add(name.partition(".")[0])

shell = InteractiveShell.instance()
shell.run_cell("import asyncio\\n1")
sys.meta_path.insert(0, Asks())
assert shell.run_cell("%load_ext indus_nb").success
assert shell.run_cell("print('printed')\\n{'a': [1, 2]}").success
(preloading,) = [thread for thread in threading.enumerate() if thread.name == "indus_nb preload"]
preloading.join(60)
heavy = {"pydantic", "anthropic", "markdown_it", "nh3", "ipywidgets", "anywidget", "httpx"}
assert not heavy & asked["MainThread"], heavy & asked["MainThread"]
assert {"pydantic", "markdown_it", "nh3"} <= asked["indus_nb preload"], asked
before = set(asked["MainThread"])
shell.run_cell("%agent help")
assert not (asked["MainThread"] - before) & (heavy - {"pydantic"}), asked["MainThread"] - before
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_on_windows_the_import_says_what_to_do_instead() -> None:
    program = "import sys; sys.platform = 'win32'; import indus_nb"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stderr.splitlines()[-1].startswith("ImportError: indus_nb needs a POSIX system such as Linux or macOS")


def test_no_module_stands_in_the_way_of_a_public_name() -> None:
    code = (
        "import indus_nb, indus_nb.start, indus_nb.front.console.rpc, indus_nb.front.notebook.conversations\n"
        "from types import ModuleType\n"
        "print([name for name in indus_nb.__all__ if isinstance(getattr(indus_nb, name), ModuleType)])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
