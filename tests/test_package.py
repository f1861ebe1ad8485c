"""The package as a whole."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest


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
        "import indus_nb, indus_nb.start, indus_nb.console.rpc, indus_nb.notebook.conversations\n"
        "from types import ModuleType\n"
        "print([name for name in indus_nb.__all__ if isinstance(getattr(indus_nb, name), ModuleType)])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_modules_that_have_moved_are_found_by_their_old_names_with_a_warning() -> None:
    program = (
        "import warnings\n"
        "from importlib import import_module\n"
        "from indus_nb._moved import MOVED\n"
        "for old, new in MOVED.items():\n"
        "    with warnings.catch_warnings(record=True) as caught:\n"
        "        warnings.simplefilter('always')\n"
        "        assert import_module(f'indus_nb.{old}') is import_module(f'indus_nb.{new}'), old\n"
        "    assert f'is named indus_nb.{new} now' in str(caught[-1].message), (old, caught)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_old_module_can_be_run_as_a_program() -> None:
    ended = subprocess.run([sys.executable, "-m", "indus_nb.cli"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


RENAMED = {
    "hooks.Said": "session.hooks.UserPrompt",
    "session.Listener": "session.publisher.Listener",
    "store.StoredContext": "storage.format.StoredContext",
    "storage.StoredContext": "storage.format.StoredContext",
    "settings.PROJECT_FOLDER": "resources.settings.PROJECT_DIRECTORY",
    "resources.Scope": "resources.search.Scope",
    "notebook.open_door": "notebook.load",
    "notebook.close_door": "notebook.unload",
    "notebook.kernel.UserKernel": "notebook.kernel.tools.UserKernel",
    "notebook.view.CellView": "notebook.view.cell.CellView",
    "notebook.view.LiveDrawing": "notebook.view.growing.LiveDrawing",
    "notebook.view.StaticDrawing": "notebook.view.cell.StaticDrawing",
    "notebook.view.live_state": "notebook.view.growing.live_state",
    "notebook.live.Live": "notebook.page.widget.AgentWidget",
    "tools.read_image": "tools.read.read_image",
}


@pytest.mark.filterwarnings("ignore:indus_nb[.a-z_]* is named:DeprecationWarning")
@pytest.mark.parametrize("old", RENAMED)
def test_what_was_renamed_is_found_by_its_old_name_with_a_warning(old: str) -> None:
    old_home, _, old_name = f"indus_nb.{old}".rpartition(".")
    new_home, _, new_name = f"indus_nb.{RENAMED[old]}".rpartition(".")
    module = import_module(old_home)
    with pytest.warns(DeprecationWarning, match=rf"\.{old_name} is {new_home}\.{new_name} now") as caught:
        found = getattr(module, old_name)
    assert found is getattr(import_module(new_home), new_name)
    assert caught[0].filename == __file__
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        module.nonsense  # noqa: B018


def test_an_old_name_loads_what_it_names_only_when_it_is_asked_for() -> None:
    program = (
        "import sys, indus_nb.notebook.kernel, indus_nb.notebook.view\n"
        "new = {'indus_nb.notebook.kernel.tools', 'indus_nb.notebook.view.cell'}\n"
        "assert not new & set(sys.modules)\n"
        "from indus_nb.notebook.kernel import UserKernel\n"
        "assert new & set(sys.modules) == {'indus_nb.notebook.kernel.tools'}\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
