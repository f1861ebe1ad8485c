"""Values that a copy sends come out equal, and nothing that it sends is called or changes what was there."""

from __future__ import annotations

import collections
import datetime as dt
import json
import random
import struct
import sys
import zoneinfo
from decimal import Decimal
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from indus_nb.kernel.preview.values import RefusedValueError, dumped, loaded

FRAME = pd.DataFrame(
    {
        "number": [1.5, 2.0, None],
        "text": ["x", "y", None],
        "day": pd.to_datetime(["2020-01-01", "2021-06-01", None]),
        "kind": pd.Categorical(["a", "b", "a"], ordered=True),
        "count": pd.array([1, None, 2], dtype="Int64"),
        "yes": [True, False, True],
        "parts": [[1], {"a": 1}, None],
    },
    index=pd.Index([3, 4, 5], name="key"),
).assign(zoned=lambda frame: frame.day.dt.tz_localize("Europe/Berlin"), gap=lambda frame: frame.day - frame.day.min())


def _fixed(array: Any) -> Any:
    array.flags.writeable = False
    return array


def _reordered() -> collections.OrderedDict[str, int]:
    made = collections.OrderedDict(a=1, b=2)
    made.move_to_end("a")
    return made


VALUES: dict[str, Any] = {
    "frame": FRAME,
    "series": FRAME.number,
    "grouped": FRAME.groupby(["yes", "text"]).number.mean(),
    "table": FRAME.pivot_table(index="text", columns="yes", values="number"),
    "described": FRAME.describe(),
    "days": pd.date_range("2020", periods=3, freq="D"),
    "resampled": pd.Series(1, index=pd.date_range("2020", periods=3)).resample("D").sum(),
    "by month": pd.Series([1, 2], index=pd.to_datetime(["2020-01-31", "2020-02-29"]).to_period("M")),
    "months": FRAME.assign(month=FRAME.day.dt.to_period("Q-JAN")),
    "a month": pd.Period("2020-01", "M"),
    "by range": FRAME.groupby(pd.cut(FRAME.number, 2), observed=False).number.sum(),
    "ranges": pd.Series([*pd.interval_range(pd.Timestamp("2020", tz="UTC"), periods=2), None]),
    "a range": pd.Interval(0, 1, "left"),
    "by text of a type": pd.Series([1], index=pd.Index(["a"], dtype="string")),
    "arrow": FRAME[["number", "text", "day", "yes"]].convert_dtypes(dtype_backend="pyarrow"),
    "days of arrow": pd.Series(["2020-01-01", None], dtype="date32[pyarrow]"),
    "array": np.arange(6).reshape(2, 3),
    "fixed": _fixed(np.arange(3)),
    "fixed moments": _fixed(np.array(["2020-01-01"], dtype="datetime64[D]")),
    "columnwise": np.asfortranarray(np.ones((2, 3))),
    "texts": np.array(["a", "bc"]),
    "objects": np.array(["a", None, [1]], dtype=object),
    "moments": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "scalar": np.float64(3.5),
    "stamp": pd.Timestamp("2020-01-01", tz="Europe/Berlin"),
    "nothing": pd.NaT,
    "nested": [1, (2.5, "x"), {4}, {"a": {"b": None}}, b"bytes", frozenset({1}), 1j, range(3)],
    "counted": collections.Counter("aab"),
    "ordered": collections.OrderedDict(b=1, a=2),
    "reordered": _reordered(),
    "defaults": collections.defaultdict(list, {1: [2]}),
    "queue": collections.deque([1, 2], 3),
    "moment": dt.datetime(2020, 1, 1, 12, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    "utc": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    "date": dt.date(2020, 1, 1),
    "time": dt.time(1, 2, 3),
    "span": dt.timedelta(1, 2, 3),
    "decimal": Decimal("1.20"),
    "fraction": Fraction(1, 3),
    "module": np,
    "class_": collections.OrderedDict,
    "function": json.dumps,
    "builtin": open,
}


def same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, check_freq=True)
        return True
    if isinstance(one, pd.Series):
        pd.testing.assert_series_equal(one, other, check_freq=True)
        return True
    if isinstance(one, pd.Index):
        return one.equals(other) and one.name == other.name
    if isinstance(one, np.ndarray):
        flags = one.flags.fnc == other.flags.fnc and one.flags.writeable == other.flags.writeable
        return one.dtype == other.dtype and one.tolist() == other.tolist() and flags
    return one is other or (one == other and getattr(one, "__dict__", None) == getattr(other, "__dict__", None))


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_out_equal(name: str) -> None:
    data, refused = dumped({name: VALUES[name]}, {})
    assert refused == {}
    assert same(loaded(data, {}, {})[name], VALUES[name])


