"""Values of variables, sent by a copy and taken over: as data, of which nothing is called that the copy could choose.

What this module promises: `loaded` makes containers, numbers, texts, dates, arrays and frames from their contents, and
refers to variables, modules, and functions and classes of installed modules; whatever the bytes are, it calls
constructors of these kinds alone, and changes nothing that was there. A value that cannot be sent so that it comes out
equal, or that shares a part with what was there before, is refused by `dumped` with the reason.

>>> data, refused = dumped({"x": [1, {"a": 2.5}], "f": object()}, {})
>>> refused
{'f': 'an object'}
>>> loaded(data, {}, {})
{'x': [1, {'a': 2.5}]}
"""

from __future__ import annotations

import datetime as dt
import json
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from fractions import Fraction
from types import FunctionType, ModuleType
from typing import Any, cast

from indus_nb.installed import is_installed
from indus_nb.preview.of_libraries import MADE, SENT, Plain, RefusedValueError, short_text, view_of

MAX_BYTES = 48 << 20
"""Of all values together; what is larger is made where it is to be."""
_MAX_TEXT_BYTES = 16 << 20
_MAX_PARTS = 500_000
_MAX_DEPTH = 60
_HEAD = struct.Struct(">I")
_FACTORIES: Mapping[str, Any] = {kind.__name__: kind for kind in (list, dict, set, int, float, str, bool, tuple)}


def dumped(
    values: Mapping[str, Any],
    known: Mapping[int, str],
    functions: Collection[str] = (),
    variables: Mapping[str, Any] | None = None,
) -> tuple[bytes, dict[str, str]]:
    """Return values as they are sent, in the copy.

    Args:
        values: New values by the names of their variables.
        known: The ids of objects that were there before and can change, with the variables that are bound to them;
            empty where only a part of a variable is such an object.
        functions: Those of the variables whose functions can be made again where they are to be.
        variables: What the variables are bound to of which values may be parts.

    Returns:
        The bytes, and why the others cannot be sent, by name.
    """
    refused: dict[str, str] = {}
    sender = _Sender(known, {id(value): name for name, value in values.items() if name in functions}, variables or {})
    found: dict[str, Any] = {}
    for name, value in values.items():
        mark = sender.mark()
        try:
            found[name] = sender.top(value)
        except RefusedValueError as error:
            refused[name] = str(error)
        except Exception as error:  # noqa: BLE001 - code of the object's own class
            refused[name] = f"it cannot be copied ({type(error).__name__})"
        if name in refused:
            sender.back(mark)
    text = json.dumps(found).encode(errors="surrogatepass")
    if len(text) + sender.size > MAX_BYTES or len(text) > _MAX_TEXT_BYTES:
        return _HEAD.pack(2) + b"{}", dict.fromkeys(values, f"{(len(text) + sender.size) / 2**20:,.0f} MB")
    return b"".join([_HEAD.pack(len(text)), text, *sender.buffers]), refused


