"""Classes of the package that pydantic completes when they are first used."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from indus_nb.base.late_models import is_complete
from pydantic import ValidationError

from indus_nb.base.messages import UserMessage
from indus_nb.base.wire import WireModel, plain
from indus_nb.models.catalog import builtin_models

SOURCE = """
from __future__ import annotations
from pydantic import Field, PrivateAttr, computed_field, field_validator
from indus_nb.base.wire import WireModel, usual

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

class Checked(WireModel):
    count_of: int = 0

    @field_validator("count_of")
    @classmethod
    def _check(cls, value: int) -> int:
        raise ValueError("no luck")
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


def test_a_class_that_is_read_after_pydantic_checks_its_values_too(ours: Any) -> None:
    for fields in ({"count_of": 13}, {"countOf": 13}):
        with pytest.raises(ValidationError, match="no luck"):
            ours.Checked.model_validate(fields)


def test_threads_that_use_a_class_at_the_same_time_all_find_it_complete(ours: Any) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = [*threads.map(lambda number: ours.Derived(count_of=number).count_of, range(12))]
    assert made == [*range(12)]


def test_an_object_can_be_unpickled_in_a_process_that_did_not_use_its_class_yet(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(pickle.dumps(UserMessage(content="hello")))
    program = (
        "import copy, pickle\n"
        "message = pickle.load(open('kept', 'rb'))\n"
        "print(message.to_wire()['content'], message == copy.deepcopy(message))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == "hello True\n"


def test_the_base_of_all_classes_may_be_the_first_that_is_used(tmp_path: Path) -> None:
    program = "from indus_nb.base.late_models import LateModel\nprint(LateModel.__annotations__)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == "{}\n"


def test_a_class_can_be_declared_while_another_thread_imports_pydantic(tmp_path: Path) -> None:
    program = (
        "from indus_nb.base import late_models\n"
        "from indus_nb.base.wire import WireModel\n"
        "class Declared(WireModel):\n"
        "    __module__ = 'indus_nb.made_up'\n"
        "    late_models.load()\n"  # as a thread may between the choice of the metaclass and its use
        "    field: int\n"
        "print(Declared.model_validate({'field': '1'}).field)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_with_another_version_of_pydantic_classes_are_complete_at_once(tmp_path: Path) -> None:
    program = (
        "import pydantic; pydantic.VERSION = '2.99.0b1'\n"
        "from indus_nb.front.console.commands import Prompt\n"
        "from indus_nb.base.late_models import is_complete\n"
        "from indus_nb.base.wire import WireModel\n"
        "assert all(map(is_complete, WireModel.__subclasses__())) and type(Prompt) is type(pydantic.BaseModel)\n"
        "print(Prompt.model_validate({'type': 'prompt', 'message': 'hello'}).to_wire()['message'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == "hello\n"


def test_a_model_is_written_without_a_serializer_as_with_one() -> None:
    assert [plain(model) for model in builtin_models()] == [model.to_wire() for model in builtin_models()]


PROGRAM = """
import asyncio, sys
from indus_nb.front.console.rpc import RpcServer
from indus_nb.base.late_models import is_complete
from indus_nb.start import SessionOptions, open_session
from indus_nb.base.wire import WireModel

class Writer:
    wire = "snapshot"
    def send_line(self, line):
        assert b'"success":true' in line, line

async def main():
    with open_session(SessionOptions(provider="anthropic", model="claude-haiku-4-5", no_session=True)) as session:
        RpcServer(session, Writer()).handle_line(b'{"type":"get_state"}')

asyncio.run(main())
early = {name for name in sys.modules if name in UNWANTED or name.startswith("indus_nb.extend")}
assert not early, early
assert len([name for name in sys.modules if name.startswith("indus_nb.")]) <= 100
assert not is_complete(WireModel)
"""
UNWANTED = {
    "pydantic", "pydantic_core",
    "anthropic", "openai", "httpx2", "httpx", "PIL", "yaml", "json5", "filelock", "regex", "IPython", "mcp",
    "importlib.metadata", "difflib", "shlex", "tempfile", "indus_nb.tools.files.writing", "indus_nb.tools.files.search",
    "indus_nb.tools.files.read", "indus_nb.tools.todo", "indus_nb.front.console.once", "indus_nb.render.markup",
    "indus_nb.core.session.stats", "indus_nb.core.resources.loading",
}  # fmt: skip


def test_the_state_of_a_session_is_answered_without_what_only_its_work_needs(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "INDUSAGI_CODING_AGENT_DIR": str(tmp_path)}
    program = f"UNWANTED = {UNWANTED!r}\n{PROGRAM}"
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, cwd=tmp_path)


FIRST_PROMPT = """
import sys
from indus_nb.start import SessionOptions, open_session

with open_session(SessionOptions(provider="offline", no_session=True), definable=False) as session:
    session.run("hello")
early = UNWANTED & set(sys.modules)
assert not early, early
"""
UNWANTED_BY_A_PROMPT = {
    "pydantic", "pydantic_core",
    "PIL", "yaml", "json5", "filelock", "regex", "difflib", "tomllib", "html", "indus_nb.extend.events",
    "indus_nb.extend.host", "indus_nb.extend.definitions", "indus_nb.core.resources.stream_rules",
    "indus_nb.tools.files.edit", "indus_nb.tools.todo", "indus_nb.tools.function", "indus_nb.extend.mcp.servers",
}  # fmt: skip


def test_a_prompt_without_extensions_imports_nothing_of_theirs_and_makes_no_schema(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "INDUSAGI_CODING_AGENT_DIR": str(tmp_path)}
    program = f"UNWANTED = {UNWANTED_BY_A_PROMPT!r}\n{FIRST_PROMPT}"
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, cwd=tmp_path)
