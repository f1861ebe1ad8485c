"""What it costs to tell a model what frames hold: processor time, characters, and about how many tokens.

    python tests/benchmarks/profile.py             fifty frames, each alone; then what goes along with a prompt
    python tests/benchmarks/profile.py --slow      those alone that take more than 10 ms

A frame is profiled as for a prompt, first and once more with what is remembered of it. Then whole prompts are made in
kernels with all fifty frames and with 10,000 variables: the cells, the list of variables and the profiles. Times are of
the thread that does it, the median of five, each in a kernel that knows nothing yet.
"""

from __future__ import annotations

import argparse
import datetime as dt
import decimal
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

_CHARACTERS_PER_TOKEN = 2.5
"""Of text with so many numbers; the usual estimate of four is too few tokens by a third."""


class Hostile:
    """Fails whatever it is asked."""

    def __repr__(self) -> str:
        raise RuntimeError("it was asked")

    __str__ = __eq__ = __hash__ = __len__ = __iter__ = __bool__ = __lt__ = __repr__  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"it was asked for {name}")


class OwnFrame(pd.DataFrame):
    """A frame of a class of the user's."""

    @property
    def _constructor(self) -> Any:
        raise RuntimeError("it was asked")


def _orders(rows: int) -> pd.DataFrame:
    random = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "order_id": np.arange(1, rows + 1),
            "customer_id": random.integers(1, 2000, rows),
            "price": np.where(random.random(rows) < 0.02, math.nan, random.random(rows) * 9000),
            "day": pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(random.integers(0, 365, rows), unit="D"),
            "state": random.choice(["paid", "open", "void"], rows, p=[0.7, 0.2, 0.1]),
        }
    )


def _array(*values: Any, rows: int) -> Any:
    column = np.empty(rows, dtype=object)
    for at in range(rows):
        column[at] = values[at % len(values)]
    return column


def _objects(*values: Any, rows: int = 5000) -> pd.DataFrame:
    return pd.DataFrame({"o": pd.Series(_array(*values, rows=rows), dtype=object)})


def _with_notes() -> pd.DataFrame:
    frame = _orders(100)
    frame.attrs = {"units": {"price": "EUR"}, "source": "x" * 100_000, "nested": {"price": {"a": 1}}}
    return frame


