"""Texts that a test compares with a file, and that one environment variable writes anew.

``INDUS_NB_WRITE_DOCS=1 python -m pytest tests/snapshots`` writes them; look at the difference before it is committed.
"""

from __future__ import annotations

import os
from pathlib import Path

SNAPSHOTS = Path(__file__).parent / "snapshots"


def assert_snapshot(name: str, text: str) -> None:
    """Compare ``text`` with the file ``name`` in tests/snapshots, or write that."""
    path = SNAPSHOTS / name
    text = text.rstrip("\n") + "\n"
    if os.environ.get("INDUS_NB_WRITE_DOCS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    known = path.read_text(encoding="utf-8") if path.exists() else ""
    assert text == known, f"{name} differs. If it should: INDUS_NB_WRITE_DOCS=1 python -m pytest tests/snapshots"
