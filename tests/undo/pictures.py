"""What variables hold, with which object is where, told by other means than those that take changes back."""

from __future__ import annotations

import gc
import random
import types
from collections.abc import Iterator
from typing import Any


class Picture:
    """What each variable holds, part by part: values, and which object is where.

    It reads objects by their usual methods, and keeps all of them alive.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._alive: list[Any] = []
        self.parts: dict[str, dict[int | str, list[Any]]] = {}
        for name, value in sorted(namespace.items()):
            if not name.startswith("__"):
                self._seen: set[int] = set()
                parts = self.parts[name] = {}
                for holder, part in self._of(value, "", name):
                    parts.setdefault(holder, []).append(part)

    def differing(self, other: Picture) -> dict[str, dict[int | str, Any]]:
        """The variables that hold something else: the objects that differ, with what each was made of and is.

        Objects that only one of them has are told by those that hold, or held, them.
        """
        found: dict[str, dict[int | str, Any]] = {}
        for name in self.parts.keys() | other.parts.keys():
            mine, its = self.parts.get(name, {name: []}), other.parts.get(name, {name: []})
            differing = {key: (mine[key], its[key]) for key in mine.keys() & its.keys() if mine[key] != its[key]}
            if differing:
                found[name] = differing
        return found

    def _of(self, obj: Any, path: str, holder: int | str) -> Iterator[tuple[int | str, Any]]:
        kind = type(obj)
        if isinstance(obj, _Text):
            yield holder, (path, obj.text)
            return
        if kind in (int, float, complex, str, bytes, bool, type(None), range, slice, types.ModuleType, types.CodeType):
            yield holder, (path, kind.__name__, obj.co_code if kind is types.CodeType else repr(obj))
            return
        if isinstance(obj, (type, types.FunctionType)) and obj.__module__ != "__main__" and obj.__module__[0] != "m":
            yield holder, (path, "library", id(obj))
            return
        lasts = kind not in (types.MethodType, types.BuiltinFunctionType) and not _is_scalar(obj)
        yield holder, (path, kind.__name__, id(obj) if lasts else 0)
        if lasts and id(obj) in self._seen:
            return
        self._seen.add(id(obj))
        self._alive.append(obj)
        for key, part in self._inside(obj, kind):
            yield from self._of(part, key if lasts else f"{path}{key}", id(obj) if lasts else holder)

    def _inside(self, obj: Any, kind: Any) -> Iterator[tuple[str, Any]]:
        package = kind.__module__.partition(".")[0]
        for known, look in _LOOKS:
            if known(obj, package):
                yield from look(obj)
                break
        if (
            kind is not types.MethodType
            and not isinstance(obj, type)
            and package not in ("pandas", "polars", "numpy", "random")
        ):
            for base in kind.__mro__:
                slots = vars(base).get("__slots__", ())
                for name in (slots,) if isinstance(slots, str) else slots:
                    if hasattr(obj, name) and not name.startswith("__"):
                        yield f".{name}", getattr(obj, name)
            if isinstance(getattr(obj, "__dict__", None), dict):
                yield from ((f".{name}", value) for name, value in sorted(vars(obj).items()) if name not in _CACHES)


class _Text:
    """A part that is told by its text alone."""

    def __init__(self, value: Any) -> None:
        self.text = value if isinstance(value, (str, bytes)) else repr(value)


_SCALARS = ("generic", "Timestamp", "Interval", "Period", "NaTType", "NAType", "Timedelta", "date", "Decimal")
_CACHES = (
    "_cache",
    "adj",
    "edges",
    "nodes",
    "succ",
    "pred",
    "degree",
    "in_edges",
    "out_edges",
    "__objclass__",
    "_sunder_missing_",
)


def _is_scalar(obj: Any) -> bool:
    return any(base.__name__ in _SCALARS for base in type(obj).__mro__)


def _iterator(obj: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(obj, types.GeneratorType):
        yield " at", _Text(None if obj.gi_frame is None else (obj.gi_frame.f_lasti, len(obj.gi_frame.f_locals)))
    elif hasattr(obj, "__length_hint__"):
        yield " left", _Text(obj.__length_hint__())
    else:
        yield from ((f" {at}", part) for at, part in enumerate(gc.get_referents(obj)))


def _array(obj: Any) -> Iterator[tuple[str, Any]]:
    import numpy as np

    plain = np.asarray(obj)
    yield (
        " form",
        _Text(
            (
                obj.shape,
                str(obj.dtype),
                obj.strides,
                obj.flags.writeable,
                obj.__array_interface__["data"][0] if obj.size else 0,
            )
        ),
    )
    if plain.dtype.hasobject:
        yield from ((f"[{at}]", value) for at, value in enumerate(plain.ravel().tolist()))
    else:
        yield " bytes", _Text(plain.tobytes())
    for name in ("_mask", "_fill_value", "_hardmask"):
        if hasattr(obj, name):
            yield f".{name}", _Text(getattr(obj, name))


def _frame(obj: Any) -> Iterator[tuple[str, Any]]:
    yield ".attrs", obj.attrs
    yield ".name", _Text(getattr(obj, "name", ""))
    for at, axis in enumerate(obj.axes):
        yield f".axis{at}", axis
    for at in range(1 if obj.ndim == 1 else obj.shape[1]):
        column = obj if obj.ndim == 1 else obj.iloc[:, at]
        yield f".type{at}", _Text(column.dtype)
        if column.dtype == object:
            yield from ((f"[{at}, {row}]", value) for row, value in enumerate(column.tolist()))
        else:
            yield f".column{at}", _Text(column.tolist())


def _class(obj: Any) -> Iterator[tuple[str, Any]]:
    yield (
        " names",
        _Text(
            (
                obj.__name__,
                obj.__qualname__,
                obj.__module__,
                obj.__doc__,
                id(type(obj)),
                [id(base) for base in obj.__bases__],
            )
        ),
    )
    skipped = (
        "__dict__",
        "__weakref__",
        "__doc__",
        "__module__",
        "_abc_impl",
        "__static_attributes__",
        "__firstlineno__",
    )
    for name, value in sorted(vars(obj).items()):
        if name not in skipped and type(value).__name__ != "member_descriptor" and (name != "__annotations__" or value):
            yield f".{name}", value


def _function(obj: Any) -> Iterator[tuple[str, Any]]:
    yield " names", _Text((obj.__name__, obj.__qualname__, obj.__module__, obj.__doc__))
    for name in ("__code__", "__defaults__", "__kwdefaults__", "__annotations__"):
        yield f".{name}", getattr(obj, name)
    for at, cell in enumerate(obj.__closure__ or ()):
        yield f".cell{at}", cell.cell_contents


def _exception(obj: Any) -> Iterator[tuple[str, Any]]:
    yield from ((f".{name}", getattr(obj, name)) for name in ("args", "__cause__", "__context__"))


def _file(obj: Any) -> Iterator[tuple[str, Any]]:
    yield " content", _Text("closed" if obj.closed else (obj.getvalue(), obj.tell()))


def _memory(obj: Any) -> Iterator[tuple[str, Any]]:
    try:
        yield " content", _Text(obj.tobytes())
    except ValueError:
        yield " content", _Text("released")


_LOOKS: list[tuple[Any, Any]] = [
    (lambda obj, package: _is_scalar(obj), lambda obj: [(" value", _Text(obj))]),
    (lambda obj, package: hasattr(obj, "__array_interface__") and hasattr(obj, "flat"), _array),
    (lambda obj, package: package == "pandas" and hasattr(obj, "_mgr"), _frame),
    (
        lambda obj, package: package == "pandas" and hasattr(obj, "names"),
        lambda obj: [(" labels", _Text((obj.tolist(), [*obj.names], obj.dtype)))],
    ),
    (lambda obj, package: package == "pandas", lambda obj: [(" values", _Text(obj))]),
    (
        lambda obj, package: package == "polars",
        lambda obj: [
            (
                " values",
                _Text(
                    (
                        obj.to_dict(as_series=False) if hasattr(obj, "height") else (obj.name, obj.to_list()),
                        obj.__dict__.get("note"),
                    )
                ),
            )
        ],
    ),
    (lambda obj, package: hasattr(obj, "bit_generator"), lambda obj: [(" state", _Text(obj.bit_generator.state))]),
    (
        lambda obj, package: package == "numpy" and hasattr(obj, "get_state"),
        lambda obj: [(" state", _Text(obj.get_state(legacy=False)))],
    ),
    (lambda obj, package: package == "numpy" and hasattr(obj, "state"), lambda obj: [(" state", _Text(obj.state))]),
    (
        lambda obj, package: type(obj) is random.Random,
        lambda obj: [(" state", _Text(obj.getstate())), (" note", _Text(vars(obj)))],
    ),
    (
        lambda obj, package: package == "sklearn" and hasattr(obj, "__getstate__") and hasattr(obj, "node_count"),
        lambda obj: [
            (
                " state",
                _Text(
                    [value.tobytes() if hasattr(value, "tobytes") else value for value in obj.__getstate__().values()]
                ),
            )
        ],
    ),
    (lambda obj, package: isinstance(obj, type), _class),
    (lambda obj, package: isinstance(obj, types.FunctionType), _function),
    (lambda obj, package: isinstance(obj, BaseException), _exception),
    (
        # In which order a class has its attributes cannot be put back: some cannot be deleted, to come behind others.
        lambda obj, package: isinstance(obj, types.MappingProxyType) and "__module__" in obj,
        lambda obj: [(f"[{key!r}]", value) for key, value in sorted(obj.items())],
    ),
    (
        lambda obj, package: isinstance(obj, (dict, types.MappingProxyType)),
        lambda obj: [
            (f"[{key!r}]" if isinstance(key, (str, int)) else f"[{id(key)}]", value) for key, value in obj.items()
        ],
    ),
    (
        lambda obj, package: (
            type(obj).__name__ == "dict_values" or isinstance(obj, (list, tuple)) or type(obj).__name__ == "deque"
        ),
        lambda obj: [(f"[{at}]", value) for at, value in enumerate(obj)],
    ),
    (
        lambda obj, package: isinstance(obj, (set, frozenset)),
        lambda obj: [
            (f"[{at}]", value)
            for at, value in enumerate(
                sorted(
                    obj,
                    key=lambda one: (
                        type(one).__name__,
                        id(one) if not isinstance(one, (int, str, tuple)) else 0,
                        repr(one),
                    ),
                )
            )
        ],
    ),
    (lambda obj, package: hasattr(obj, "getvalue"), _file),
    (lambda obj, package: type(obj).__name__ == "flatiter", lambda obj: [(" base", obj.base)]),
    (lambda obj, package: hasattr(obj, "__next__"), _iterator),
    (lambda obj, package: isinstance(obj, memoryview), _memory),
    (
        lambda obj, package: isinstance(obj, bytearray) or type(obj).__name__ == "array",
        lambda obj: [(" content", _Text(bytes(obj)))],
    ),
    (
        lambda obj, package: isinstance(obj, types.MethodType),
        lambda obj: [(".self", obj.__self__), (".function", obj.__func__)],
    ),
    (
        lambda obj, package: type(obj).__name__ == "partial",
        lambda obj: [(".func", obj.func), (".args", obj.args), (".keywords", obj.keywords)],
    ),
    (
        lambda obj, package: isinstance(obj, (property, staticmethod, classmethod)),
        lambda obj: [(f".{name}", getattr(obj, name, None)) for name in ("fget", "fset", "__func__")],
    ),
    (lambda obj, package: type(obj).__name__ == "flatiter", lambda obj: [(" base", obj.base)]),
    (lambda obj, package: type(obj).__name__ == "ReferenceType", lambda obj: [(" to", obj())]),
    (lambda obj, package: hasattr(obj, "names") and hasattr(obj, "fields"), lambda obj: [(" names", _Text(obj.names))]),
]
"""How to look into which objects: the first that fits."""
