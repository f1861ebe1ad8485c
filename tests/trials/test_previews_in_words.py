"""What a preview says in words, and what a copy may hand over as the state of random numbers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from indus_nb.kernel.preview import Report
from indus_nb.kernel.preview.values import RefusedValueError
from indus_nb.kernel.trials.trial import NUMPY_RANDOM, RANDOM
from indus_nb.kernel.trials.trying import Trial, had_no_effect, lines, random_states
from indus_nb.safety.effects import Effect

BEGINNING = "Preview \N{EM DASH} not run yet: "


def trial(report: Report, *texts: str) -> Trial:
    made = Trial("code", None, lambda: None)
    made.report = report
    for text in texts:
        made.add_text(text)
    return made


def test_a_reason_that_is_a_sentence_has_no_full_stop_where_another_one_follows() -> None:
    untried = Trial.without("code", "No cell waits.")
    assert untried.effects[0].words == "could not be tried in a copy of the kernel: No cell waits"
    assert lines(untried) == "No preview: No cell waits."


@pytest.mark.parametrize(
    ("report", "texts", "shown"),
    [
        (Report(), (), "prints nothing"),
        (Report(), ("one\n",), "prints one"),
        (Report(), ("one\ntwo\n",), "prints:\n    one\n    two"),
        (Report(outcome="changes rows"), (), "changes rows"),
        (Report(effects=[Effect("new_names", "x", "adds x")]), (), "prints nothing"),  # which the outcome says
        (Report(effects=[Effect("deletes", "a", "deletes a")]), ("one",), "deletes a; prints one"),
        (Report("failed", "ValueError: no"), (), "raises ValueError: no"),
        (
            Report("stopped", "deletes a", [Effect("deletes", "a", "deletes a"), Effect("unknown", "", "calls it")]),
            (),
            "calls it; stopped at: deletes a\nIts trial ended there: what it would do after that is not known.",
        ),
    ],
)
def test_a_preview_says_what_would_be_and_how_it_ends(report: Report, texts: tuple[str, ...], shown: str) -> None:
    assert lines(trial(report, *texts)) == f"{BEGINNING}{shown}"


def test_without_a_preview_the_reason_is_said() -> None:
    assert lines(Trial.without("code", "the kernel\nis busy")) == "No preview: the kernel is busy."


def test_of_much_that_it_prints_a_dozen_lines_are_shown_and_none_is_long() -> None:
    shown = lines(trial(Report(), "".join(f"line {n} {'x' * 300}\n" for n in range(100)))).splitlines()
    assert len(shown) <= 14
    assert shown[1].startswith("    line 0 ")
    assert shown[-1].startswith("    line 99 ")
    assert any("lines …" in line for line in shown)
    assert all(len(line) <= 170 for line in shown)


def test_of_many_effects_the_first_five_are_named_and_the_others_counted() -> None:
    effects = [Effect("deletes", str(n), f"deletes {n}") for n in range(9)]
    named = "deletes 0; deletes 1; deletes 2; deletes 3; deletes 4"
    assert lines(trial(Report(effects=effects))) == f"{BEGINNING}{named}; has 4 more effects"
    assert lines(trial(Report(effects=effects[:6]))) == f"{BEGINNING}{named}; has 1 more effect"


def test_long_words_are_cut_and_stay_on_their_line() -> None:
    effect = Effect("unknown", "", "does\n" + "x" * 1000)
    (line,) = lines(trial(Report(effects=[effect]))).splitlines()
    assert len(line) < 200


@pytest.mark.parametrize(
    ("details", "answer"),
    [
        ({"looked": True}, True),
        ({"ran": "copy"}, True),
        ({"ran": "copy", "changed": ""}, True),
        ({"ran": "copy", "changed": "x"}, False),
        ({"ran": "kernel"}, False),
        ({"looked": 1}, False),
        ({}, False),
        (None, False),
        ("copy", False),
    ],
)
def test_a_call_had_no_effect_if_its_details_say_so(details: object, answer: bool) -> None:
    assert had_no_effect(details) is answer


def mersenne(**changed: Any) -> tuple[Any, ...]:
    """The state of Python's random numbers, with another version, words, place or rest."""
    version, words, rest = random.Random(1).getstate()
    return (
        changed.get("version", version),
        (*changed.get("words", words[:-1]), changed.get("place", words[-1])),
        changed.get("rest", rest),
    )


def test_a_state_of_random_numbers_is_set_when_it_is_put() -> None:
    before = random.getstate()
    try:
        (put,) = random_states({RANDOM: mersenne()})
        assert random.getstate() == before
        put()
        assert random.random() == random.Random(1).random()
    finally:
        random.setstate(before)
    assert random_states({}) == []


@pytest.mark.parametrize(
    "state",
    [
        None,
        (3,),
        mersenne(version=2),
        mersenne(words=(1,) * 623),
        mersenne(words=(1,) * 625),
        mersenne(words=(-1, *(1,) * 623)),
        mersenne(words=(1 << 32, *(1,) * 623)),
        mersenne(words=(True, *(1,) * 623)),
        mersenne(words=("1", *(1,) * 623)),
        mersenne(place=625),
        mersenne(place=-1),
        mersenne(place=1.0),
        mersenne(rest="1"),
    ],
)
def test_what_is_no_state_of_random_numbers_is_refused(state: object) -> None:
    before = random.getstate()
    with pytest.raises(RefusedValueError, match="cannot be read"):
        random_states({RANDOM: state})
    assert random.getstate() == before


def test_numpys_state_has_its_own_form() -> None:
    import numpy as np

    name, words, place, has_gauss, gauss = np.random.RandomState(1).get_state()
    before = np.random.get_state()
    try:
        (put,) = random_states({NUMPY_RANDOM: (name, words, place, has_gauss, gauss)})
        put()
        assert np.random.random() == np.random.RandomState(1).random()
    finally:
        np.random.set_state(before)
    for wrong in (
        ("PCG64", words, place, has_gauss, gauss),
        (name, words[:-1], place, has_gauss, gauss),
        (name, words.astype(float), place, has_gauss, gauss),
        (name, list(words), place, has_gauss, gauss),
        (name, words, 625, has_gauss, gauss),
        (name, words, place, 2, gauss),
        (name, words, place, has_gauss, "0"),
    ):
        with pytest.raises(RefusedValueError):
            random_states({NUMPY_RANDOM: wrong})
