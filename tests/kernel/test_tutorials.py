"""Who follows a tutorial with the agent is asked about next to nothing; tests/tutorials.py as a program follows all."""

from __future__ import annotations

from pathlib import Path

import pytest
from messages_api import MessagesApi
from tutorials import TUTORIALS, looked

from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")


@pytest.mark.parametrize("name", ["duckdb and SQLite", "plain Python, text and files"])
def test_its_cells_are_looks(name: str, tmp_path: Path, api: MessagesApi) -> None:
    asked = [look.code for look in looked(TUTORIALS[name], tmp_path, api) if look.asked]
    assert len(asked) == TUTORIALS[name].asked, asked
