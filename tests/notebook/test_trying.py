"""What is asked about code that was run in a copy of the kernel."""

from __future__ import annotations

from indus_nb.kernel.preview import Report
from indus_nb.kernel.trials.trying import Trial, lines, lines_so_far, time_taken
from indus_nb.safety.effects import Effect

ADDED = Effect("new_names", "total", "adds total")
CONNECTS = Effect("uses_network", "example.com:443", "connects to example.com:443")


def ended(how: str, why: str, *effects: Effect) -> Trial:
    trial = Trial("code", None, lambda: None)
    trial.report = Report(how, why, [*effects])  # pyright: ignore[reportArgumentType]
    return trial


def test_what_a_copy_could_not_do_is_named_before_what_it_had_done_by_then() -> None:
    why = "uses a file or connection that was open before"
    trial = ended("stopped", why, ADDED)
    assert trial.effects == [Effect("unknown", "", why), ADDED]
    assert not trial.holds


def test_what_was_stopped_before_it_happened_is_named_once() -> None:
    trial = ended("stopped", CONNECTS.words, CONNECTS, ADDED)
    assert trial.effects == [CONNECTS, ADDED]
    assert not trial.holds


def test_effects_that_have_no_place_above_a_question_are_counted() -> None:
    written = [Effect("writes_file", f"/{n}", f"writes {n}") for n in range(8)]
    assert lines(ended("done", "", *written)).endswith("writes 3; writes 4; has 3 more effects")
    assert lines(ended("done", "", *written[:5])).endswith("writes 4")


def test_of_a_trial_that_still_runs_it_is_shown_what_it_has_printed() -> None:
    trial = Trial("code", None, lambda: None)
    assert "printed" not in lines_so_far(trial)
    trial.add_text("step 1\nstep 2\n")
    assert lines_so_far(trial).endswith("\nIt has printed:\n    step 1\n    step 2")


def test_a_trial_that_took_long_says_how_long_for_a_yes_takes_that_again() -> None:
    trial = ended("done", "", ADDED)
    trial.seconds = 1.9
    assert time_taken(trial) == ""
    trial.seconds = 20.4
    assert time_taken(trial) == "Tried in a copy: 20 s. A yes runs it once more.\n"
