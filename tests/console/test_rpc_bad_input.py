"""Whatever a line that is not blank says, it gets one answer that names the fault, and nothing happens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rpc_process import RpcProcess

from indus_nb.front.verbs import VERBS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=8,
)
FIELDS = [(name, field.key) for name, verb in VERBS.items() for field in verb.wire_fields.values()]
WRONG: list[Any] = [None, True, 17, 1.5, "text", [], {}, [{}], [1]]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcProcess]:
    with RpcProcess("--provider", "offline", "--no-session", home=tmp_path_factory.mktemp("home")) as process:
        yield process


def state(process: RpcProcess) -> dict[str, Any]:
    return process.ask("get_state")["data"]


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_field_of_the_wrong_type_is_named_and_changes_nothing(process: RpcProcess, name: str, field: str) -> None:
    model = VERBS[name]
    before = state(process)
    required = {field_.key: "x" for field_ in model.wire_fields.values() if field_.is_required}
    for value in WRONG:
        try:
            model.from_wire({**required, field: value})
        except ValueError:
            answer = process.ask(name, **{**required, field: value})
            assert answer["success"] is False
            assert f"Invalid {name}" in answer["error"]
    assert state(process) == before


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_lines_of_every_kind_get_one_answer_each_but_blank_ones_none(process: RpcProcess, data: st.DataObject) -> None:
    before = state(process)
    line = data.draw(
        st.one_of(
            JSON.map(lambda value: json.dumps(value).encode()),
            st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"").replace(b"\r", b"")),
            st.dictionaries(st.sampled_from(["type", "id", "message", "level"]), JSON).map(
                lambda value: json.dumps(value).encode()
            ),
        )
    )
    count = sum(frame["type"] == "response" for frame in process.frames)
    process.send(line + b"\n")
    assert state(process) == before
    assert sum(frame["type"] == "response" for frame in process.frames) == count + 1 + bool(line.strip())


def test_a_line_of_fifty_megabytes_is_answered(process: RpcProcess) -> None:
    process.send(b'{"id":"big","type":"get_state","padding":"' + b"x" * 50_000_000 + b'"}\n')
    assert process.answer_to("big")["success"] is True


def test_deep_nesting_is_a_fault_of_the_line(process: RpcProcess, tmp_path: Path) -> None:
    process.send(b'{"id":"deep","type":"get_state","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n")
    assert state(process)["messageCount"] == 0
    failed = [frame for frame in process.frames if frame.get("command") == "parse"]
    assert "recursion" in failed[-1]["error"]
