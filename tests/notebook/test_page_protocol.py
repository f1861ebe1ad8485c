"""The protocol between widget and page: what is let in, and the two files that are generated from its module.

``INDUS_NB_WRITE_DOCS=1 python -m pytest tests/notebook/test_page_protocol.py`` writes docs/page_protocol.md and
static/protocol.d.ts anew.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pytest
from declarations import alias, fields_of, interface, markdown, members, summary, table, typescript, used_by
from hypothesis import given
from hypothesis import strategies as st

from indus_nb.front.notebook.page import protocol, states

DOCS = Path(__file__).parents[2] / "docs" / "page_protocol.md"
DECLARATIONS = Path(protocol.__file__).parent / "static" / "protocol.d.ts"

HEAD = """# The page's protocol

The messages between a widget in the kernel and the pages that show it, over the widget's comm as custom messages.
This page is generated from `protocol.py` and `states.py` in `indus_nb/front/notebook/page/`; the same types for
JavaScript are in `static/protocol.d.ts` next to them.

1. A page that shows the widget sends `ready`. The kernel sends it a `full` message, and from then on numbered `patch`
   messages, each with the operations that bring the page up to date.
2. A page that misses a number sends `resync`, and is sent a `full` message again.
3. Clicks and keys are messages of a page. Each is validated; one that is rejected is logged, the page shows why, and
   nothing else happens. A cell's widget understands fewer of them than a panel.
4. The kernel may ask a page to read or change its notebook. The page that was used last replies, or none.

Types are those of TypeScript. Fields with a `?` may be left out.
"""

VERBS_HEAD = """
## Verbs

