"""What a shell needs of ``%agent`` before its first use: lines that are kept as they are, and what Tab offers.

Nothing here, and nothing that it imports, needs more than the standard library and IPython.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indus_nb.session.session import AgentSession

_AGENT_LINE = re.compile(r"^(?P<indent>[ \t]*)%agent[ \t]+(?P<text>[^\n]*[^\n\\])(?P<end>\n?)$")


def literal_lines(lines: list[str]) -> list[str]:
    r"""Make calls that Python and IPython cannot misread of the lines of a cell that begin with ``%agent``.

    Otherwise a question mark at the end would ask for help on the last word, and a bracket or quote that is not closed
    would swallow the lines below.

    >>> literal_lines(["%agent isn't it (odd?\n"])
    ['get_ipython().run_line_magic(\'agent\', "isn\'t it (odd?")\n']

    A cell with triple quotes is left to IPython: the line may stand within a string.
    """
    text = "".join(lines)
    if "%agent" not in text or '"""' in text or "'''" in text or text.lstrip().startswith("%%"):
        return lines
    return [_AGENT_LINE.sub(_as_call, line) for line in lines]


def _as_call(match: re.Match[str]) -> str:
    return f"{match['indent']}get_ipython().run_line_magic('agent', {match['text'].strip()!r}){match['end']}"


def install_completion(
    shell: Any, session: Callable[[], AgentSession | None], arguments: Callable[[str, str], Sequence[str]]
) -> Callable[[], None]:
    """Make Tab offer what ``completion`` finds.

    IPython before 8.6 completes one line only, and is left as it is.

    Args:
        shell: The IPython shell.
        session: Gives the session, if there is one.
        arguments: Gives what the arguments of an extension's command may be, of which some is typed.

    Returns:
        Undoes it.
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
                from indus_nb.notebook.magic.completion import complete, sources_of

                offers = complete("\n".join(before), sources_of(shell, session(), arguments))
        if offers is None:
            return {"completions": []}
        return {
            "completions": [completer.SimpleCompletion(text=text, type=offers.kind) for text in offers.texts],
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
