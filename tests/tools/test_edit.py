"""Replacements in files: what they find, what they change, and above all what they leave alone."""

# ruff: noqa: RUF001, characters that look alike are what this is about

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable

import pytest
from work import grows_with

from indus_nb.tools.files.edit import Edited, replace
from indus_nb.tools.files.replacement import Replacement
from indus_nb.tools.tool import ToolError


def edited(data: bytes | str, *edits: tuple[str, str]) -> Edited:
    raw = data.encode() if isinstance(data, str) else data
    return replace(raw, [Replacement(old_text=old, new_text=new) for old, new in edits])


def after(data: bytes | str, *edits: tuple[str, str]) -> bytes:
    return edited(data, *edits).data


def refused(data: bytes | str, *edits: tuple[str, str]) -> str:
    with pytest.raises(ToolError) as caught:
        edited(data, *edits)
    return str(caught.value)


CASES: list[tuple[str, bytes | str, list[tuple[str, str]], bytes | str]] = [
    ("one line", "a\nb\nc\n", [("b", "B")], "a\nB\nc\n"),
    ("a part of a line", "let x = 1;\n", [("x = 1", "y = 2")], "let y = 2;\n"),
    ("across lines", "a\nb\nc\n", [("a\nb", "x")], "x\nc\n"),
    ("a deletion", "a\nb\nc\n", [("b\n", "")], "a\nc\n"),
    ("everything", "a\n", [("a\n", "")], ""),
    ("no line end at the end", "a\nb", [("b", "c")], "a\nc"),
    ("a line end that is added", "a\nb", [("b", "b\n")], "a\nb\n"),
    ("a line end that is removed", "a\nb\n", [("b\n", "b")], "a\nb"),
    ("CRLF", "a\r\nb\r\nc\r\n", [("b\nc", "B\nX\nC")], "a\r\nB\r\nX\r\nC\r\n"),
    ("CRLF in the piece", "a\nb\n", [("a\r\nb", "A\r\nB")], "A\nB\n"),
    ("CR", "a\rb\rc", [("b", "x\ny")], "a\rx\ry\rc"),
    ("mixed line ends elsewhere", "a\r\nb\nc\rd\n", [("a", "A")], "A\r\nb\nc\rd\n"),
    ("mixed line ends within", "a\r\nb\nc\rd\n", [("b\nc\nd", "b\nC\nd")], "a\r\nb\nC\rd\n"),
    ("a new line takes the first line end", "a\r\nb\nc\n", [("c", "c\nd")], "a\r\nb\nc\r\nd\n"),
    ("BOM", b"\xef\xbb\xbfa\r\nb\r\n", [("a", "x")], b"\xef\xbb\xbfx\r\nb\r\n"),
    ("bytes that are no UTF-8", b"\xff\xfe a\nb \x80\n", [("b", "c")], b"\xff\xfe a\nc \x80\n"),
    ("several edits", "a\nb\nc\nd\n", [("d", "4"), ("a", "1\n1"), ("c", "")], "1\n1\nb\n\n4\n"),
    ("neighbours", "ab\n", [("b", "2"), ("a", "1")], "12\n"),
    ("edits that look at the original", "a b\n", [("a", "b"), ("b", "a")], "b a\n"),
    ("trailing blanks, kept where untouched", "a  \nb\t\nc \n", [("a\nb\nc", "a\nB\nc")], "a  \nB\nc \n"),
    ("trailing blanks in the piece", "a\nb\nc\n", [("a  \nb \n", "x\n")], "x\nc\n"),
    ("trailing blanks at the piece's end", "foo\nbar", [("foo \nbar  ", "x")], "x"),
    ("a blank before more text", "foo bar\nfood\n", [("foo ", "X ")], "X bar\nfood\n"),
    ("curly quotes", "say(“hi”)\n‘x’\n", [('say("hi")', 'say("ho")')], 'say("ho")\n‘x’\n'),
    ("curly quotes that the edit straightens", "“a”\n", [("“a”", '"a"')], '"a"\n'),
    ("lines repeated in the piece", "“1”\n“2”\n“3”\n", [('"1"\n"2"\n"3"', '"1"\n"B"\n"3"')], '“1”\n"B"\n“3”\n'),
    ("a line kept in the middle", "“1”\n“2”\n“3”\n", [('"1"\n"2"\n"3"', 'A\n"2"\nC')], "A\n“2”\nC\n"),
    ("a line inserted between kept ones", "“1”\n“2”\n", [('"1"\n"2"', '"1"\nnew\n"2"')], "“1”\nnew\n“2”\n"),
    ("NBSP", "a\u00a0b\nc\u00a0d\n", [("a b", "a-b")], "a-b\nc\u00a0d\n"),
    ("other spaces", "a\u2009b\u3000c\n", [("a b c", "x")], "x\n"),
    ("dashes", "1\u20132 \u2014 3\u22124\n", [("1-2 - 3-4", "x")], "x\n"),
    ("a ligature", "ﬁnd ﬁne\n", [("find", "lose")], "lose ﬁne\n"),
    ("the end of a ligature", "ﬁnd\n", [("ind", "unny")], "funny\n"),
    ("the start of a ligature", "of ﬁn\n", [("of f", "OFF")], "OFFin\n"),
    ("NFD in the file", "cafe\u0301 1\nre\u0301 2\n", [("café 1", "tea")], "tea\nre\u0301 2\n"),
    ("NFD in the piece", "café\n", [("cafe\u0301", "tea")], "tea\n"),
    ("halfwidth kana", "ｶﾞｷﾞ\n", [("ガ", "x")], "xｷﾞ\n"),
    ("Hangul", "\u1112\u1161\u11ab글\n", [("한", "x")], "x글\n"),
    ("an ellipsis", "wait… now…\n", [("wait... now", "go")], "go…\n"),
    ("emoji and astral characters", "😀 “𝐱”\n😀\n", [('😀 "x"', "😀")], "😀\n😀\n"),
    ("odd line separators inside a line", "a\u2028b\x0cc\n", [("b", "B")], "a\u2028B\x0cc\n"),
    ("half a character in the new text", "a\n", [("a", "\ud83d")], "\ufffd\n"),
]


