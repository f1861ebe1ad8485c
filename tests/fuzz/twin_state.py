"""One of two kernels that are alike, into which ``twins`` imports this: it tries code, runs it, and tells its state.

The state is read by a fork of the kernel, which may use up what it reads: items of iterators, rows of databases. It is
read by other means than those of the package: what both would overlook is found by what later code prints.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import copyreg
import functools
import gc
import hashlib
import inspect
import io
import json
import os
import random
import re
import resource
import signal
import sys
import sysconfig
import threading
import types
import weakref
from itertools import islice
from pathlib import Path
from typing import Any

from indus_nb.kernel.run.agent_thread import AgentThread, Inbox
from indus_nb.kernel.run.execution import Execution
from indus_nb.kernel.run.watch import Watch
from indus_nb.kernel.trials.trying import Trials

PLAIN = (bool, int, float, complex, str, bytes, range, slice, type(None), type(...), type(NotImplemented))
APART = frozenset(
    {"__dict__", "__weakref__", "__module__", "__annotations__", "__doc__", "_abc_impl", "__slotnames__"}
    | {"__builtins__", "__spec__", "__loader__", "__file__", "__cached__", "__warningregistry__", "__firstlineno__"}
    | {"__static_attributes__", "__annotate_func__", "_abc_registry", "created", "msecs", "relativeCreated"}
    | {"process", "thread", "taskName", "filename", "pathname", "__annotations_cache__", "__abstractmethods__"}
    | {"__vectorcalloffset__", "__conditional_annotations__"}
)
"""What Python or whoever looks at a class or module sets."""
OF_SHELL = frozenset(
    {"In", "Out", "_ih", "_oh", "_dh", "exit", "quit", "open", "get_ipython", "_i", "_ii", "_iii", "_exit_code"}
)
APART_IN_CONTEXT = frozenset({"indus", "paren", "shell", "decim"})
"""The beginnings of names of variables that the kernel sets for each cell, and of one that is a setting of its own."""
SETTINGS = {
    "sys": "getrecursionlimit getswitchinterval getdlopenflags get_asyncgen_hooks get_int_max_str_digits gettrace"
    " getprofile get_coroutine_origin_tracking_depth",
    "gc": "isenabled get_threshold get_debug",
    "threading": "stack_size gettrace getprofile",
    "os": "getcwd get_blocking:0 getpriority:0:0",
    "csv": "list_dialects field_size_limit",
    "socket": "getdefaulttimeout",
    "locale": "setlocale:6",
    "decimal": "getcontext",
    "faulthandler": "is_enabled",
    "tracemalloc": "is_tracing",
    "multiprocessing": "get_start_method",
    "warnings": "filters showwarning",
    "logging": "raiseExceptions lastResort root",
    "mimetypes": "types_map",
    "tempfile": "tempdir",
    "builtins": "print len open ascii",
    "math": "pi sqrt",
    "json": "dumps loads",
    "numpy": "geterr geterrcall getbufsize get_printoptions",
    "numpy.random": "get_state",
    "matplotlib": "rcParams",
    "matplotlib.colormaps": "_cmaps",
    "pandas._config.config": "_global_config",
    "plotly.io._templates": "templates.default",
    "plotly.express": "defaults",
}
"""Of modules that are imported: functions to call, with whole numbers as arguments, and what to read."""


PLACES = tuple(os.path.realpath(sysconfig.get_paths()[each]) for each in ("purelib", "platlib", "stdlib"))
REAL = functools.cache(os.path.realpath)


def of_environment(name: str) -> bool:
    """Whether a module is Python's or an installed one."""
    module = sys.modules.get(name.partition(".")[0])
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    apart = name in ("twin_state", "__main__") or name.startswith("indus_nb")
    return apart or (module is not None and (not file or REAL(file).startswith(PLACES)) and own(module))


def own(module: Any) -> bool:
    return getattr(module, "__spec__", None) is not None or module.__name__.startswith(("pyparsing", "six"))


def is_kept(kind: type, name: str) -> bool:
    """Whether an object of a library's has an attribute for what it found out, to be quicker the next time."""
    member = inspect.getattr_static(kind, name, None)
    computed = hasattr(type(member), "__get__") and not hasattr(type(member), "__set__")
    return "cache" in name or (computed and not isinstance(member, types.FunctionType))


