"""Text that is run in a trial's kernel: it writes what its variables hold as JSON.

Sent as text, so that it needs none of our package, whose evaluations the kernel must not see. What it writes is judged
outside, by values alone: code of the agent that answers in its place has to know the value all the same.
"""

# It is for objects of any library:
# pyright: basic

import json
import math

_MAX_ROWS = 20_000
_MAX_TEXT = 4_000
_MAX_DEPTH = 6


def collected(space: dict[str, object], names: list[str]) -> str:
    """Return the values of variables as a JSON object; what is not there is left out."""
    found = {name: space[name] for name in names if name in space}
    return json.dumps({name: _figure(value) or _value(value, 0) for name, value in found.items()})


def _value(value, depth):
    """Return a value as JSON has it; what it cannot hold becomes its text."""
    kind = type(value)
    if value is None or isinstance(value, (bool, str)):
        return value[:_MAX_TEXT] if isinstance(value, str) else value
    if depth > _MAX_DEPTH:
        return str(kind)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_key(key): _value(each, depth + 1) for key, each in list(value.items())[:_MAX_ROWS]}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_value(each, depth + 1) for each in list(value)[:_MAX_ROWS]]
    return _of_library(value, kind, depth)


def _of_library(value, kind, depth):
    library = kind.__module__.partition(".")[0]
    if library == "polars" and hasattr(value, "to_pandas"):
        return _value(value.to_list(), depth) if kind.__name__ == "Series" else _polars(value, depth)
    if library == "pandas" and kind.__name__ == "DataFrame":
        return _frame(value, depth)
    if library == "pandas" and kind.__name__ == "Series":
        is_plain = value.index.equals(type(value.index)(range(len(value)))) if len(value) else True
        pairs = [_value(each, depth + 1) for each in value.head(_MAX_ROWS).tolist()]
        return pairs if is_plain else dict(zip(map(_key, value.index.tolist()), pairs))
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "tolist"):  # arrays, scalars and indexes of numpy and pandas
        return _value(value.tolist(), depth + 1)
    return str(value)[:_MAX_TEXT]


def _frame(frame, depth):
    """Return a frame of pandas; what stands in its index are columns too, unless it only counts the rows."""
    counts = frame.index.nlevels == 1 and frame.index.name is None and frame.index.dtype.kind in "iu"
    frame = (frame if counts else frame.reset_index()).head(_MAX_ROWS)
    columns = [" ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in frame.columns]
    rows = [[_value(each, depth + 1) for each in row] for row in frame.itertuples(index=False, name=None)]
    return {"frame": {"columns": columns, "rows": rows}}


def _polars(frame, depth):
    rows = [[_value(each, depth + 1) for each in row] for row in frame.head(_MAX_ROWS).rows()]
    return {"frame": {"columns": list(frame.columns), "rows": rows}}


def _key(key):
    if isinstance(key, tuple):
        return " ".join(map(str, key))
    return str(key.isoformat() if hasattr(key, "isoformat") else key)


def _figure(value):
    """Return what a figure of matplotlib shows, or axes of one; ``None`` for anything else."""
    figure = value if hasattr(value, "get_axes") else getattr(value, "figure", None)
    if figure is None or not hasattr(figure, "get_axes"):
        return None
    return {"axes": [_axes(axes) for axes in figure.get_axes()[:20]]}


def _axes(axes):
    names = _ticks(axes.xaxis), _ticks(axes.yaxis)
    bars = [bar for group in axes.containers for bar in group.patches] if axes.containers else list(axes.patches)
    return {
        "xlabel": axes.get_xlabel(),
        "ylabel": axes.get_ylabel(),
        "xscale": axes.get_xscale(),
        "yscale": axes.get_yscale(),
        "bars": [_bar(bar, *names) for bar in bars[:_MAX_ROWS] if hasattr(bar, "get_height")],
        "lines": [_line(line) for line in axes.get_lines()[:200]],
        "points": [_value(each.get_offsets().tolist(), 0) for each in axes.collections if hasattr(each, "get_offsets")],
    }


def _ticks(axis):
    """Return the names at places of an axis, where it has names in the place of numbers."""
    texts = [label.get_text() for label in axis.get_ticklabels()]
    return dict(zip(map(float, axis.get_ticklocs()), texts))


def _bar(bar, below, beside):
    middle = bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height() / 2
    lies = middle[0] not in below and middle[1] in beside and bar.get_x() == 0
    name = beside.get(middle[1], middle[1]) if lies else below.get(middle[0], middle[0])
    start, height = (bar.get_x(), bar.get_width()) if lies else (bar.get_y(), bar.get_height())
    return {"name": name, "height": float(height), "from": float(start)}


def _line(line):
    xs, ys = line.get_xdata(orig=False), line.get_ydata(orig=False)
    shown = [_x(x, raw) for x, raw in zip(xs, line.get_xdata(orig=True))]
    return {
        "label": str(line.get_label()),
        "style": str(line.get_linestyle()),
        "x": shown[:_MAX_ROWS],
        "y": [float(y) if math.isfinite(float(y)) else None for y in ys][:_MAX_ROWS],
    }


def _x(place, given):
    """Return where a point lies: a date or a name as it was given, else the number."""
    if isinstance(given, str) or hasattr(given, "isoformat"):
        return _value(given, 0)
    if type(given).__module__ == "numpy" and given.dtype.kind in "MU":
        return str(given)[:10] if given.dtype.kind == "M" else str(given)
    return float(place)
