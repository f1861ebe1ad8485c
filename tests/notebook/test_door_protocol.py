"""The protocol between the front-end extension and the kernel: what is let in, and the two files made from its module.

``INDUS_NB_WRITE_DOCS=1 python -m pytest tests/notebook/test_door_protocol.py`` writes docs/door_protocol.md and
indus_nb/lab/src/door.ts anew.
"""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from declarations import alias, defined_in, fields_of, interface, markdown, members, table, used_by
from hypothesis import given
from hypothesis import strategies as st

from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import WireModel
from indus_nb.front.notebook.door import messages
from indus_nb.front.notebook.page import states
from indus_nb.front.notebook.page.protocol import RejectedError

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "door_protocol.md"
TYPES = ROOT / "indus_nb" / "lab" / "src" / "door.ts"
HEAD = """# The extension's protocol

The messages between the extension of JupyterLab and the kernel, over a comm with the target `indus_nb.door` that the
extension opens for each notebook. This page is generated from `indus_nb/front/notebook/door/messages.py`; the same
types for TypeScript are in `indus_nb/lab/src/door.ts`.

Each message of the extension is validated; one that is rejected is logged, the extension is told why, and nothing else
happens. Fields with a `?` may be left out.
"""
INBOUND = members(messages.FromDoor)
OUTBOUND = members(messages.ToDoor) or [messages.ToDoor]


def kind(declared: Any) -> str:
    return get_args(fields_of(declared)["kind"])[0]


def section(declared: Any) -> str:
    title = f"`{kind(declared)}`" if "kind" in fields_of(declared) else declared.__name__
    return f"\n### {title}\n\n{markdown(inspect.getdoc(declared) or '')}\n{table(declared, ['kind'])}"


def reference() -> str:
    return "".join(
        [
            HEAD,
            "\n## From the extension\n",
            *map(section, [*INBOUND, *used_by(INBOUND, messages)]),
            "\n## To the extension\n",
            *map(section, [*OUTBOUND, *used_by(OUTBOUND, messages, states)]),
        ]
    )


def declarations() -> str:
    everything = dict.fromkeys([*INBOUND, *OUTBOUND])
    everything |= dict.fromkeys(used_by(list(everything), messages, states))
    return "\n".join(
        [
            "// Generated from front/notebook/door/messages.py by tests/notebook/test_door_protocol.py.\n",
            *map(interface, everything),
            alias("FromDoor", "What the extension sends.", INBOUND),
            alias("ToDoor", "What the extension is sent.", OUTBOUND),
        ]
    )


@pytest.mark.parametrize(("path", "generate"), [(DOCS, reference), (TYPES, declarations)])
def test_what_is_generated_from_the_protocol_is_up_to_date(path: Path, generate: Any) -> None:
    if os.environ.get("INDUS_NB_WRITE_DOCS"):
        path.write_text(generate(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == generate(), __doc__


def test_every_message_is_one_that_is_sent() -> None:
    declared = {*INBOUND, *OUTBOUND, *used_by([*INBOUND, *OUTBOUND], messages), messages.DoorMessage}
    assert defined_in(messages) <= declared


def example(hint: Any) -> Any:
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return ["x"] if get_origin(bare) is list else {} if bare == JsonObject else True if bare is bool else "x"


@pytest.mark.parametrize("model", INBOUND)
def test_every_message_of_the_extension_is_understood(model: type[WireModel]) -> None:
    message: dict[str, Any] = {name: example(hint) for name, hint in fields_of(model).items()}
    message["kind"] = kind(model)
    assert type(messages.parse(message)) is model
    assert type(messages.parse({**message, "unheard": "of"})) is model


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)))
def test_what_is_no_message_is_rejected(content: Any) -> None:
    with pytest.raises(RejectedError):
        messages.parse(content)


def test_a_message_that_is_too_long_is_rejected_without_its_text() -> None:
    with pytest.raises(RejectedError) as caught:
        messages.parse({"kind": "shows", "path": "secret" * 1_000, "client": "x"})
    assert "shows.path" in str(caught.value)
    assert "secret" not in str(caught.value)
