"""Profiles of frames: every statement is read back and held against pandas; they are short, and told once."""

from __future__ import annotations

import importlib.util
import math
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from benchmarks.profile import frames
from hypothesis import given, settings
from hypothesis import strategies as st

from indus_nb.kernel.toolset import profiles as profiles_module
from indus_nb.kernel.toolset.profiles import FrameProfiles
from indus_nb.kernel.values import columns
from indus_nb.kernel.values.columns import look
from indus_nb.kernel.values.describe import describe
from indus_nb.kernel.values.describe import given as describe_given
from indus_nb.kernel.values.extent import BY
from indus_nb.kernel.values.joins import Named, joins
from indus_nb.kernel.values.profile import profile
from indus_nb.kernel.values.readers import sampled_rows

polars: Any = importlib.import_module("polars") if importlib.util.find_spec("polars") else None
SHARE = r"(?:<0\.1|>99\.9|\d+(?:\.\d)?) %"
TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^'", ][^,]*?"""
END = r"(?:-?\d+ days? )?[^ …,]+(?: [\d:]+)?"
FACT = re.compile(
    rf"(?:(?P<distinct>[\d,]+) distinct(?:: (?P<top>(?:{TEXT}) {SHARE}(?:, (?:{TEXT}) {SHARE})*)(?P<more>, …)?)?"
    rf"|(?P<missing>{SHARE}|all) missing|(?P<all>all distinct)|(?P<one>always|only) (?P<value>{TEXT}|'')"
    rf"|(?P<count>[\d,]+) (?P<kind>[a-z]\w*)|(?P<low>{END})…(?P<high>{END}))(?:, |\Z)"
)


def text_of(frame: Any, room: int = 100_000) -> str:
    seen = look(frame, 100, time.thread_time() + 60)
    assert seen is not None
    return profile(seen).text("f", room)


def named(frame: Any, name: str) -> Named:
    seen = look(frame, 100, time.thread_time() + 60)
    assert seen is not None
    return Named(name, seen)


def facts(text: str) -> Iterator[Mapping[str, str]]:
    """Read the facts of a column, all of them."""
    at = 0
    while at < len(text):
        found = FACT.match(text, at)
        assert found is not None, text[at:]
        yield {name: value for name, value in found.groupdict().items() if value is not None}
        at = found.end()


def is_share(text: str, part: int, whole: int) -> bool:
    percent = 100 * part / whole
    if text == "<0.1 %":
        return 0 < percent < 0.1
    if text == ">99.9 %":
        return 99.9 < percent < 100
    told = float(text.removesuffix(" %"))
    return (told == 100) == (part == whole) and told > 0 and abs(told - percent) <= 0.0501


