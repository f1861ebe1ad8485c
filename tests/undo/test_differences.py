"""What is said of a frame, series or dictionary that changed, beyond its size."""

from __future__ import annotations

import pytest

from indus_nb.kernel.undo import CheckpointBudget, checkpoint, differences, take

pytest.importorskip("pandas")

SALES = """
import pandas as pd
sales = pd.DataFrame({
    "price": ["1", "2", "3", "4"], "region": ["N", "S", "N", "S"], "note": ["x", None, None, "y"], "qty": [1, 2, 3, 4],
})
series, by_name = pd.Series([1.0, 2.0, None]), {"a": 1, "b": [1]}
at = pd.Series(pd.to_datetime(["2026-01-01"], utc=True).as_unit("us"))
"""


def said(code: str, setup: str = SALES) -> str:
    """What is said of it, here and as of a copy, which says the same as a sentence."""
    names: dict[str, object] = {"__name__": "__main__"}
    exec(setup, names)
    before = take(names, code, CheckpointBudget(30))
    exec(code, names)
    change = before.close()
    assert change.outcome.count(" (") == change.summary.count(" (")
    return change.summary


@pytest.mark.parametrize(
    ("code", "summary"),
    [
        ("sales['price'] = sales['price'].astype(float)", "sales changed (price: str → float64)"),
        (
            "sales = sales.dropna().rename(columns={'region': 'area'}); sales['price'] = sales['price'].astype(float)",
            "sales 4 → 2 rows (region removed; area added; price: str → float64; note: 2 → 0 missing)",
        ),
        ("sales = sales.rename(columns={'region': 'area'})", "sales changed (region renamed to area)"),
        ("sales['note'] = sales['note'].fillna('')", "sales changed (note: 2 → 0 missing)"),
        ("sales.loc[2:, 'qty'] = 0", "sales changed (qty: 2 values changed)"),
        ("sales.loc[0, 'region'] = 'W'", "sales changed (region: 1 value changed)"),
        ("sales.loc[0, 'region'] = 'W'; sales = sales.copy()", "sales changed (region: 1 value changed)"),
        ("sales['total'] = 1", "sales 4 → 5 columns (total added)"),
        ("sales['a, (b)'] = 1; del sales['qty']", "sales changed (qty removed; “a,(b)” added)"),
        ("sales = sales.iloc[::-1]", "sales changed (rows in another order)"),
        ("sales = sales[['qty', 'note', 'region', 'price']]", "sales changed (columns in another order)"),
        ("sales.index = [5, 6, 7, 8]", "sales changed (index changed)"),
        ("series.index = [2, 0, 1]", "series changed (index changed)"),
        ("series.index = [2, 0, 1]; series *= 2", "series changed (3 values changed; rows in another order)"),
        (
            "sales = sales.sort_values('qty', ascending=False); sales['qty'] = 0",
            "sales changed (qty: 4 values changed; rows in another order)",
        ),
        (
            "sales = sales[sales['qty'] > 1]; sales['region'] = sales['region'].str.lower()",
            "sales 4 → 3 rows (region: 3 values changed)",
        ),
        ("sales = sales[sales['qty'] > 1].reset_index(drop=True)", "sales 4 → 3 rows"),
        (
            "sales = sales.rename(columns={name: name.upper() for name in sales})",
            "sales changed (price renamed to PRICE; region renamed to REGION; 2 others renamed)",
        ),
        (
            "at = at.dt.tz_convert('Europe/Berlin'); x = 2",
            "at changed (datetime64[us,UTC] → datetime64[us,Europe/Berlin]), x new",
        ),
        ("sales = sales * 1", "sales changed"),
        ("series[2] = 3.0", "series changed (1 → 0 missing)"),
        ("series = series.fillna(0).astype(int)", "series changed (float64 → int64; 1 → 0 missing)"),
        ("by_name['c'] = 1; by_name['d'] = 2; del by_name['a']", "by_name 2 → 3 keys (a removed; c added; d added)"),
        ("by_name['a'] = 2; by_name['b'] = [1]", "by_name changed (a changed; b changed)"),
        (
            "sales = sales.assign(**{f'c{n}': n for n in range(9)})",
            "sales 4 → 13 columns (c0 added; c1 added; 7 others added)",
        ),
    ],
)
def test_a_change_says_which_columns_types_missing_and_other_values_differ(code: str, summary: str) -> None:
    assert said(code) == summary


