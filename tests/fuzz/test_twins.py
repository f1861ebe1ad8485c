"""What a trial says of some programs is what comes of them in another kernel; ``twins`` tries them by the thousand."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.twins import Fuzz
from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")


def test_trials_say_of_programs_what_comes_of_them_in_a_twin(tmp_path: Path) -> None:
    fuzz = Fuzz(seed=7)
    fuzz.run(25, tmp_path, only="iterators|modules|logging")
    assert fuzz.broken == {}
    assert min(fuzz.kinds[kind] for kind in ("no effect", "holds", "asked")) > 0, fuzz.notes
