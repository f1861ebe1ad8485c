"""The text of an entry, whatever shape a file gives it."""

from __future__ import annotations

from typing import Any

import pytest

from indus_nb.core.storage import Entry, content_text, entry_text, user_text


def entry(**data: Any) -> Entry:
    return Entry({"id": "1", "parentId": None, **data})


def said(role: str, content: object, **fields: object) -> Entry:
    return entry(type="message", message={"role": role, "content": content, **fields})


BLOCKS = [{"type": "text", "text": " look at"}, {"type": "image", "data": "aGk="}, {"type": "text", "text": "this"}]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (BLOCKS, "look at this"),
        ("  hello there \n", "hello there"),
        ([], ""),
        ([5, None, {"text": 7}], ""),
        (None, ""),
        ({}, ""),
    ],
)
def test_content_of_every_shape_has_a_text(content: object, text: str) -> None:
    assert content_text(content) == text


def test_blocks_stand_on_lines_of_their_own_and_blanks_stay_where_the_text_is_edited() -> None:
    assert user_text(said("user", BLOCKS), for_editing=True) == " look at\nthis"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (said("assistant", [{"type": "text", "text": "Yes."}]), "Yes."),
        (entry(type="message", message={"role": "bashExecution", "command": "ls"}), "ls"),
        (entry(type="custom_message", content="a note"), "a note"),
        (entry(type="branch_summary", summary="What was left."), "What was left."),
        (entry(type="compaction", summary="What was long."), "What was long."),
        (entry(type="label", label="here"), ""),
        (entry(type="message", message="no object"), ""),
        (entry(type="message"), ""),
    ],
)
def test_only_messages_of_the_user_have_a_users_text(found: Entry, text: str) -> None:
    assert entry_text(found) == text
    assert user_text(found) == ""
