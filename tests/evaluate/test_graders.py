"""Graders: expected values are right, and wrong ones are told from them."""

from __future__ import annotations

import copy
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from indus_nb.evaluate.benchmark_task import BenchmarkTask, as_collected
from indus_nb.evaluate.collector import collected
from indus_nb.evaluate.graders import FigureGrader, NamesGrader, NumberGrader, TableGrader, WordGrader
from indus_nb.evaluate.suites import notebook_tasks

TASKS = {task.id: task for task in notebook_tasks()}
HOSTILE: list[Any] = [
    None,
    True,
    "",
    "nan",
    [],
    {},
    [[[]]],
    {"frame": {}},
    {"frame": {"columns": ["a"], "rows": [[1]]}},
]
HOSTILE += [
    {"axes": 1},
    {"axes": [None]},
    {"axes": [{"bars": [{}], "lines": [{}], "points": [[1]]}]},
    1e308,
    "9" * 9999,
]


def mutants(given: Any) -> Iterator[Any]:
    """Wrong values near a right one, as mistakes make them."""
    if isinstance(given, dict) and "axes" in given:
        yield from drawn(given["axes"][0])
    elif isinstance(given, dict) and "frame" in given:
        yield from tabled(given["frame"])
    elif isinstance(given, list):
        yield from (given[:-1], [*given, "another"], [*given[1:], given[1 % len(given)], "x"], given * 2, [])
    elif isinstance(given, str):
        yield from (f"{given}s", given[:-1], "", given[::-1], [given, given])
    else:
        yield from (given * 1.02 + 0.02, given * 0.98 - 0.02, given * 1000, given / 100 - 1e-3, 1 - given, -given)
        yield [given, given]


def tabled(frame: dict[str, Any]) -> Iterator[Any]:
    def changed(columns: list[str] = frame["columns"], rows: list[list[Any]] = frame["rows"]) -> dict[str, Any]:
        return {"frame": {"columns": columns, "rows": rows}}

    rows = frame["rows"]
    yield changed(rows=rows[:-1])
    yield changed(rows=[*rows, rows[0]])
    yield changed(rows=[*rows, ["more", *rows[0][1:]]])
    yield changed(rows=[[row[0], *(value * 1.01 + 1 for value in row[1:])] for row in rows])
    yield changed(rows=[[row[0], *rows[at - 1][1:]] for at, row in enumerate(rows)])
    yield changed(columns=["other", *frame["columns"][1:]])
    yield changed(columns=[*frame["columns"][:-1], "other"])
    yield changed(rows=[[*row[:-1], None] for row in rows])


def drawn(axes: dict[str, Any]) -> Iterator[Any]:
    def changed(**parts: Any) -> dict[str, Any]:
        return {"axes": [{**copy.deepcopy(axes), **parts}]}

    yield changed(xlabel="")
    yield changed(ylabel="value")
    yield changed(xlabel=axes["ylabel"], ylabel=axes["xlabel"])
    yield changed(bars=[], lines=[], points=[])
    if "bars" in axes:
        bars = axes["bars"]
        yield changed(bars=bars[:-1])
        yield changed(bars=[{**bar, "height": bar["height"] * 1.05} for bar in bars])
        yield changed(bars=[{**bar, "from": 0.5} for bar in bars])
        yield changed(
            bars=[{**bar, "height": other["height"]} for bar, other in zip(bars, bars[1:] + bars[:1], strict=True)]
        )
        yield changed(bars=[{**bar, "name": str(at)} for at, bar in enumerate(bars)])
        yield changed(bars=[], points=[[[at, bar["height"]] for at, bar in enumerate(bars)]])
    elif "lines" in axes:
        lines = axes["lines"]
        yield changed(lines=lines[:-1])
        yield changed(lines=[{**line, "y": [y * 1.01 + 0.1 for y in line["y"]]} for line in lines])
        yield changed(lines=[{**line, "x": line["x"][:-1], "y": line["y"][:-1]} for line in lines])
        yield changed(lines=[{**line, "x": line["y"], "y": line["x"]} for line in lines])
        yield changed(lines=[{**line, "label": "_child0", "y": line["y"][::-1]} for line in lines])
        yield changed(yscale="linear" if axes["yscale"] == "log" else "log", lines=lines[::-1][:1] * 2)
    else:
        points = axes["points"][0]
        yield changed(points=[points[:-1]])
        yield changed(points=[[[y, x] for x, y in points]])
        yield changed(points=[[*points, [-1.0, -1.0]]])
        yield changed(points=[[[x, y * 1.02 + 1] for x, y in points]])


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("tasks")
    return {task.id: task.lay_out(place / task.id, 3, 1) for task in TASKS.values()}


def test_an_expected_value_is_right_as_it_comes_from_a_kernel(expected: dict[str, Any]) -> None:
    problems = {name: TASKS[name].problem(as_collected(value), value) for name, value in expected.items()}
    assert {name: problem for name, problem in problems.items() if problem} == {}


def test_wrong_values_are_caught(expected: dict[str, Any]) -> None:
    missed, tried = [], 0
    for name, value in expected.items():
        for mutant in mutants(as_collected(value)):
            tried += 1
            if TASKS[name].problem(json.loads(json.dumps(mutant)), value) is None:
                missed.append((name, str(mutant)[:100]))
    assert tried > 250
    assert missed == []


