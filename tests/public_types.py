"""Whether every public name has a type that a checker knows without guessing.

    python tests/public_types.py

What derives from classes of Jupyter AI is left out, which the tests do not install.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LEFT_OUT = "indus_nb.front.jupyter_ai."


def main() -> int:
    """Print what has no such type; returns 1 if there is any."""
    pyright = str(Path(sys.executable).with_name("pyright"))
    command = [pyright, "--verifytypes", "indus_nb", "--ignoreexternal", "--outputjson"]
    found: Any = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout)
    symbols: list[Any] = found["typeCompleteness"]["symbols"]
    unknown = [
        f"{symbol['name']}: {'; '.join(each['message'] for each in symbol['diagnostics'])}"
        for symbol in symbols
        if symbol["isExported"] and not symbol["isTypeKnown"] and not symbol["name"].startswith(LEFT_OUT)
    ]
    print("\n".join(unknown), end="\n" if unknown else "")
    return 1 if unknown or not symbols else 0


if __name__ == "__main__":
    sys.exit(main())