class _Sender:
    """Makes of values what JSON can hold, and buffers beside it."""

    def __init__(self, known: Mapping[int, str], names: Mapping[int, str], variables: Mapping[str, Any]) -> None:
        self._variables = variables
        self.buffers: list[bytes] = []
        self.size = 0
        self._known = known
        self._names = names
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        self._parts = 0

    def mark(self) -> tuple[int, int, int]:
        return len(self.buffers), self.size, len(self._kept)

    def back(self, mark: tuple[int, int, int]) -> None:
        """Forget what was added since."""
        del self.buffers[mark[0] :]
        self.size = mark[1]
        for obj in self._kept[mark[2] :]:
            self._numbers.pop(id(obj), None)
        del self._kept[mark[2] :]

    def bytes(self, data: bytes) -> list[int]:
        if self.size + len(data) > MAX_BYTES:
            raise RefusedValueError(f"{(self.size + len(data)) / 2**20:,.0f} MB")
        at = self.size
        self.buffers.append(data)
        self.size += len(data)
        return [at, len(data)]

    def top(self, value: Any) -> Any:
        """A value that a variable is bound to: it may also be a module, or what an installed module has."""
        kind = cast("Any", type(value))
        if kind is ModuleType:
            return {"k": "module", "v": value.__name__}
        module, name = getattr(value, "__module__", None), getattr(value, "__name__", "")
        if isinstance(module, str) and isinstance(name, str):
            if getattr(sys.modules.get(module), "__dict__", {}).get(name) is value and is_installed(module):
                return {"k": "attribute", "v": [module, name]}
            if kind is FunctionType and id(value) in self._names:
                return {"k": "function", "v": self._names[id(value)]}
        return self.value(value, 0)

    def value(self, value: Any, depth: int) -> Any:
        """What is sent of a value."""
        kind = cast("Any", type(value))
        if value is None or kind in (bool, int, float, str):
            return value
        if (name := self._known.get(id(value))) is not None:
            if name:
                return {"k": "variable", "v": name}
            raise RefusedValueError("it shares a part with another variable")
        if id(value) in self._numbers:
            return {"k": "same", "v": self._numbers[id(value)]}
        self._parts += 1
        if depth > _MAX_DEPTH or self._parts > _MAX_PARTS:
            raise RefusedValueError("it has too many parts")
        if (send := _SIMPLE.get(kind)) is not None:
            return {"k": kind.__name__, "v": send(value)}
        parts = self._parts_of(value, kind, depth + 1)
        number = self._numbers[id(value)] = len(self._kept)
        self._kept.append(value)
        return {**parts, "n": number}

    def _parts_of(self, value: Any, kind: Any, depth: int) -> dict[str, Any]:
        if kind in (list, tuple, set, frozenset):
            return {"k": kind.__name__, "v": [self.value(each, depth) for each in value]}
        if kind is deque:
            return {"k": "deque", "v": [self.value(each, depth) for each in value], "max": value.maxlen}
        if kind in (dict, OrderedDict, Counter, defaultdict):
            held = cast("dict[Any, Any]", value)
            items = [[self.value(key, depth), self.value(each, depth)] for key, each in dict[Any, Any].items(held)]
            made = getattr(value, "default_factory", None)
            if made is not None and _FACTORIES.get(made.__name__) is not made:
                raise RefusedValueError("a dictionary with a function of its own")
            return {"k": kind.__name__, "v": items, "made": None if made is None else made.__name__}
        if kind is Plain:
            return {"k": "plain", "v": value.values}
        if kind in (bytes, bytearray):
            return {"k": kind.__name__, "v": self.bytes(bytes(value))}
        send = SENT.get((kind.__module__.partition(".")[0], kind.__name__))
        if send is None:
            name = kind.__name__
            raise RefusedValueError(f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}")
        what, *arguments = self._view(value) or send(value, self._known)
        return {"k": what, "v": [self.value(each, depth) for each in arguments]}

    def _view(self, value: Any) -> tuple[Any, ...] | None:
        """What is sent of an array that is a part of a variable's."""
        if type(value).__name__ != "ndarray" or value.base is None:
            return None
        for key, name in self._known.items():
            held = self._variables.get(name)
            if id(held) == key and (sent := view_of(value, held)) is not None:
                return "view", held, *sent
        return None


_SIMPLE: Mapping[Any, Callable[[Any], Any]] = {
    complex: lambda value: [value.real, value.imag],
    range: lambda value: [value.start, value.stop, value.step],
    dt.date: lambda value: value.isoformat(),
    dt.timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    Decimal: str,
    Fraction: lambda value: [value.numerator, value.denominator],
}


def loaded(
    data: bytes,
    variables: Mapping[str, Any],
    functions: Mapping[str, Callable[[], Any]],
    modules: Collection[str] = (),
) -> dict[str, Any]:
    """Make the values that a copy has sent.

    Args:
        data: The bytes; hostile.
        variables: The variables that values may refer to.
        functions: What makes the functions that values may be, by name.
        modules: Installed modules that may be imported for them, besides those that are.

    Returns:
        The values by name.

    Raises:
        RefusedValueError: They are not what ``dumped`` makes.
    """
    try:
        length = _HEAD.unpack_from(data)[0]
        if length > _MAX_TEXT_BYTES or len(data) > 2 * MAX_BYTES:
            raise RefusedValueError("the values are too large")  # noqa: TRY301 - told like all that cannot be read
        found: Any = json.loads(data[_HEAD.size : _HEAD.size + length])
        receiver = _Receiver(memoryview(data)[_HEAD.size + length :], variables, functions, modules)
        return {str(name): receiver.value(each) for name, each in found.items()}
    except RefusedValueError:
        raise
    except Exception as error:
        raise RefusedValueError(f"the values cannot be read ({type(error).__name__}: {error})") from error


