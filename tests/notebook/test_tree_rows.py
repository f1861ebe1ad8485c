"""The tree of a session as rows."""

from __future__ import annotations

from pathlib import Path

from indus_nb.base.messages import AssistantMessage, Message, TextContent, ToolCall, ToolResultMessage, UserMessage
from indus_nb.core.storage.store import SessionStore
from indus_nb.kernel.claims.stored import digest, text_with_values
from indus_nb.render.live import VALUES_TYPE
from indus_nb.render.tree import tree_rows


def store() -> SessionStore:
    return SessionStore.in_memory(Path.cwd())


def ask(text: str) -> Message:
    return UserMessage(content=text)


def answer(text: str, *calls: ToolCall) -> Message:
    return AssistantMessage(content=[TextContent(text=text), *calls], api="a", provider="p", model="m")


def test_a_conversation_without_branches_is_a_flat_list() -> None:
    session = store()
    for message in (ask("one"), answer("two"), ask("three")):
        session.append_message(message)
    assert [(row["role"], row["text"], row["depth"], row["leaf"], row["here"]) for row in tree_rows(session, 10)] == [
        ("user", "one", 0, False, False),
        ("assistant", "two", 0, False, False),
        ("user", "three", 0, True, True),
    ]


def test_a_row_says_how_many_entries_are_left_out() -> None:
    session = store()
    for message in (ask("one"), answer("two"), ask("three")):
        session.append_message(message)
    assert tree_rows(session, 2)[0]["text"] == "1 earlier entry is not listed."
    assert tree_rows(session, 1)[0]["text"] == "2 earlier entries are not listed."


def test_an_answer_has_the_values_that_were_looked_up_for_it_and_else_its_expressions() -> None:
    session = store()
    text = "It is `{python} n`."
    values = {"answer": digest(text), "values": [{"expression": "n", "value": "5"}]}
    session.append_message(ask(text))
    session.append("custom", custom_type=VALUES_TYPE, data=values)
    session.append_message(answer(text))
    session.append_message(answer(text))
    rows = tree_rows(session, 10, text_with_values(session.entries))
    assert [row["text"] for row in rows] == [text, "It is 5.", "It is `n`."]


def test_what_is_no_place_to_go_on_from_is_left_out() -> None:
    session = store()
    call = ToolCall(id="1", name="ls", arguments={})
    session.append("model_change", provider="p", model_id="m")
    session.append_message(ask("look"))
    session.append_message(answer("", call))
    session.append_message(ToolResultMessage(tool_call_id="1", tool_name="ls", content=[TextContent(text="a b")]))
    session.append_message(answer("Two files."))
    assert [row["text"] for row in tree_rows(session, 10)] == ["look", "Two files."]


def test_only_branchings_that_lead_somewhere_indent_and_the_branch_at_hand_comes_last() -> None:
    session = store()
    first = session.append_message(ask("first"))
    here = session.append_message(answer("here"))
    session.append_message(ask("further here"))
    for text in ("left early", "left late"):
        session.move_leaf(first)
        session.append_message(answer(text))
    session.move_leaf(here)
    session.append("label", target_id=here, label="good")
    rows = [(row["text"], row["depth"], row["label"], row["here"]) for row in tree_rows(session, 10)]
    assert rows == [
        ("first", 0, None, False),
        ("left early", 1, None, False),
        ("left late", 1, None, False),
        ("here", 0, "good", True),
        ("further here", 0, None, False),
    ]


def test_a_long_conversation_that_branched_often_stays_on_one_line_and_branches_of_branches_stand_deeper() -> None:
    session = store()
    for number in range(3):
        place = session.append_message(ask(f"left {number}"))
        inner = session.append_message(answer(f"answer {number}"))
        session.append_message(ask(f"left inside {number}"))
        session.move_leaf(inner)
        session.append_message(ask(f"went on {number}"))
        session.move_leaf(session.entry(place).parent_id)
        session.append_message(ask(f"kept {number}"))
    branch = [("left {}", 1), ("answer {}", 1), ("left inside {}", 2), ("went on {}", 1), ("kept {}", 0)]
    expected = [(text.format(number), depth) for number in range(3) for text, depth in branch]
    assert [(row["text"], row["depth"]) for row in tree_rows(session, 20)] == expected


def test_texts_are_cut_and_become_one_line() -> None:
    session = store()
    session.append_message(ask("a\n\x1b[31mb " + "x" * 5_000))
    (row,) = tree_rows(session, 10)
    assert len(row["text"]) == 120
    assert row["text"].startswith("a b xxx")


def test_of_many_rows_the_last_are_given_and_the_others_counted() -> None:
    session = store()
    for number in range(5_000):  # deeper than anything recurses
        session.append_message(ask(str(number)))
    rows = tree_rows(session, 3)
    assert [row["text"] for row in rows] == ["4,997 earlier entries are not listed.", "4997", "4998", "4999"]
    assert rows[0]["id"] is None
