"""The agent's code in a kernel that it is attached to: sent as text with each request, so that nothing stays.

It imports nothing of this package, which the kernel's environment may not have, and is written for Python 3.8 on.
"""

# It is for any version of Python from 3.8 on, and for objects of any library:
# pyright: basic

import ast
import inspect
import json
import linecache
import os
import signal
import sys
import threading
import traceback
import types

_SENT = 32 << 20
_PIECE = 1 << 16
_ERROR = 20000
_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_BETWEEN_INTERRUPTS = 1.0
_HISTORY, _HISTORY_CHARACTERS = 500, 1 << 20
_OURS = "<indus attached>"
_MISSING = object()
_inventory = globals()
"""Names that ``inventory.py`` defines, which is sent in front of this."""


def main(request):
    """Handle a request, and put the answer into the reply's payload; return a coroutine if the code awaits."""
    from IPython import get_ipython

    shell = get_ipython()
    given = json.loads(request)
    if given["do"] == "run":
        return _run(shell, given)
    answer = {"hello": _hello, "variables": _variables, "traces": _traces, "outlook": _outlook, "lent": _lent}[
        given["do"]
    ](shell, given)
    _reply(shell, given, answer)
    return None


def _reply(shell, given, answer):
    shell.payload_manager.write_payload({"source": "indus_nb", "to": given["id"], "answer": answer}, single=False)


# The kernel


def _hello(shell, given):
    import IPython

    return {
        "pid": os.getpid(),
        "started": _started(),
        "leases": _sees(given["lease"]),
        "python": sys.version.split()[0],
        "ipython": IPython.__version__,
        "extension": _extension(shell) is not None,
        "environment": _environment(),
    }


def _started():
    try:
        with open("/proc/self/stat") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _sees(path):
    """Return whether a file that the agent has locked exists here, and is locked here too."""
    lease = _Lease(path)
    try:
        return lease.held()
    finally:
        lease.close()


def _environment():
    return {name: value for name, value in os.environ.items() if len(value) < 4096}


def _traces(shell, given):
    named = shell.user_ns.get("__vsc_ipynb_file__")
    sources = list(getattr(shell.history_manager, "input_hist_raw", ()))
    ran, left = [], _HISTORY_CHARACTERS
    for source in reversed(sources[-_HISTORY:]):
        left -= len(source)
        ran.append(source if left > 0 else "")
    return {
        "directory": getattr(shell, "starting_dir", None) or os.getcwd(),
        "named": named if isinstance(named, str) else None,
        "session": os.environ.get("JPY_SESSION_NAME", ""),
        "first": max(len(sources) - _HISTORY, 0),
        "ran": ran[::-1],
    }


def _extension(shell):
    """Return what the extension lends, where it is loaded."""
    lend = getattr(sys.modules.get("indus_nb.front.notebook"), "lend", None)
    return None if lend is None else lend(shell)


def _outlook(shell, given):
    """Return the extension's forecast of code, if there is one."""
    lent = _extension(shell)
    return {} if lent is None else {"lent": lent.outlook(given["code"])}


def _variables(shell, given):
    lent = _extension(shell)
    return _inventory["variables"](shell, given) if lent is None else {"text": lent.listing(given["pattern"])}


def _lent(shell, given):
    lent = _extension(shell)
    if lent is None:
        return {}
    try:
        return {"value": getattr(lent, given["verb"])(*given["arguments"])}
    except Exception as error:
        return {"error": str(error), "kind": type(error).__name__}


# Code


class _Lease:
    """A file that the agent holds locked as long as it waits."""

    def __init__(self, path):
        try:
            self._file = os.open(path, os.O_RDWR)
        except OSError:
            self._file = None

    def held(self):
        if self._file is None:
            return False
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return False

    def close(self):
        if self._file is not None:
            os.close(self._file)
            self._file = None


