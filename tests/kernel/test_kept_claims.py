"""Claims that are kept: in one room for all, with one look at what each was computed from."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

from indus_nb.kernel.claims.kept import Claim, KeptClaims, listed
from indus_nb.kernel.undo import Reading, read
from indus_nb.render.live import LiveValue

MB = 1 << 20


def claims_of(kept: KeptClaims, namespace: dict[str, Any], *sources: str) -> list[Claim]:
    """Add the claims of an answer with these expressions."""
    readings = kept.read(namespace, sources)
    claims = [Claim(source, source, LiveValue("1"), None, readings[source]) for source in sources]
    kept.add(claims)
    return claims


def states(kept: KeptClaims) -> list[str]:
    return [claim.state().words for claim in kept.all()]


def test_all_claims_share_one_room_and_the_oldest_are_not_followed_any_more() -> None:
    kept = KeptClaims(room=3 * MB)
    namespace = {f"a{number}": np.zeros(MB // 8) for number in range(4)}
    for name in namespace:
        claims_of(kept, namespace, f"{name}.sum()")
    assert states(kept) == ["not followed any more", "not followed any more", "holds", "holds"]


def test_answers_about_the_same_unchanged_variable_share_what_is_remembered() -> None:
    kept = KeptClaims(room=3 * MB)
    namespace = {"a": np.zeros(MB)[: MB // 4].copy()}
    for _ in range(5):
        claims_of(kept, namespace, "a.sum()", "len(a)")
    assert states(kept) == ["holds"] * 10
    assert len({claim.reading for claim in kept.all()}) == 1
    namespace["a"][0] = 1
    claims_of(kept, namespace, "a.sum()")
    assert states(kept) == ["not followed any more"] * 10 + ["holds"]


def test_what_a_check_found_counts_for_the_room() -> None:
    kept = KeptClaims(room=3 * MB)
    namespace = {name: np.zeros(MB // 8) for name in ("a", "b")}
    claims_of(kept, namespace, "a.sum()")
    claims_of(kept, namespace, "b.sum()")
    for name, claim in zip(namespace, kept.all(), strict=True):
        namespace[name][0] = 1
        claim.check(LiveValue("2"), read(namespace, claim.source))
    assert states(kept) == ["differs: now 2", "differs: now 2"]
    kept.make_room()
    assert states(kept) == ["not followed any more", "differs: now 2"]


def test_claims_that_were_dropped_are_gone() -> None:
    kept = KeptClaims()
    claims_of(kept, {"n": 1}, "n")
    assert (kept.drop(), kept.all()) == (1, [])


def test_a_list_looks_once_at_what_several_claims_read() -> None:
    kept, looks = KeptClaims(), 0
    namespace = {"rows": [1]}
    claims_of(kept, namespace, "len(rows)", "rows[0]", "sum(rows)")
    namespace["rows"].append(2)

    def called(frame: FrameType, event: str, _about: object) -> None:
        nonlocal looks
        looks += event == "call" and frame.f_code is Reading.changed.__code__

    sys.setprofile(called)
    try:
        title, rows = listed(kept.all(), lambda claim: "cell 1")
    finally:
        sys.setprofile(None)
    assert title.startswith("3 values in answers, 3 stale.")
    assert {row[3] for row in rows} == {"stale: rows changed"}
    assert looks == 1


def test_a_builtin_that_is_hidden_makes_those_stale_that_name_it() -> None:
    kept, namespace = KeptClaims(), {"rows": [1]}
    claims_of(kept, namespace, "len(rows)", "sum(rows)")
    namespace["len"] = [2]
    assert states(kept) == ["stale: len changed", "holds"]


def test_the_title_counts_values_that_a_check_found_to_be_others() -> None:
    kept, namespace = KeptClaims(), {"n": 1}
    [claim] = claims_of(kept, namespace, "n")
    namespace["n"] = 2
    claim.check(LiveValue("2"), kept.read(namespace, ["n"])["n"])
    title, rows = listed(kept.all(), lambda claim: "cell 1")
    assert title == "1 value in answers, 0 stale, 1 of another value now."
    assert rows == [["cell 1", "n", "1", "differs: now 2"]]


def test_a_value_that_cannot_be_computed_any_more_is_not_counted_among_those_with_another_one() -> None:
    kept, namespace = KeptClaims(), {"n": 1}
    [claim] = claims_of(kept, namespace, "n")
    del namespace["n"]
    claim.check(LiveValue(problem="NameError"), kept.read(namespace, ["n"])["n"])
    title, rows = listed(kept.all(), lambda claim: "cell 1")
    assert title == "1 value in answers, 0 stale, 1 without a value now."
    assert rows == [["cell 1", "n", "1", "has no value now: NameError"]]


def test_what_is_read_past_variables_stands_in_the_state() -> None:
    kept = KeptClaims()
    claims_of(kept, {"pd": np}, "pd.read_csv('x.csv').a.sum()")
    assert states(kept) == ["holds as far as is known: what is in read_csv is not followed"]


def test_a_half_made_frame_costs_no_other_value_its_reading() -> None:
    kept, namespace = KeptClaims(), {"half": pd.DataFrame.__new__(pd.DataFrame), "n": 1}
    assert claims_of(kept, namespace, "half.a.sum()", "n")[1].state().words == "holds"
    assert claims_of(kept, namespace, "half['a'].sum()", "n + 1")[1].state().words == "holds"


def test_the_labels_of_a_frame_are_listed_once_for_all_values_of_an_answer() -> None:
    kept, lists = KeptClaims(), 0
    namespace = {"frame": pd.DataFrame({f"c{number}": [number] for number in range(50)})}
    sources = [f"frame.c{number}.sum() + frame['c{number + 1}'].sum()" for number in range(9)]
    claims_of(kept, namespace, *sources[:3])

    def called(frame: FrameType, event: str, _about: object) -> None:
        nonlocal lists
        lists += event == "call" and frame.f_code is pd.Index.tolist.__code__

    sys.setprofile(called)
    try:
        readings = kept.read(namespace, sources)
    finally:
        sys.setprofile(None)
    assert lists == 1
    namespace["frame"].columns = [*namespace["frame"].columns[1:], "c0"]
    assert all(reading.differing() == {"frame"} for reading in readings.values())


def test_a_value_that_ceases_to_be_followed_during_a_look_is_as_it_was_when_that_began() -> None:
    kept, namespace = KeptClaims(), {"n": 1}
    [claim] = claims_of(kept, namespace, "n")
    claim.check(LiveValue("2"), read(namespace, "n"))

    def look(reading: Reading) -> frozenset[str]:
        claim.reading = claim.now = None
        return frozenset({"n"})

    assert claim.state(look).words == "stale: n changed"
    assert claim.state(look).words == "not followed any more"


class Watched(Claim):
    """A claim that is looked at while another thread keeps claims."""

    kept: KeptClaims

    @property
    def readings(self) -> tuple[Reading, ...]:
        if len(self.kept) < 5:
            self.kept.add([Claim("m", "m", LiveValue("1"), None, None)])
        return ()


def test_claims_may_be_kept_while_others_are_gone_through() -> None:
    Watched.kept = kept = KeptClaims()
    kept.add([Watched("n", "n", LiveValue("1"), None, None), Claim("n", "n", LiveValue("1"), None, None)])
    assert [claim.source for claim in kept.all()] == ["n", "n", "m", "m", "m"]
