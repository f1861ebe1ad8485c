"""That the simulated cache charges what the API's documents say, and that the scripted sessions run to their end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.simulated_cache import SimulatedCache

LONG, MINUTE = "word " * 2_000, 60


def body(*texts: str, marked: tuple[int, ...] = (-1,), ttl: str | None = None) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
    for place in marked:
        blocks[place]["cache_control"] = {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}
    return {"messages": [{"role": "user", "content": blocks}]}


def charged(*requests: tuple[dict[str, Any], float]) -> list[tuple[int, int, int, int]]:
    cache = SimulatedCache(lambda text: len(text) // 5)
    bills = [cache.charge(request, now) for request, now in requests]
    return [(bill.input // 1000, bill.read // 1000, bill.short // 1000, bill.long // 1000) for bill in bills]


def test_what_was_written_is_read_until_its_time_is_over_and_a_read_renews_it() -> None:
    first, second = body(LONG), body(LONG, LONG)
    assert charged((first, 0), (second, 4 * MINUTE), (second, 8 * MINUTE), (second, 14 * MINUTE)) == [
        (0, 0, 2, 0),
        (0, 2, 2, 0),
        (0, 4, 0, 0),
        (0, 0, 4, 0),
    ]
    hour = body(LONG, ttl="1h")
    assert charged((hour, 0), (hour, 59 * MINUTE), (hour, 118 * MINUTE), (hour, 179 * MINUTE)) == [
        (0, 0, 0, 2),
        (0, 2, 0, 0),
        (0, 2, 0, 0),
        (0, 0, 0, 2),
    ]


def test_a_mark_finds_what_ends_up_to_twenty_parts_before_it() -> None:
    first = body(LONG)
    near, far = (body(LONG, *(f"{number}" for number in range(count))) for count in (20, 21))
    assert charged((first, 0), (near, 1))[1][1] == 2
    assert charged((first, 0), (far, 1))[1][1] == 0
    assert charged((first, 0), (body(LONG, *map(str, range(30)), marked=(10, -1)), 1))[1][1] == 2


def test_what_is_short_or_has_no_mark_is_paid_in_full() -> None:
    assert charged((body("word " * 900), 0), (body("word " * 900), 1)) == [(0, 0, 0, 0)] * 2
    assert charged((body(LONG, marked=()), 0), (body(LONG, marked=()), 1)) == [(2, 0, 0, 0)] * 2


def test_another_beginning_is_another_prompt() -> None:
    assert charged((body(LONG, "a"), 0), (body(f"{LONG}.", "a"), 1))[1][1] == 0


def test_what_a_request_writes_is_read_once_its_answer_has_begun() -> None:
    cache = SimulatedCache(lambda text: len(text) // 5)
    at = [(0, 2), (1, 3), (2, 3), (3, 4)]  # when each is sent, and when its answer begins
    bills = [cache.charge(body(LONG), now, begins) for now, begins in at]
    assert [bill.read > 0 for bill in bills] == [False, False, True, True]
    assert [bill.short > 0 for bill in bills] == [True, True, False, False]


@pytest.mark.parametrize("scenario", ["coding"])
def test_a_scripted_session_ends_and_is_cheaper_after_pauses_than_a_cold_cache_would_be(
    tmp_path: Path, scenario: str
) -> None:
    written = tmp_path / "figures.json"
    money = [sys.executable, str(Path(__file__).with_name("money.py")), "--only", scenario, "--json", str(written)]
    subprocess.run([*money, "--tokenizer", str(tmp_path)], check=True, capture_output=True)
    steady, paused = json.loads(written.read_text())
    assert steady["requests"] == paused["requests"] == 90
    assert steady["dollars"] < paused["dollars"] < 2 * steady["dollars"]


def test_rows_with_a_codebook_are_priced_as_they_are_sent_and_cost_a_quarter_of_what_they_cost_unmarked(
    tmp_path: Path,
) -> None:
    written = tmp_path / "prices.json"
    program = [sys.executable, str(Path(__file__).with_name("rows_money.py")), "--rows", "110", "--of", "1000"]
    program += ["--tokens", str(tmp_path), "--json", str(written)]
    names = ["agent.map, typed", "bare loop, typed, streaming", "bare loop, typed, a mark on each row"]
    subprocess.run([*program, "--only", *names], check=True, capture_output=True)
    ours, bare, marked = json.loads(written.read_text())
    assert ours["requests"] == bare["requests"] == 1
    assert bare["tokens"] > 3000
    assert ours["dollars"] < bare["dollars"] * 0.3 < marked["dollars"] * 0.3
    assert bare["dollars"] == pytest.approx(1000 * bare["tokens"] * 3 / 1e6, rel=0.02)


def test_estimates_are_compared_with_what_rows_cost(tmp_path: Path) -> None:
    written = tmp_path / "estimates.json"
    program = [sys.executable, str(Path(__file__).with_name("rows_money.py")), "--estimates", "--rows", "24"]
    subprocess.run([*program, "--tokens", str(tmp_path), "--json", str(written)], check=True, capture_output=True)
    kinds = json.loads(written.read_text())
    assert len(kinds) == 3
    for kind in kinds:
        for said, was in (kind["prompts"], kind["all"]):
            assert 0.7 < said / was < 1.4