OF_THIS_RUN = re.compile(r"\b\d{14,15}\b|0[xX][0-9a-fA-F]{6,}|ipykernel_\d+\S*|\bid='?\d+|ROOT/tmp/[^'\" ]*")


class Reader:
    """Makes text of objects, in which each one that can be told from others has the place where it was met first."""

    def __init__(self, root: str) -> None:
        self.later: list[tuple[str, Any]] = []
        self._root = root
        self._places: dict[int, str] = {}
        self._memories: dict[int, str] = {}
        self._kept: list[Any] = []

    def words(self, text: str) -> str:
        text = OF_THIS_RUN.sub("#", text.replace(self._root, "ROOT"))
        return text if len(text) < 2000 else hashlib.md5(text.encode(errors="replace")).hexdigest()

    def text(self, value: Any, place: str) -> str:
        kind = type(value)
        if kind in PLAIN:
            return self.words(repr(value))
        if id(value) in self._places and not (kind in (tuple, frozenset) and not value):
            return f"<{self._places[id(value)]}>"
        self._places[id(value)] = place
        self._kept.append(value)
        try:
            return self._of(value, kind, place)
        except Exception as error:
            return f"{kind.__name__}, unreadable: {self.words(repr(error))}"

    def _code(self, code: types.CodeType) -> str:
        constants = [self._code(each) if isinstance(each, types.CodeType) else repr(each) for each in code.co_consts]
        digest = hashlib.md5(code.co_code).hexdigest()[:8]
        return f"code {code.co_name} {digest} {constants} {code.co_names}"

    def items(self, values: Any, place: str) -> str:
        return ", ".join(self.text(each, f"{place}[{at}]") for at, each in enumerate(values))

    def pairs(self, held: Any, place: str) -> str:
        return ", ".join(
            f"{self.text(key, f'{place}.key')}: {self.text(held[key], f'{place}[{key!r:.20}]')}" for key in held
        )

    def _of(self, value: Any, kind: type, place: str) -> str:
        package = kind.__module__.partition(".")[0].strip("_")
        if isinstance(value, types.CodeType):
            return self._code(value)
        if isinstance(value, type):
            return self._of_class(value, place)
        if isinstance(value, types.ModuleType):
            known = of_environment(value.__name__) and sys.modules.get(value.__name__) is value
            return f"module {value.__name__} " + ("" if known else self._names(vars(value), place))
        read = getattr(self, f"_{package}", None)
        if read is not None and (found := read(value, kind, place)) is not None:
            return f"{kind.__name__} {found}"
        return f"{kind.__name__} {self._built_in(value, place)} {self._attributes(value, kind, place)}"

    def _names(self, held: Any, place: str) -> str:
        names = [name for name in sorted(held) if name not in APART | OF_SHELL and not re.fullmatch(r"_+|_\d+", name)]
        return "; ".join(f"{name} = {self.text(held[name], f'{place}.{name}')}" for name in names)

    def _of_class(self, kind: type, place: str) -> str:
        name = f"class {kind.__module__}.{kind.__qualname__}"
        if of_environment(kind.__module__) and kind.__module__ != "__main__":
            return name
        slots = (types.MemberDescriptorType, types.GetSetDescriptorType)
        held = {key: value for key, value in vars(kind).items() if not isinstance(value, slots)}
        return f"{name} of {[each.__name__ for each in kind.__bases__]} {{{self._names(held, place)}}}"

    def _attributes(self, value: Any, kind: type, place: str) -> str:
        if place.count(".") > 9:
            return "…"
        held: dict[str, Any] = {}
        for base in kind.__mro__:
            for name, member in vars(base).items():
                if isinstance(member, types.MemberDescriptorType) and base.__module__ != "builtins":
                    with contextlib.suppress(AttributeError):
                        held[name] = member.__get__(value)
        if isinstance(own := getattr(value, "__dict__", {}), dict):
            held |= {str(name): each for name, each in own.items()}
        if kind.__module__ != "__main__" and of_environment(kind.__module__):
            held = {name: each for name, each in held.items() if not is_kept(kind, name)}
        if not held and kind.__repr__ is not object.__repr__ and not isinstance(value, BUILT_IN):
            return self.words(repr(value))
        return f"{{{self._names(held, place)}}}" if held else ""

    def _built_in(self, value: Any, place: str) -> str:  # noqa: PLR0911 - one for each kind of value
        match value:
            case dict():
                factory = self.words(str(getattr(value, "default_factory", "")))
                return f"{factory} {{{self.pairs({**value}, place)}}}"
            case set() | frozenset():
                return f"{{{', '.join(sorted(self.text(each, f'{place}.item') for each in value))}}}"
            case list() | tuple():
                return f"[{self.items(value, place)}]"
            case bytearray():
                return bytes(value).hex()
            case memoryview():
                return f"{value.readonly} {self.text(value.obj, f'{place}.obj')} {value.tobytes().hex()}"
            case BaseException():
                return f"({self.items(value.args, place)}) {self.text(value.__cause__, f'{place}.cause')}"
            case weakref.ref():
                return f"{self.text(value(), f'{place}()')} {weakref.getweakrefcount(value())}"
            case _ if hasattr(value, "__next__") and not isinstance(value, io.IOBase):
                self.later.append((place, value))
                return "which is read below"
            case _:
                return self._called(value, place)

    def _called(self, value: Any, place: str) -> str:  # noqa: PLR0911 - one for each kind of value
        match value:
            case types.FunctionType():
                cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
                parts = (value.__defaults__, value.__kwdefaults__, cells)
                return f"{self._code(value.__code__)} {self.text(parts, f'{place}()')}"
            case types.MethodType():
                kind = type(value.__self__)
                of_library = kind.__module__ not in ("builtins", "__main__") and of_environment(kind.__module__)
                of = kind.__name__ if of_library else self.text(value.__self__, f"{place}.self")
                return f"{getattr(value.__func__, '__qualname__', '')} of {of}"
            case types.BuiltinFunctionType():
                return f"{value.__qualname__} of {self.text(value.__self__, f'{place}.self')}"
            case classmethod() | staticmethod():
                return self.text(value.__func__, f"{place}()")
            case property():
                return self.items((value.fget, value.fset, value.fdel), place)
            case _ if hasattr(type(value), "cache_info"):
                return self.text(value.__wrapped__, f"{place}()")  # what it has kept of its results is no effect
            case _:
                return ""

    def _collections(self, value: Any, kind: type, place: str) -> str | None:
        return f"{value.maxlen} [{self.items(value, place)}]" if kind.__name__ == "deque" else None

    def _array(self, value: Any, kind: type, place: str) -> str | None:
        return f"{value.typecode} {value.tobytes().hex()}"

    def _functools(self, value: Any, kind: type, place: str) -> str | None:
        if kind.__name__ == "partial":
            parts = (value.func, value.args, value.keywords, vars(value))
            return self.text(parts, f"{place}()")
        return None

    def _io(self, value: Any, kind: type, place: str) -> str | None:
        if value.closed:
            return "closed"
        if kind.__name__ in ("BytesIO", "StringIO"):
            return f"{value.getvalue()!r} at {value.tell()} {self._attributes(value, kind, place)}"
        at = os.lseek(value.fileno(), 0, os.SEEK_CUR) if value.writable() else value.tell()
        return f"{self.words(str(value.name))} {value.mode} at {at}"

    def _thread(self, value: Any, kind: type, place: str) -> str | None:
        return str(value.locked()) if hasattr(value, "locked") else None

    def _ctypes(self, value: Any, kind: type, place: str) -> str | None:
        return bytes(value).hex()

    def _mmap(self, value: Any, kind: type, place: str) -> str | None:
        return "closed" if value.closed else f"{value[:].hex()} at {value.tell()}"

    def _hashlib(self, value: Any, kind: type, place: str) -> str | None:
        return value.hexdigest()

    def _random(self, value: Any, kind: type, place: str) -> str | None:
        return self.words(repr(value.getstate()))

    def _contextvars(self, value: Any, kind: type, place: str) -> str | None:
        if kind.__name__ == "ContextVar":
            return f"{value.name} {self.text(value.get(None), f'{place}()')}"
        listed = sorted(value.items(), key=lambda item: item[0].name) if kind.__name__ == "Context" else ()
        users = [(each.name, held) for each, held in listed if each.name[:5] not in APART_IN_CONTEXT]
        return self.words(str(users))

    def _sqlite3(self, value: Any, kind: type, place: str) -> str | None:
        if kind.__name__ != "Connection":
            return None
        self.later.append((place, value))
        shown = (value.in_transaction, value.isolation_level, value.total_changes)
        return f"{shown} {self.text((value.row_factory, value.text_factory), place)}"

    def _duckdb(self, value: Any, kind: type, place: str) -> str | None:
        self.later.append((place, value))
        return ""

    def _logging(self, value: Any, kind: type, place: str) -> str | None:
        held = {name: each for name, each in vars(value).items() if name not in ("manager", "parent", "_cache")}
        return self._names(held, place)

    def _decimal(self, value: Any, kind: type, place: str) -> str | None:
        return re.sub(r"flags=\[.*?\]", "", repr(value)) if kind.__name__ == "Context" else None

    def _ipykernel(self, value: Any, kind: type, place: str) -> str | None:
        return ""

    def _asyncio(self, value: Any, kind: type, place: str) -> str | None:
        return f"{value.done()} {value.cancelled()}" if hasattr(value, "done") else None

    def _threading(self, value: Any, kind: type, place: str) -> str | None:
        return f"alive: {value.is_alive()}" if hasattr(value, "is_alive") else None

    def _matplotlib(self, value: Any, kind: type, place: str) -> str | None:
        if not hasattr(value, "get_children"):
            return None
        said = [getattr(value, name)() for name in ("get_text", "get_label", "get_visible") if hasattr(value, name)]
        data = value.get_xydata().tobytes().hex() if hasattr(value, "get_xydata") else ""
        return f"{self.words(str(said))} {data} [{self.items(value.get_children(), place)}]"

    def _plotly(self, value: Any, kind: type, place: str) -> str | None:
        if not hasattr(value, "to_json"):
            return None
        kinds = [type(getattr(each, "y", None)).__name__ for each in getattr(value, "data", ())]
        return self.words(f"{kinds} {json.dumps(json.loads(value.to_json()), sort_keys=True)}")

    def _numpy(self, value: Any, kind: type, place: str) -> str | None:  # noqa: PLR0911 - one for each kind of value
        import numpy as np

        match value:
            case np.ndarray():
                content = value.tolist() if value.dtype.hasobject else value.tobytes().hex()
                owner = value
                while (base := getattr(owner, "base", None)) is not None:
                    owner = base
                self._kept.append(owner)
                around = f"{value.shape} {value.flags.writeable} {self._memories.setdefault(id(owner), place)}"
                mask = self.text(getattr(value, "mask", None), f"{place}.mask")
                return f"{value.dtype!r} {around} {self.text(content, f'{place}[]')} {mask}"
            case np.random.Generator() | np.random.RandomState():
                held = value.bit_generator if kind.__name__ == "Generator" else value.get_state()
                return self.text(held, f"{place}.bits") if kind.__name__ == "Generator" else self.words(str(held))
            case np.random.BitGenerator():
                return f"{value.state} {self.text(value.seed_seq, f'{place}.seed')}"
            case np.random.SeedSequence():
                return f"{value.state} {value.n_children_spawned}"
            case np.flatiter() | np.broadcast():
                return f"at {value.index}"
            case np.nditer():
                return f"at {value.iterindex}"
            case np.generic() | np.dtype():
                return f"{value!r}"
            case _:
                return None

    def _pandas(self, value: Any, kind: type, place: str) -> str | None:
        import pandas as pd

        match value:
            case pd.DataFrame() | pd.Series():
                parts = [value] if value.ndim == 1 else [value.iloc[:, at] for at in range(value.shape[1])]
                cells = [(str(part.dtype), getattr(part, "name", None), part.tolist()) for part in parts]
                around = (value.attrs, value.flags.allows_duplicate_labels, *value.axes)
                return f"{self.words(str(cells))} {self.items(around, place)}"
            case pd.Index():
                return self.words(f"{value!r} {value.names} {getattr(value, 'freq', '')} {value.tolist()}")
            case pd.api.extensions.ExtensionArray():
                return self.words(f"{value.dtype!r} {[*value]}")
            case _:
                return None

    def rest(self, value: Any, place: str) -> str:
        """What is left of something that is used up by reading it."""
        with contextlib.suppress(Exception):
            module = type(value).__module__.partition(".")[0].strip("_")
            if module == "sqlite3" and hasattr(value, "iterdump"):
                value.row_factory, value.text_factory = None, str
                value.set_authorizer(None)
                functions = value.execute("select name, narg from pragma_function_list where builtin = 0").fetchall()
                return f"{[*value.iterdump()]} {sorted(functions)} {value.execute('pragma user_version').fetchall()}"
            if module == "duckdb" and hasattr(value, "execute"):
                settings = [str(value.execute(each).fetchall()) for each in DUCKDB]
                return "; ".join(map(self.words, settings)) + str(self._tables(value))
        try:
            return self.items(islice(value, 40), place)
        except Exception as error:
            return self.words(repr(error))

    def _tables(self, connection: Any) -> list[Any]:
        names = [name for (name,) in connection.execute("select table_name from duckdb_tables()").fetchall()]
        return [(name, sorted(map(str, connection.execute(f"from {name}").fetchall()))) for name in sorted(names)]


