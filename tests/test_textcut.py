"""Shortened text: what is kept, where the mark stands."""

from __future__ import annotations

import pytest

from indus_nb.base import textcut


@pytest.mark.parametrize("cut", [textcut.head, textcut.fit, textcut.tail, textcut.middle, textcut.one_line])
def test_what_fits_stays_as_it_is(cut) -> None:
    assert cut("exactly ten", 11) == "exactly ten"
    assert cut("", 11) == ""


@pytest.mark.parametrize("limit", [2, 3, 10, 11])
def test_the_ends_of_a_text_keep_as_many_characters_as_they_may_whether_their_number_is_even_or_odd(limit: int) -> None:
    text = "abcdefghijklmnopqrstuvwxyz"
    shown = textcut.middle(text, limit, "<{left}>")
    before, _, rest = shown.partition("<")
    left, _, after = rest.partition(">")
    assert before == text[: limit // 2]
    assert after == text[26 - limit // 2 :]
    assert int(left) == 26 - len(before) - len(after)


def test_a_limit_of_nothing_keeps_nothing() -> None:
    assert textcut.tail("abc", 0) == textcut.head("abc", 0) == textcut.middle("abc", 1) == "…"
    assert textcut.tail_bytes("abc", 0) == textcut.head_bytes("abc", 0) == ""
    assert textcut.middle_lines("a\nb", 1) == "…"


def test_a_mark_that_counts_leaves_the_limit_as_it_is() -> None:
    for limit in range(3, 12):
        assert len(textcut.fit("a long enough text", limit, "...")) == limit
        assert len(textcut.one_line_fit("a long\n\nenough text", limit, "...")) == limit


def test_bytes_are_counted_and_no_character_is_cut_in_half() -> None:
    text = "aä€😀" * 3
    for size in range(textcut.byte_size(text) + 1):
        beginning, end = textcut.head_bytes(text, size), textcut.tail_bytes(text, size)
        assert text.startswith(beginning)
        assert text.endswith(end)
        assert size - 4 < textcut.byte_size(beginning) <= size
        assert size - 4 < textcut.byte_size(end) <= size
    assert textcut.byte_size("half \ud83d") == 6
