"""Keys in the memory of a copy."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
from indus_nb.kernel.preview.forgetting import forget

def made():
    return "".join(chr(97 + number * 7 % 26) for number in range(20)) + str(31 * 1009)

kept = {"a": f"Bearer {made()}", "bytes": made().encode(), "large": made() + " " * 5_000_000, "b": "a value that stays"}
numbers = [number * 1.5 for number in range(200_000)]
forget([made().encode(), b"not there at all"])
print(kept["a"], kept["bytes"].decode(), kept["large"].strip(), len(kept["large"]), kept["b"])
print(made(), numbers == [number * 1.5 for number in range(200_000)])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="there are no copies")
def test_a_value_is_overwritten_wherever_it_stands_and_nothing_else() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    filler = "x" * 25
    assert ran.stdout.splitlines() == [
        f"Bearer {filler} {filler} {filler} 5000025 a value that stays",
        "ahovcjqxelszgnubipwd31279 True",  # made anew
    ]
