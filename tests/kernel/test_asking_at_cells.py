"""What a user asks at a cell, as the kernel and the front-end extension tell it each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse

SETUP = """\
import asyncio, json
from indus_nb.base.messages import text_of
from indus_nb.front.notebook.door import messages
from indus_nb.front.notebook.door.editing import Editing
from indus_nb.kernel.cell_ids import CellIds
from indus_nb.kernel.document import NotebookTools
from indus_nb.start import SessionOptions, open_session

sent, answers, cells, outputs = [], [], {}, []

async def ask_page(what, fields):
    match what:
        case "cells":
            listed = [{"id": id, "type": "code", "source": text, "executionCount": None} for id, text in cells.items()]
            return {"cells": [{**cell, "outputs": outputs * (cell["id"] == fields.get("whole"))} for cell in listed]}
        case "change_cells":
            for edit in fields["edits"]:
                put = {edit["cell"]: edit["source"]}
                if edit["cell"] in cells:
                    cells.update(put)
                    continue
                at = [*cells].index(edit["after"]) + 1
                behind = [*cells.items()][at:]
                for each, _ in behind:
                    del cells[each]
                cells.update(put | dict(behind))
            return {"numbers": [[*cells].index(edit["cell"]) + 1 for edit in fields["edits"]], "removed": []}
        case _:
            return {"error": "unavailable"}

def send(message):
    sent.append(message)
    if message["kind"] == "review" and answers:
        given = answers.pop(0)
        removed = given.pop("the user has removed", None)
        for each in [each for each, text in cells.items() if text == removed]:
            del cells[each]
        answer = messages.parse({"kind": "settle", "id": message["id"], **given})
        asyncio.get_running_loop().call_soon(editing.settle, answer)

tools = NotebookTools(get_ipython(), ask_page, lambda text: False, CellIds(get_ipython()))
session = open_session(
    SessionOptions(model="anthropic/claude-sonnet-4-5", thinking="off", no_session=True, extensions=[tools])
)
await session.start()

async def session_at(cell):
    return session

