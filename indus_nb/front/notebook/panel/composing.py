"""Expansion and completion in a panel's composer: commands, values of variables, cells."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePath

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.messages import Attachment
from indus_nb.base.mistyped import unknown_command
from indus_nb.core.session.session import AgentSession
from indus_nb.front.notebook.page import states
from indus_nb.front.notebook.panel import session_state
from indus_nb.front.notebook.panel.surroundings import Filled, PanelCommand, Surroundings
from indus_nb.safety.key_places import holds_keys
from indus_nb.tools.files.paths import mention
from indus_nb.tools.files.walk import walk

COMMANDS: Mapping[str, PanelCommand] = {
    "new": PanelCommand("Begin a new session"),
    "sessions": PanelCommand("Go on with another session"),
    "tree": PanelCommand("Go back to an earlier point, or fork there"),
    "model": PanelCommand("NAME: talk to another model", whole=False),
    "thinking": PanelCommand("LEVEL: how much the model thinks", whole=False),
    "name": PanelCommand("TEXT: name the session", whole=False),
    "compact": PanelCommand("Summarise the older part; a text says what matters"),
    "export": PanelCommand("Download the session as a web page"),
    "help": PanelCommand("What can be written here"),
}
"""The panel's own commands. Pages carry out ``sessions``, ``tree`` and ``export`` by themselves."""
HELP = """\
Enter sends, Shift+Enter begins a new line. While the agent works Enter steers it, Alt+Enter waits for its end.
Esc stops it; arrow up brings back what you wrote.

@path        a file of the working directory; @"my file" with blanks
@cell 5      the cell that ran as In [5], with its outputs
$name {expr} the value of a variable, or of an expression, with a format as in an f-string: {mean:.2f}
#name        offers your variables

{commands}"""
_COMMAND = re.compile(r"/(?P<name>[a-z]+)(?:[ \t]+(?P<argument>\S.*?))?\s*", re.DOTALL)
_CELL = re.compile(r"(?<!\S)@cell[ \t]*(?P<number>\d{1,6})\b")
_FILE = re.compile(r'(?:^|\s)@(?:"(?P<quoted>[^"\n]*)|(?P<typed>[^\s@]*))$')
_VARIABLE = re.compile(r"(?:^|(?<=[\s(,\[]))[#$](?P<typed>[^\W\d]\w*)?$")
_EXPRESSION = re.compile(r"(?<!\{)\{(?P<typed>[^\W\d]\w*)?$")
_MAX_CELLS = 8
_MAX_CODE_CHARACTERS = 60
_MAX_OFFERS = 50
_MAX_WALKED = 5_000
_WALK_SECONDS = 0.5


def command_of(text: str, session: AgentSession, offered: Mapping[str, PanelCommand]) -> tuple[str, str] | None:
    """Split a prompt into a panel command and its argument.

    Returns:
        The name and the argument, which may be empty; ``None`` if it is a prompt.

    Raises:
        UsageError: It is a command that is not there.
    """
    written = _COMMAND.fullmatch(text)
    own = [each["name"] for each in session.list_commands()]
    if written is None or written["name"] not in offered:
        is_known = session.last_text is not None  # from the first prompt on extensions have their commands
        if is_known and text.startswith("/") and (problem := unknown_command(text, [*offered, *own])) is not None:
            raise UsageError(f"{problem} Nothing was sent: /help lists all. With a blank before it, it is a prompt.")
        return None
    if written["name"] in own:
        return None
    return written["name"], written["argument"] or ""


def offered_commands(surroundings: Surroundings | None) -> dict[str, PanelCommand]:
    """Return the panel's commands by name."""
    return {**COMMANDS, **(surroundings.commands if surroundings is not None else {})}


def commands(session: AgentSession, surroundings: Surroundings | None) -> list[states.Command]:
    """List the slash commands: the session's, and the panel's that these do not override."""
    own = session_state.commands(session)
    names = {each["name"] for each in own}
    return [
        *(
            states.Command(name=name, description=each.description, source="panel", whole=each.whole)
            for name, each in offered_commands(surroundings).items()
            if name not in names
        ),
        *own,
    ]


def help_text(listed: Sequence[states.Command]) -> str:
    """Return the text that ``/help`` shows."""
    width = max(len(each["name"]) for each in listed) + 2
    lines = (f"/{each['name']:{width}}{each['description']}" for each in listed)
    return HELP.replace("{commands}", "\n".join(lines))


