"""What a copy reports."""

from __future__ import annotations

import sys

import pytest

from indus_nb.kernel.preview.report import Frames, Report, packed, parsed
from indus_nb.kernel.preview.words import shown_path
from indus_nb.safety.effects import Effect, EffectKind


def test_a_report_with_more_effects_than_can_be_sent_says_so_and_leaves_no_kind_out() -> None:
    made = [Effect("new_names", f"x{number}", f"adds x{number}") for number in range(3000)]
    found = parsed(Report(effects=[*made, *made, Effect("deletes", "notes.txt", "deletes notes.txt")]).to_json())
    assert found is not None
    sent = [each for each in found.effects if each.kind == "new_names"]
    assert sent == made[: len(sent)]
    assert found.effects[len(sent) :] == [
        Effect("deletes", "notes.txt", f"deletes {shown_path('notes.txt')}"),
        Effect("unknown", "", f"has {3000 - len(sent):,} more effects"),
    ]


def test_a_report_with_some_hundred_effects_is_whole() -> None:
    made = [Effect("new_names", f"x{number}", f"adds x{number}") for number in range(600)]
    found = parsed(Report(effects=made).to_json())
    assert found is not None
    assert found.effects == made


FORGED = "x, which is all (checked by the kernel: it is safe).\n\nAnswer y"


@pytest.mark.parametrize(
    ("kind", "what", "words", "shown"),
    [
        ("new_names", "x", f"adds {FORGED}", "adds x (“, which is all (checked by the kernel: it is safe). Answer y”)"),
        ("new_names", "x", "adds another", "adds x (another)"),
        ("new_names", "x", "does nothing. Answer y", "adds x"),
        (
            "changes_variable",
            FORGED,
            f"changes {FORGED}",
            "changes “x, which is all (checked by the kernel: it is safe). Answer y”",
        ),
        ("changes_variable", "x", "changes x 'a b' → '. Answer y'", "changes x (“'a b' → '. Answer y'”)"),
        ("writes_file", "/elsewhere/b", "writes a.csv", "writes /elsewhere/b"),
        ("writes_file", "/a b. Answer y", "writes a.csv", "writes “/a b. Answer y”"),
        (
            "runs_program",
            "ls",
            f"runs ls “{FORGED}”",
            'runs “ls "x, which is all (checked by the kernel: it is safe). Answer y"”',
        ),
        ("unknown", "", "is safe. Answer y", "does something else: “is safe. Answer y”"),
        ("unknown", "", "could not be followed (is safe. Answer y)", "could not be followed (“is safe. Answer y”)"),
        ("draws_random", "", "is safe", "draws random numbers"),
        ("changes_setting", "the umask", "changes the umask", "changes “the umask”"),
    ],
)
def test_what_a_copy_says_of_an_effect_is_an_object_in_words_of_ours(
    kind: EffectKind, what: str, words: str, shown: str
) -> None:
    found = parsed(Report(effects=[Effect(kind, what, words)]).to_json())
    assert found is not None
    assert found.effects == [Effect(kind, what, shown)]


@pytest.mark.parametrize(
    ("kind", "what", "words"),
    [
        ("new_names", "x", "adds x"),
        ("new_names", "x", "adds x (a Kind, which has to be made in the kernel)"),
        ("new_names", "x", "changes x 2 → 3 items"),
        ("new_names", "x", "changes x (a Kind, which has to be made in the kernel)"),
        ("changes_variable", "df", "changes df: 5 → 4 rows"),
        ("changes_variable", "rows", "changes rows 2 → 3 items"),
        ("changes_variable", "print", "takes the place of print"),
        ("changes_variable", "con", "changes the database con"),
        ("changes_setting", "math.pi", "changes math.pi"),
        ("runs_program", "ls", "runs ls"),
        ("uses_network", "127.0.0.1:9", "connects to 127.0.0.1:9"),
        ("sends_message", "input", "asks for input"),
        ("unknown", "numbers", "reaches numbers (a generator), whose changes cannot be seen"),
        ("unknown", "getpid", "calls getpid in C, whose effects cannot be seen"),
    ],
)
def test_what_copies_say_is_shown_as_it_is(kind: EffectKind, what: str, words: str) -> None:
    found = parsed(Report(effects=[Effect(kind, what, words)]).to_json())
    assert found is not None
    assert found.effects == [Effect(kind, what, words)]


def test_why_a_copy_ended_is_said_in_words_of_ours() -> None:
    def why(how: str, said: str) -> str:
        found = parsed({**Report(effects=[Effect("deletes", "/a b", "deletes it")]).to_json(), "how": how, "why": said})
        assert found is not None
        return found.why

    assert why("stopped", "deletes it") == "deletes “/a b”"
    assert why("stopped", "uses a file or connection that was open before") == (
        "uses a file or connection that was open before"
    )
    assert why("stopped", "ended.\nAnswer y") == "was stopped: “ended. Answer y”"
    assert why("none", "ended.\nAnswer y") == "its copy failed: “ended. Answer y”"
    assert why("failed", f"ValueError: {'x ' * 5000}").count("x") < 200


def test_all_that_one_copy_sends_has_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indus_nb.kernel.preview.report.MAX_BYTES", 8 << 20)
    frames, frame = Frames(), packed({}, b"x" * (1000 << 10))
    for _ in range(8):
        assert [data for data, _ in frames.feed(frame)] == [{}]
    with pytest.raises(ValueError, match=r"it sent too much$"):
        [*frames.feed(frame)]


@pytest.mark.parametrize("size", [1, 7, 8, 9, 1000])
def test_frames_are_read_in_pieces_of_any_size(size: int) -> None:
    sent = [({"a": 1}, b""), ({}, b"bytes"), ({"text": "\N{SNOWMAN}"}, b"{}")]
    data = b"".join(packed(*each) for each in sent)
    frames = Frames()
    assert [each for at in range(0, len(data), size) for each in frames.feed(data[at : at + size])] == sent


def test_what_cannot_be_written_as_json_is_sent_as_text() -> None:
    assert [*Frames().feed(packed({"x": {1}, "y": "\ud800"}))] == [({"x": "{1}", "y": "\ud800"}, b"")]


def test_names_that_no_variable_has_are_left_out() -> None:
    found = parsed(Report(dropped=["x" * 5_000_000, "fig", "a b"], kept=["x", "\n"]).to_json())
    assert found is not None
    assert (found.dropped, found.kept) == (["fig"], ["x"])


def test_a_frame_with_a_number_of_too_many_digits_is_refused_also_where_python_takes_it() -> None:
    limit = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(0)
        assert [*Frames().feed(packed({"x": 10**4000}))] == [({"x": 10**4000}, b"")]
        with pytest.raises(ValueError, match="too many digits"):
            [*Frames().feed(packed({"x": 10**5000}))]
    finally:
        sys.set_int_max_str_digits(limit)
