"""What a copy reports."""

from __future__ import annotations

from indus_nb.effects import Effect
from indus_nb.preview.report import Report, parsed


def test_a_report_with_more_effects_than_can_be_sent_says_that_there_are_more() -> None:
    made = [Effect("new_names", f"x{number}", f"adds x{number}") for number in range(3000)]
    found = parsed(Report(effects=[*made, *made, Effect("deletes", "notes.txt", "deletes notes.txt")]).to_json())
    assert found is not None
    sent = [each for each in found.effects if each.kind == "new_names"]
    assert sent == made[: len(sent)]
    assert found.effects[len(sent) :] == [Effect("unknown", "", f"has {3001 - len(sent):,} more effects")]


def test_a_report_with_some_hundred_effects_is_whole() -> None:
    made = [Effect("new_names", f"x{number}", f"adds x{number}") for number in range(600)]
    found = parsed(Report(effects=made).to_json())
    assert found is not None
    assert found.effects == made
