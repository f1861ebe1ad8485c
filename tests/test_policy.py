"""The table of modes and effects."""

from __future__ import annotations

from pathlib import Path

import pytest

from indus_nb.safety.effects import Effect
from indus_nb.safety.policy import KINDS, MODES, decision, denied


@pytest.mark.parametrize("kind", KINDS)
def test_no_mode_asks_less_than_the_one_before_it(kind) -> None:
    ranks = ["allow", "ask", "deny"]
    asked = [ranks.index(decision(kind, mode, {})) for mode in ("effects", "writes", "always")]
    assert asked == sorted(asked)


@pytest.mark.parametrize("chosen", ["allow", "ask", "deny"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("new_names", "draws_random", "reads_outside")])
def test_where_only_looks_are_allowed_no_setting_allows_an_effect(kind, chosen) -> None:
    assert decision(kind, "looks", {kind: chosen}) == "deny"
    said = denied([Effect(kind, "", "does it")], "looks", {})
    assert said is not None
    assert "only looks are allowed" in said


def test_only_what_is_the_agents_own_is_unasked_about_by_default() -> None:
    assert [kind for kind in KINDS if decision(kind, "effects", {}) == "allow"] == ["new_names", "draws_random"]
    assert not [kind for kind in KINDS if decision(kind, "writes", {}) == "allow"]


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "looks"])
@pytest.mark.parametrize("chosen", ["allow", "ask", "deny"])
def test_a_setting_counts_more_than_the_mode(mode, chosen) -> None:
    assert decision("writes_file", mode, {"writes_file": chosen}) == chosen


def test_a_denial_names_the_effect_and_the_setting() -> None:
    effects = [Effect("writes_file", "/a", "writes a"), Effect("deletes", "/b", "deletes b")]
    assert denied(effects, "effects", {"writes_file": "allow"}) is None
    said = denied(effects, "effects", {"deletes": "deny"})
    assert said is not None
    assert "deletes b" in said
    assert "setting `effects` denies `deletes`" in said
    assert "writes a" not in said


def test_the_manual_says_what_becomes_of_each_effect() -> None:
    page = (Path(__file__).parents[1] / "docs" / "approval.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| `")]
    told = {row[0].strip(" `"): [cell.strip() for cell in row[2:4]] for row in rows if len(row) == 5}
    assert told == {kind: [decision(kind, mode, {}) for mode in ("effects", "writes")] for kind in KINDS}
    assert [row[0].strip(" `") for row in rows if len(row) == 3] == [*MODES]