class _Run:
    """One piece of the model's code, as a cell would run it."""

    def __init__(self, shell, given):
        self.shell = shell
        self.given = given
        self.error = None
        self.parts = []
        self.lock = threading.Lock()
        self.runs = False
        self.interrupted = False
        self.over = threading.Event()
        self.left = _SENT
        self.kept = {}
        self.dropped = 0
        self.replaced = []
        self.streams = ()
        self.about = None
        self.lent = None
        self.cancelled = False
        self.history = None
        self.place = self.held = 0
        self.loop = None

    # Before it runs

    def prepare(self):
        shell = self.shell
        try:
            code = self.given["code"]
            transformed = shell.transform_cell(code)
            name = self._name(transformed, code)
            tree = shell.transform_ast(shell.compile.ast_parse(transformed, filename=name))
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            quiet = transformed.rstrip().endswith(";")
            allowed = getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0) if getattr(shell, "autoawait", False) else 0
            flags = shell.compile.flags | allowed
            parts = [(compile(tree, name, "exec", flags, dont_inherit=True), False)]
            if last is not None:
                parts.append((compile(ast.Expression(last.value), name, "eval", flags, dont_inherit=True), not quiet))
            self.parts = parts
        except BaseException as error:
            self.error = error
        return any(part.co_flags & inspect.CO_COROUTINE for part, _ in self.parts)

    def _name(self, transformed, code):
        cache, name = self.shell.compile.cache, self.given["name"]
        try:
            return cache(transformed, name, raw_code=code)
        except TypeError:  # of IPython 7
            return cache(transformed, name)

    # What it prints and displays

    def _replace(self, owner, name, made):
        held = getattr(owner, "__dict__", {}).get(name, _MISSING)
        route = made(getattr(owner, name))
        try:
            setattr(owner, name, route)
        except (AttributeError, TypeError):
            return
        self.replaced.append((owner, name, route, held))

    def route(self):
        for stream in self.streams:
            if stream is not None:
                self._replace(stream, "write", self._bounded)
        self._replace(self.shell.display_pub, "publish", self._small)
        self._replace(self.shell, "ask_exit", self._refused)

    def put_back(self):
        for owner, name, route, held in reversed(self.replaced):
            if getattr(owner, "__dict__", {}).get(name) is route:
                if held is _MISSING:
                    delattr(owner, name)
                else:
                    setattr(owner, name, held)
        self.replaced = []
        if self.streams:
            sys.stdout, sys.stderr = self.streams

    def _bounded(self, before):
        thread = threading.get_ident()

        def write(text):
            if self.over.is_set() or threading.get_ident() != thread or not isinstance(text, str):
                return before(text)
            room, self.left = self.left, max(self.left - len(text), 0)
            for at in range(0, min(len(text), room), _PIECE):
                before(text[at : min(at + _PIECE, room)])
            if len(text) > room:
                _, held = self.kept.get(id(before), (before, ""))
                self.kept[id(before)] = (before, (held + text[max(room, len(text) - _PIECE) :])[-_PIECE:])
                self.dropped += len(text) - room
            return len(text)

        return write

    def send_kept(self):
        self.left = 2 * _SENT
        for before, text in list(self.kept.values()):
            left_out = max(self.dropped - len(text), 0)
            before("\n[%d characters were too many and are left out here]\n%s" % (left_out, text))
        self.kept = {}

    def _small(self, before):
        def publish(data, *args, **kwargs):
            size = sum(len(part) for part in data.values() if isinstance(part, (str, bytes)))
            if size > _SENT:
                data = {"text/plain": "[A display of %d MB was too large, and left out]" % (size >> 20)}
            return before(data, *args, **kwargs)

        return publish

    def _refused(self, _before):
        def ask_exit(*_):
            raise RuntimeError("This would end the user's kernel and all that it holds, so it was not done.")

        return ask_exit

    def show(self, value):
        bundle, metadata = self.shell.display_formatter.format(value)
        is_figure = type(value).__module__.startswith("matplotlib") and hasattr(value, "savefig")
        if is_figure and not any(kind.startswith("image/") for kind in bundle):
            from IPython.core.pylabtools import print_figure

            bundle = dict(bundle, **{"image/png": print_figure(value, base64=True)})
        if bundle:
            self.shell.display_pub.publish(bundle, metadata)

    # While it runs

    def watch(self, lease):
        """Interrupt the code once the agent no longer waits for it: it was aborted, or is gone."""
        try:
            while lease.held():
                if self.over.wait(_SECONDS_BETWEEN_LOOKS):
                    return
            while True:
                with self.lock:
                    if not self.runs:
                        return
                    self.interrupted = True
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                    if self.loop is not None:  # the kernel's handler waits for its loop, which may sleep
                        self.loop.call_soon_threadsafe(int)
                if self.over.wait(_SECONDS_BETWEEN_INTERRUPTS):
                    return
        finally:
            lease.close()

    def begin(self):
        """Return the parts to run: none if the agent has given the code up."""
        if self.given["lease"]:
            lease = _Lease(self.given["lease"])
            if not lease.held():
                lease.close()
                self.cancelled = True
                return []
            self.runs = True
            threading.Thread(target=self.watch, args=(lease,), daemon=True).start()
        self.lent = _extension(self.shell)
        self.streams = (sys.stdout, sys.stderr)
        self.about = types.SimpleNamespace(
            raw_cell=self.given["code"],
            store_history=False,
            silent=False,
            shell_futures=True,
            cell_id=None,
            transformed_cell=None,
        )
        self.history = getattr(self.shell.history_manager, "outputs", None)  # of IPython 9
        if self.history is not None:
            self.place = self.shell.execution_count
            self.held = len(self.history.get(self.place, ()))
        if self.lent is None:  # it would take this for a cell of the user's
            self.shell.events.trigger("pre_run_cell", self.about)
        self.route()
        if self.error is not None:
            raise self.error
        if self.lent is not None:
            self.lent.begin(self.given["call"], self.given["prompt"], self.given["code"])
        return self.parts

    def finish(self):
        """Disarm our interrupt, restore the shell's state, and return how the code ended."""
        if self.cancelled:
            return {"cancelled": True}
        while True:
            try:
                with self.lock:
                    self.runs = False
                for _ in range(100):  # what was sent before is raised here
                    pass
                break
            except KeyboardInterrupt:
                continue
        try:
            return self._ended()
        finally:
            self.over.set()
            self.put_back()
            if self.history is not None and self.place in self.history:
                del self.history[self.place][self.held :]
                if not self.history[self.place]:
                    del self.history[self.place]

    def _ended(self):
        changed = problem = ""
        if self.lent is not None:
            changed, problem = self.lent.end(self.given["call"])
        elif self.about is not None:
            result = types.SimpleNamespace(
                info=self.about,
                result=None,
                execution_count=None,
                error_before_exec=None,
                error_in_exec=self.error,
                success=self.error is None,
            )
            self.shell.events.trigger("post_run_cell", result)
        self.send_kept()
        answer = {
            "changed": changed,
            "notUndoable": problem,
            "pages": self._pages(),
            "environment": _environment(),
        }
        if self.error is not None:
            ended = self.interrupted and _is_interrupt(self.error)
            answer["error"] = "" if ended else _traceback(self.error, self.shell)
            answer["kind"] = type(self.error).__name__
        return answer

    def _pages(self):
        manager = self.shell.payload_manager
        parts = manager.read_payload()
        manager.clear_payload()
        pages = [part.get("data", {}) for part in parts if part.get("source") == "page"]
        return [str(page.get("text/plain", ""))[:_PIECE] for page in pages]


