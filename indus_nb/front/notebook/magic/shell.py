"""Parts of ``%agent`` that a shell needs before its first use: literal lines and Tab completion.

Nothing here, and nothing that it imports, needs more than the standard library and IPython.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indus_nb.core.session.session import AgentSession

_AGENT_LINE = re.compile(
    r"^(?P<before>[ \t]*(?:[^\W\d]\w*[ \t]*=[ \t]*)?)%agent[ \t]+(?P<text>[^\n]*[^\n\\])(?P<end>\n?)$"
)


def literal_lines(lines: list[str]) -> list[str]:
    r"""Rewrite a cell's ``%agent`` lines, and assignments of it, into calls that IPython cannot misread.

    Otherwise a question mark at the end would ask for help on the last word, and a bracket or quote that is not closed
    would swallow the lines below.

    >>> literal_lines(["%agent isn't it (odd?\n"])
    ['get_ipython().run_line_magic(\'agent\', "isn\'t it (odd?")\n']
    >>> literal_lines(["text = %agent why?"])
    ["text = get_ipython().run_line_magic('agent', 'why?')"]

    A cell with triple quotes is left to IPython: the line may stand within a string.
    """
    text = "".join(lines)
    if "%agent" not in text or '"""' in text or "'''" in text or text.lstrip().startswith("%%"):
        return lines
    return [_AGENT_LINE.sub(_as_call, line) for line in lines]


def _as_call(match: re.Match[str]) -> str:
    return f"{match['before']}get_ipython().run_line_magic('agent', {match['text'].strip()!r}){match['end']}"


class QuietStatements(ast.NodeTransformer):
    """AST transformer that keeps a lone ``%agent`` line or cell from displaying the answer that it returns.

    The answer was shown while it came. ``text = %agent …`` still assigns it.
    """

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace the value of such a statement by ``None``; only top-level statements display their value."""
        for statement in node.body if isinstance(node, ast.Module) else ():
            if isinstance(statement, ast.Expr) and _asks_agent(statement.value):
                both = ast.Tuple([statement.value, ast.Constant(None)], ast.Load())
                last = ast.Subscript(both, ast.Constant(1), ast.Load())
                statement.value = ast.fix_missing_locations(ast.copy_location(last, statement.value))
        return node


def _asks_agent(value: ast.expr) -> bool:
    match value:
        case ast.Call(
            func=ast.Attribute(attr="run_line_magic" | "run_cell_magic"), args=[ast.Constant(value="agent"), *_]
        ):
            return True
        case _:
            return False


def help_text() -> str:
    """Return the text that `%agent help` shows."""
    from indus_nb.front.notebook.magic.options import HELP

    return HELP


def install_completion(
    shell: Any,
    session: Callable[[], AgentSession | None],
    arguments: Callable[[str, str], Sequence[str]],
    names: Callable[[], Sequence[str]],
    states: Callable[[], Mapping[str, str]],
) -> Callable[[], None]:
    """Register ``completion`` with the shell's Tab completion.

    IPython before 8.6 completes one line only, and is left as it is.

    Args:
        session: Returns the session, if there is one.
        arguments: Completes the arguments of an extension's command.
        states: Returns the named states, each with where it is.
    """
    completer: Any = import_module("IPython.core.completer")  # its annotations are incomplete
    if not hasattr(completer, "completion_matcher"):
        return lambda: None

    @completer.completion_matcher(priority=1_000, identifier="indus_nb.agent", api_version=2)
    def matcher(context: Any) -> dict[str, Any]:
        offers = None
        if "%agent" in context.full_text:
            lines = context.full_text.split("\n")
            before = [*lines[: context.cursor_line], lines[context.cursor_line][: context.cursor_position]]
            # The user waits for a list, not for an error: their objects and files may be odd in any way.
            with suppress(Exception):
                from indus_nb.front.notebook.magic.completion import complete, sources_of

                offers = complete("\n".join(before), sources_of(shell, session(), arguments, names(), states))
        if offers is None:
            return {"completions": []}
        return {
            "completions": [
                completer.SimpleCompletion(text=text, type=offers.notes.get(text, offers.kind)) for text in offers.texts
            ],
            "matched_fragment": offers.fragment,
            "suppress": True,
            "ordered": True,
        }

    matchers: list[Any] = shell.Completer.custom_matchers
    matchers.append(matcher)

    def undo() -> None:
        with suppress(ValueError):
            matchers.remove(matcher)

    return undo