async def written_out(
    text: str, surroundings: Surroundings | None, *, literal: bool
) -> tuple[Filled, list[Attachment]]:
    """Fill values into a prompt, and fetch the cells that it mentions.

    Args:
        surroundings: The kernel around the panel; without one everything stays as it is.
        literal: Whether nothing in it stands for a value.

    Raises:
        UsageError: A value or a cell cannot be looked up.
    """
    if surroundings is None:
        return Filled(text), []
    mentions = () if literal else islice(_CELL.finditer(text), 100)
    numbers = dict.fromkeys(int(each["number"]) for each in mentions)
    cells = [await surroundings.cell(number) for number in islice(numbers, _MAX_CELLS)]
    return await surroundings.fill_in(text, literal=literal), cells


# What may follow


async def completions(text: str, session: AgentSession, surroundings: Surroundings | None) -> list[states.Completion]:
    """Return the completions of a prompt.

    Returns:
        Texts that replace the whole prompt, or its last word.
    """
    if text.startswith("/") and " " not in text:
        return [
            {
                "text": f"/{each['name']} ",
                "label": f"/{each['name']}",
                "detail": each["description"],
                "whole": each["whole"],
            }
            for each in commands(session, surroundings)
            if f"/{each['name']}".lower().startswith(text.lower())
        ]
    begun = _FILE.search(text)  # whatever stands in quotation marks is of the name
    if begun is None and surroundings is not None and (variable := _VARIABLE.search(text)):
        return _variables(variable["typed"] or "", surroundings.variables())
    if begun is None and surroundings is not None and (expression := _EXPRESSION.search(text)):
        offered = _variables(expression["typed"] or "", surroundings.variables())
        return [{**each, "text": f"{{{each['label']}}}"} for each in offered]
    if begun is not None:
        typed = begun["typed"] if begun["quoted"] is None else begun["quoted"]
        found = await asyncio.to_thread(_files, session.store.cwd, typed)
        cells = _cells(surroundings.cells()) if surroundings is not None and "cell".startswith(typed) else []
        return [*cells, *found]
    return []


def _cells(ran: Mapping[int, str]) -> list[states.Completion]:
    """List the cells that ran, the newest first."""
    named = [(f"@cell {number}", textcut.one_line(ran[number], _MAX_CODE_CHARACTERS)) for number in sorted(ran)[::-1]]
    return [{"text": text, "label": text, "detail": code} for text, code in named[:_MAX_CELLS]]


def _variables(typed: str, kinds: Mapping[str, str]) -> list[states.Completion]:
    folded = typed.casefold()
    newest_first = [*kinds][::-1]
    names = [name for name in newest_first if name.casefold().startswith(folded)]
    names = names or [name for name in newest_first if folded in name.casefold()]
    names.sort(key=lambda name: name.casefold() != folded)
    return [{"text": f"${name}", "label": name, "detail": kinds[name]} for name in names[:_MAX_OFFERS]]


def _files(directory: Path, typed: str) -> list[states.Completion]:
    """List the files below a directory whose path contains the typed text, best matches first."""
    folded = typed.casefold()
    found = [path for path in _paths(directory) if folded in path.casefold()]

    def rank(path: str) -> tuple[bool, bool, int, str]:
        name = PurePath(path).name.casefold()
        return not path.casefold().startswith(folded), not name.startswith(folded), path.count("/"), path

    return [{"text": mention(path), "label": path, "detail": ""} for path in sorted(found, key=rank)[:_MAX_OFFERS]]


def _paths(directory: Path) -> Iterator[str]:
    """Yield files that are not ignored, hidden or for keys, until a time limit."""
    until = time.monotonic() + _WALK_SECONDS
    for entry, path, is_directory in islice(walk(str(directory)), _MAX_WALKED):
        if time.monotonic() > until:
            return
        parts = PurePath(path).parts
        # These would end the mention.
        if is_directory or any(part.startswith(".") for part in parts) or re.search(r'["\n]', path):
            continue
        if not holds_keys(PurePath(path)) and entry.is_file():
            yield path


def examples(surroundings: Surroundings | None) -> list[str]:
    """Return three example prompts, about the newest variables if there are some."""
    kinds = surroundings.variables() if surroundings is not None else dict[str, str]()
    newest_first = [*kinds][::-1]
    frames = [name for name in newest_first if kinds[name] in ("DataFrame", "LazyFrame", "Table")]
    arrays = [name for name in newest_first if kinds[name] in ("Series", "ndarray", "Tensor")]
    made = [f"What is odd in ${name}?" for name in frames[:1]]
    made += [f"Plot what matters in ${name}." for name in (frames[1:2] or frames[:1] or arrays[:1])]
    made += [f"How do ${frames[0]} and ${frames[1]} belong together?"] if len(frames) > 1 else []
    made += ["What files are here, and what is in them?"]
    made += [] if surroundings is None else ["Which variables do I have?"]
    return [*made, "What can you do here?", "What is in this project's history?"][:3]
