"""The second part of the helper: the variables of a kernel in words, for where the extension is not loaded.

A class that is not known here is never asked for its ``repr`` or its properties: both may be huge, slow or broken.
"""

# It is for any version of Python from 3.8 on, and for objects of any library:
# pyright: basic

import inspect
import types

_HIDDEN = ("In", "Out", "exit", "quit", "get_ipython", "open")
_COLUMNS, _ROWS, _LISTED, _CELL = 20, 10, 100, 40


def variables(shell, given):
    """Describe one variable closely, or list those that match; the caller decides what is shown of them.

    Args:
        given: The request, with the ``pattern``.
    """
    import fnmatch

    pattern = given["pattern"]
    users = users_of(shell)
    exact = [pair for pair in users if pair[0] == pattern]
    if exact:
        name, value = exact[0]
        return {"one": [name, _kind(value), *_view(value)]}
    wild = "*" in pattern or "?" in pattern
    found = [pair for pair in users if (fnmatch.fnmatchcase(pair[0], pattern) if wild else pattern in pair[0])]
    listed = [[name, _kind(value), _safely(_line, value)] for name, value in found[:_LISTED]]
    return {"listed": listed, "more": max(len(found) - _LISTED, 0), "any": bool(users)}


def users_of(shell):
    """Return the names that the user or the agent defined, with their values."""
    hidden = shell.user_ns_hidden
    return [
        (name, value)
        for name, value in dict(shell.user_ns).items()
        if not name.startswith("_") and name not in _HIDDEN and hidden.get(name, shell) is not value
    ]


def _kind(value):
    kind = type(value)
    library = (kind.__module__ if isinstance(kind.__module__, str) else "").partition(".")[0]
    return kind.__name__ if library in ("builtins", "__main__", "") else "%s.%s" % (library, kind.__name__)


def _safely(look, value):
    """Return ``look(value)``; an empty text if the object's own code fails."""
    try:
        return look(value)
    except Exception:
        return ""


def _of(value, library, *names):
    """Return whether it is of one of these very classes; code of the user's classes is never called."""
    kind = type(value)
    return str(kind.__module__).partition(".")[0] == library and kind.__name__ in names


def _is_frame(value):
    return _of(value, "pandas", "DataFrame") or _of(value, "polars", "DataFrame")


def _shape(value):
    libraries = ("pandas", "polars", "numpy", "torch", "jax", "jaxlib", "scipy", "xarray", "pyarrow")
    if str(type(value).__module__).partition(".")[0] not in libraries or isinstance(value, type):
        return None
    shape = getattr(value, "shape", None)
    return tuple(int(part) for part in shape) if isinstance(shape, tuple) else None


def _schema(frame):
    kinds = list(frame.dtypes)
    return [[str(name)[:_CELL], str(kind)] for name, kind in list(zip(frame.columns, kinds))[:_COLUMNS]]


def _line(value):
    if isinstance(value, types.ModuleType):
        return "module %s" % value.__name__
    if isinstance(value, type):
        return "class"
    if isinstance(value, types.FunctionType):
        return "function %s%s" % (value.__name__, inspect.signature(value))
    shape = _shape(value)
    if shape is not None and _is_frame(value):
        columns = ", ".join("%s %s" % (name, kind) for name, kind in _schema(value))
        return "of shape %s · %s%s" % (shape, columns, " …" if shape[1] > _COLUMNS else "")
    if shape is not None:
        dtype = getattr(value, "dtype", None)
        return "of shape %s%s" % (shape, "" if dtype is None else " · %s" % (dtype,))
    size = " of %d" % len(value) if type(value) in (str, bytes, list, tuple, dict, set, frozenset) else ""
    return (size + " · " + _short(value)).strip(" ·") if _short(value) else size.strip()


def _short(value, depth=2, items=6, text=120):
    """Return a short view of plain data; of anything else its class."""
    kind = type(value)
    if kind in (int, float, complex, bool, type(None)):
        return repr(value)[:text]
    if kind in (str, bytes):
        return repr(value[:text]) + ("…" if len(value) > text else "")
    if kind in (list, tuple, set, frozenset, dict):
        opening, closing = {list: "[]", tuple: "()"}.get(kind, "{}")
        if depth == 0:
            return opening + "…" + closing
        shown = []
        for number, part in enumerate(value.items() if kind is dict else value):
            if number == items:
                shown.append("…")
                break
            if kind is dict:
                shown.append("%s: %s" % (_short(part[0], 0, items, text), _short(part[1], depth - 1, items, text)))
            else:
                shown.append(_short(part, depth - 1, items, text))
        return opening + ", ".join(shown) + closing
    return "<%s>" % _kind(value)


def _view(value):
    """Return a text, or a table: its line, its columns and the cells of its first rows."""
    if type(value) is str:
        return [value[:2000] + ("… (%d more characters)" % (len(value) - 2000) if len(value) > 2000 else ""), None]
    line = _safely(_line, value)
    if _shape(value) is not None and _is_frame(value):
        return [line, _safely(_table, value) or None]
    if _of(value, "numpy", "ndarray") and getattr(value.dtype, "kind", "O") in "biufcSU":
        return [line + "\n" + str(value.ravel()[:100].tolist())[:4000], None]
    if _of(value, "pandas", "Series", "Index"):
        return [line + "\n" + str([str(part)[:_CELL] for part in value[:20]])[:4000], None]
    return [line if type(value).__name__ not in ("list", "tuple", "dict", "set") else _short(value, 3, 50, 400), None]


def _table(frame):
    head = frame.head(_ROWS)
    columns = _schema(frame)
    if _of(frame, "pandas", "DataFrame"):
        cells = [head.iloc[:, at].tolist() for at in range(len(columns))]
        labels = [str(label)[:_CELL] for label in head.index]
    else:
        cells = [head[:, at].to_list() for at in range(len(columns))]
        labels = [""] * len(head)
    rows = [[labels[row]] + [_scalar(column[row]) for column in cells] for row in range(len(labels))]
    return {"columns": columns, "rows": rows}


def _scalar(value):
    kind = type(value)
    if kind is str:
        return value[:_CELL]
    if kind in (int, float, bool, type(None)) or str(kind.__module__).partition(".")[0] in ("pandas", "datetime"):
        return str(value)[:_CELL]
    return _short(value, 1, 3, _CELL)[:_CELL]
