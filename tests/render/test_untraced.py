"""Numbers that no result shows, as answers mark them."""

from __future__ import annotations

import re

from indus_nb.render import cards
from indus_nb.render.untraced import BEGIN, END, unmarked, with_marks
from indus_nb.render.writers import bundle


def marked(text: str) -> dict[str, str]:
    """Draw an answer whose every number is marked."""
    return dict(
        bundle(cards.answer(with_marks(text, lambda part: [m.span() for m in re.finditer(r"\d[\d,.]*\d|\d", part)])))
    )


def test_a_number_is_underlined_and_says_that_it_is_from_no_result() -> None:
    drawn = marked("**5,000** rows, *7* empty\n\n| a |\n|---|\n| 12.5 |")
    shown = re.findall(
        r'<span style="text-decoration:underline dotted[^"]*" title="not from a result">([^<]+)</span>',
        drawn["text/html"],
    )
    assert shown == ["5,000", "7", "12.5"]
    for kind in ("text/markdown", "text/plain"):
        assert "5,000" in drawn[kind]
        assert not {BEGIN, END} & {*drawn[kind]}


def test_only_text_is_marked_and_no_sign_is_left_anywhere() -> None:
    text = "`x = 1` $a_2$ [3](http://a.example/4?b=5) ![6](http://a.example/7)\n\n```\n8\n```\n\n<b>10</b> $$11$$"
    drawn = marked(text)
    assert not {BEGIN, END} & {*"".join(drawn.values())}
    assert "EF%B7%9" not in drawn["text/html"]
    assert "http://a.example/4?b=5" in drawn["text/html"]
    assert re.findall(r'from a result">([^<]+)<', drawn["text/html"]) == ["3", "10"]


def test_signs_that_a_text_brings_itself_mark_nothing_of_an_answer() -> None:
    assert with_marks(f"a{BEGIN}5{END}b", lambda _: ()) == "a5b"
    assert unmarked(f"{END}{BEGIN}{BEGIN}") == ""
    assert "<script" not in marked(f"{BEGIN}<script>5</script>{END}")["text/html"]
