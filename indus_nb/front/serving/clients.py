"""Configuration that a user pastes into other agents, so that they find the tools of a kernel."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from indus_nb.base.errors import UsageError
from indus_nb.base.files import without_home

TOKEN_VARIABLE = "INDUS_TOKEN"  # noqa: S105 - the name of a variable


def check_library() -> None:
    """Import the library that serves; raises ``UsageError`` where it is not installed."""
    try:
        for name in ("mcp.server.lowlevel", "uvicorn"):
            import_module(name)
    except ImportError as error:
        raise UsageError(
            f"Serving tools to other agents needs a package that is missing here ({error.name}). Run "
            '`pip install ".[mcp]"` in the clone of indus_nb, and restart the kernel or the program.'
        ) from error


def in_shell(path: Path) -> str:
    """Write a path for a shell, below the home directory with ``~``.

    >>> in_shell(Path("/tmp/it is here"))
    "'/tmp/it is here'"
    """
    short = without_home(str(path))
    return short if short.startswith("~/") and shlex.quote(short[2:]) == short[2:] else shlex.quote(str(path))


def program(kernel: Path, more: Sequence[str] = ()) -> list[str]:
    """Return the command that serves a kernel's tools over its standard input and output."""
    return ["indus-nb", "--mode", "mcp", "--kernel", str(kernel), *more]


def text_to_paste(kernel: Path | None, url: str, token: Path) -> str:
    """Write configuration to paste for each client, as Markdown; the token is not in it.

    Args:
        kernel: The kernel's connection file, if it is known.
        url: The address of the tools over HTTP.
        token: The file that holds the token.
    """
    parts: list[str] = []
    if kernel is not None:
        line = f"indus-nb --mode mcp --kernel {in_shell(kernel)}"
        server = {"name": "indus", "command": "indus-nb", "args": program(kernel)[1:]}
        parts += [
            "Without a token: the other agent starts a program that uses this kernel. Claude Code, Codex, VS Code:",
            _fenced(
                f"claude mcp add indus -- {line}",
                f"codex mcp add indus -- {line}",
                f"code --add-mcp {shlex.quote(json.dumps(server))}",
            ),
        ]
    secret = f"$(cat {in_shell(token)})"
    parts += [
        "Over HTTP, with questions in this notebook, as long as this kernel serves. Claude Code, Codex:",
        _fenced(
            f'claude mcp add --transport http indus {url} --header "Authorization: Bearer {secret}"',
            f'export {TOKEN_VARIABLE}="{secret}"',
            f"codex mcp add indus --url {url} --bearer-token-env-var {TOKEN_VARIABLE}",
        ),
    ]
    return "\n\n".join(parts)


def _fenced(*commands: str) -> str:
    return "\n".join(["```sh", *commands, "```"])
