"""Settings that libraries keep beside variables: compared, put back, and not loaded for being compared."""

from __future__ import annotations

import subprocess
import sys

import pytest

PLOTLY = """
import sys, plotly.express as px, plotly.io
from indus_nb.kernel.undo import CheckpointBudget, take
def changed(code):
    checkpoint = take(globals(), code, CheckpointBudget(30))
    exec(code, globals())
    return checkpoint.close()
"""


@pytest.mark.parametrize(
    ("code", "value", "before"),
    [
        ("plotly.io.templates.default = 'seaborn'", "plotly.io.templates.default", "plotly"),
        ("px.defaults.width = 300", "px.defaults.width", None),
        (
            "plotly.io.renderers.default = 'json'",
            "plotly.io.renderers.default == (plotly.io._renderers.default_renderer or '')",
            True,
        ),
    ],
)
def test_plotlys_settings_are_compared_and_put_back(code: str, value: str, before: object) -> None:
    program = (
        f"{PLOTLY}change = changed({code!r}); print(sorted(change.found.settings)); change.undo(); print(repr({value}))"
    )
    assert _printed(program) == f'["plotly\'s settings"]\n{before!r}\n'


def test_the_slow_parts_of_plotly_are_loaded_by_their_use_alone() -> None:
    program = f"{PLOTLY}loaded = 'plotly.io._renderers' in sys.modules; change = changed('plotly.io.renderers')"
    program += "\nprint(loaded, 'plotly.io._renderers' in sys.modules, sorted(change.found.settings))"
    assert _printed(program) == "False True []\n"


def _printed(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