BUILT_IN = (dict, set, frozenset, list, tuple, bytearray, memoryview, BaseException, weakref.ref, types.FunctionType)
DUCKDB = ("select name, value from duckdb_settings() order by 1", "select * from duckdb_views() where not internal")


NOT_OF_USERS = re.compile(rf"history.sqlite|indusagi-|/fd$|^anon_inode|^socket|\.py|^{sys.prefix}|^{sys.base_prefix}")
"""What this process has open of its own: also modules, which a thread imports."""


def here() -> dict[str, Any]:
    """What a fork of this process does not have."""
    targets: list[str] = []
    for place in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # other threads close theirs
            targets.append(re.sub(r"\[\d+\]", "", str(place.readlink())))
    names = {thread.ident: re.sub(r"\d+", "", thread.name) for thread in threading.enumerate()}
    threads = [names.get(number, "a thread of its own") for number in sys._current_frames()]
    loop = asyncio.get_event_loop()
    tasks = [task for task in asyncio.all_tasks(loop) if getattr(task.get_coro(), "__module__", "") != "ipykernel"]
    coded = [getattr(getattr(task.get_coro(), "cr_frame", None), "f_globals", {}).get("__name__") for task in tasks]
    late = [handle for handle in loop._scheduled if handle.when() > loop.time() + 200]
    return {
        "open files": sorted(target for target in targets if not NOT_OF_USERS.search(target)),
        "threads": sorted(name for name in threads if not name.startswith(("asyncio_", "indus_nb"))),
        "tasks": (coded.count("__main__"), len(late), loop.get_debug(), loop.get_exception_handler()),
        "timers": [signal.getitimer(each)[1] or signal.getitimer(each)[0] > 0 for each in range(3)],
        "blocked signals": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "processors": sorted(os.sched_getaffinity(0)),
        "random": random.getstate(),  # which Python sets anew in a fork
        "limits": [resource.getrlimit(each) for each in range(12)],
    }


