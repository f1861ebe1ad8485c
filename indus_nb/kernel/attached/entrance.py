"""What is sent to a kernel as text: it loads our package there, where that is installed, and leaves nothing else.

Text, for only code of the kernel's own can find out what its environment has. It is written for Python 3.8 on.
"""

# It is for any version of Python from 3.8 on, and for objects of any library:
# pyright: basic

import importlib.util
import json
import os
import sys

_HIDDEN = ("In", "Out", "exit", "quit", "get_ipython", "open")
_MAX_LISTED = 200


def main(request: str) -> None:
    """Carry out a request, and put the answer into the reply's payload."""
    from IPython import get_ipython

    shell = get_ipython()
    given = json.loads(request)
    answer = _attached(shell, given) if given["do"] == "attach" else _listed(shell)
    shell.payload_manager.write_payload({"source": "indus_nb", "to": given["id"], "answer": answer}, single=False)


def _attached(shell, given):
    why, kernel = _obstacle(given["version"]), ""
    if not why:
        try:
            kernel = importlib.import_module("indus_nb.front.notebook").lend(shell)
        except Exception as error:
            why = "indus_nb cannot be used in the environment of this kernel (%s: %s)" % (type(error).__name__, error)
    return {
        "pid": os.getpid(),
        "started": _started(),
        "here": os.path.exists(given["lease"]),
        "why": why,
        "kernel": kernel,
        "environment": {name: value for name, value in os.environ.items() if why and len(value) < 4096},
    }


def _obstacle(version):
    """Return why the package cannot be used; empty if it can."""
    spec = importlib.util.find_spec("indus_nb")
    if spec is None or spec.origin is None:
        return "indus_nb is not installed in the environment of this kernel"
    place = os.path.dirname(os.path.realpath(spec.origin))
    here = os.path.realpath(os.getcwd())
    if "indus_nb" not in sys.modules and here in (place, os.path.dirname(place)):
        return "the working directory of this kernel has a module indus_nb, which may be anything"
    installed = importlib.import_module("indus_nb.version").__version__
    if installed != version:
        return "indus_nb %s is installed in the environment of this kernel, and this is %s" % (installed, version)
    return ""


def _started():
    try:
        with open("/proc/self/stat") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _listed(shell):
    hidden = shell.user_ns_hidden
    listed = [
        [name, type(value).__name__]
        for name, value in dict(shell.user_ns).items()
        if not name.startswith("_") and name not in _HIDDEN and hidden.get(name, shell) is not value
    ]
    return {"listed": listed[:_MAX_LISTED], "more": max(len(listed) - _MAX_LISTED, 0)}
