"""The package as a whole."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_package_loads_neither_ipython_nor_an_sdk_nor_widgets() -> None:
    program = (
        "import sys, indus_nb\n"
        "heavy = {'IPython', 'anthropic', 'ipywidgets', 'pydantic', 'PIL', 'markdown_it', 'nh3', 'pygments'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "indus_nb.open_session, indus_nb.SessionOptions, indus_nb.AgentSession\n"
        "heavy -= {'pydantic'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


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
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
