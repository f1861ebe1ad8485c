"""The file that a page loads is the join of its modules, which needs no tools but Python."""

from __future__ import annotations

from pathlib import Path

import bundle
import pytest


def make(source: Path, **modules: str) -> Path:
    for name, text in modules.items():
        (source / f"{name}.js").write_text(text, encoding="utf-8")
    return source


def test_the_committed_file_is_what_the_modules_make() -> None:
    assert bundle.BUNDLE.read_text(encoding="utf-8") == bundle.bundle(), "run python tests/bundle.py"


def test_modules_stand_behind_those_that_they_import(tmp_path: Path) -> None:
    text = bundle.bundle(
        make(
            tmp_path,
            main='import { a } from "./a.js";\nimport {\n  b,\n} from "./b.js";\n\nexport default () => a + b;\n',
            a='import { b } from "./b.js";\n\nexport const a = b;\n',
            b="export const b = 1;\n",
        )
    )
    assert [line for line in text.splitlines() if line and not line.startswith("//")] == [
        "const b = 1;",
        "const a = b;",
        "export default () => a + b;",
    ]


def test_comments_of_whole_lines_are_left_out_and_code_between_them_is_not(tmp_path: Path) -> None:
    source = "/** One. */\nexport const a = 1;\n\n/**\n * Two.\n */\nconst b = /** @type {any} */ (a); // stays\n"
    text = bundle.bundle(make(tmp_path, main=f"{source}// gone\nexport default b;\n"))
    assert text.split("// src/main.js\n")[1] == (
        "const a = 1;\n\nconst b = /** @type {any} */ (a); // stays\nexport default b;\n"
    )


@pytest.mark.parametrize(
    ("modules", "problem"),
    [
        ({"main": 'import { a } from "./a.js";\n', "a": 'import { b } from "./main.js";\n'}, "circle"),
        ({"main": 'import { a } from "./a.js";\nconst b = 1;\n', "a": "export const b = 1;\n"}, "declares b"),
        ({"main": 'import { a } from "elsewhere";\n'}, "no module of this directory"),
        ({"main": "const text = `\n// kept?\n`;\n"}, "template"),
        ({"main": 'import "./a.js";\n', "a": ""}, "imports a.js"),
        ({"main": 'export { a } from "./a.js";\n'}, "not understood"),
        ({"main": "const a = 1;\n", "left": ""}, "Nothing imports left.js"),
    ],
    ids=["circle", "name", "package", "template", "side effect", "re-export", "unused"],
)
def test_what_a_plain_join_would_break_is_rejected(tmp_path: Path, modules: dict[str, str], problem: str) -> None:
    with pytest.raises(bundle.BundleError, match=problem):
        bundle.bundle(make(tmp_path, **modules))