def test_values_that_share_a_part_share_it_still() -> None:
    part = [1]
    made = loaded(dumped({"one": part, "other": {"part": part}}, {})[0], {}, {})
    assert made["other"]["part"] is made["one"]


def test_arrays_that_share_their_memory_are_not_made_two_of() -> None:
    whole = np.zeros(4)
    data, refused = dumped({"whole": whole, "part": whole[:2], "same": whole, "other": np.arange(6).reshape(2, 3)}, {})
    assert refused == {"part": "it shares its memory with another new value"}
    made = loaded(data, {}, {})
    assert made["whole"] is made["same"]


def test_arrays_that_lie_beside_each_other_are_sent_apart() -> None:
    rows, columns = np.where(np.eye(3))
    data, refused = dumped({"rows": rows, "columns": columns}, {})
    assert refused == {}
    made = loaded(data, {}, {})
    assert [*made["rows"]] == [*made["columns"]] == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["int64", "datetime64[ns]", "object"])
def test_arrays_own_their_memory_as_those_do_that_code_makes(dtype: str) -> None:
    made = loaded(dumped({"made": np.zeros((2, 3), dtype)}, {})[0], {}, {})["made"]
    assert made.flags.owndata
    assert made.shape == (2, 3)


def test_labels_that_pandas_hands_on_are_those_of_the_variable_still() -> None:
    sales = pd.DataFrame({"a": [1, 2]}, index=["x", "y"])
    kinds = pd.Series(["a", "b", "a"], dtype="category")
    known = {id(sales): "sales", id(kinds): "kinds"}
    variables = {"sales": sales, "kinds": kinds}
    values = {"twice": sales * 2, "names": sales.columns, "codes": [kinds.cat.codes, kinds.cat.categories]}
    data, refused = dumped(values, known, variables=variables)
    assert refused == {}
    made = loaded(data, variables, {})
    assert made["twice"].index is sales.index
    assert made["names"] is sales.columns
    assert made["codes"][1] is kinds.cat.categories
    assert made["twice"].equals(values["twice"])


def test_a_figure_has_arrays_still() -> None:
    import plotly.express as px

    figure = px.scatter(x=["a", "b"], y=[1, 2], animation_frame=["p", "q"])
    data, refused = dumped({"figure": figure}, {})
    assert refused == {}
    made = loaded(data, {}, {})["figure"]
    assert made == figure
    assert isinstance(made.data[0].y, np.ndarray)
    assert len(made.frames) == 2


def test_labels_that_new_values_have_in_common_are_made_once() -> None:
    labels = pd.Index(["a", "b"], name="city")
    values = {"one": pd.Series([1, 2], labels), "frame": pd.DataFrame({"n": [1, 2]}, labels), "apart": pd.Series([1])}
    made = loaded(dumped(values, {})[0], {}, {})
    assert made["one"].index is made["frame"].index
    assert made["apart"].index is not made["one"].index


@pytest.mark.parametrize(
    "path", [["sales", "values"], ["sales"], ["other", "index"], [], ["sales", "index", "name"], 3]
)
def test_nothing_but_labels_is_reached_by_what_a_copy_sends_of_them(path: Any) -> None:
    data = struct.pack(">I", len(text := json.dumps({"x": {"k": "labels of", "v": path}}).encode())) + text
    with pytest.raises(RefusedValueError):
        loaded(data, {"sales": pd.DataFrame({"a": [1]}), "other": [1]}, {})


def test_a_list_of_a_librarys_stays_that_list() -> None:
    place = {id(sys.path): ("sys", "path"), id(json.__all__): None}
    data, refused = dumped({"path": sys.path, "within": [sys.path], "held": json.__all__}, {}, places=place)
    assert refused == {"held": "it shares a part with a module"}
    made = loaded(data, {}, {})
    assert made["path"] is sys.path
    assert made["within"][0] is sys.path


def test_attributes_of_a_container_are_not_lost() -> None:
    counted = collections.Counter("a")
    counted.unit = "letters"  # type: ignore[attr-defined]
    assert dumped({"counted": counted}, {})[1] == {"counted": "it has attributes of its own"}


def test_a_variable_that_was_there_is_referred_to_and_not_copied() -> None:
    before = [1, 2]
    data, refused = dumped({"new": {"rows": before}}, {id(before): "rows"})
    assert refused == {}
    assert loaded(data, {"rows": before}, {})["new"]["rows"] is before


@pytest.mark.parametrize("kind", ["part of a list", "view of an array"])
def test_what_shares_a_part_with_what_was_there_is_refused(kind: str) -> None:
    before: Any = [[1]] if kind == "part of a list" else np.arange(4)
    inner = before[0] if kind == "part of a list" else before[:2]
    known = {id(before): "", id(inner): ""} if kind == "part of a list" else {id(before): "x"}
    assert "shares" in dumped({"new": inner}, known)[1]["new"]