def files(root: Path) -> dict[str, str]:
    """All below a directory."""
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        state = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        data = bytes(path.readlink()) if path.is_symlink() else data
        age = int(state.st_mtime) if state.st_mtime < 1.5e9 and not path.is_dir() else "new"
        if "indusagi-" not in str(path) and "__pycache__" not in str(path):
            found[f"file {path.relative_to(root)}"] = f"{state.st_mode:o} {age} {data[:60]!r} {len(data)} {hash(data)}"
    return found


def settings() -> dict[str, Any]:
    """What there is beside variables and files."""
    shell = sys.modules["__main__"].get_ipython()  # type: ignore[attr-defined]
    found: dict[str, Any] = {
        "environment": dict(os.environ),
        "umask": (mask := os.umask(0o77), os.umask(mask))[0],
        "import path": sys.path,
        "import hooks": [sys.meta_path, [getattr(each, "__name__", each) for each in sys.path_hooks]],
        "signal handlers": {int(each): signal.getsignal(each) for each in signal.valid_signals()},
        "exit": atexit._ncallbacks(),
        "finalizers": len(weakref.finalize._registry),
        "context": {
            variable.name: value
            for variable, value in sorted(contextvars.copy_context().items(), key=lambda item: item[0].name)
            if variable.name[:5] not in APART_IN_CONTEXT
        },
        "magics": {kind: sorted(each) for kind, each in shell.magics_manager.magics.items()},
        "formatters": [[str(kind) for kind in f.type_printers] for f in shell.display_formatter.formatters.values()],
        "callbacks": {name: len(each) for name, each in shell.events.callbacks.items()},
        "transformers": [shell.ast_transformers, shell.input_transformers_post, shell.custom_exceptions],
        "traits": {name: getattr(shell, name) for name in sorted(shell.trait_names(config=True))},
        "shell": [*sorted(vars(shell)), shell.execution_count, len(shell.history_manager.input_hist_raw)],
        "aliases": sorted(name for name, _ in shell.alias_manager.aliases),
        "payload": shell.payload_manager.read_payload(),
        "outputs": {str(number): value for number, value in shell.user_ns["Out"].items()},
        "inputs": shell.user_ns["In"],
        "names of sys": sorted(set(vars(sys)) - {"last_type", "last_value", "last_traceback", "last_exc"}),
        "hooks of sys": [named(getattr(sys, each)) for each in ("excepthook", "displayhook", "unraisablehook")],
        "streams": [type(sys.stdout), type(sys.stderr), type(sys.stdin)],
        "builtins": sorted(set(dir(__import__("builtins"))) - {"_"}),
        "not installed": {name: module for name, module in sorted(sys.modules.items()) if not of_environment(name)},
        "gone modules": [name for name in KNOWN if name not in sys.modules],
        "abstract classes": [abstract(each) for each in ("Sized", "Sequence", "Hashable")],
        "figures": sorted(getattr(getattr(sys.modules.get("matplotlib._pylab_helpers"), "Gcf", None), "figs", ())),
        "names of classes": {name: sorted(map(str, vars(kind))) for name, kind in classes()},
        "errors of codecs": [name for name in ("mine", "yours") if handled(name)],
    }
    root = sys.modules["logging"].root
    for name, logger in [("root", root), *sorted(root.manager.loggerDict.items())]:
        used = getattr(logger, "level", 0) or getattr(logger, "handlers", ()) or not getattr(logger, "propagate", True)
        if used and (not of_environment(name) or name == "root" or name not in sys.modules):
            found[f"logger {name}"] = logger
    found["how objects are pickled"] = {
        kind.__name__: made
        for kind, made in sorted(copyreg.dispatch_table.items(), key=str)
        if kind.__module__ == "__main__"
    }
    renderers = sys.modules.get("plotly.io._renderers")
    shown = renderers and renderers.renderers.default
    found["how plotly shows"] = "" if not shown or shown == (renderers.default_renderer or "") else shown
    for name, wanted in SETTINGS.items():
        module = sys.modules.get(name) or getattr(sys.modules.get(name.partition(".")[0]), name.partition(".")[2], None)
        for each in wanted.split() if module is not None else ():
            path, *numbers = each.split(":")
            value = module
            with contextlib.suppress(AttributeError):
                for part in path.split("."):
                    value = getattr(value, part)
                is_asked = isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.MethodType)
                is_asked = is_asked and name not in ("builtins", "math", "json") and path != "showwarning"
                found[f"{name}.{each}"] = value(*map(int, numbers)) if is_asked else value
    return found