editing = Editing(send, tools.cell_shown)
"""
ACCEPT = {"answer": "Accept"}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("asking")
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(root, environment) as kernel:
        assert kernel.run(SETUP).error is None
        yield kernel


def ask(
    kernel: Kernel, *answers: dict[str, str], kind: str = "edit", cell: str = "a", keeps: bool = False
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """What the extension is sent for a request at a cell, and the cells of the notebook then.

    With ``keeps`` these are as they were after the last request.
    """
    fresh = "" if keeps else "cells.clear(); cells.update(a='x = 1', b='y = 2', c='z = 3')"
    request = {"kind": kind, "id": "1", "cell": cell, "instruction": "Make it two."}
    ran = kernel.run(
        f"sent.clear(); answers[:] = {list(answers)!r}\n{fresh}\n"
        f"await editing.ask(messages.parse({request!r}), session_at)\nprint(json.dumps([sent, cells]))"
    )
    assert ran.error is None
    sent, cells = json.loads(ran.streams)
    return sent, cells


def proposal(**arguments: Any) -> Reply:
    return Reply(ToolUse("propose_cell", arguments))


def of(kind: str, sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message for message in sent if message["kind"] == kind]


def test_a_change_is_drafted_reviewed_and_made_without_another_question_to_the_model(
    kernel: Kernel, api: MessagesApi
) -> None:
    asked = len(api.requests)
    api.add(proposal(replace="a", source="x = 2"))
    sent, cells = ask(kernel, ACCEPT)
    changed = {"source": "x = 2", "type": "code", "cell": "a", "after": None}
    assert of("draft", sent)[-1] == {"kind": "draft", "id": "1", "cells": [{**changed, "old": None}], "done": True}
    (review,) = of("review", sent)
    assert (review["request"], review["cells"]) == ("1", [{**changed, "old": "x = 1"}])
    assert [choice["label"] for choice in review["choices"]] == ["Accept", "No"]
    assert sent[-1] == {"kind": "edit_over", "id": "1", "text": "", "failed": False}
    assert cells == {"a": "x = 2", "b": "y = 2", "c": "z = 3"}
    assert len(api.requests) == asked + 1
    told = str(api.requests[-1].body["messages"][-1])
    assert "Make it two." in told
    assert "id a" in told


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="


@pytest.mark.parametrize("png", [PNG, f"{PNG[:40]}\n{PNG[40:]}\n", [PNG[:40], PNG[40:]]])
def test_a_figure_of_the_cell_is_shown_to_the_model(kernel: Kernel, api: MessagesApi, png: str | list[str]) -> None:
    api.add("It falls.")
    output = {"output_type": "display_data", "data": {"image/png": png, "text/plain": "<Figure>"}, "metadata": {}}
    assert kernel.run(f"outputs[:] = [{output!r}]").error is None
    ask(kernel)
    blocks = api.requests[-1].body["messages"][-1]["content"][-3:]
    assert [block["type"] for block in blocks] == ["text", "image", "text"]
    assert blocks[1]["source"]["data"] == PNG
    assert "[image 1, above]" in blocks[2]["text"]


def test_the_model_reads_that_the_page_has_not_sent_a_figure(kernel: Kernel, api: MessagesApi) -> None:
    api.add("It falls.")
    assert kernel.run("outputs[:] = [{'output_type': 'display_data', 'data': {'image/png': ''}}]").error is None
    ask(kernel)
    assert "[not shown: the page has not sent it]" in str(api.requests[-1].body["messages"][-1])
    assert kernel.run("outputs.clear()").error is None


def test_what_is_asked_at_a_cell_is_shown_in_the_words_of_the_user(kernel: Kernel, api: MessagesApi) -> None:
    api.add("It stays.")
    ask(kernel)
    said = kernel.run("print(text_of(session.messages[-2].content))").streams
    assert said == "Make it two.\n"


def test_a_proposal_that_names_no_cell_is_for_the_one_that_is_asked_at(kernel: Kernel, api: MessagesApi) -> None:
    api.add(proposal(source="x = 2"))
    sent, cells = ask(kernel, ACCEPT)
    assert [each["cell"] for each in of("review", sent)[0]["cells"]] == ["a"]
    assert cells["a"] == "x = 2"


def test_new_cells_come_below_the_one_that_is_asked_at(kernel: Kernel, api: MessagesApi) -> None:
    api.add(proposal(cells=[{"source": "z = 3"}, {"source": "# so", "cell_type": "markdown"}]))
    sent, _ = ask(kernel, ACCEPT, kind="new_cells")
    (review,) = of("review", sent)
    assert [(each["cell"], each["after"]) for each in review["cells"]] == [(None, "a"), (None, None)]
    assert [choice["label"] for choice in review["choices"]] == ["Accept all", "No"]


@pytest.mark.parametrize("kind", ["edit", "new_cells"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"source": "y = 3", "replace": "b"},
        {"source": "y = 3", "replace": "2"},
        {"source": "y = 3", "after": "b"},
        {"cells": [{"source": "x = 2", "replace": "a"}, {"source": "y = 3", "replace": "b"}]},
    ],
)
def test_what_would_change_the_notebook_elsewhere_is_neither_drawn_nor_asked_about(
    kernel: Kernel, api: MessagesApi, kind: str, arguments: dict[str, Any]
) -> None:
    api.add(proposal(**arguments), "It is cell b that must change.")
    sent, cells = ask(kernel, ACCEPT, kind=kind)
    assert not of("review", sent)
    assert of("draft", sent)[-1]["cells"] == []
    assert cells == {"a": "x = 1", "b": "y = 2", "c": "z = 3"}
    assert "Cell b is another" in str(api.requests[-1].body["messages"][-1])
    assert sent[-1]["text"] == "It is cell b that must change."


CHAIN = ["one = 1", "two = one + 1", "three = two + 1"]
BEHIND = ["x = 1", *CHAIN, "y = 2", "z = 3"]


@pytest.mark.parametrize(("cell", "above"), [("a", "a"), ("b", "a"), ("a", "1"), ("a", None)])
def test_cells_that_calls_propose_below_the_same_one_stand_in_the_order_in_which_they_came(
    kernel: Kernel, api: MessagesApi, cell: str, above: str | None
) -> None:
    named = {} if above is None else {"after": above}
    api.add(Reply(*(ToolUse("propose_cell", {"source": source, **named}) for source in CHAIN)))
    sent, cells = ask(kernel, *[ACCEPT] * 3, kind="new_cells", cell=cell)
    assert [*cells.values()] == BEHIND
    ids = [*cells]
    assert [review["cells"][0]["after"] for review in of("review", sent)] == ids[:3], "as they are shown"
    told = kernel.run("print([text_of(each.content) for each in session.messages[-3:]])").streams
    for before, line in zip(ids[1:3], CHAIN, strict=False):
        assert f"the cell is in the notebook now, below cell {before} ({line}), with id" in told


def test_cells_of_one_call_that_name_the_same_one_above_stand_in_the_order_of_the_list(
    kernel: Kernel, api: MessagesApi
) -> None:
    changed = {"source": "x = 10", "replace": "a"}
    first, *others = ({"source": source, "after": "a"} for source in CHAIN)
    api.add(proposal(cells=[first, changed, *others]))
    sent, cells = ask(kernel, ACCEPT, kind="new_cells")
    assert [*cells.values()] == ["x = 10", *BEHIND[1:]]
    assert [each["after"] for each in of("review", sent)[0]["cells"]] == ["a", None, "a", None]
    told = kernel.run("print(text_of(session.messages[-1].content))").streams
    assert "3. Accepted: the cell is in the notebook now, below number 1 of these, with id" in told
    assert "4. Accepted: the cell is in the notebook now, below that, with id" in told


def test_what_was_rejected_or_removed_leaves_the_next_cell_below_what_is_there(
    kernel: Kernel, api: MessagesApi
) -> None:
    api.add(Reply(*(ToolUse("propose_cell", {"source": source, "after": "a"}) for source in CHAIN)))
    _, cells = ask(kernel, ACCEPT, {"answer": "No"}, ACCEPT, kind="new_cells")
    assert [*cells.values()] == ["x = 1", "one = 1", "three = two + 1", "y = 2", "z = 3"]
    api.add(Reply(*(ToolUse("propose_cell", {"source": source, "after": "a"}) for source in CHAIN)))
    removed = {**ACCEPT, "the user has removed": "one = 1"}
    _, cells = ask(kernel, ACCEPT, removed, ACCEPT, kind="new_cells")
    assert [*cells.values()] == ["x = 1", "two = one + 1", "three = two + 1", "y = 2", "z = 3"]


def test_a_later_request_has_its_cells_right_below_the_one_that_it_names(kernel: Kernel, api: MessagesApi) -> None:
    api.add(proposal(source="first = 1", after="a"))
    ask(kernel, ACCEPT, kind="new_cells")
    api.add(proposal(source="second = 2", after="a"))
    _, cells = ask(kernel, ACCEPT, kind="new_cells", keeps=True)
    assert [*cells.values()] == ["x = 1", "second = 2", "first = 1", "y = 2", "z = 3"]


@pytest.mark.parametrize("above", ["a", "b"])
def test_a_new_cell_comes_right_above_or_below_the_one_that_is_asked_at(
    kernel: Kernel, api: MessagesApi, above: str
) -> None:
    api.add(proposal(after=above, source="new = 1"))
    sent, cells = ask(kernel, ACCEPT, cell="b")
    assert [each["after"] for each in of("review", sent)[0]["cells"]] == [above]
    assert "new = 1" in cells.values()


def test_a_rejected_change_ends_the_request_and_one_with_a_reason_goes_on(kernel: Kernel, api: MessagesApi) -> None:
    api.add(proposal(source="x = 2"), proposal(source="x = 3"))
    sent, cells = ask(kernel, {"answer": "No", "reason": "Three!"}, {"answer": "No"})
    assert [review["cells"][0]["source"] for review in of("review", sent)] == ["x = 2", "x = 3"]
    assert cells["a"] == "x = 1"
    assert "Three!" in str(api.requests[-1].body["messages"][-1])
    assert not of("edit_over", sent)[0]["failed"]


def test_what_cannot_be_shown_is_never_asked_about(kernel: Kernel, api: MessagesApi) -> None:
    api.add(proposal(source="x = 2  # \u202e hidden"), "I give up.")
    sent, cells = ask(kernel, ACCEPT)
    assert not of("review", sent)
    assert "\u202e" not in json.dumps(of("draft", sent), ensure_ascii=False)
    assert cells["a"] == "x = 1"
    assert sent[-1] == {"kind": "edit_over", "id": "1", "text": "I give up.", "failed": False}


def test_arguments_that_are_nothing_of_the_kind_draw_nothing(kernel: Kernel, api: MessagesApi) -> None:
    api.add(proposal(cells=[{"source": 3}, "x", {"source": "y" * 50_000}]), "I give up.")
    sent, cells = ask(kernel, ACCEPT)
    assert [draft["cells"] for draft in of("draft", sent)][-1] == []
    assert cells["a"] == "x = 1"


def test_an_answer_to_what_was_not_asked_here_changes_nothing(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run('editing.settle(messages.parse({"kind": "settle", "id": "other", "answer": "Accept"}))')
    api.add("Nothing is to be changed.")
    sent, cells = ask(kernel)
    assert sent == [{"kind": "edit_over", "id": "1", "text": "Nothing is to be changed.", "failed": False}]
    assert cells == {"a": "x = 1", "b": "y = 2", "c": "z = 3"}
