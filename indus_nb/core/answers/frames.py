"""Data frames as answers: records with the types of their columns, both given by the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, cast

from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject, from_json
from indus_nb.core.answers.kind import FRAME, InvalidValueError

_DTYPES = ("string", "integer", "number", "boolean", "date", "category")
_SCALARS = str | int | float | bool | None
MAX_COLUMNS = 1000


class FrameKind:
    """A data frame of pandas. Missing values are ``null``."""

    name = FRAME

    def __init__(self) -> None:
        self._pandas = _pandas()

    @property
    def schema(self) -> JsonObject:
        """See ``AnswerKind``."""
        cell = {"type": ["string", "number", "boolean", "null"]}
        return {
            "type": "object",
            "description": "A table.",
            "properties": {
                "columns": {
                    "type": "array",
                    "description": "The columns in order, each with the type of its values.",
                    "items": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "dtype": {"type": "string", "enum": [*_DTYPES]}},
                        "required": ["name", "dtype"],
                    },
                },
                "records": {
                    "type": "array",
                    "description": "One object for each row: values by the names of columns, null where there is none. "
                    "Dates as YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS.",
                    "items": {"type": "object", "additionalProperties": cell},
                },
            },
            "required": ["columns", "records"],
        }

    def read(self, value: Any) -> Any:
        """Make a frame; see ``AnswerKind``."""
        match value:
            case {"columns": list(), "records": list()}:
                columns, records = cast("list[Any]", value["columns"]), cast("list[Any]", value["records"])
            case _:
                raise InvalidValueError(["the answer: give `columns` and `records`, both lists"])
        dtypes = _dtypes(columns)
        problems = [problem for number, record in enumerate(records) for problem in _record_problems(number, record)]
        if problems:
            raise InvalidValueError(problems)
        for record in records:
            for name in record:
                dtypes.setdefault(name, "")
        if len(dtypes) > MAX_COLUMNS:
            raise InvalidValueError([f"columns: there are {len(dtypes)}, and at most {MAX_COLUMNS} are possible"])
        series = {name: self._column(name, dtype, [row.get(name) for row in records]) for name, dtype in dtypes.items()}
        frame = self._pandas.DataFrame(series, columns=[*dtypes])
        return frame if dtypes else self._pandas.DataFrame(index=range(len(records)))

    def to_json(self, value: Any) -> Any:
        """Return the records; see ``AnswerKind``."""
        return from_json(value.to_json(orient="records", date_format="iso", double_precision=15))

    def _column(self, name: str, dtype: str, values: list[Any]) -> Any:
        pandas = self._pandas
        convert: Mapping[str, Callable[[Any], Any]] = {
            "": lambda column: column.infer_objects(),
            "string": lambda column: column.map(_text),
            "integer": lambda column: _integers(pandas, column),
            "number": lambda column: pandas.to_numeric(column.map(_number), errors="raise").astype("float64"),
            "boolean": _booleans,
            "date": lambda column: pandas.to_datetime(column.map(_date), errors="raise", format="ISO8601"),
            "category": lambda column: column.astype("category"),
        }
        try:
            return convert[dtype](pandas.Series(values, dtype="object"))
        except (ValueError, TypeError, OverflowError) as error:
            raise InvalidValueError([f"column {name}: not every value is a {dtype}: {error}"]) from error


def _pandas() -> Any:
    try:
        return import_module("pandas")
    except ImportError as error:
        raise UsageError(
            "A frame needs pandas, which is not installed here: `pip install pandas`. `list[dict]` needs nothing."
        ) from error


def _dtypes(columns: list[Any]) -> dict[str, str]:
    dtypes: dict[str, str] = {}
    for number, column in enumerate(columns):
        match column:
            case {"name": str(name), "dtype": str(dtype)} if dtype in _DTYPES and name not in dtypes:
                dtypes[name] = dtype
            case {"name": str(name), "dtype": str(dtype)} if dtype not in _DTYPES:
                known = ", ".join(_DTYPES)
                raise InvalidValueError([f"columns.{number}.dtype: {dtype!r} is none of {known}"])
            case {"name": str(name), "dtype": str()}:
                raise InvalidValueError([f"columns.{number}.name: {name!r} is there twice"])
            case _:
                raise InvalidValueError([f"columns.{number}: give a `name` and a `dtype`"])
    return dtypes


def _record_problems(number: int, record: Any) -> list[str]:
    if not isinstance(record, dict):
        return [f"records.{number}: a row is an object of values by the names of columns"]
    return [
        f"records.{number}.{name}: a cell holds a text, a number, true, false or null"
        for name, value in cast("dict[str, Any]", record).items()
        if not isinstance(value, _SCALARS)
    ]


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{value} is no number")
    return value


def _date(value: Any) -> Any:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{value} is no text with a date")
    return value


def _integers(pandas: Any, column: Any) -> Any:
    """Convert to whole numbers, exact; with missing values to pandas' own integers, which can be missing."""
    values = [None if each is None else _whole(each) for each in column]
    return pandas.Series(values, dtype="Int64" if None in values else "int64")


def _whole(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(f"{value} is no whole number")
    return int(value)


def _booleans(column: Any) -> Any:
    if any(each is not None and not isinstance(each, bool) for each in column):
        raise ValueError("some are neither true nor false")
    return column.astype("boolean" if column.isna().any() else "bool")