def named(function: Any) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', '')}"


def abstract(name: str) -> list[str]:
    found = __import__("_abc")._get_dump(getattr(sys.modules["collections.abc"], name))[0]
    return sorted(kind.__name__ for each in found if (kind := each()) is not None and kind.__module__ == "__main__")


def handled(name: str) -> bool:
    with contextlib.suppress(LookupError):
        return bool(__import__("codecs").lookup_error(name))
    return False


def classes() -> list[tuple[str, type]]:
    names = ("pandas.DataFrame", "pandas.Series", "pathlib.Path", "collections.Counter", "fractions.Fraction")
    held = [(name, getattr(sys.modules.get(name.split(".")[0]), name.split(".")[1], None)) for name in names]
    return [(name, kind) for name, kind in held if kind is not None]


KNOWN = [name for name in ("json", "random", "math", "re", "csv", "colorsys", "decimal") if name in sys.modules]


class Twin:
    """This kernel, of a pair."""

    def __init__(self) -> None:
        self._shell = shell = sys.modules["__main__"].get_ipython()  # type: ignore[attr-defined]
        self._watch, self._thread = Watch(shell), AgentThread()
        self._trials = Trials(shell, self._watch.main, self._watch.routes)
        self._own: dict[str, int] = {}
        self._work, self._root = Path.cwd(), str(Path.cwd().parent)
        self._trial: Any = None
        self._told_of: list[dict[str, str]] = [{}, {}]
        self._apart = {*shell.user_ns}

    def _driven(self, work: Any) -> Any:
        inbox = Inbox()
        with self._watch.main.serving(inbox):
            return self._thread.drive(work, inbox)

    def tried(self, code: str, seconds: float) -> dict[str, Any]:
        """Try code in a copy."""

        async def work() -> dict[str, Any]:
            trial = await self._trials.begin(
                code, seconds, cwd=self._work, readable=[], own=self._own, keys={}, on_text=lambda: None
            )
            await trial.follow()
            trial.discard()
            self._trial, report = trial, trial.report
            effects = [(each.kind, each.what, each.words) for each in trial.effects]
            told = {"how": report.how, "why": report.why, "effects": effects, "holds": trial.holds}
            return told | {"dropped": report.dropped, "printed": self._told(trial.card_text())}

        return self._driven(work)

    def taken(self) -> str:
        """Take over what the last trial made; what it was refused for, if it was."""
        before = self._names()
        try:
            self._trial.take_over(self._shell, self._own)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        self._note(before)
        return ""

    def ran(self, code: str, dropped: list[str]) -> str:
        """Run code really, and return what it printed."""
        before = self._names()
        run = Execution(
            self._shell,
            code,
            name="trial",
            routes=self._watch.routes,
            on_text=lambda: None,
            on_start=lambda _: None,
            on_end=lambda _: None,
        )

        async def work() -> str:
            await self._watch.main.do(run)
            run.discard()
            return self._told(run.card_text())

        found = self._driven(work)
        for name in {*dropped} - before.keys():
            self._shell.user_ns.pop(name, None)
        self._note(before)
        return found

    def _names(self) -> dict[str, int]:
        return {name: id(value) for name, value in self._shell.user_ns.items()}

    def _note(self, before: dict[str, int]) -> None:
        for name, identity in self._names().items():
            held = before.get(name)
            if held != identity and (held is None or self._own.get(name) == held):
                self._own[name] = identity

    def _told(self, text: str) -> str:
        words = re.sub(r'File "ROOT/tmp/[^"]*', 'File "', Reader(self._root).words(text))
        words = re.sub(r"<Figure size \S+ with 0 Axes>", "↓ figure", words)
        return re.sub(r"[\d.]+ [nuµm]?s ± .*", "so long", words)

    def state(self) -> dict[str, str]:
        """Digests of all that there is, by what it is called."""
        gc.collect()  # what waits to be freed has files open
        for value in [*self._shell.user_ns.values()]:
            with contextlib.suppress(ReferenceError):
                if isinstance(value, io.IOBase) and not value.closed and value.writable():
                    value.flush()
        now = here()
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            try:
                signal.alarm(60)
                sys.stdout = sys.stderr = io.StringIO()
                with os.fdopen(writing, "w", errors="replace") as pipe:
                    json.dump(self._read(now), pipe)
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        self._told_of = [self._told_of[1], json.loads(text)]
        return {key: hashlib.md5(each.encode(errors="replace")).hexdigest() for key, each in self._told_of[1].items()}

    def text(self, key: str, which: int) -> str:
        """What was told of something in the last state, or in the one before."""
        return self._told_of[which].get(key, "nothing")

    def _read(self, now: dict[str, Any]) -> dict[str, str]:
        reader = Reader(self._root)
        sys.setrecursionlimit(20_000)
        found = files(self._work)
        space = self._shell.user_ns
        for name in sorted(space.keys() - OF_SHELL - APART):
            if not re.fullmatch(r"_+|_i?\d+|_i+|__\w+__", name):
                found[f"variable {name}"] = reader.text(space[name], name)
        for name, value in (now | settings()).items():
            found[name] = reader.text(value, name)
        for place, value in reader.later:
            found[f"rest of {place}"] = reader.rest(value, place)
        return found


twin: Twin
"""The twin that this kernel is, set by ``twins``."""
