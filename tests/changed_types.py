"""Types of the modules that changed since this branch began, and of those that import them.

    python tests/changed_types.py

Pyright reads the whole package in half a minute of a processor's time, and most of it did not change. Where git cannot
say what did, or much has changed, it reads all.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from sizes import PACKAGE, ROOT, imported

BRANCHES = ("origin/main", "main")
"""Where a branch begins: the first of these that there is."""
MANY = 100
"""Modules from which on reading all takes no longer."""


def main() -> int:
    """Run pyright on what is concerned; returns its status."""
    changed = changed_files()
    concerned = [] if changed is None else concerned_by(changed)
    if changed is not None and not concerned:
        print("No module has changed.")
        return 0
    chosen = concerned if len(concerned) < MANY else []
    print(f"{len(chosen)} modules that changed or import one that did" if chosen else "All modules", flush=True)
    return subprocess.run([str(Path(sys.executable).with_name("pyright")), *chosen], cwd=ROOT, check=False).returncode


def changed_files() -> set[str] | None:
    """The files that differ from where this branch began; ``None`` if that is not known, or settings are among them."""
    begun = next(filter(None, (git("merge-base", "HEAD", branch) for branch in BRANCHES)), "")
    if not begun:
        return None
    found = {*git("diff", "--name-only", begun[0]), *git("ls-files", "--others", "--exclude-standard")}
    return None if "pyproject.toml" in found else found


def git(*arguments: str) -> list[str]:
    """The lines that git prints; none if it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def concerned_by(changed: Iterable[str]) -> list[str]:
    """The modules of the package among these files, and all that take something from them.

    What a package shows in its ``__init__`` comes from its modules: who imports the package is concerned as well.
    """
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / PACKAGE).rglob("*.py")]
    imports = {file: imports_of(ROOT / file) for file in files}
    new = concerned = {file for file in changed if file.startswith(f"{PACKAGE}/") and file.endswith(".py")}
    while new:
        modules = set(map(module_of, new))
        found = {file for file in files if imports[file] & modules} - concerned
        concerned = concerned | found
        new = {file for file in found if file.endswith("/__init__.py")}
    return sorted(file for file in concerned if file in imports)


@cache
def imports_of(path: Path) -> set[str]:
    """The modules of the package that a file imports."""
    return {module for node in ast.walk(ast.parse(path.read_bytes())) for module in imported(node)}


def module_of(file: str) -> str:
    """The name of the module in a file."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


if __name__ == "__main__":
    sys.exit(main())
