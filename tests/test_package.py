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