What a panel's page may ask of the session, as programs do in RPC mode ([commands.md](commands.md)). There is no
response: what came of it shows in the state. After `abort` what was queued is in the composer again, `fork` also goes
on behind an entry that is no message of the user, and `switch_session` takes a path of the state `sessions` only, which
`list_sessions` asks for.
"""

FIRST_LINE = "// Generated from page/protocol.py and page/states.py by tests/notebook/test_page_protocol.py.\n"


VERBS = list(protocol.PAGE_VERBS.values())
INBOUND = [*members(protocol.FromPage), *VERBS]
IN_CELLS = members(protocol.FromCellPage)
OUTBOUND = members(protocol.ToPage)
OPERATIONS = members(protocol.Operation)
DIALOGS = members(protocol.PageDialog)
STATES = [states.CellState, states.PanelState]
RESULTS = [
    protocol.CellList,
    protocol.CellsChanged,
    protocol.CellsRun,
    protocol.RunShown,
    protocol.CellRan,
    protocol.CannotDo,
]
MODULES = (protocol, states)
NOT_SENT = {"Asked", "RejectedError"}
"""What is no message of a page, nor a part of one."""


# docs/page_protocol.md


def reference() -> str:
    dialogs_first = "A `timeout` is in milliseconds.\n"
    parts = [
        HEAD,
        "\n## From a page\n",
        *(section(each, f"`{kind(each)}`", note=where(each)) for each in members(protocol.FromPage)),
        VERBS_HEAD,
        *(section(each, f"`{kind(each)}`") for each in VERBS),
        "\n## To a page\n",
        *(section(each, f"`{name_of(each)}`") for each in OUTBOUND),
        "\n## Results\n\nWhat the `value` of a `reply` holds.\n",
        *(section(each, each.__name__) for each in (*RESULTS, *used_by(RESULTS, *MODULES))),
        "\n## Operations\n\nArrays, in `ops`. A page carries them out in their order.\n",
        *(section(each, f"`{signature(each)}`") for each in OPERATIONS),
        "\n## Dialogs\n\n" + dialogs_first,
        *(section(each, f"`{kind(each, 'method')}`") for each in DIALOGS),
        "\n## State\n\nValues by name. A page that knows a name's value keeps it until another comes.\n",
        *(section(each, "Of both kinds" if each is states.CellState else "Of a panel only") for each in STATES),
        *(
            section(each, each.__name__)
            for each in used_by([*STATES, protocol.ShowToast], *MODULES)
            if each not in STATES
        ),
    ]
    return "".join(parts)


def section(declared: Any, title: str, *, note: str = "") -> str:
    inherited = fields_of(states.CellState) if declared is states.PanelState else {}
    skipped = {"kind", "method", "type"} if declared in (*INBOUND, *OUTBOUND, *DIALOGS) else {"op"}
    skipped = (skipped - {"type"} if declared in OUTBOUND else skipped) | inherited.keys()
    skipped |= {"page"} if declared in INBOUND else set()
    fields = table(declared, skipped, optional=declared not in STATES)
    return f"\n### {title}\n\n{markdown(inspect.getdoc(declared) or '')}{note}\n{fields}"


def kind(declared: Any, field: str = "kind") -> str:
    if declared in VERBS:
        return declared.names[0]
    return get_args(get_type_hints(declared)[field])[0]


def name_of(message: Any) -> str:
    what = get_type_hints(message).get("what")
    return kind(message) + (f" {get_args(what)[0]}" if what else "")


def where(message: Any) -> str:
    return "" if message in IN_CELLS else " Panels only."


def signature(operation: Any) -> str:
    return f'["{kind(operation, "op")}", {", ".join(name for name in operation._fields if name != "op")}]'


# static/protocol.d.ts


def declarations() -> str:
    everything = [protocol.PageMessage, *INBOUND, *OUTBOUND, *RESULTS, *OPERATIONS, *DIALOGS, *STATES]
    everything += [each for each in used_by(everything, *MODULES) if each not in everything]
    parts = [
        FIRST_LINE,
        *map(declaration, everything),
        alias("FromPage", "What a page sends.", INBOUND),
        alias("ToPage", "What a page is sent.", OUTBOUND),
        alias("PageRequest", "What a page is asked to do.", members(protocol.PageRequest)),
        alias("Operation", "What a page does with what it shows.", OPERATIONS),
        alias("PageDialog", "What the user is asked.", DIALOGS),
        alias("WidgetKind", "The kinds of widget.", [f'"{each}"' for each in get_args(protocol.WidgetKind)]),
    ]
    return "\n".join(parts)


def declaration(declared: Any) -> str:
    if declared in OPERATIONS:
        fields = ", ".join(f"{name}: {typescript(hint)}" for name, hint in fields_of(declared).items())
        return f"/** {summary(declared)} */\nexport type {declared.__name__} = [{fields}];\n"
    base = states.CellState if declared is states.PanelState else protocol.PageMessage if declared in INBOUND else None
    first = [f'  kind: "{kind(declared)}";'] if declared in VERBS else []
    return interface(declared, base, *first)


@pytest.mark.parametrize(("path", "generate"), [(DOCS, reference), (DECLARATIONS, declarations)])
def test_what_is_generated_from_the_protocol_is_up_to_date(path: Path, generate: Any) -> None:
    if os.environ.get("INDUS_NB_WRITE_DOCS"):
        path.write_text(generate(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == generate(), __doc__


def test_every_class_of_the_protocol_is_declared_for_pages() -> None:
    declared = set(
        re.findall(r"^export (?:interface|type) (\w+)", DECLARATIONS.read_text(encoding="utf-8"), re.MULTILINE)
    )
    shared = {"KernelRequest", "RunState"}  # bases of others
    classes = {
        name
        for name, value in vars(protocol).items()
        if getattr(value, "__module__", "") in {module.__name__ for module in MODULES}
    }
    assert {name for name in classes if inspect.isclass(getattr(protocol, name))} - shared - NOT_SENT <= declared


# What is let in


def wire_values() -> st.SearchStrategy[Any]:
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    return st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner))


def messages() -> Iterator[tuple[Any, dict[str, Any]]]:
    """A valid message of each kind."""
    values = {str(bool): False}
    for model in INBOUND:
        message: dict[str, Any] = {"kind": kind(model), "page": "one"}
        for name, hint in fields_of(model).items():
            inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
            if name in ("kind", "page"):
                continue
            message[name] = get_args(inner)[0] if get_origin(inner) is Literal else values.get(str(inner), "x")
        if model is protocol.Reply:
            message["value"] = {}
        if model is protocol.Unqueue:
            message["index"] = 0
        if model is protocol.Prompt:
            message["literal"] = True
        if model is protocol.AttachImage:
            message |= {"data": "R0lGODdh", "mimeType": "image/gif"}
        yield model, message


VALID = list(messages())


@pytest.mark.parametrize(("model", "message"), VALID, ids=lambda value: getattr(value, "__name__", ""))
def test_every_kind_of_message_is_understood_by_the_widgets_that_it_is_for(model: Any, message: dict[str, Any]) -> None:
    assert understood(message) is model
    assert understood({**message, "unheard": "of"}) is model
    if model in IN_CELLS:
        assert type(protocol.parse(message, "cell")) is model
    else:
        with pytest.raises(protocol.RejectedError):
            protocol.parse(message, "cell")


def understood(message: dict[str, Any]) -> type:
    parsed = protocol.parse(message, "panel")
    assert parsed.page == "one"
    return type(parsed.verb if isinstance(parsed, protocol.Asked) else parsed)


@given(st.sampled_from(VALID), st.data())
def test_a_field_of_another_type_is_a_value_error_and_nothing_else(
    valid: tuple[Any, dict[str, Any]], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(valid[1])))
    try:
        protocol.parse({**valid[1], name: data.draw(wire_values())}, "panel")
    except protocol.RejectedError as error:
        problem = str(error)
        assert "\n" not in problem
        assert problem.endswith(".")


@given(wire_values())
def test_what_is_no_message_is_rejected(content: Any) -> None:
    with pytest.raises(protocol.RejectedError):
        protocol.parse(content, "panel")


@pytest.mark.parametrize(
    ("message", "where"),
    [
        ({"kind": "prompt", "text": "x" * (protocol.MAX_TEXT_CHARACTERS + 1)}, "prompt.text"),
        ({"kind": "set_session_name", "name": "x" * 1_001}, "set_session_name.name"),
        ({"kind": "switch_session", "sessionPath": "x" * 5_000}, "switch_session.sessionPath"),
        ({"kind": "ready", "page": "x" * (protocol.MAX_PAGE_NAME_CHARACTERS + 1)}, "ready.page"),
        ({"kind": "unqueue", "queue": "steering", "index": True, "text": "x"}, "unqueue.index"),
        ({"kind": "set_thinking_level", "level": "to the moon"}, "set_thinking_level.level"),
        ({"kind": "image", "data": "AAAA" * 1_700_000, "mimeType": "image/png"}, "5 MB"),
        ({"kind": "image", "data": "PHN2Zz4=", "mimeType": "image/svg+xml"}, "mimeType must be one of"),
        ({"kind": "eval", "code": "secret"}, "there is no such message"),
        ("secret", "secret"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_rejection_says_where_the_problem_is_and_repeats_nothing(message: Any, where: str) -> None:
    with pytest.raises(protocol.RejectedError) as caught:
        protocol.parse(message, "panel")
    problem = str(caught.value)
    assert len(problem) < 300
    if where != "secret":
        assert where in problem
    assert "secret" not in problem


@pytest.mark.parametrize("value", [1.5, ["a"], {"a": 1}, None, "x" * (protocol.MAX_TEXT_CHARACTERS + 1)])
def test_an_answer_that_no_dialog_asks_for_dismisses_it(value: object) -> None:
    message = protocol.parse({"kind": "answer", "id": "1", "value": value}, "cell")
    assert isinstance(message, protocol.AnswerDialog)
    assert message.value is None
