"""The command ``indus-nb setup``: a key for a model, and the extension in each IPython shell and kernel."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from indus_nb.base.errors import UsageError
from indus_nb.base.files import read_file, write_atomically
from indus_nb.front.console.arguments import Parser

_DESCRIPTION = "Asks for a provider and its API key, tests the key with a request that costs nothing, and keeps it."
_EPILOG = """\
The key goes into the system's keyring (pip install ".[keyring]" in the clone of indus_nb), where there is none into
auth.json beside your settings, or nowhere: then the line to set it with is printed. With --ipython no key is asked
for: a line in the default profile of IPython has every shell and every kernel load the extension, so that no notebook
needs `%load_ext indus_nb`."""
_LINE = 'c.InteractiveShellApp.extensions.append("indus_nb.front.notebook")  # by indus-nb setup --ipython'
_FORMER_LINE = 'c.InteractiveShellApp.extensions.append("indus_nb")  # by indus-nb setup --ipython'
_MAX_PROFILE_BYTES = 4 << 20


def set_up(arguments: Sequence[str]) -> int:
    """Carry out the command; return its exit status.

    Raises:
        IndusError: It cannot be done.
    """
    options = _parser().parse_args(arguments)
    if options.forget is not None:
        _say(_forgotten(options.forget))
    elif options.ipython:
        _say(_loaded_no_more() if options.remove else _loaded_always())
    elif options.remove:
        raise UsageError("--remove undoes --ipython: indus-nb setup --ipython --remove. A key: --forget PROVIDER.")
    else:
        _take_key(options.provider)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="indus-nb setup",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--provider", metavar="NAME", help="whose key it is: anthropic, openai, …")
    parser.add_argument("--forget", metavar="PROVIDER", help="remove the provider's key where it is kept, and leave")
    parser.add_argument("--ipython", action="store_true", help="have IPython and its kernels load the extension")
    parser.add_argument("--remove", action="store_true", help="with --ipython: no more")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


# A key


def _take_key(provider: str | None) -> None:
    from indus_nb.core.resources.settings import agent_directory, model_registry
    from indus_nb.start import SessionOptions, open_session
    from indus_nb.start.asking_key import ask_and_take, named
    from indus_nb.start.key_setup import managed, providers, variable_of

    if by := managed():
        raise UsageError(by)
    if provider is not None:
        named(providers(model_registry(agent_directory())), provider)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        name = variable_of(provider or "anthropic") or "the provider's variable"
        raise UsageError(
            f"A key is typed into a terminal, and this is none. Without one set {name} in the environment, or write "
            "the key into auth.json: docs/models.md says how."
        )
    session = open_session(SessionOptions(no_session=True, trust=False), definable=False)
    loop = asyncio.new_event_loop()
    try:
        taken = ask_and_take(session, lambda work: loop.run_until_complete(work()), provider, goes_on=False)
    finally:
        loop.run_until_complete(session.end())
        loop.close()
    _say(taken.text)
    if not taken.kept:
        _say(f"To use it, set it where shells start:\n\n  export {variable_of(taken.model.provider)}='…'")


def _forgotten(provider: str) -> str:
    from indus_nb.core.resources.settings import agent_directory, model_registry

    kept = model_registry(agent_directory()).kept
    if not (had := kept.forget(provider)):
        raise UsageError(f"No key of that provider is kept. Kept are: {', '.join(sorted(kept.providers())) or 'none'}.")
    return f"The key for {provider} is not in {' and '.join(had)} any more."


# The default profile of IPython


def _profile() -> Path:
    given = os.environ.get("IPYTHONDIR")
    return Path(given or Path.home() / ".ipython", "profile_default", "ipython_config.py").expanduser()


def _loaded_always() -> str:
    path = _profile()
    found = _content(path)
    text = found.replace(_FORMER_LINE, _LINE)
    if _LINE in found.splitlines() and text == found:
        return f"{path} has the line already."
    if _LINE not in text.splitlines():
        text += f"{'' if not text or text.endswith(chr(10)) else chr(10)}{_LINE}\n"
    _write(path, text)
    return (
        f"IPython and its kernels load the extension from now on ({path}). "
        "`indus-nb setup --ipython --remove` ends that."
    )


def _loaded_no_more() -> str:
    path = _profile()
    lines = _content(path).splitlines(keepends=True)
    left = [line for line in lines if line.rstrip("\r\n") not in (_LINE, _FORMER_LINE)]
    if left == lines:
        return f"{path} has no such line."
    _write(path, "".join(left))
    return f"The line is gone from {path}."


def _content(path: Path) -> str:
    try:
        return read_file(path, most=_MAX_PROFILE_BYTES).decode()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except ValueError:
        raise UsageError(f"{path} is no UTF-8: add the line by hand: {_LINE}") from None


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror}). The line that has the extension loaded is: {_LINE}"
        ) from None
