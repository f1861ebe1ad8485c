"""Values of variables, sent by a copy and taken over: as data, of which nothing is called that the copy could choose.

What this module promises: `loaded` makes containers, numbers, texts, dates, arrays and frames from their contents, and
refers to variables, modules, and functions and classes of installed modules; whatever the bytes are, it calls
constructors of these kinds alone, changes nothing that was there, and takes bounded time and memory, also where parts
refer to parts, or the hashes of keys collide. A value that cannot be sent so that it comes out equal, or that shares a
part with what was there before, is refused by `dumped` with the reason.

>>> data, refused = dumped({"x": [1, {"a": 2.5}], "f": object()}, {})
>>> refused
{'f': 'an object'}
>>> loaded(data, {}, {})
{'x': [1, {'a': 2.5}]}
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import struct
import sys
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, cast

from indus_nb.base.installed import is_installed
from indus_nb.kernel.preview.of_libraries import (
    MADE,
    OF_OWN_PARTS,
    SENT,
    KnownObjects,
    Plain,
    RefusedValueError,
    is_array,
    labels_at,
    labels_of,
    owner_of,
    share_memory,
    short_text,
    view_of,
)
from indus_nb.kernel.preview.report import whole_number

MAX_BYTES = 48 << 20
"""Largest size of all values together; a larger value is made where it is to be."""
_MAX_TEXT_BYTES = 16 << 20
_MAX_PARTS = 500_000
_MAX_DEPTH = 60
_MAX_ARRAYS = 64
"""Most arrays in the same memory, as each is compared with each."""
_MAX_WEIGHT = 256 << 20
_PART_WEIGHT = 8
"""Weight of a part: a reference to it. Bytes weigh their length, and a referenced value weighs each time again."""
_MAX_SECONDS = 10.0
"""Longest time for making values: keys whose hashes a copy has chosen would take hours."""
_MAX_BITS = 14_000
"""Most bits of an integer, which then has no more digits than are read (`report.whole_number`)."""
_HEAD = struct.Struct(">I")
_FACTORIES: Mapping[str, Any] = {kind.__name__: kind for kind in (list, dict, set, int, float, str, bool, tuple)}


def dumped(
    values: Mapping[str, Any],
    known: Mapping[int, str],
    functions: Collection[str] = (),
    variables: Mapping[str, Any] | None = None,
    places: Mapping[int, tuple[str, str] | None] | None = None,
) -> tuple[bytes, dict[str, str]]:
    """Encode values for sending, in the copy.

    Args:
        known: The ids of objects that were there before and can change, with the variables that are bound to them;
            empty where only a part of a variable is such an object.
        functions: Names of variables whose functions can be made again by the receiver.
        variables: Variables of which values may be parts.
        places: The ids of objects that modules hold, with the module and the name there; ``None`` for what no value
            may refer to.

    Returns:
        The bytes, and why the others cannot be sent, by name.
    """
    refused: dict[str, str] = {}
    named = {id(value): name for name, value in values.items() if name in functions}
    sender = _Sender(known, named, variables or {}, places or {})
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


class _Weight:
    """Size and depth of values, as if each reference to a part were another copy of it."""

    def __init__(self) -> None:
        self.total = 0
        self._depth = 0

    def begin(self) -> tuple[int, int]:
        """Begin a part; return the argument of ``end``."""
        mark = self.total, self._depth
        self._depth = 0
        self.add(_PART_WEIGHT)
        return mark

    def end(self, mark: tuple[int, int]) -> tuple[int, int]:
        """End a part; return its weight and depth, with which ``add`` is called where it is referred to."""
        weight, depth = self.total - mark[0], self._depth + 1
        self._depth = mark[1]
        self.add(0, depth)
        return weight, depth

    def add(self, weight: int, depth: int = 0) -> None:
        """Add a weight; raises ``RefusedValueError`` where the total becomes too much."""
        self.total += weight
        self._depth = max(self._depth, depth)
        if self.total > _MAX_WEIGHT or self._depth > _MAX_DEPTH:
            raise RefusedValueError("it has too many parts")


class _Sender:
    """Encoder of values as JSON, with buffers beside it."""

    def __init__(
        self,
        known: Mapping[int, str],
        names: Mapping[int, str],
        variables: Mapping[str, Any],
        places: Mapping[int, tuple[str, str] | None],
    ) -> None:
        self._variables = {name: held for name, held in variables.items() if known.get(id(held)) == name}
        self._places = places
        labels = {id(found): (name, *path) for name, held in self._variables.items() for path, found in labels_of(held)}
        self._before = KnownObjects(known, labels, {})
        self.buffers: list[bytes] = []
        self.size = 0
        self._known = known
        self._names = names
        self._numbers: dict[int, int] = {}
        self._owners: dict[int, list[Any]] = {}
        self._kept: list[Any] = []
        self._sizes: list[tuple[int, int]] = []
        self._weight = _Weight()
        self._parts = 0
        self._within = False

    def mark(self) -> tuple[int, int, int, int]:
        return len(self.buffers), self.size, len(self._kept), self._weight.total

    def back(self, mark: tuple[int, int, int, int]) -> None:
        """Drop what was added since."""
        del self.buffers[mark[0] :]
        self.size = mark[1]
        for obj in self._kept[mark[2] :]:
            self._numbers.pop(id(obj), None)
            if (others := self._owners.get(id(owner_of(obj)))) is not None:
                others[:] = [other for other in others if other is not obj]
        del self._kept[mark[2] :], self._sizes[mark[2] :]
        self._weight, self._within = _Weight(), False
        self._weight.total = mark[3]

    def bytes(self, data: bytes) -> list[int]:
        if self.size + len(data) > MAX_BYTES:
            raise RefusedValueError(f"{(self.size + len(data)) / 2**20:,.0f} MB")
        at = self.size
        self.buffers.append(data)
        self.size += len(data)
        self._weight.add(len(data))
        return [at, len(data)]

    def top(self, value: Any) -> Any:
        """Encode a variable's value: it may also be a module, or an attribute of an installed module."""
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
        """Encode a value."""
        kind = cast("Any", type(value))
        if value is None or kind in (bool, int, float, str):
            if kind is int and int.bit_length(cast("Any", value)) > _MAX_BITS:
                raise RefusedValueError("a number of too many digits")
            self._weight.total += _PART_WEIGHT  # what it is a part of looks whether that is too much
            return value
        return self._referred(value) or self._part(value, kind, depth)

    def _referred(self, value: Any) -> dict[str, Any] | None:
        """Encode a reference to a value that exists already; return ``None`` if it does not."""
        key = id(value)
        if (path := self._before.labels.get(key)) is not None:
            return {"k": "labels of", "v": path}
        if (name := self._known.get(key)) is not None:
            if name and not self._within:
                return {"k": "variable", "v": name}
            raise RefusedValueError("it shares a part with another variable")
        if key in self._places:
            place = self._places[key]
            if place is None or self._within:
                raise RefusedValueError("it shares a part with a module")
            return {"k": "attribute", "v": place}
        if (number := self._numbers.get(key)) is not None:
            self._weight.add(*self._sizes[number])
            return {"k": "same", "v": number}
        return None

    def _part(self, value: Any, kind: Any, depth: int) -> dict[str, Any]:
        self._parts += 1
        if depth > _MAX_DEPTH or self._parts > _MAX_PARTS:
            raise RefusedValueError("it has too many parts")
        mark = self._weight.begin()
        if (send := _SIMPLE.get(kind)) is not None:
            self._weight.end(mark)
            return {"k": kind.__name__, "v": send(value)}
        parts = self._parts_of(value, kind, depth + 1)
        if parts["k"] != "view":
            self._owns(value)
        number = self._numbers[id(value)] = len(self._kept)
        self._kept.append(value)
        self._sizes.append(self._weight.end(mark))
        return {**parts, "n": number}

    def _owns(self, value: Any) -> None:
        """Reject a second array in the same memory: each is sent with a copy of it."""
        if is_array(value):
            others = self._owners.setdefault(id(owner_of(value)), [])
            if len(others) > _MAX_ARRAYS or any(share_memory(value, other) for other in others):
                raise RefusedValueError("it shares its memory with another new value")
            others.append(value)

    def _parts_of(self, value: Any, kind: Any, depth: int) -> dict[str, Any]:
        if kind in (list, tuple, set, frozenset):
            return {"k": kind.__name__, "v": [self.value(each, depth) for each in value]}
        if kind is deque:
            return {"k": "deque", "v": [self.value(each, depth) for each in value], "max": value.maxlen}
        if kind in (dict, OrderedDict, Counter, defaultdict):
            held = cast("dict[Any, Any]", value)
            if getattr(value, "__dict__", None):
                raise RefusedValueError("it has attributes of its own")
            methods: Any = OrderedDict if kind is OrderedDict else dict
            ordered: Any = methods.items(held)
            items = [[self.value(key, depth), self.value(each, depth)] for key, each in ordered]
            made = getattr(value, "default_factory", None)
            if made is not None and _FACTORIES.get(made.__name__) is not made:
                raise RefusedValueError("a dictionary with a function of its own")
            return {"k": kind.__name__, "v": items, "made": None if made is None else made.__name__}
        if kind is Plain:
            self._weight.add(_PART_WEIGHT * len(value.values))
            return {"k": "plain", "v": value.values}
        if kind in (bytes, bytearray):
            return {"k": kind.__name__, "v": self.bytes(bytes(value))}
        send = SENT.get((kind.__module__.partition(".")[0], kind.__name__))
        if send is None:
            name = kind.__name__
            raise RefusedValueError(f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}")
        what, *arguments = self._view(value) or send(value, self._before)
        outside, self._within = self._within, self._within or what in OF_OWN_PARTS
        sent = {"k": what, "v": [self.value(each, depth) for each in arguments]}
        self._within = outside
        return sent

    def _view(self, value: Any) -> tuple[Any, ...] | None:
        """Encode an array that is a view of a variable's; return ``None`` for any other value."""
        if self._within or type(value).__name__ != "ndarray" or value.base is None:
            return None
        for held in self._variables.values():
            if (sent := view_of(value, held)) is not None:
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
    """Decode the values that a copy has sent.

    Args:
        variables: The variables that values may refer to.
        functions: Constructors of the functions that values may be, by name.
        modules: Installed modules that may be imported for them, besides those that are.

    Raises:
        RefusedValueError: They are not what ``dumped`` makes.
    """
    try:
        length = _HEAD.unpack_from(data)[0]
        if length > _MAX_TEXT_BYTES or len(data) > 2 * MAX_BYTES:
            raise RefusedValueError("the values are too large")  # noqa: TRY301 - reported like all that cannot be read
        found: Any = json.loads(data[_HEAD.size : _HEAD.size + length], parse_int=whole_number())
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
        self._made: dict[int, tuple[Any, str, int, int]] = {}
        self._weight = _Weight()
        self._within = False
        self._latest = time.monotonic() + _MAX_SECONDS

    def value(self, sent: Any) -> Any:
        if type(sent) is not dict:
            if isinstance(sent, list):
                raise RefusedValueError("the values cannot be read")
            self._weight.total += _PART_WEIGHT
            return sent
        fields = cast("dict[str, Any]", sent)
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise RefusedValueError("the values have too many parts")
        self._check_time()
        kind, content = fields["k"], fields["v"]
        if kind == "same":
            return self._again(content)
        if kind == "labels of":
            return labels_at(self._variables[content[0]], content[1:])
        if kind in _REFERENCES:
            if self._within:
                raise RefusedValueError("the values cannot be read")
            return self._reference(kind, content)
        mark = self._weight.begin()
        made = self._make(kind, content, fields)
        size = self._weight.end(mark)
        if "n" in fields:
            self._made[int(fields["n"])] = (made, kind, *size)
        return made

    def _check_time(self) -> None:
        if time.monotonic() > self._latest:
            raise RefusedValueError("the values take too long to make")

    def _again(self, number: Any) -> Any:
        made, kind, weight, depth = self._made[number]
        if self._within and kind == "view":
            raise RefusedValueError("the values cannot be read")
        self._weight.add(weight, depth)
        return made

    def _reference(self, kind: str, content: Any) -> Any:
        match kind:
            case "variable":
                return self._variables[content]
            case "function":
                return self._functions[content]()
            case "module":
                return self._module(content)
            case _:
                module, name = content
                return vars(self._module(module))[name]

    def _module(self, name: Any) -> ModuleType:
        """Return an installed module that is imported, or that comes with those that the code imports."""
        if is_installed(name):
            if name not in sys.modules:
                self._untimed(self._import)
            if name in sys.modules:
                return sys.modules[name]
        raise RefusedValueError(f"the module {name} is not an installed one that the code imports")

    def _import(self) -> None:
        """Import the installed modules that the code imports."""
        import importlib

        for name in sorted(self._modules):
            if name not in sys.modules and is_installed(name):
                with contextlib.suppress(Exception, SystemExit):  # it failed there, too, or is a name in a module
                    importlib.import_module(name)

    def _untimed(self, make: Callable[[], Any]) -> Any:
        """Make something; the time of that does not count where modules were imported for it."""
        began, count = time.monotonic(), len(sys.modules)
        made = make()
        if len(sys.modules) > count:
            self._latest += time.monotonic() - began
        return made

    def _make(self, kind: str, content: Any, fields: Mapping[str, Any]) -> Any:
        if kind in _MADE_SIMPLE:
            return _MADE_SIMPLE[kind](content)
        if kind in ("plain", "bytes", "bytearray"):
            return self._counted(kind, content)
        if kind in ("list", "tuple"):
            return (list if kind == "list" else tuple)(map(self.value, content))
        if kind == "deque":
            return deque(map(self.value, content), fields["max"])
        if kind in _KEYED:
            return self._keyed(kind, content, fields)
        outside, self._within = self._within, self._within or kind in OF_OWN_PARTS
        parts = [*map(self.value, content)]
        self._within = outside
        return self._untimed(partial(MADE[kind], *parts))

    def _counted(self, kind: str, content: Any) -> Any:
        """Decode a value that is sent in one piece, which weighs by its length."""
        if kind == "plain":
            plain = Plain(content)
            self._weight.add(_PART_WEIGHT * len(plain.values))
            return plain
        at, length = map(_whole, content)
        data = self._buffers[at : at + length]
        self._weight.add(len(data))
        return (bytes if kind == "bytes" else bytearray)(data)

    def _keyed(self, kind: str, content: Any, fields: Mapping[str, Any]) -> Any:
        """Build a set or dictionary key by key: one call for all keys takes any time where their hashes collide."""
        items: dict[Any, Any] = {}
        is_set = kind in ("set", "frozenset")
        for sent in content:
            key = self.value(sent if is_set else sent[0])
            items[key] = None if is_set else self.value(sent[1])
            self._check_time()
        if is_set:
            return {*items} if kind == "set" else frozenset(items)
        if kind == "defaultdict":
            made = fields["made"]
            return defaultdict(_FACTORIES[made] if made else None, items)
        if kind == "Counter":
            counter: Counter[Any] = Counter()  # not ``Counter[Any]()``, which leaves that in an attribute
            dict[Any, Any].update(counter, items)
            return counter
        if kind == "OrderedDict":
            ordered: Any = OrderedDict  # not ``OrderedDict[Any, Any]``, likewise
            return ordered(items)
        return items


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise RefusedValueError("the values cannot be read")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise RefusedValueError("the values cannot be read")
    return value


_REFERENCES = frozenset({"variable", "function", "module", "attribute"})
_KEYED = frozenset({"set", "frozenset", "dict", "OrderedDict", "Counter", "defaultdict"})
_MADE_SIMPLE: Mapping[str, Callable[[Any], Any]] = {
    "complex": lambda content: complex(*map(_number, content)),
    "range": lambda content: range(*map(_whole, content)),
    "date": lambda content: dt.date.fromisoformat(short_text(content)),
    "timedelta": lambda content: dt.timedelta(*map(_whole, content)),
    "Decimal": lambda content: Decimal(short_text(content)),
    "Fraction": lambda content: Fraction(*map(_whole, content)),
}