class _Receiver:
    def __init__(
        self,
        buffers: memoryview,
        variables: Mapping[str, Any],
        functions: Mapping[str, Callable[[], Any]],
        modules: Collection[str],
    ) -> None:
        self._modules = modules
        self._parts = 0
        self._buffers = buffers
        self._variables = variables
        self._functions = functions
        self._made: dict[int, Any] = {}

    def value(self, sent: Any) -> Any:
        if type(sent) is not dict:
            if isinstance(sent, list):
                raise RefusedValueError("the values cannot be read")
            return sent
        fields = cast("dict[str, Any]", sent)
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise RefusedValueError("the values have too many parts")
        kind, content = fields["k"], fields["v"]
        made = self._reference(kind, content) if kind in _REFERENCES else self._make(kind, content, fields)
        if "n" in fields:
            self._made[int(fields["n"])] = made
        return made

    def _reference(self, kind: str, content: Any) -> Any:
        match kind:
            case "variable":
                return self._variables[content]
            case "same":
                return self._made[content]
            case "function":
                return self._functions[content]()
            case "module":
                return self._module(content)
            case _:
                module, name = content
                return vars(self._module(module))[name]

    def _module(self, name: Any) -> ModuleType:
        """An installed module that is imported, or that the code imports."""
        import importlib

        if name in sys.modules and is_installed(name):
            return sys.modules[name]
        if name not in self._modules or not is_installed(name):
            raise RefusedValueError(f"the module {name} is not an installed one that the code imports")
        return importlib.import_module(name)

    def _make(self, kind: str, content: Any, fields: Mapping[str, Any]) -> Any:
        if kind in _MADE_SIMPLE:
            return _MADE_SIMPLE[kind](content)
        if kind in _FACTORIES_OF:
            return _FACTORIES_OF[kind](map(self.value, content))
        if kind == "deque":
            return deque(map(self.value, content), fields["max"])
        if kind in ("bytes", "bytearray"):
            at, length = content
            return (bytes if kind == "bytes" else bytearray)(self._buffers[at : at + length])
        if kind in _DICTIONARIES:
            return self._dictionary(kind, content, fields["made"])
        return MADE[kind](*map(self.value, content))

    def _dictionary(self, kind: str, content: Any, made: Any) -> Any:
        items = [(self.value(key), self.value(each)) for key, each in content]
        if kind == "defaultdict":
            return defaultdict(_FACTORIES[made] if made else None, items)
        if kind == "Counter":
            counter = Counter[Any]()
            dict[Any, Any].update(counter, items)
            return counter
        return OrderedDict[Any, Any](items) if kind == "OrderedDict" else dict[Any, Any](items)


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise RefusedValueError("the values cannot be read")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise RefusedValueError("the values cannot be read")
    return value


_REFERENCES = frozenset({"variable", "same", "function", "module", "attribute"})
_DICTIONARIES = frozenset({"dict", "OrderedDict", "Counter", "defaultdict"})
_FACTORIES_OF: Mapping[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_MADE_SIMPLE: Mapping[str, Callable[[Any], Any]] = {
    "complex": lambda content: complex(*map(_number, content)),
    "range": lambda content: range(*map(_whole, content)),
    "date": lambda content: dt.date.fromisoformat(short_text(content)),
    "timedelta": lambda content: dt.timedelta(*map(_whole, content)),
    "Decimal": lambda content: Decimal(short_text(content)),
    "Fraction": lambda content: Fraction(*map(_whole, content)),
    "plain": Plain,
}
