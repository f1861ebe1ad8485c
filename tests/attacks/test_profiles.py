"""Frames with the user's own objects in every place: a profile of them runs no code of these objects."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from indus_nb.kernel.toolset.profiles import FrameProfiles
from indus_nb.kernel.values.describe import given

METHODS = (
    "__call__ __getattr__ __getitem__ __format__ __str__ __repr__ __add__ __sub__ __and__ __or__ __eq__ __lt__ __gt__ "
    "__le__ __ge__ __ne__ __contains__ __len__ __iter__ __bool__ __index__ __int__ __float__ __hash__ __deepcopy__ "
    "__reduce_ex__ __sizeof__ __copy__ __array__ __float__ __complex__ __buffer__"
)
ran: list[str] = []


class Watched:
    """An object each of whose methods is noticed when it runs."""

    @property
    def __class__(self) -> Any:
        ran.append("__class__")
        return str


def _noticed(name: str) -> Any:
    def method(_self: object, *_arguments: object) -> Any:
        ran.append(name)
        return {"__hash__": 1, "__bool__": True, "__len__": 1, "__str__": "x", "__repr__": "x"}.get(
            name, NotImplemented
        )

    return method


for _name in METHODS.split():
    setattr(Watched, _name, _noticed(_name))


class WatchedText(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        ran.append("__eq__")
        return True

    def __hash__(self) -> int:
        ran.append("__hash__")
        return 1

    def __len__(self) -> int:
        ran.append("__len__")
        return 1


class WatchedMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        ran.append(f"{name} of the class")
        return type.__getattribute__(cls, name)


class OfMeta(metaclass=WatchedMeta):
    pass


class OwnType(pd.api.extensions.ExtensionDtype):
    name = "own"
    type = str

    def __str__(self) -> str:
        ran.append("__str__ of a type")
        return "own"

    @classmethod
    def construct_array_type(cls) -> Any:
        return OwnArray


class OwnArray(pd.arrays.NumpyExtensionArray):
    @property
    def dtype(self) -> Any:
        return OwnType()

    def tolist(self) -> list[Any]:
        ran.append("tolist")
        return []

    def isna(self) -> Any:
        ran.append("isna")
        return np.zeros(len(self), dtype=bool)


class OwnValues(pd.api.extensions.ExtensionArray):
    """Values of which each question is noticed, but for those that pandas asks when it makes a frame."""

    def __init__(self) -> None:
        self.held = np.arange(3)

    def _asked(self, name: str) -> None:
        ran.append(f"{name} of values")

    @property
    def dtype(self) -> Any:
        self._asked("dtype")
        return OwnType()

    @property
    def nbytes(self) -> int:
        self._asked("nbytes")
        return 24

    def __len__(self) -> int:
        self._asked("len")
        return 3

    def __getitem__(self, item: Any) -> Any:
        self._asked("getitem")
        return self.held[item]

    def isna(self) -> Any:
        self._asked("isna")
        return self.held < 0

    def view(self, dtype: Any = None) -> Any:
        self._asked("view")
        return self

    def copy(self) -> Any:
        return self


class OwnArrowType(pa.ExtensionType):
    def __init__(self) -> None:
        super().__init__(pa.int64(), "own")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: Any) -> Any:
        return cls()

    def __str__(self) -> str:
        ran.append("__str__ of a type of arrow")
        return "own"


class OwnZone(dt.tzinfo):
    def utcoffset(self, moment: Any) -> dt.timedelta:
        ran.append("utcoffset")
        return dt.timedelta(0)

    def dst(self, moment: Any) -> dt.timedelta:
        ran.append("dst")
        return dt.timedelta(0)

    def __str__(self) -> str:
        ran.append("__str__ of a zone")
        return "own"


class Own(pd.DataFrame):
    @property
    def attrs(self) -> Any:
        ran.append("attrs")
        return {}


class Plain(pd.DataFrame):
    """Changes nothing, and is read as any frame."""


def objects(*values: Any) -> pd.Series:
    column = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        column[at] = value
    return pd.Series(column, dtype=object)


FRAMES: dict[str, Any] = {
    "objects": lambda: pd.DataFrame({"o": objects(Watched(), "x", None), "n": [1, 2, 3]}),
    "texts of an own class": lambda: pd.DataFrame({"o": objects(WatchedText("a"), WatchedText("b"))}),
    "a class with a class of its own": lambda: pd.DataFrame({"o": objects(OfMeta(), OfMeta())}),
    "names": lambda: pd.DataFrame([[1, 2], [3, 4]], columns=pd.Index(objects(Watched(), "b"))),
    "labels": lambda: pd.DataFrame({"a": [1, 2]}, index=pd.Index(objects(Watched(), "b"), name="i")),
    "categories": lambda: pd.DataFrame({"c": pd.Categorical.from_codes([0, 1], pd.Index(objects(OfMeta(), "b")))}),
    "a type of columns": lambda: pd.DataFrame({"o": pd.Series(OwnArray(np.arange(3)))}),
    "values": lambda: pd.DataFrame({"o": OwnValues(), "n": [1, 2, 3]}),
    "values of an index": lambda: pd.DataFrame({"n": [1, 2, 3]}, index=pd.Index(OwnValues())),
    "names of levels": lambda: pd.DataFrame(
        {"a": range(4)}, index=pd.MultiIndex.from_product([[1, 2]] * 2, names=[Watched(), "b"])
    ),
    "zones": lambda: pd.DataFrame({"t": pd.Series(pd.to_datetime(["2020", "2021"])).dt.tz_localize(OwnZone())}),
    "a type of arrow": lambda: pa.table({"a": pa.ExtensionArray.from_storage(OwnArrowType(), pa.array([1, 2]))}),
    "own class": lambda: Own({"a": [1, 2]}),
    "a class that changes nothing": lambda: Plain({"a": [1, 2]}),
    "arrow": lambda: pa.table({"a": [1, 2]}, metadata={"k": "v" * 100_000}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_nothing_of_the_users_runs(kind: str) -> None:
    frame = FRAMES[kind]()
    ran.clear()
    profiles = FrameProfiles()
    text = profiles.new([("frame", frame), ("same", frame)], {}, math.inf).text
    closer = profiles.closer(frame)
    assert ran == []
    assert bool(text) == bool(closer) == (kind not in ("own class", "values of an index"))


def test_attributes_of_a_frame_are_not_asked_before_its_class_is_known() -> None:
    class Frame:
        def __getattribute__(self, name: str) -> Any:
            ran.append(name)
            raise AttributeError(name)

    Frame.__module__ = "pandas"
    Frame.__name__ = "DataFrame"
    ran.clear()
    assert FrameProfiles().closer(Frame()) == ""
    assert ran == []


def test_what_a_cell_gave_is_described_without_asking_it() -> None:
    for value in (Watched(), [Watched()], {"a": Watched()}, objects(Watched()), objects(Watched()).to_frame()):
        ran.clear()
        assert "Watched" in given(value)
        assert ran == []


def test_what_a_cell_gave_is_described_in_two_thousand_characters() -> None:
    nested: Any = 1
    for _ in range(6):
        nested = [nested] * 100
    for value in (
        "x" * 10**6,
        [*range(10**6)],
        nested,
        pd.DataFrame(np.zeros((9, 500)), columns=["n" * 99 + str(n) for n in range(500)]),
    ):
        assert len(given(value)) < 2100


TEXT = "x" * 100_000
LARGE: dict[str, Any] = {
    "categories": lambda: pd.DataFrame({"c": pd.Categorical.from_codes(np.arange(4000) % 2, [TEXT, "y"])}),
    "categories of a sample": lambda: pd.DataFrame(
        {"c": pd.Categorical.from_codes(np.arange(40_000) % 2, [TEXT * 30, "y" * 100_000])}
    ),
    "levels": lambda: pd.DataFrame(
        {"n": 1.5},
        index=pd.MultiIndex([[TEXT, "y"], range(2000)], [np.arange(4000) % 2, np.arange(4000) // 2], names=["t", "n"]),
    ),
    "arrow in chunks": lambda: pa.table({"n": pa.chunked_array([pa.array(np.arange(100_000))] * 60)}),
    "texts at the rows of a sample": lambda: pa.table({"t": [TEXT if n % 50 == 0 else "" for n in range(50_000)]}),
    "arrow that says each text once": lambda: pa.table(
        {"t": pa.DictionaryArray.from_arrays(pa.array([0, 1] * 2000), pa.array([TEXT, "y"]))}
    ),
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_profile_copies_no_text_for_each_row_and_no_whole_column(kind: str) -> None:
    frame = LARGE[kind]()
    FrameProfiles().closer(frame)  # imports what it needs
    before = pa.default_memory_pool().bytes_allocated()
    tracemalloc.start()
    try:
        text = FrameProfiles().new([("frame", frame)], {}, math.inf).text
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert text
    assert peak < 20_000_000
    assert pa.default_memory_pool().bytes_allocated() - before < 20_000_000


def test_a_frame_with_attributes_beyond_number_is_not_looked_at() -> None:
    frame = pd.DataFrame({"a": [1]})
    assert FrameProfiles().closer(frame)
    frame.attrs["raw"] = [*range(1_000_000)]
    assert FrameProfiles().closer(frame) == ""


def test_profiles_of_long_names_keep_to_their_thousand_characters() -> None:
    index = pd.MultiIndex.from_product([[0, 1]] * 3, names=[f"{n}{'l' * 58}" for n in range(3)])
    told = [(f"f{n}{'n' * 300}", pd.DataFrame({"c": [1] * 8}, index=index)) for n in range(8)]
    assert len(FrameProfiles().new(told, {}, math.inf).text) <= 1000
    assert "more column" not in FrameProfiles().closer(told[0][1])


def test_decimals_that_may_not_meet_floats_do_not_stop_a_profile() -> None:
    with decimal.localcontext() as context:
        context.traps[decimal.FloatOperation] = True
        frame = pd.DataFrame({"a": [decimal.Decimal("1.5"), decimal.Decimal("2.5")]})
        assert "1.5…2.5" in FrameProfiles().closer(frame)


def test_a_name_that_two_columns_have_is_no_key_and_times_of_numpy_are_no_numbers() -> None:
    assert "one row per" not in FrameProfiles().closer(pd.DataFrame([[1, 2], [1, 3]], columns=["id", "id"]))
    assert "2 datetime64" in FrameProfiles().closer(
        objects(np.datetime64("2020-01-01", "ns"), np.datetime64("2021-01-01", "ns")).to_frame("a")
    )
