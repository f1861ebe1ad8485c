"""What a copy needs before it is forked."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from indus_nb.preview import Copy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no copies")


async def test_nothing_is_left_of_one_whose_making_was_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def held() -> list[str]:
        links: list[str] = []
        for each in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                links.append(str(each.readlink()))
        return sorted(link for link in links if link.startswith(("pipe:", str(tmp_path))))

    made: list[int] = []

    class Noted(Copy):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(1)

    before = held()
    making = [asyncio.create_task(Noted.made(1.0, [])) for _ in range(5)]
    await asyncio.sleep(0)
    for each in making:
        each.cancel()
    await asyncio.gather(*making, return_exceptions=True)
    await until(lambda: len(made) == len(making) and held() == before and not [*tmp_path.iterdir()])