def _is_interrupt(error):
    return isinstance(error, KeyboardInterrupt) or type(error).__name__ == "CancelledError"


def _run(shell, given):
    run = _Run(shell, given)
    if run.prepare() and not given["awaits"]:
        _reply(shell, given, {"awaits": True})
        return None
    if given["awaits"]:
        return _run_awaiting(run)
    try:
        for part, shown in run.begin():
            value = eval(part, shell.user_global_ns, shell.user_ns)
            if shown and value is not None:
                run.show(value)
    except BaseException as error:
        run.error = error
    _reply(shell, given, run.finish())
    return None


async def _run_awaiting(run):
    import asyncio

    shell, given = run.shell, run.given
    run.loop = asyncio.get_running_loop()
    try:
        for part, shown in run.begin():
            value = eval(part, shell.user_global_ns, shell.user_ns)
            if part.co_flags & inspect.CO_COROUTINE:
                value = await value
            if shown and value is not None:
                run.show(value)
    except BaseException as error:
        run.error = error
    _reply(shell, given, run.finish())


def _traceback(error, shell):
    described = traceback.TracebackException.from_exception(error)
    _trim(described, shell, set())
    text = "".join(described.format())
    return text if len(text) <= _ERROR else text[: _ERROR // 2] + "\n…\n" + text[-_ERROR // 2 :]


def _trim(described, shell, seen):
    if described is None or id(described) in seen:
        return
    seen.add(id(described))
    hidden = (os.sep + "IPython" + os.sep, os.sep + "ipykernel" + os.sep)
    kept = []
    for frame in described.stack:
        ours = frame.filename == _OURS or any(part in frame.filename for part in hidden)
        if not ours or "ipykernel_" in frame.filename:
            kept.append(_named(frame, shell))
    if len(kept) > 20:
        kept = kept[:10] + kept[-10:]
    described.stack = traceback.StackSummary.from_list(kept)
    _trim(described.__cause__, shell, seen)
    _trim(described.__context__, shell, seen)


def _named(frame, shell):
    name = getattr(shell.compile, "format_code_name", lambda _: None)(frame.filename)
    if not name:
        return frame
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return traceback.FrameSummary("%s %s" % name, frame.lineno, frame.name, lookup_line=False, line=line)