@pytest.mark.parametrize(
    ("code", "summary"),
    [
        ("sales = sales.reset_index(drop=True)", "sales changed (index changed)"),
        ("sales.index = range(4)", "sales changed (index changed)"),
        ("sales = sales.copy(deep=True).reset_index(drop=True)", "sales changed (index changed)"),
        ("sales = sales.reset_index()", "sales 4 → 5 columns (index added; index changed)"),
        ("sales = sales.set_index('qty')", "sales 4 → 3 columns (qty removed; index changed)"),
        ("series = series.reset_index(drop=True)", "series changed (index changed)"),
        (
            "series = series.astype('float32').reset_index(drop=True)",
            "series changed (float64 → float32; index changed)",
        ),
        (
            "sales = sales.reset_index(drop=True); sales.loc[0, 'qty'] = 9",
            "sales changed (qty: 1 value changed; index changed)",
        ),
        ("sales = sales[sales['qty'] > 1].reset_index(drop=True)", "sales 4 → 3 rows"),
        ("sales = sales.sort_index()", "sales changed (rows in another order)"),
        ("sales = sales.reindex(range(4))", "sales changed (rows in another order)"),
        (
            "sales.loc[0, 'qty'] = 9; sales = sales.sort_index()",
            "sales changed (qty: 1 value changed; rows in another order)",
        ),
    ],
)
def test_rows_of_a_sorted_frame_that_only_get_other_labels_keep_their_values(code: str, summary: str) -> None:
    setup = f"{SALES}\nsales = sales.sort_values(['region', 'qty'], ascending=[False, True])\nseries = series[::-1]\n"
    assert said(code, setup) == summary


def test_a_large_frame_is_not_compared_value_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "_MOST_CELLS", 3)
    assert said("sales['qty'] += 1; sales['price'] = 1.5") == "sales changed (price: str → float64)"


def test_values_are_not_compared_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_COMPARING_SECONDS", -1)
    assert said("sales['qty'] += 1") == "sales changed"


def test_objects_of_the_users_are_not_asked_whether_they_are_the_same() -> None:
    setup = f"""{SALES}
class Asked:
    def __eq__(self, other): asked.append(1); return True
    def __hash__(self): return 1
asked = []
sales["held"] = [Asked() for _ in range(4)]; by_name = {{"a": Asked()}}; labelled = pd.DataFrame({{Asked(): [1]}})
"""
    code = "sales['held'] = [Asked() for _ in range(4)]; by_name['a'] = Asked(); labelled.iloc[0, 0] = 2; asked.clear()"
    assert said(code, setup) == "by_name changed (a changed), labelled changed, sales changed"
    names: dict[str, object] = {"__name__": "__main__"}
    exec(setup, names)
    before = take(names, code, CheckpointBudget(30))
    exec(code, names)
    before.close()
    assert names["asked"] == []


def test_a_name_that_is_a_secret_is_not_shown_in_part_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2Pa55-and-some-more-of-it-that-is-long")
    code = "import os; by_name[os.environ['MY_TOKEN']] = 1; by_name['sk-ant-api03-A1b2C3d4A1b2C3d4A1b2'] = 2"
    assert said(code) == "by_name 2 → 4 keys (“…” added; “…” added)"


def test_code_of_the_users_classes_does_not_run_while_values_are_compared() -> None:
    setup = f"""{SALES}
ran = []
class Held(float):
    def __ne__(self, other): ran.append("ne"); return True
class Frame(pd.DataFrame):
    def __del__(self): ran.append("del")
sales["held"] = pd.Series([Held(1.0)] * 4, dtype=object)
own = Frame({{"a": [1, 2]}})
"""
    names: dict[str, object] = {"__name__": "__main__"}
    exec(setup, names)
    code = "sales['held'] = pd.Series([Held(2.0)] * 4, dtype=object); own.iloc[0, 0] = 9"
    before = take(names, code, CheckpointBudget(30))
    exec(code, names)
    names["ran"] = []
    before.close()
    assert names["ran"] == []


def test_what_is_too_long_to_be_compared_is_not_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "_MOST_CELLS", 3)
    assert said("sales.index = sales.index[::-1].copy()") == "sales changed"
    monkeypatch.setattr(differences, "_MOST_CELLS", 3_000_000)
    monkeypatch.setattr(differences, "_MOST_BYTES", 3)
    assert said("sales['region'] = ['W', 'S', 'N', 'S']") == "sales changed"
