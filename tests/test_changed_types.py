"""Whose types are looked at again after a change."""

from __future__ import annotations

import pytest
from changed_types import concerned_by, imports_of, module_of
from sizes import ROOT


@pytest.mark.parametrize(
    "changed", ["indus_nb/base/files.py", "indus_nb/tools/function.py", "indus_nb/tools/__init__.py"]
)
def test_all_that_imports_a_changed_module_is_concerned(changed: str) -> None:
    concerned = concerned_by([changed, "tests/test_files.py", "indus_nb/gone.py"])
    importing = {path for path in (ROOT / "indus_nb").rglob("*.py") if module_of(changed) in imports_of(path)}
    assert importing
    assert {changed, *(path.relative_to(ROOT).as_posix() for path in importing)} <= {*concerned}
    assert all((ROOT / path).is_file() and path.startswith("indus_nb/") for path in concerned)


def test_who_imports_a_package_is_concerned_by_the_modules_that_it_shows() -> None:
    assert {*concerned_by(["indus_nb/tools/__init__.py"])} <= {*concerned_by(["indus_nb/tools/tool.py"])}


def test_other_files_concern_no_module() -> None:
    assert concerned_by(["tests/test_files.py", "docs/tour.py", "indus_nb/tools/schemas.json"]) == []
