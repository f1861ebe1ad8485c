"""Classes of the package that pydantic completes when they are first used."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
from pydantic import ValidationError

from indus_nb.late_models import is_complete
from indus_nb.providers.catalog import builtin_models
from indus_nb.wire import WireModel, plain

SOURCE = """
from __future__ import annotations
from pydantic import Field, PrivateAttr, computed_field, field_validator
from indus_nb.wire import WireModel, usual

class Inner(WireModel):
    place: str = "here"

class Whole(WireModel):
    'All that a model can have.'
    inner: Inner = usual(Inner)
    count_of: int = Field(default=1, ge=0)
    hidden: int = Field(default=0, exclude=True)
    _kept: list[int] = PrivateAttr(default_factory=list[int])

    @field_validator("count_of")
    @classmethod
    def _check(cls, value: int) -> int:
        if value == 13:
            raise ValueError("no luck")
        return value

    @computed_field
    @property
    def twice(self) -> int:
        return 2 * self.count_of

class Derived(Whole):
    more: int = 0

class Untouched(WireModel):
    field: int
"""


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the package."""
    module = ModuleType("indus_nb.made_up")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(SOURCE, vars(module))
    return module


def test_a_class_is_completed_with_those_that_it_stands_on_when_it_is_used(ours: Any) -> None:
    assert (ours.Derived.__name__, ours.Whole.__doc__) == ("Derived", "All that a model can have.")
    assert list[ours.Whole | None]
    assert not any(map(is_complete, (ours.Derived, ours.Whole, ours.Inner)))
    made = ours.Derived(count_of=2)
    assert list(map(is_complete, (ours.Derived, ours.Whole, ours.Inner, ours.Untouched))) == [True, True, True, False]
    assert (type(made) is ours.Derived, isinstance(made, ours.Whole), issubclass(ours.Derived, WireModel)) == (
        True,
    ) * 3
    assert made.to_wire() == {"inner": {"place": "here"}, "countOf": 2, "twice": 4, "more": 0}
    assert list(ours.Whole.model_fields) == ["inner", "count_of", "hidden"]
    with pytest.raises(ValidationError, match="no luck"):
        ours.Whole(count_of=13)


def test_a_users_class_is_complete_at_once(ours: Any) -> None:
    class Local(ours.Untouched):
        other: list[int]

    assert is_complete(Local)
    assert Local.model_validate({"field": 1, "other": [2]}).to_wire() == {"field": 1, "other": [2]}


def test_threads_that_use_a_class_at_the_same_time_all_find_it_complete(ours: Any) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = [*threads.map(lambda number: ours.Derived(count_of=number).count_of, range(12))]
    assert made == [*range(12)]


def test_a_model_is_written_without_a_serializer_as_with_one() -> None:
    assert [plain(model) for model in builtin_models()] == [model.to_wire() for model in builtin_models()]


def test_importing_the_package_completes_no_class_of_commands_events_and_dialogs() -> None:
    program = (
        "import indus_nb.console.rpc\n"
        "from indus_nb import events\n"
        "from indus_nb.console import commands\n"
        "from indus_nb.late_models import is_complete\n"
        "from indus_nb.session import dialogs\n"
        "classes = [each for module in (commands, events, dialogs) for each in vars(module).values()\n"
        "    if isinstance(each, type) and each.__module__ == module.__name__]\n"
        "assert len(classes) > 80\n"
        "late = [each for each in classes if type(each).__module__ == 'indus_nb.late_models']\n"
        "assert not [each for each in late if is_complete(each)]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