CARELESS = {
    "exported-twice": 'answer = read("sales.csv")["amount"].sum()',
    "written-differently": 'answer = int(read("visits.csv")["email"].nunique())',
    "three-units": 'answer = read("weights.csv")["weight"].mean()',
    "percent-or-share": """
        waves = read("response.csv")
        answer = waves["rate"].where(waves["rate"] <= 1, waves["rate"] / 100).mean()
    """,
    "paid-in-parts": """
        joined = read("payments.csv").merge(read("orders.csv"), on="order_id")
        answer = joined.groupby("method", as_index=False)["amount"].sum()
    """,
    "leading-zeros": """
        joined = read("stock.csv", dtype=str).merge(read("prices.csv", dtype=str), on="article")
        answer = (joined["pieces"].astype(float) * joined["price"].astype(float)).sum()
    """,
    "codes-for-missing": 'answer = read("health.csv")["bmi"].mean()',
    "known-too-late": 'answer = read("loans.csv").columns[0] + "?"',
    "groups-kept-apart": """
        import numpy as np
        rows = read("readings.csv")
        slope, start = np.polyfit(rows["signal"], rows["load"], 1)
        test = rows[rows["sensor"].isin(read("split.csv")["sensor"])]
        answer = float((test["load"] - slope * test["signal"] - start).abs().mean())
    """,
    "days-in-berlin": """
        days = read("events.csv")["at"].str[:10].value_counts()
        answer = pandas.DataFrame({"day": days.index, "events": days.to_numpy()})
    """,
    "mean-of-means": 'answer = read("branches.csv", sep=";", decimal=",")["satisfaction"].mean()',
    "runs-and-is-wrong": 'answer = read("sales.csv").groupby("shop")["turnover"].median().mean()',
    "filter-taken-back": """
        wine = read("wine.csv")
        wine = wine[wine["proline"] <= wine["proline"].quantile(0.9)]
        scaled = (wine["alcohol"] - wine["alcohol"].mean()) / wine["alcohol"].std()
        answer = float(scaled[wine["target"] == "class_1"].mean())
    """,
    "only-supposed": """
        macro = read("macro.csv")
        means = macro.assign(unemp=macro["unemp"] + 1.5 * (macro["year"] < 1985)).groupby("year")["unemp"].mean()
        answer = float(means[means.index >= 1985].mean() - means[means.index < 1985].mean())
    """,
}
"""What computes, and is wrong: code that falls into each trap."""


@pytest.mark.parametrize("name", CARELESS)
def test_who_falls_into_a_trap_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    expected = TASKS[name].lay_out(tmp_path, 4, 1)
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {"read": pd.read_csv, "pandas": pd}
    exec(textwrap.dedent(CARELESS[name]), space)
    given = json.loads(collected(space, ["answer"]))["answer"]
    assert TASKS[name].problem(given, expected) is not None


def test_each_trap_has_code_that_falls_into_it() -> None:
    assert {name for name, task in TASKS.items() if task.category == "traps"} <= CARELESS.keys()


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: str(value)[:20])
def test_a_value_of_any_form_is_wrong_and_raises_nothing(expected: dict[str, Any], value: Any) -> None:
    right = [name for name, known in expected.items() if TASKS[name].problem(value, known) is None]
    assert right == []


def test_a_twin_has_another_value_than_what_was_shown(tmp_path: Path) -> None:
    for task in TASKS.values():
        shown = task.lay_out(tmp_path / task.id / "shown", 5, 2)
        _, other = task.lay_out_twin(tmp_path / task.id, 5, 2)
        assert task.problem(as_collected(shown), other) is not None


def test_a_task_whose_value_is_always_the_same_is_refused(tmp_path: Path) -> None:
    task = BenchmarkTask(id="same", category="", prompts=("?",), make=lambda _random, _place: 4, grader=NumberGrader())
    with pytest.raises(Exception, match="has the same answer for all data"):
        task.lay_out_twin(tmp_path, 1, 1)


def test_the_same_seed_makes_the_same_files_and_another_one_others(tmp_path: Path) -> None:
    for task in TASKS.values():
        first, again, other = (tmp_path / task.id / name for name in ("first", "again", "other"))
        values = [task.lay_out(first, 1, 1), task.lay_out(again, 1, 1), task.lay_out(other, 2, 1)]
        assert values[0] == values[1] != values[2] or task.id == "known-too-late"
        files = {path.name: path.read_bytes() for path in first.iterdir()}
        assert files == {path.name: path.read_bytes() for path in again.iterdir()}
        assert files != {path.name: path.read_bytes() for path in other.iterdir()}


@pytest.mark.parametrize(
    ("grader", "given", "expected"),
    [
        (NumberGrader(), 3, 3.0),
        (NumberGrader(), [3.0], 3),
        (NumberGrader(), {"mean": 3.0}, 3),
        (NumberGrader(), {"frame": {"columns": ["mean"], "rows": [[3.0]]}}, 3),
        (WordGrader(), " Berlin ", "berlin"),
        (WordGrader(), 1984.0, 1984),
        (NamesGrader(), {"frame": {"columns": ["name"], "rows": [["b"], ["a"]]}}, ["a", "b"]),
        (TableGrader(("day",)), {"2024-01-01": 2}, {"frame": {"columns": ["day", "n"], "rows": [["2024-01-01", 2]]}}),
        (
            TableGrader(("day",)),
            {"frame": {"columns": ["n", "day", "more"], "rows": [[2, "2024-01-01T00:00:00", 0]]}},
            {"frame": {"columns": ["day", "n"], "rows": [["2024-01-01", 2]]}},
        ),
        (
            FigureGrader(),
            {"axes": [{}, {"xlabel": "Year", "ylabel": "in per cent", "lines": [{"x": [1, 2], "y": [3, 4]}]}]},
            {"kind": "lines", "marks": {"a": [[1, 3], [2, 4]]}, "x": "year", "y": "per cent"},
        ),
    ],
)
def test_a_right_value_counts_in_each_form_that_it_may_have(grader: Any, given: Any, expected: Any) -> None:
    assert grader.problem(given, expected) is None
