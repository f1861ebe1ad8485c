"""That the benchmark measures what its table says. No figure is compared with a time."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import rows_server
from benchmarks.figures import BARE, BEGIN, END, Report, Spread, replace_block
from benchmarks.programs import Program, ProgramError
from benchmarks.scenarios import Figures, many, once_json, once_text, opening, prompts, turns

BENCH = Path(__file__).with_name("bench.py")
OURS = Program("ours", (sys.executable, "-m", "indus_nb"))

START, RATE, DELTAS = "spawn to get_state, s", "1,000 pipelined get_state, /s", "200 deltas, second prompt, s"


def report(**figures: dict[str, float]) -> Report:
    names = {"start": START, "rate": RATE, "deltas": DELTAS}
    return Report(
        date="2026-01-01",
        machine="a machine",
        runs=3,
        against="pi 2.0",
        programs={"ours": "1.0", "pi 2.0": "2.0"},
        figures={names[key]: {name: Spread.of([value]) for name, value in by.items()} for key, by in figures.items()},
        notes=["A remark."],
        failures=[],
    )


def rows(table: str) -> dict[str, list[str]]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {figure: others for figure, *others in cells}


def test_a_spread_has_the_median_and_the_minimum_of_the_runs() -> None:
    assert Spread.of([3.0, 1.0, 2.0, 9.0]) == Spread(median=2.5, minimum=1.0, runs=4)


def test_the_table_has_the_ratio_to_the_peer_and_what_became_of_the_target() -> None:
    found = report(start={"ours": 0.2, "pi 2.0": 0.4}, rate={"ours": 9_000, "pi 2.0": 10_000})
    table = rows(found.table())
    assert table[START] == ["0.2", "0.4 (0.50 x)", "≤ 0.6 x pi 2.0: met"]
    assert table[RATE] == ["9,000", "10,000 (0.90 x)", "≥ 1 x pi 2.0: **not met**"]


def test_a_figure_that_a_program_lacks_is_a_dash_and_its_target_not_measured() -> None:
    table = rows(report(start={"ours": 0.2}, deltas={"ours": 0.1, BARE: 0.001}).table())
    assert table[START] == ["0.2", "-", "", "≤ 0.6 x pi 2.0: not measured"]
    assert table[DELTAS] == ["0.1", "-", "0.001", ""]


def test_a_report_is_the_same_after_a_file_of_json() -> None:
    found = report(start={"ours": 0.2, "pi 2.0": 0.4})
    data = json.loads(json.dumps(found.as_json()))
    assert data["figures"][START]["ratios"] == {"pi 2.0": 0.5}
    assert data["figures"][START]["met"] is True
    assert Report.from_json(data) == found


def test_the_marked_block_of_a_page_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    text = report(start={"ours": 0.2, "pi 2.0": 0.4}).page()
    for _ in range(2):
        replace_block(page, text)
    assert page.read_text() == f"before\n{BEGIN}\n\n{text}\n\n{END}\nafter\n"
    assert "2026-01-01" in text
    assert "A remark." in text


def test_a_page_without_marks_is_left_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n")
    with pytest.raises(ValueError, match="has no lines"):
        replace_block(page, "figures")
    assert page.read_text() == "text\n"


@pytest.mark.parametrize(
    ("measure", "figures"),
    [
        (prompts(200), 4),
        (opening(40), 3),
        (turns(60, compacted=True), 2),
        (turns(60, compacted=False), 2),
        (once_text, 2),
        (once_json, 2),
        (many(2), 2),
    ],
    ids=["prompts", "opening", "turns-compacted", "turns", "once-text", "once-json", "many"],
)
def test_our_program_does_what_a_scenario_measures(measure: Callable[[Program], Figures], figures: int) -> None:
    found = measure(OURS)
    assert len(found) >= figures
    assert all(value > 0 for value in found.values())


def test_an_answer_that_has_not_all_deltas_is_no_figure() -> None:
    end = 'print(\'{"type":"agent_end"}\', flush=True)'
    program = f"import sys; sys.stdin.readline(); {end}; sys.stdin.read()"
    wrong = Program("wrong", (sys.executable, "-c", f'print(\'{{"id":"q1","success":true}}\', flush=True); {program}'))
    with pytest.raises(ProgramError, match="has not the text of 200 deltas"):
        prompts(200)(wrong)


def test_the_command_measures_us_and_says_why_a_peer_was_not(tmp_path: Path) -> None:
    out, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    python = shlex.quote(sys.executable)
    ours = f"{python} -m indus_nb"
    broken = f"{python} -c 'raise ValueError(\"no agent\")'"
    options = ["--ours", ours, "--peer", f"broken={broken}", "--runs", "1", "--only", "^pipelined$"]
    done = subprocess.run(
        [sys.executable, str(BENCH), *options, "--json", str(out), "--docs", str(page)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert rows(done.stdout)[RATE][1:] == ["-", "≥ 1 x broken: not measured"]
    assert "pipelined: broken failed: " in done.stderr
    assert "ValueError: no agent" in done.stderr
    data = json.loads(out.read_text())
    assert data["figures"][RATE]["programs"]["ours"]["runs"] == 1
    assert "ValueError: no agent" in data["failures"][0]
    assert RATE in page.read_text()


def test_rows_are_measured_in_processes_that_ask_a_server_for_each(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    options = ["--rows", "6", "--parallel", "2", "--runs", "1", "--delay", "0", "--tls", "--json", str(out)]
    program = [sys.executable, str(BENCH.with_name("rows.py")), *options]
    names = ["agent.map", "agent.map, typed", "bare loop, streaming"]
    done = subprocess.run([*program, "--only", *names], capture_output=True, text=True, check=True)
    assert [line.split(" | ")[0].strip("| ") for line in done.stdout.splitlines()[2:]] == names
    assert all(run["rows_per_second"] > 0 for runs in json.loads(out.read_text()).values() for run in runs)


def test_rows_that_are_refused_and_fail_are_counted_with_what_was_answered(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    options = ["--rows", "30", "--parallel", "4", "--runs", "1", "--delay", "0", "--json", str(out)]
    program = [sys.executable, str(BENCH.with_name("rows.py")), *options]
    faults = ["--refuse", "0.3", "--retry-after", "0", "--seed", "1"]
    subprocess.run([*program, *faults, "--only", "agent.map"], check=True, capture_output=True)
    (figures,) = json.loads(out.read_text())["agent.map"]
    assert figures["unanswered"] == 0
    assert figures["requests"] == 30 + figures["refused"] > 30


def test_the_server_of_rows_refuses_what_exceeds_its_bucket_and_says_how_full_that_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(rows_server.time, "monotonic", lambda: now)
    monkeypatch.setattr(rows_server.time, "time", lambda: now)
    faults = rows_server.Faults(0, 0, 10, 3, 2, headers=True, chance=random.Random(0))
    assert [faults.status() for _ in range(4)] == [200, 200, 200, 429]
    now += 0.2
    assert [faults.status() for _ in range(3)] == [200, 200, 429]
    assert faults.headers_of(429).decode().splitlines() == [
        "retry-after: 2",
        "anthropic-ratelimit-requests-limit: 3",
        "anthropic-ratelimit-requests-remaining: 0",
        "anthropic-ratelimit-requests-reset: 1970-01-01T00:16:41Z",
    ]
    by_chance = [rows_server.Faults(0.2, 0.1, 0, 1, 1, headers=False, chance=random.Random(7)) for _ in range(2)]
    first, again = ([each.status() for _ in range(200)] for each in by_chance)
    assert first == again
    assert 25 < first.count(429) < 55


def test_a_stream_is_measured_by_its_first_request_and_its_memory(tmp_path: Path) -> None:
    out = tmp_path / "stream.json"
    options = ["--rows", "5000", "--take", "20", "60", "--parallel", "2", "--json", str(out)]
    subprocess.run([sys.executable, str(BENCH.with_name("rows_stream.py")), *options], check=True, capture_output=True)
    few, more = json.loads(out.read_text())
    assert (few["taken"], more["taken"]) == (20, 60)
    assert 0 < few["first"] < few["seconds"]
    assert 0 <= more["ahead"] <= 8
