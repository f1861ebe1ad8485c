"""Join the page's JavaScript modules into the one file that a page loads.

    python tests/bundle.py            write indus_nb/front/notebook/page/static/agent.js from static/src/*.js
    python tests/bundle.py --check    only say whether it is what it should be

The join is plain, so neither users nor installations need Node: modules in the order of their imports, without import
lines, without ``export`` before names, and without comments that stand on lines of their own. That works because no two
modules may declare the same name, because the modules import nothing but each other, and because their format (see
biome.json) keeps each import, each export and each such comment at the beginning of a line.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

STATIC = Path(__file__).resolve().parent.parent / "indus_nb" / "front" / "notebook" / "page" / "static"
SOURCE = STATIC / "src"
BUNDLE = STATIC / "agent.js"
MAIN = "main.js"

_HEADER = "// Made from src/*.js by tests/bundle.py, where the comments are. Do not edit.\n"
_IMPORT = re.compile(r'^import [^;]*? from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async |const |let |class |function))", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)\n", re.MULTILINE | re.DOTALL)
_GAP = re.compile(r"\n{3,}")
_BLANK = "\n\n"
_DECLARATION = re.compile(r"^(?:async )?(?:const|let|class|function\*?) (\w+)", re.MULTILINE)


class BundleError(Exception):
    """Why the modules cannot be joined."""


def bundle(source: Path = SOURCE) -> str:
    """Return the joined modules.

    Args:
        source: the directory of the modules; the one that is loaded last is ``main.js``

    Returns:
        The text of the bundle.

    Raises:
        BundleError: the modules import something else, each other in a circle, or declare a name twice
    """
    modules = _in_order(source)
    if unused := sorted({path.name for path in source.glob("*.js")} - set(modules)):
        raise BundleError(f"Nothing imports {', '.join(unused)}.")
    declared: dict[str, str] = {}
    parts = [_HEADER]
    for name, text in modules.items():
        body = _EXPORT.sub("", _IMPORT.sub("", _COMMENT.sub("", text))).strip("\n")
        if left := re.search(r"^(?:import\b.*|export (?!default ).*)", body, re.MULTILINE):
            raise BundleError(f"{name}: not understood: {left[0]}")
        for declaration in _DECLARATION.findall(body):
            if declaration in declared:
                raise BundleError(f"{name} declares {declaration}, which {declared[declaration]} declares as well.")
            declared[declaration] = name
        if any(line.count("`") % 2 for line in body.splitlines()):
            raise BundleError(f"{name}: a template spans lines, in which comments could not be told from text.")
        parts.append(f"// src/{name}\n{_GAP.sub(_BLANK, body)}\n")
    return "\n".join(parts)


def _in_order(source: Path) -> dict[str, str]:
    """Return the modules' texts by name, each behind those that it imports."""
    found: dict[str, str] = {}
    entered: list[str] = []

    def add(name: str) -> None:
        if name in found:
            return
        if name in entered:
            raise BundleError(f"Modules import each other in a circle: {' → '.join([*entered, name])}")
        entered.append(name)
        text = (source / name).read_text(encoding="utf-8")
        for imported in _IMPORT.findall(_COMMENT.sub("", text)):
            if not re.fullmatch(r"\./\w+\.js", imported):
                raise BundleError(f"{name} imports {imported}, which is no module of this directory.")
            add(imported.removeprefix("./"))
        entered.pop()
        found[name] = text

    add(MAIN)
    return found


def main(arguments: list[str]) -> None:
    """Write the bundle, or with ``--check`` fail if it is not what the modules make."""
    text = bundle()
    if "--check" not in arguments:
        BUNDLE.write_text(text, encoding="utf-8", newline="\n")
    elif BUNDLE.read_text(encoding="utf-8") != text:
        sys.exit("agent.js is not what its modules make: run python tests/bundle.py")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BundleError as error:
        sys.exit(str(error))