def frames() -> dict[str, Any]:
    """Make frames of all kinds, by what is special about them."""
    random = np.random.default_rng(2)
    orders = _orders(10_412)
    times = pd.date_range("2024-03-30", periods=3000, freq="h", tz="Europe/Berlin")
    deep = pd.MultiIndex.from_product([[("a", 1), ("b", 2)], range(3), ["x", "y"], ["u"], ["v"]])
    made: dict[str, Callable[[], Any]] = {
        "orders": lambda: orders,
        "one row": lambda: orders.head(1),
        "no rows": lambda: orders.head(0),
        "nothing": pd.DataFrame,
        "no columns": lambda: pd.DataFrame(index=range(1000)),
        "a million rows": lambda: _orders(1_000_000),
        "ten million numbers": lambda: pd.DataFrame({"n": random.random(10_000_000)}),
        "sorted numbers": lambda: pd.DataFrame({"n": np.arange(1_000_000)}),
        "10,000 columns": lambda: pd.DataFrame(np.zeros((100, 10_000))),
        "500 columns of 20,000": lambda: pd.DataFrame(random.random((20_000, 500))),
        "30 texts": lambda: pd.DataFrame({f"t{n}": random.choice(["x", "y"], 10_000) for n in range(30)}),
        "repeated rows": lambda: pd.concat([orders.head(500)] * 3),
        "only a pair is a key": lambda: pd.DataFrame({"a": np.arange(10_000) // 100, "b": np.arange(10_000) % 100}),
        "no key": lambda: pd.DataFrame(random.integers(0, 50, (10_000, 10))),
        "index of three levels": lambda: orders.groupby(["state", "day", "customer_id"]).price.sum().to_frame(),
        "index of five levels": lambda: pd.DataFrame({"v": range(12)}, index=deep),
        "index of texts": lambda: orders.head(2000).set_index(orders.head(2000).order_id.astype(str)),
        "index of times": lambda: pd.DataFrame({"v": np.arange(3000)}, index=times),
        "columns of three levels": lambda: orders.pivot_table(index="day", columns=["state"], values=["price"]),
        "the same column twice": lambda: pd.concat([orders, orders], axis=1),
        "time zones": lambda: pd.DataFrame({"berlin": times, "naive": times.tz_localize(None)}),
        "old and far times": lambda: pd.DataFrame({"t": np.array(["0001-01-01", "9999-12-31"], dtype="datetime64[s]")}),
        "times that Python lacks": lambda: pd.DataFrame({"t": np.array([-(2**62), 2**62], dtype="datetime64[s]")}),
        "spans": lambda: pd.DataFrame({"s": pd.to_timedelta(random.integers(0, 10**6, 5000), unit="s")}),
        "periods and intervals": lambda: pd.DataFrame(
            {"p": pd.period_range("2024", periods=90, freq="D"), "i": pd.interval_range(0, 90)}
        ),
        "categories": lambda: orders.assign(state=orders.state.astype("category")),
        "a million categories": lambda: pd.DataFrame({"c": pd.Categorical(np.arange(1_000_000).astype(str))}),
        "may be missing": orders[["customer_id", "price"]].convert_dtypes,
        "sparse": lambda: pd.DataFrame({"s": pd.arrays.SparseArray([0] * 10_000 + [1])}),
        "all missing": lambda: pd.DataFrame({"a": [math.nan] * 1000, "b": [None] * 1000, "c": [pd.NaT] * 1000}),
        "infinite": lambda: pd.DataFrame({"f": [math.inf, -math.inf, math.nan] * 1000}),
        "complex": lambda: pd.DataFrame({"z": np.ones(1000) * 1j}),
        "float16": lambda: pd.DataFrame({"h": random.random(1000).astype("float16")}),
        "mixed": lambda: _objects(1, "1", 1.0, None, True),
        "numpy in objects": lambda: _objects(np.float64(1), np.float64("nan"), np.int8(3)),
        "lists": lambda: _objects([1, 2], [3]),
        "nested": lambda: _objects({"a": [{"b": 1}]}),
        "hostile": lambda: _objects(Hostile()),
        "hostile names": lambda: pd.DataFrame([[1, 2]], columns=pd.Index(_array(Hostile(), "b", rows=2))),
        "hostile index": lambda: pd.DataFrame({"a": [1]}, index=pd.Index(_array(Hostile(), rows=1))),
        "own class": lambda: OwnFrame({"a": [1]}),
        "notes": _with_notes,
        "long texts": lambda: pd.DataFrame({"t": ["x" * 100_000] * 1000}),
        "long texts as objects": lambda: _objects("x" * 100_000, "y" * 100_000),
        "long names": lambda: pd.DataFrame({"n" * 10_000 + str(n): [1] for n in range(50)}),
        "odd texts": lambda: _objects("a\nb", "`x` · y", "a, b", "\x1b[31m", "\ud800", ""),
        "decimals and dates": lambda: pd.DataFrame(
            {"d": [decimal.Decimal("1.5"), decimal.Decimal("NaN")] * 500, "t": [dt.date(2024, 1, 1)] * 1000},
            dtype=object,
        ),
        "huge integers": lambda: _objects(10**400, -(10**400)),
        "secrets": lambda: pd.DataFrame({"password": ["hunter2"] * 50, "token": ["a1b2c3d4e5f6g7h8"] * 50}),
        "pyarrow": lambda: pa.Table.from_pandas(orders),
        "pyarrow, a million rows": lambda: pa.Table.from_pandas(_orders(1_000_000), preserve_index=False),
        "pyarrow, nested": lambda: pa.table(
            {"l": [[1], None], "s": [{"a": 1}, None], "n": pa.nulls(2), "b": [b"x", b""]}
        ),
        "pyarrow, dictionary": lambda: pa.table({"d": pa.array(["a", "b"] * 50).dictionary_encode()}),
        "pyarrow, a long text in a dictionary": lambda: pa.table(
            {"d": pa.DictionaryArray.from_arrays(np.zeros(50_000, "int32"), pa.array(["x" * 1_000_000]))}
        ),
        "pyarrow, record batch": lambda: pa.RecordBatch.from_pydict({"a": [1, 2], "m": [1.5, None]}),
        "pandas on pyarrow": lambda: pa.Table.from_pandas(orders).to_pandas(types_mapper=pd.ArrowDtype),
    }
    return {name: make() for name, make in made.items()} | _of_others(orders)


def _of_others(orders: pd.DataFrame) -> dict[str, Any]:
    """Make frames of libraries that may not be installed."""
    found: dict[str, Any] = {}
    try:
        import polars as pl

        found |= {
            "polars": pl.from_pandas(orders),
            "polars, a million rows": pl.from_pandas(_orders(1_000_000)),
            "polars, nested": pl.DataFrame({"l": [[1], [2, 3]], "s": [{"a": 1}] * 2, "o": [None, None]}),
            "polars, a long category": pl.DataFrame(
                {"c": pl.Series(["x" * 1_000_000] * 50).cast(pl.Categorical)}
            ).sample(50_000, with_replacement=True),
            "polars, objects": pl.DataFrame({"o": pl.Series([Hostile()], dtype=pl.Object)}),
        }
    except ImportError:
        pass
    try:
        import duckdb

        found["duckdb, a query that would never end"] = duckdb.sql("select range as a from range(1000000000000)")
    except ImportError:
        pass
    return found


def alone(frame: Any) -> tuple[float, float, str]:
    """Return the milliseconds to profile a frame as for a prompt, those to do so once more, and the text."""
    from indus_nb.kernel.toolset.profiles import FrameProfiles

    first: list[float] = []
    again: list[float] = []
    text = ""
    for _ in range(5):
        profiles = FrameProfiles()
        for times in (first, again):
            begun = time.thread_time()
            text = profiles.new([("frame", frame)], {}, begun + 0.05).text
            times.append(1000 * (time.thread_time() - begun))
    return statistics.median(first), statistics.median(again), text


def with_prompt(space: dict[str, Any], prompt: str) -> tuple[float, str]:
    """Return the milliseconds for all that goes along with a prompt in a kernel of these variables, and its text."""
    from IPython.core.interactiveshell import InteractiveShell

    from indus_nb.core.resources.settings import NotebookSettings
    from indus_nb.kernel.run.watch import Watch
    from indus_nb.kernel.toolset.prompt_context import PromptContext
    from indus_nb.kernel.toolset.variables import KernelVariables

    class Shell(InteractiveShell):
        def ask_exit(self) -> None: ...

    times: list[float] = []
    text = ""
    for _ in range(5):
        Shell.clear_instance()
        shell = Shell()
        watch = Watch(shell, in_cell=False)
        for number in range(20):
            shell.run_cell(f"x{number} = {number}  # {'c' * 300}", store_history=True)
        shell.user_ns.update(space)
        context = PromptContext(watch.journal, KernelVariables(shell, watch.journal))
        begun = time.thread_time()
        found = context.untold([], NotebookSettings(), prompt)
        times.append(1000 * (time.thread_time() - begun))
        text = found[0] if found else ""
        watch.close()
    return statistics.median(times), text


def _tokens(text: str) -> int:
    return math.ceil(len(text) / _CHARACTERS_PER_TOKEN)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--slow", action="store_true", help="only frames that take more than 10 ms")
    slow = parser.parse_args().slow
    made = frames()
    print("| frame | ms | ms again | characters | tokens, about |")
    print("|---|---|---|---|---|")
    for name, frame in made.items():
        first, again, text = alone(frame)
        if not slow or first > 10:
            print(f"| {name} | {first:.1f} | {again:.1f} | {len(text):,} | {_tokens(text):,} |")
    space = {f"f{number}": frame for number, frame in enumerate(made.values())}
    for name, held, prompt in (
        ("prompt that names all frames", space, " ".join(space)),
        ("prompt that names ten of them", space, " ".join([*space][:10])),
        (
            "10,000 variables, one of them a frame",
            {f"v{n}": n for n in range(10_000)} | {"f": made["orders"]},
            "plot f",
        ),
        ("10,000 frames", {f"v{n}": made["orders"] for n in range(10_000)}, "compare v1, v2 and v3"),
    ):
        taken, text = with_prompt(held, prompt)
        profiles = text.partition("What the frames hold now")[2]
        print(f"| {name}: all that goes along | {taken:.1f} | | {len(text):,} | {_tokens(text):,} |")
        print(f"| of this the profiles | | | {len(profiles):,} | {_tokens(profiles):,} |")


if __name__ == "__main__":
    main()