@pytest.mark.parametrize(
    "value",
    [
        object(),
        lambda: 1,
        (each for each in "ab"),
        type("Own", (), {}),
        pd.Series([0, 1], dtype="Sparse[int]"),
        Exception(),
    ],
    ids=["object", "function", "generator", "class", "sparse", "exception"],
)
def test_others_are_refused_with_a_reason_and_do_not_hold_up_the_rest(value: Any) -> None:
    data, refused = dumped({"good": 1, "bad": value}, {})
    assert refused.keys() == {"bad"}
    assert refused["bad"]
    assert loaded(data, {}, {}) == {"good": 1}


def test_a_function_is_made_again_where_that_can_be_done() -> None:
    def made(x: int) -> int:
        return x + 1

    data, refused = dumped({"made": made}, {}, ["made"])
    assert refused == {}
    assert loaded(data, {}, {"made": lambda: made})["made"] is made


def test_a_large_value_is_refused_by_its_size() -> None:
    assert dumped({"big": np.zeros(8_000_000)}, {})[1] == {"big": "61 MB"}


class Watched:
    """Takes note of whatever is done to it."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(self, *_: object) -> None:
        self.calls.append("called")

    def __setstate__(self, _: object) -> None:
        self.calls.append("state")


def message(found: object, buffers: bytes = b"") -> bytes:
    text = json.dumps(found).encode()
    return struct.pack(">I", len(text)) + text + buffers


@pytest.mark.parametrize(
    "sent",
    [
        {"k": "module", "v": "antigravity"},
        {"k": "module", "v": "unittest.__main__"},
        {"k": "module", "v": "evil"},
        {"k": "attribute", "v": ["evil", "x"]},
        {"k": "attribute", "v": ["os.path", "nothing"]},
        {"k": "call", "v": [{"k": "attribute", "v": ["os", "system"]}, "true"]},
        {"k": "array", "v": ["O", {"k": "tuple", "v": [1]}, False, {"k": "bytes", "v": [0, 8]}]},
        {"k": "array", "v": ["i8", {"k": "tuple", "v": [1000000]}, False, {"k": "bytes", "v": [0, 8]}]},
        {"k": "array", "v": ["V8,O", {"k": "tuple", "v": [1]}, False, {"k": "bytes", "v": [0, 8]}]},
        {"k": "series", "v": [{"k": "tuple", "v": ["whole", 5]}, {"k": "labels", "v": [0, 10**12, 1, None]}, None]},
        {"k": "defaultdict", "v": [], "made": "system"},
        {"k": "zone", "v": "../../etc/passwd"},
        {"k": "module", "v": "turtle"},
        {"k": "module", "v": "wave"},
        {"k": "Fraction", "v": ["1e20000000"]},
        {"k": "range", "v": [0, 10**30, 1]},
        {"k": "series", "v": [{"k": "tuple", "v": ["whole", {"k": "range", "v": [0, 10**8, 1]}]}, None, None]},
        {"k": "same", "v": 7},
        {"k": "variable", "v": "not_there"},
        {"k": "function", "v": "not_there"},
        {"k": "plain", "v": [[1]]},
        {"k": "dtype", "v": ["O"]},
        {"k": "list"},
        [1],
    ],
)
def test_what_no_copy_would_send_is_refused(sent: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil.py").write_text("import pathlib; pathlib.Path(__file__).with_name('ran').touch(); x = 1")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("turtle", "wave"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(RefusedValueError):
        loaded(message({"x": sent}, bytes(8)), {}, {})
    assert not (tmp_path / "ran").exists()


def part(number: int, kind: str, *parts: Any) -> dict[str, Any]:
    return {"k": kind, "v": [*parts], "n": number}


def ref(number: int) -> dict[str, Any]:
    return {"k": "same", "v": number}


def doubled(times: int) -> dict[str, Any]:
    """A tuple whose hash takes two to the power of ``times`` steps."""
    made = part(0, "tuple", 1)
    for number in range(1, times):
        made = part(number, "tuple", made, ref(number - 1))
    return made


def levels_of(*parts: Any) -> dict[str, Any]:
    whole = [
        {"k": "tuple", "v": ["whole", {"k": "array", "v": ["i8", {"k": "tuple", "v": [1]}, False, each]}]}
        for each in parts
    ]
    return {"k": "levels", "v": [{"k": "list", "v": whole}, {"k": "list", "v": [doubled(50)] * len(whole)}]}


EIGHT = {"k": "bytes", "v": [0, 8]}
COLLIDING = [number * ((1 << 61) - 1) for number in range(1, 250_000)]
DEEP = [part(0, "tuple", 1), *(part(number, "tuple", ref(number - 1)) for number in range(1, 300_000))]


@pytest.mark.parametrize(
    "sent",
    [
        {"k": "dict", "v": [[doubled(50), 1]], "made": None},
        {"k": "Counter", "v": [[doubled(50), 1]], "made": None},
        {"k": "set", "v": [doubled(50)]},
        {"k": "frozenset", "v": [doubled(50)]},
        {"k": "index", "v": [{"k": "tuple", "v": ["listed", {"k": "plain", "v": [1]}, "Int64"]}, doubled(50), None]},
        levels_of(EIGHT),
        {"k": "list", "v": [part(0, "list", *range(1000)), *[ref(0)] * 100_000]},
        {"k": "list", "v": [{"k": "bytes", "v": [0, 1 << 20]}] * 1000},
        {"k": "list", "v": [part(0, "bytes", 0, 1 << 20), *[ref(0)] * 1000]},
        {"k": "list", "v": [*DEEP, {"k": "set", "v": [ref(len(DEEP) - 1)]}]},
        {"k": "dict", "v": [[number, None] for number in COLLIDING], "made": None},
        {"k": "set", "v": COLLIDING},
        {"k": "objects", "v": [{"k": "tuple", "v": [2**29]}, {"k": "range", "v": [0, 2**29, 1]}]},
        {"k": "objects", "v": [{"k": "tuple", "v": [10**8]}, {"k": "variable", "v": "rows"}]},
        {"k": "series", "v": [{"k": "tuple", "v": ["whole", {"k": "variable", "v": "array"}]}, None, None]},
        {"k": "labels", "v": [0, 10**30, 1, None]},
        {
            "k": "view",
            "v": [{"k": "variable", "v": "array"}, "f8", 0, *[{"k": "tuple", "v": [each]} for each in (10**12, 0)]],
        },
        {"k": "plain", "v": "abc"},
    ],
    ids=lambda sent: str(sent)[:50],
)
def test_what_would_take_more_time_or_memory_than_was_sent_is_refused(
    sent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indus_nb.kernel.preview.values._MAX_SECONDS", 0.5)
    space = {"rows": [1, 2], "array": np.ones(4)}
    with pytest.raises(RefusedValueError):
        loaded(message({"x": sent}, bytes(1 << 20)), space, {})


def test_numbers_of_many_digits_are_refused_also_where_python_takes_them() -> None:
    limit = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(0)
        data, refused = dumped({"large": 10**5000, "small": 10**4000}, {})
        assert refused == {"large": "a number of too many digits"}
        assert loaded(data, {}, {}) == {"small": 10**4000}
        with pytest.raises(RefusedValueError):
            loaded(message({"x": 10**5000}), {}, {})
    finally:
        sys.set_int_max_str_digits(limit)


def test_a_value_that_would_be_refused_is_not_sent() -> None:
    pair: Any = ("a", 1)
    for _ in range(40):
        pair = (pair, pair)
    parts: list[Any] = [[]]
    for _ in range(200):
        parts.append([parts[-1]])
    data, refused = dumped({"pair": {"key": pair}, "deep": {"parts": parts}, "good": {("a", 1): [(2, 3)]}}, {})
    assert refused == {"pair": "it has too many parts", "deep": "it has too many parts"}
    assert loaded(data, {}, {}) == {"good": {("a", 1): [(2, 3)]}}


def test_keys_that_are_the_same_object_come_out_equal() -> None:
    key = ("a", ("b", 1))
    value = [{key: 1}, {key: 2}, {key}, collections.Counter([key, key])]
    assert loaded(dumped({"value": value}, {})[0], {}, {}) == {"value": value}


def test_a_million_numbers_come_out_equal() -> None:
    values = {"list": [*range(1_000_000)], "dict": dict.fromkeys(range(200_000))}
    data, refused = dumped(values, {})
    assert refused == {}
    assert loaded(data, {}, {}) == values


def test_a_frame_that_holds_a_variable_is_refused() -> None:
    rows = [1]
    frame = pd.DataFrame({"a": pd.Series([rows], dtype=object)})
    data, refused = dumped({"frame": frame, "list": [rows]}, {id(rows): "rows"})
    assert refused.keys() == {"frame"}
    assert loaded(data, {"rows": rows}, {})["list"][0] is rows


def test_random_bytes_call_nothing_and_change_nothing() -> None:
    chance = random.Random(5)
    watched, rows = Watched(), [1, 2]
    data, _ = dumped(VALUES | {"rows": {"a": rows}, "watched": [watched]}, {id(rows): "rows", id(watched): "watched"})
    read = 0
    for _ in range(400):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 6)):
            broken[chance.randrange(len(broken))] = chance.choice(b'0123456789"[]{},:akv\x00\xff')
        try:
            loaded(bytes(broken), {"rows": rows, "watched": watched}, {"watched": watched})
            read += 1
        except RefusedValueError:
            continue
    assert read > 0
    assert (watched.calls, rows) == ([], [1, 2])
    assert isinstance(np, ModuleType)