def written(value: Any) -> str:
    """Write a value of pandas as profiles do."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, str):
        plain = re.fullmatch(r"[^\W_][\w./+-]*(?: [\w./+-]+)*", value)
        return value if plain else repr(value)
    if isinstance(value, pd.Timestamp):
        return value.floor("s").strftime("%Y-%m-%d %H:%M:%S").removesuffix(" 00:00:00")
    if isinstance(value, pd.Timedelta):
        return str(value.floor("us").to_pytimedelta()).replace(",", "")
    if isinstance(value, int | np.integer):
        return str(int(value))
    six = f"{value:.6g}"
    return str(int(value)) if abs(value) < 1e15 and float(six) == int(value) else six


def written_type(kind: pa.DataType) -> str:
    return f"dictionary<{kind.value_type}>" if pa.types.is_dictionary(kind) else str(kind)


def check_column(text: str, values: pd.Series) -> None:
    """Hold what is said of a column against pandas."""
    rows, present = len(values), values.dropna()
    counts = present.value_counts()
    counts = counts[counts > 0]  # of categories that do not occur
    for fact in facts(text):
        match fact:
            case {"missing": "all"}:
                assert len(present) == 0
            case {"missing": share}:
                assert is_share(share, int(values.isna().sum()), rows), (text, values)
            case {"all": _}:
                assert values.is_unique
                assert len(present) == rows
            case {"one": how, "value": value}:
                assert counts.size == 1, (text, values)
                assert value == written(present.iloc[0])
                assert (how == "always") == (len(present) == rows)
            case {"low": low, "high": high}:
                assert (low, high) == (written(present.min()), written(present.max())), (text, values)
            case {"distinct": number, **more}:
                assert int(number.replace(",", "")) == counts.size
                check_top(text, more, {written(value): int(count) for value, count in counts.items()}, rows)
            case {"count": number, "kind": kind}:
                known = int(number.replace(",", ""))
                assert known == (
                    values.isna().sum() if kind == "missing" else sum(type(v).__name__ == kind for v in present)
                )


def check_top(text: str, fact: Mapping[str, str], counts: Mapping[str, int], rows: int) -> None:
    told = [pair.rsplit(" ", 2) for pair in re.findall(rf"(?:{TEXT}) {SHARE}", fact.get("top", ""))]
    for value, number, sign in told:
        assert is_share(f"{number} {sign}", counts[value], rows), (text, counts)
    if told:
        top = sorted(counts.values(), reverse=True)[: len(told)]
        assert sorted((counts[value] for value, *_ in told), reverse=True) == top
        assert ("more" in fact) == (len(counts) > len(told))


def check(text: str, frame: pd.DataFrame, types: Mapping[str, Any]) -> int:
    """Hold a whole profile against pandas; returns how many columns were checked."""
    head, *lines = text.splitlines()
    found = re.fullmatch(rf"`f` \w+ ([\d,]+) {BY} ([\d,]+)(?:; (.*))?", head)
    assert found is not None, head
    assert (int(found[1].replace(",", "")), int(found[2].replace(",", ""))) == frame.shape
    grain = found[3] or ""
    if key := re.fullmatch(r"one row per (.*)", grain):
        assert not frame.duplicated(subset=re.split(r" and |, ", key[1])).any()
    elif again := re.fullmatch(r"([\d,]+) rows? repeats? an earlier one", grain):
        assert int(again[1].replace(",", "")) == frame.duplicated().sum() > 0
    else:
        assert not grain
    checked = 0
    for line in lines:
        values = frame
        if sample := re.match(r"  in ([\d,]+) rows sampled: ", line):
            seen = int(sample[1].replace(",", ""))
            step = next(step for step in range(2, len(frame) + 1) if -(-len(frame) // step) <= seen)
            values = frame.iloc[sampled_rows(len(frame), step)]
            assert len(values) == seen
        for part in re.split(r" · (?=c\d)", line[sample.end() if sample else 2 :]):
            name, _, rest = part.partition(" ")
            dtype = "" if sample else str(types[name])
            assert rest.startswith(dtype)
            check_column(rest[len(dtype) :].strip(), values[name])
            checked += 1
    return checked


def column(rows: int) -> st.SearchStrategy[pd.Series]:
    """Columns of every type that values are read of."""
    # pytz, which pandas had, knows the rules of these years only
    times = st.datetimes(
        min_value=pd.Timestamp("1925-01-01").to_pydatetime(), max_value=pd.Timestamp("2036-01-01").to_pydatetime()
    )
    texts = st.sampled_from(
        ["paid", "open", "in part", " x", "a, b", "it's", 'a "b"', "1 %", "x · y", "", "…", "_", "é"]
    )

    def listed(values: st.SearchStrategy[Any], dtype: Any, missing: Any = None) -> st.SearchStrategy[pd.Series]:
        some = values if missing is None else st.one_of(values, values, st.just(missing))
        return st.lists(some, min_size=rows, max_size=rows).map(lambda held: pd.Series(held, dtype=dtype))

    zones = st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"])
    return st.one_of(
        listed(st.integers(-3, 3), "int64"),
        listed(st.integers(-(2**63), 2**63 - 1), "int64"),
        listed(st.integers(0, 255), "uint8"),
        listed(st.floats(allow_nan=True), "float64"),
        listed(st.floats(-1e6, 1e6), "float64", math.nan),
        listed(st.floats(width=32), "float32"),
        listed(st.booleans(), "bool"),
        listed(texts, object, None),
        listed(texts, "str", None),
        listed(texts, "category", None),
        listed(st.integers(-5, 5), "Int64", pd.NA),
        listed(st.booleans(), "boolean", pd.NA),
        listed(times, "datetime64[us]", pd.NaT),
        st.tuples(listed(times, "datetime64[ns]", pd.NaT), zones).map(
            lambda pair: pair[0].dt.tz_localize("UTC").dt.tz_convert(pair[1])
        ),
        listed(
            st.timedeltas(pd.Timedelta(-9, "D").to_pytimedelta(), pd.Timedelta(9, "D").to_pytimedelta()),
            "timedelta64[us]",
            pd.NaT,
        ),
        listed(st.one_of(st.integers(0, 2), texts, st.none(), st.just(1.5)), object),
    )


@st.composite
def random_frames(draw: st.DrawFn) -> pd.DataFrame:
    rows = draw(st.integers(0, 40))
    found = {f"c{n}": draw(column(rows)) for n in range(draw(st.integers(0, 4)))}
    return pd.DataFrame(found, index=range(rows))


@settings(max_examples=60)
@given(random_frames())
def test_every_statement_about_a_frame_is_what_pandas_finds(frame: pd.DataFrame) -> None:
    assert check(text_of(frame), frame, frame.dtypes) == frame.shape[1]


@pytest.mark.parametrize("in_all", [True, False])
def test_every_statement_about_a_sample_is_true_of_it_and_the_others_of_all_rows(
    monkeypatch: pytest.MonkeyPatch, *, in_all: bool
) -> None:
    monkeypatch.setattr(columns, "_CELLS", 1)
    monkeypatch.setattr(columns, "_LEAST_ROWS", 7)
    monkeypatch.setattr(columns, "_MOST_CELLS_IN_ALL", 10_000 if in_all else 0)
    sampled = 0

    @settings(max_examples=60)
    @given(random_frames())
    def holds(frame: pd.DataFrame) -> None:
        nonlocal sampled
        text = text_of(frame)
        check(text, frame, frame.dtypes)
        sampled += " rows sampled: " in text

    holds()
    assert sampled > 10


@settings(max_examples=60)
@given(random_frames())
def test_what_other_libraries_hold_is_described_as_truly(frame: pd.DataFrame) -> None:
    mixed = [name for name in frame if {*map(type, frame[name].dropna())} - {str} and frame[name].dtype == object]
    frame = frame.drop(columns=mixed)
    if not len(frame.columns):
        return  # of which other libraries know no rows
    table = pa.Table.from_pandas(frame, preserve_index=False)
    check(text_of(table), frame, {field.name: written_type(field.type) for field in table.schema})
    if polars is not None:
        other = polars.from_pandas(frame)
        check(text_of(other), frame, dict(zip(other.columns, other.dtypes, strict=True)))


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=30),
    st.lists(st.one_of(st.none(), st.integers(0, 12)), min_size=1, max_size=30),
    st.sampled_from(["Int64", "float64"]),
    st.booleans(),
)
def test_what_is_said_of_a_join_is_what_a_join_gives(one: list[Any], other: list[Any], dtype: str, by: bool) -> None:
    a = pd.DataFrame({"k": pd.Series(one, dtype="Int64"), "x": [1.5] * len(one)})
    b = pd.DataFrame({"k": pd.Series(other, dtype=dtype), "y": [2.5] * len(other), "z": True})
    as_arrow = pa.Table.from_pandas(a) if by else a  # whose missing keys match none
    for line in joins(named(as_arrow, "a"), named(b, "b")):
        found = re.fullmatch(
            rf"k: ({SHARE}|0 %) of the rows of `(\w)` have a match in `(\w)`, (one|many) to (one|many)"
            r"(?:: an inner join has ([\d,]+) rows)?",
            line,
        )
        assert found is not None, line
        many, few = (a, b) if found[2] == "a" else (b, a)
        if by:
            left, right = many.dropna(subset="k"), few.dropna(subset="k")
        else:
            left, right = many, few
        joined = left.reset_index().merge(right, on="k")
        matches = joined["index"].nunique()
        assert found[1] == "0 %" if not matches else is_share(found[1], matches, len(many))
        assert (found[4] == "one") == left["k"].is_unique
        assert (found[5] == "one") == right["k"].is_unique
        if found[6]:
            assert int(found[6].replace(",", "")) == len(joined)


def test_fifty_frames_of_all_kinds_have_short_profiles() -> None:
    made = frames()
    assert len(made) >= 50
    profiles = FrameProfiles()
    for name, frame in made.items():
        told = profiles.new([("frame", frame)], {}, math.inf)
        assert len(told.text) <= 1000, name
        assert told.text.startswith("`frame` ") or name == "own class", name
        assert len(profiles.closer(frame)) <= 6100
    together = profiles.new(((f"f{n}", frame) for n, frame in enumerate(made.values())), {}, math.inf)
    assert len(together.text) <= 1000
    assert together.told == 8


def test_a_profile_says_what_one_row_is_and_how_frames_go_together() -> None:
    orders = pd.DataFrame({"order": range(200), "by": [n % 50 for n in range(200)], "eur": [2.0, math.nan] * 100})
    orders.attrs["unit"] = {"eur": "EUR"}
    customers = pd.DataFrame({"by": range(40), "state": ["paid"] * 30 + ["open"] * 10})
    told = FrameProfiles().new([("orders", orders), ("customers", customers)], {}, math.inf)
    assert told.text.replace(str(customers.state.dtype), "str").splitlines() == [
        f"`orders` pandas 200 {BY} 3; one row per order",
        "  order int64 0…199, all distinct · by int64 0…49, 50 distinct · eur float64 unit: EUR, only 2, 50 % missing",
        f"`customers` pandas 40 {BY} 2; one row per by",
        "  by int64 0…39, all distinct · state str 2 distinct: paid 75 %, open 25 %",
        "by: 80 % of the rows of `orders` have a match in `customers`, many to one",
    ]


def test_rows_that_are_in_the_data_to_train_and_to_test_are_counted() -> None:
    train = pd.DataFrame({"x": range(10), "y": [0, 1] * 5})
    test = pd.DataFrame({"x": range(8, 12), "y": [0, 1] * 2})
    assert joins(named(train, "train"), named(test, "test")) == [
        "`test` has the columns of `train`; 2 of its 4 rows are there, too"
    ]


def test_columns_are_the_same_only_if_all_were_looked_at_and_by_their_whole_names() -> None:
    wide = [pd.DataFrame({f"c{n}": [n] * 3 for n in range(40)}).assign(**{f"last{at}": 1}) for at in range(2)]
    a, b = (look(frame, 30, time.thread_time() + 60) for frame in wide)
    assert a is not None
    assert b is not None
    assert not [line for line in joins(Named("a", a), Named("b", b)) if "has the columns" in line]
    one, other = pd.DataFrame({1: [1, 2], "x": [3, 4]}), pd.DataFrame({"1": [1, 2], "x": [3, 4]})
    assert not [
        line for line in joins(named(one, "one"), named(other, "other")) if "has the columns" in line or "1:" in line
    ]
    long = [pd.DataFrame({"n" * 70 + end: [1, 2], "x": [3, 4]}) for end in "ab"]
    assert not [
        line for line in joins(*(named(frame, "f") for frame in long)) if "has the columns" in line or "nn" in line
    ]


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
@pytest.mark.parametrize("rows", [4, 400_000])
def test_nan_is_told_apart_where_the_library_holds_it_apart(library: str, rows: int) -> None:
    values = {"x": [1.5, math.nan, 2.5, math.nan] * (rows // 4), "y": [1.5, None, math.nan, 2.5] * (rows // 4)}
    make: Any = pytest.importorskip(library)
    told = text_of(make.table(values) if library == "pyarrow" else make.DataFrame(values, strict=False))
    of_x, of_y = (re.findall(rf"\b{name} (?!\w* distinct)[^·\n]*", told) for name in "xy")
    assert "50 % NaN" in " ".join(of_x)
    assert "missing" not in " ".join(of_x)
    assert re.search(r"2[45]\.?\d? % missing, 2[45]\.?\d? % NaN", " ".join(of_y))
    assert "50 % missing" in text_of(pd.DataFrame({"x": values["x"]}))


def test_keys_of_other_types_are_pointed_out() -> None:
    one, other = pd.DataFrame({"k": [1, 2], "a": 1}), pd.DataFrame({"k": ["1", "2"]})
    assert joins(named(one, "one"), named(other, "other")) == [f"k is int64 in `one`, {other.k.dtype} in `other`"]


@pytest.mark.parametrize("period", [7, 24, 29, 30, 365])
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_period_of_the_data_is_not_taken_for_what_all_rows_are(period: int, library: str) -> None:
    made = pd.DataFrame({"at": np.arange(period * 20_000) % period})
    if library == "polars":
        made = pytest.importorskip("polars").from_pandas(made)
    elif library == "pyarrow":
        made = pa.Table.from_pandas(made)
    seen = look(made, 1, time.thread_time() + 60)
    assert seen is not None
    values = seen.columns[0].values
    assert values is not None
    assert len(values) == seen.seen == 20_000
    counts = np.bincount(values, minlength=period)
    assert abs(counts / (20_000 / period) - 1).max() < 0.1


def test_a_query_of_duckdb_is_not_run() -> None:
    connection = duckdb.connect()
    relation = connection.sql("select range as n, 'x' as t from range(1000000000000000)")
    assert text_of(relation).splitlines() == [
        "`f` duckdb relation of 2 columns, which has not been computed",
        "  n BIGINT · t VARCHAR",
    ]


def test_what_a_conversation_knows_is_told_again_only_if_it_changed() -> None:
    profiles = FrameProfiles()
    frame = pd.DataFrame({"a": np.arange(100_000), "b": np.zeros(100_000)})
    told = profiles.new([("frame", frame)], {}, math.inf)
    assert told.text
    again = profiles.new([("frame", frame.copy())], told.digests, math.inf)
    assert (again.text, again.told, again.digests) == ("", 0, told.digests)
    frame.loc[7, "b"] = 1e9  # no row that is looked at, but the range of all is known
    changed = profiles.new([("frame", frame)], told.digests, math.inf)
    assert "b float64 0…1000000000" in changed.text
    frame.loc[0, "b"] = 5.0
    assert (
        "in 20,000 rows sampled: a all distinct · b 2 distinct: 0 >99.9 %, 5 <0.1 %"
        in profiles.new([("frame", frame)], changed.digests, math.inf).text
    )


def test_what_holds_no_more_is_taken_back() -> None:
    profiles = FrameProfiles()
    a, b = pd.DataFrame({"k": [1, 2, 3, 3], "x": 1.5}), pd.DataFrame({"k": [1, 2, 3], "y": 2.5})
    told = profiles.new([("a", a), ("b", b)], {}, math.inf)
    assert "k: 100 % of the rows of `a` have a match in `b`, many to one" in told.text
    assert profiles.new([("b", b), ("a", a)], told.digests, math.inf).text == ""
    other = pd.DataFrame({"k": [7, 7, 8], "y": 2.5})
    taken_back = profiles.new([("b", other), ("a", a)], told.digests, math.inf)
    assert taken_back.text.splitlines()[-1] == "what was told of how `a` and `b` go together holds no more"
    assert profiles.new([("a", a), ("b", other)], taken_back.digests, math.inf).text == ""


def test_of_a_frame_that_there_is_no_time_to_look_at_again_the_size_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = pd.DataFrame({f"c{n}": range(5) for n in range(4)})
    told = FrameProfiles().new([("frame", frame)], {}, math.inf)

    def cut(value: Any, most: int, _end: float) -> Any:
        return look(value, most, 0.0)

    monkeypatch.setattr(profiles_module, "look", cut)
    profiles = FrameProfiles()
    later = profiles.new([("frame", frame.iloc[:3])], told.digests, math.inf)
    assert later.text == (
        f"`frame` pandas 3 {BY} 4; not looked at again for lack of time: what was told of it may hold no more"
    )
    assert profiles.new([("frame", frame.iloc[:3])], later.digests, math.inf).text == ""
    assert f"pandas 2 {BY} 4" in profiles.new([("frame", frame.iloc[:2])], later.digests, math.inf).text
    monkeypatch.undo()
    assert profiles.new([("frame", frame)], later.digests, math.inf).text == ""
    assert "c0 int64 0…2" in profiles.new([("frame", frame.iloc[:3])], later.digests, math.inf).text


def test_without_time_nothing_is_told_and_with_little_the_first_columns() -> None:
    frame = frames()["30 texts"]
    assert FrameProfiles().new([("frame", frame)], {}, 0.0).text == ""
    seen = look(frame, 30, 0.0)
    assert seen is not None
    assert len(seen.columns) == 1
    assert not seen.complete
    assert profile(seen).text("f", 1000).endswith(" … and 29 more columns") or "29 more columns" in profile(seen).text(
        "f", 1000
    )


@pytest.mark.parametrize(
    "name",
    [
        *("private_key", "access_key", "credentials", "auth", "password_hash", "passwords", "password2"),
        *("db_password_old", "secret_answer", "Password (plain)", ("password", "old"), ("pwd", "old")),
    ],
)
def test_a_column_named_as_a_secret_is_told_without_its_values(name: object) -> None:
    frame = pd.DataFrame([["Kj3nd92x", "a"], ["Kj3nd92x", "b"], ["Qw8plm4z", "b"]])
    frame.columns = pd.MultiIndex.from_tuples([name, ("x", "y")]) if isinstance(name, tuple) else [name, "x"]
    told = FrameProfiles().new([("f", frame)], {}, math.inf).text
    assert "2 distinct" in told
    assert "b 66.7 %" in told
    assert "Kj3nd92x" not in told
    assert "Qw8plm4z" not in told


def test_numbers_of_a_secret_column_have_no_range() -> None:
    frame = pd.DataFrame({"token": [123456, 987654], "n": [1, 2]})
    told = FrameProfiles().new([("f", frame)], {}, math.inf).text
    assert "1…2" in told
    assert "123456" not in told


def test_nothing_is_told_of_a_frame_whose_columns_are_called_by_secrets() -> None:
    frame = pd.DataFrame({"user": ["ann"], "password": ["hunter2"], "n": [1]})
    pivot = frame.pivot_table(index="user", columns="password", values="n")
    assert "hunter2" in pivot.columns
    assert not FrameProfiles().new([("f", pivot)], {}, math.inf).text
    assert "hunter2" not in describe(pivot)
    assert "hunter2" not in describe_given(pivot)


def test_secrets_are_not_in_profiles() -> None:
    frame = pd.DataFrame(
        {
            "password": ["hunter2", "hunter2"],
            "note": ["sk-ant-api03-" + "abcdefghij" * 3] * 2,
            "token": ["a1b2c3d4e5f6"] * 2,
        }
    )
    told = FrameProfiles().new([("frame", frame), ("db_password", frame)], {}, math.inf)
    assert told.told == 1
    for text in (told.text, FrameProfiles().closer(frame)):
        assert "hunter2" not in text
        assert "abcdefghij" not in text
        assert "a1b2c3" not in text
