"""The notebooks that are shown to users, run from top to bottom as they are: no key, no network, nobody to ask."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import nbformat
import pytest
from executed_notebooks import NAMES, NOTEBOOKS, executed, plain_outputs

from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

SHOWN: Mapping[str, Sequence[str]] = {
    "quickstart": (
        "I am no language model.",
        "./data/ice_cream.csv",
        "The answer is 42.",
        "[1, 2, 3]",
        "Taken back: numbers.",
        "[3, 1, 2]",
        "beach    149.9",
        "3 steps",
        "<Figure size 500x300 with 1 Axes>",
        "It goes on as job-1.",
        "job-1 (bash: sleep 600) was stopped by the user",
        "`2.5 * 20`",
        "'6.25'",
        "total = price * cups",
        "Ready: Offline demonstration (no language model) · thinking low · saved",
        "a fresh start",
        "%agent help                 all options and commands",
        "1024",
    ),
    "data_analysis": (
        "49   park   17        215.0   129",
        "One temperature cannot be right",
        "highest: 28.9",
        "<Figure size 600x360 with 1 Axes>",
        "station              0.8",
        "beach                9.0",
        "'The beach: ten degrees more",
    ),
    "answers_that_stay_true": (
        "15,124 cups were sold in 40 days.",
        "The hottest day had 215.0 °C.",
        "5 values in answers, 0 stale.",
        "This state is “as measured” now.",
        "5 values in answers, 2 stale.",
        "15,124   holds\n",
        "station  holds\n",
        "215.0    stale: sales changed",
        "beach    holds, checked",
        "215.0    differs: now 28.9",
        "sales changed (temperature: 1 value changed)",
        "This is “as measured” again",
        "215.0    holds",
        "The hottest day had 28.9 °C, at the beach.",
        "'The hottest day had 28.9 °C, at the beach.'",
    ),
    "tools_from_functions": (
        "✓ cups_sold\n  stall: park\n  last_day: 10\n  1165",
        '"description": "of the season, counted from 1"',
        "✗ week\n  number: 7\n  ValueError: There is no week 7: the season has the weeks 1 to 6.",
        "Ordered: 25 kg for beach.",
        "{'beach': 25.0}",
    ),
    "dialogs_and_gates": (
        "This call needs the user's approval, and nobody can be asked.",
        "✓ read  notes.txt",
        "Nothing is deleted here.",
        "'yes': False, 'somebody is there': False",
        "{'flavour': None, 'scoops': None, 'message': None, 'sure': False}",
        "1  read    True",
    ),
    "branches": (
        "goes on before that message now. It said:\n\ncompute 6 * 8",
        "└\N{THIN SPACE}user: compute 6 * 8",
        "This is a new conversation now",
        "12 messages  compute 6 * 7",
        "3 of yours, 6 answers",
        "*A summary stands in the place of the older part",
        "summary: I am no language model.",
        "branches.html",
    ),
    "replay_in_ci": (
        '"toolName": "read", "content": ["1 2 3", ""]',
        "This request is not the one that was recorded as exchange 2",
        '-  "1 2 3",\n+  "1 2 4",',
        "\nrecorded\n",
        'failed\n- "content": "compute 6 * 7"\n+ "content": "compute 6 * 8"',
    ),
    "many_rows": (
        "2  Order 2: 3 boxes, 2.5 euros each       2      3    2.5  None",
        "killed: True\nat least 200 rows are kept, and not all: True",
        "500 rows, without an answer: []\nasked for what was missing: True",
        "nothing is asked any more: True | the same answers: True",
        "<3 rows, 2 answered, 1 failed, $0.0000> | failed: [1]",
        "['user', 'assistant', 'toolResult']",
    ),
    "embedding_rpc": (
        "[bash has ended]",
        "'agent_settled'",
        "1 message of yours, 1 tool call, 4 messages in all",
        "15124",
        "response 1 prompt True",
        "status 0",
        "Invalid entry ID for forking: nowhere",
    ),
}
"""Sentences of each notebook's outputs, in their order."""
NEEDS = {
    # Elsewhere there is no copy of the kernel in which expressions could be looked up.
    "answers_that_stay_true": pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here"),
}
AGAIN = "They changed. If that is right: python tests/notebooks/record.py"


@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS.get(name, ())) for name in NAMES])
def test_a_notebook_runs_and_shows_what_is_saved_in_it(name: str, tmp_path: Path) -> None:
    outputs = plain_outputs(executed(name, tmp_path))
    everything = "\n".join(outputs)
    at = 0
    for sentence in SHOWN[name]:
        assert sentence in everything[at:]
        at = everything.index(sentence, at)
    assert outputs == plain_outputs(nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)), AGAIN


def test_every_notebook_is_run_here() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(NAMES) == SHOWN.keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_notebook_names_nobodys_folders_and_its_links_lead_somewhere(name: str) -> None:
    text = (NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8")
    assert str(Path.home()) not in text
    assert str(NOTEBOOKS.parent) not in text
    assert re.findall(r"(?<![\w/])/(?!home/you\b)(?:home|root|tmp|var|Users)/\S+", text) == []
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", text)
    assert [link for link in links if not (NOTEBOOKS / link).exists()] == []


@pytest.mark.parametrize("name", ["data_analysis", "answers_that_stay_true", "tools_from_functions"])
def test_a_notebook_with_recorded_answers_says_who_wrote_them(name: str) -> None:
    cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
    told = " ".join(cells[0].source.split())
    assert "The answers in this notebook were written by hand for this example and are replayed" in told