@pytest.mark.parametrize(
    ("data", "edits", "expected"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_only_what_an_edit_touches_changes(
    data: bytes | str, edits: list[tuple[str, str]], expected: bytes | str
) -> None:
    assert after(data, *edits) == (expected.encode() if isinstance(expected, str) else expected)


REFUSALS: list[tuple[str, bytes | str, list[tuple[str, str]], str]] = [
    ("an empty piece", "a\n", [("", "x")], "oldText is empty"),
    ("a missing piece", "a\n", [("b", "x")], "oldText does not occur in the file"),
    ("an empty file", "", [("a", "x")], "oldText does not occur"),
    ("blanks that are not there", "a\n", [("   ", "x")], "oldText does not occur"),
    ("a wrong case", "Abc\n", [("abc", "x")], "oldText does not occur"),
    ("a line end that is not there", "a", [("a\n", "x")], "oldText does not occur"),
    ("letters with accents", "café\n", [("cafe", "x")], "oldText does not occur"),
    ("a beginning of a longer word", "foobar\n", [("foo ", "x")], "oldText does not occur"),
    ("duplicates", "a\nb\na\n", [("a", "x")], "more than once (from lines 1 and 3 on"),
    ("overlapping duplicates", "aaa\n", [("aa", "x")], "more than once (from lines 1 and 1 on"),
    ("duplicates in tolerant form", '"a"\n“a”\n', [('"a"', "x")], "more than once (from lines 1 and 2 on"),
    ("both letters of one character", "aﬃb\n", [("f", "x")], "more than once"),
    ("overlapping edits", "abc\n", [("ab", "x"), ("bc", "y")], "edits[0] and edits[1] overlap: both change line 1"),
    ("nested edits", "a\nb\nc\n", [("b", "x"), ("a\nb\nc", "y")], "edits[1] and edits[0] overlap"),
    ("edits in one ligature", "ﬁ\n", [("f", "x"), ("i", "y")], "overlap"),
    ("no change", "a\n", [("a", "a")], "changes nothing"),
    ("no change but in kept quotes", "“a”\n", [('"a"', '"a"')], "changes nothing"),
    ("edits that undo each other's move", "ab", [("a", "a"), ("b", "b")], "changes nothing"),
    ("the second of several", "a\nb\n", [("a", "x"), ("c", "y")], "edits[1]: oldText does not occur"),
]


@pytest.mark.parametrize(
    ("data", "edits", "reason"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS]
)
def test_an_edit_that_is_not_clear_is_refused(data: bytes | str, edits: list[tuple[str, str]], reason: str) -> None:
    assert reason in refused(data, *edits)


def test_the_diff_numbers_lines_and_shows_four_around_each_change() -> None:
    lines = [f"line {number}" for number in range(1, 31)]
    result = edited("\n".join(lines) + "\n", ("line 8\n", ""), ("line 20", "twenty\nand more"))
    assert result.first_changed_line == 8
    assert result.diff.split("\n") == [
        "    ...",
        "  4 line 4",
        "  5 line 5",
        "  6 line 6",
        "  7 line 7",
        "- 8 line 8",
        "  8 line 9",
        "  9 line 10",
        " 10 line 11",
        " 11 line 12",
        "    ...",
        " 15 line 16",
        " 16 line 17",
        " 17 line 18",
        " 18 line 19",
        "-20 line 20",
        "+19 twenty",
        "+20 and more",
        " 21 line 21",
        " 22 line 22",
        " 23 line 23",
        " 24 line 24",
        "    ...",
    ]


def test_the_diff_shows_lines_that_a_piece_repeats_as_context() -> None:
    result = edited("a\nb\nc\nd\n", ("a\nb\nc\nd", "a\nB\nc\nd"))
    assert result.diff == " 1 a\n-2 b\n+2 B\n 3 c\n 4 d"
    assert result.first_changed_line == 2


def test_the_diff_hides_nothing_that_tolerance_changed() -> None:
    assert edited("x = “1”  \ny\n", ('x = "1"\ny', 'x = "2"\ny')).diff == '-1 x = “1”  \n+1 x = "2"\n 2 y'


def test_two_edits_of_one_line_are_one_change_in_the_diff() -> None:
    assert edited("a b c\n", ("a", "1"), ("c", "3")).diff == "-1 a b c\n+1 1 b 3"


def test_a_diff_of_bytes_that_are_no_text_can_be_encoded() -> None:
    edited(b"a \xff\n", ("a", "b")).diff.encode()


LINE_PARTS = ["a", "b", "“q”", "'s'", "‘s’", "ﬁ", "e\u0301", "é", "\u00a0", " ", "  ", "\u2014", "-", "\t", "x y", "ｶﾞ"]


def random_file(dice: random.Random) -> list[str]:
    ends = dice.choice([["\n"], ["\r\n"], ["\r"], ["\n", "\r\n"], ["\n", "\r\n", "\r"]])
    # The number makes every line unique.
    lines = [
        f"{number}:{''.join(dice.choices(LINE_PARTS, k=dice.randrange(5)))}{dice.choice(ends)}"
        for number in range(dice.randrange(3, 12))
    ]
    if dice.random() < 0.3:
        lines[-1] = lines[-1].rstrip("\r\n")
    return lines


def retyped(line: str, dice: random.Random) -> str:
    """What a model may make of a line: the same in tolerant form."""
    forms: list[Callable[[str], str]] = [
        lambda text: text,
        lambda text: unicodedata.normalize("NFKC", text),
        lambda text: unicodedata.normalize("NFD", text),
        lambda text: text.translate(str.maketrans("“”‘’", "\"\"''")),
        lambda text: text.replace("\u2014", "-").replace("\u00a0", " "),
        str.rstrip,
        lambda text: text + "  ",
    ]
    for form in dice.sample(forms, 3):
        line = form(line)
    return line


@pytest.mark.parametrize("seed", range(150))
def test_whatever_a_model_retypes_all_lines_but_the_one_that_it_rewrites_keep_their_bytes(seed: int) -> None:
    dice = random.Random(seed)
    lines = random_file(dice)
    start = dice.randrange(len(lines))
    stop = dice.randrange(start + 1, len(lines) + 1)
    rewritten = dice.randrange(start, stop)
    old = [retyped(line.rstrip("\r\n"), dice) for line in lines[start:stop]]
    new = [*old]
    new[rewritten - start] = "rewritten"
    result = after("".join(lines), ("\n".join(old), "\n".join(new))).decode()
    before, behind = "".join(lines[:rewritten]), "".join(lines[rewritten + 1 :])
    line_end = lines[rewritten][len(lines[rewritten].rstrip("\r\n")) :]
    assert result.startswith(before)
    assert result.endswith(line_end + behind)
    # Blanks behind a piece that itself ends without them may stay.
    assert result[len(before) : len(result) - len(line_end + behind)].rstrip() == "rewritten"


@pytest.mark.parametrize(
    ("head", "unit"),
    [
        ("", "x\n"),
        ("", "“x” \n"),
        ("", "e\u0301"),
        ("a", "\u0301\u0323"),
        ("ｶ", "\u0345ﾞ"),
    ],
    ids=["plain", "tolerant", "clusters", "one endless cluster", "a reordering cluster"],
)
def test_the_work_of_an_edit_grows_as_the_file_does(head: str, unit: str) -> None:
    assert grows_with(5_000, lambda length: after(head + unit * length + "\ny\n", ("y", "z"))) < 2.2


def test_a_long_replacement_costs_no_product_of_lines() -> None:
    def replace(lines: int) -> None:
        old = "\n".join(f"“{number % 7}”" for number in range(lines))
        result = after(f"{old}\nend\n", (old.replace("“", '"').replace("”", '"'), "\n".join(map(str, range(lines)))))
        assert result.startswith(b"0\n1\n2\n")
        assert result.endswith(b"\n%d\nend\n" % (lines - 1))

    assert grows_with(1000, replace) < 2.2
