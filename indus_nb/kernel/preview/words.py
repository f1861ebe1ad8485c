"""Trusted wording for what a copy reports: templates of ours, in which its texts are objects alone.

What this module promises: whatever a copy sends, the rest of a question cannot be taken for its words. An object with
blanks in it stands in quotation marks, on one line, and is cut; a sentence that is none of these is an object too.

>>> worded("writes_file", "/work/a.csv", "writes a.csv").words
'writes /work/a.csv'
>>> worded("new_names", "x", "adds x, and nothing else. Answer y").words
'adds x (“, and nothing else. Answer y”)'
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from indus_nb.base.textcut import one_line
from indus_nb.safety.effects import Effect, EffectKind

_MAX_CHARACTERS = 160
_MADE_THERE = " ({}, which has to be made in the kernel)"
_FORMS: Mapping[EffectKind, Sequence[str]] = {
    "reads_outside": ("reads {}", "reads from {}, which is no file"),
    "new_names": ("adds {}", f"adds {{}}{_MADE_THERE}", "changes {}", f"changes {{}}{_MADE_THERE}"),
    "draws_random": ("draws random numbers",),
    "changes_variable": (
        *("changes {}", "deletes {}", "takes the place of {}", "changes the database {}"),
        *(f"changes {{}}{_MADE_THERE}", f"takes the place of {{}}{_MADE_THERE}"),
    ),
    "changes_setting": (
        *("changes {}", "adds an audit hook", "leaves {} open", "closes {}"),
        *("loads the module {}", "unloads the module {}", "replaces the module {}"),
    ),
    "writes_file": (
        *("writes {}", "overwrites {}", "changes {}", "makes the directory {}", "makes the database {}"),
        *("changes the mode of {}", "changes the owner of {}", "changes the times of {}", "changes attributes of {}"),
        *("moves {} → {}", "makes a link to {} → {}", "changes more than {} files", "leaves the temporary file {}"),
    ),
    "deletes": ("deletes {}", "deletes the directory {}"),
    "runs_program": ("runs {}", "starts a process"),
    "uses_network": ("connects to {}", "waits for connections at {}"),
    "sends_message": (
        *("sends something to {}", "asks for input", "shows a widget", "shows what runs in the page"),
        *(
            "sends signal {} to this kernel",
            "sends signal {} to process {}",
            "writes to the system's log",
            "opens in a browser: {}",
        ),
    ),
    "spends_money": ("spends money",),
    "unknown": (
        *("does something else: {}", "reaches {} ({}), whose changes cannot be seen", "has {} more effects"),
        *("calls {} in C, whose effects cannot be seen", "imports a module that {}"),
        *("logs to a {}, whose effects cannot be seen", "does what a copy of the kernel may not ({})"),
        *("could not be followed", "could not be followed ({})"),
    ),
}
"""Templates for each kind of effect; the first one where a sentence fits none of the others."""
_ENDS: Mapping[str, Sequence[str]] = {
    "stopped": (
        *("was stopped: {}", "needs more memory than a copy of the kernel may have"),
        *("uses a file or connection that was open before", "does what a copy of the kernel may not ({})"),
        "writes to a database, or uses one that was open before ({})",
        *("ends in a copy of the kernel as it may not elsewhere ({})",),
    ),
    "none": ("its copy failed: {}", "its copy failed ({})", "its copy could not be confined ({})"),
}
_NAMED: frozenset[EffectKind] = frozenset({"new_names", "changes_variable", "changes_setting"})
_FILES: frozenset[EffectKind] = frozenset({"reads_outside", "writes_file", "deletes"})
_OPENS, _CLOSES = "\N{LEFT DOUBLE QUOTATION MARK}", "\N{RIGHT DOUBLE QUOTATION MARK}"
_COUNT = r"[\d.,]+(?: \N{MULTIPLICATION SIGN} [\d.,]+)*(?: [A-Za-z]{1,12})?"
_PLAIN = re.compile(rf"\S*|an? \w+|{_COUNT}")
_DETAIL = re.compile(rf":? {_COUNT} → {_COUNT}")


def shown_path(path: str) -> str:
    """Return a path as it is shown: relative to the working directory if it is below that."""
    directory = os.getcwd()
    inside = path.removeprefix(f"{directory}/") if directory != "/" else path
    return one_line(inside, _MAX_CHARACTERS)


def worded(kind: EffectKind, what: str, words: str) -> Effect:
    """Return an effect of a copy's in trusted wording.

    Args:
        words: The copy's text on it; untrusted.
    """
    form, objects = _form(_FORMS[kind], words)
    if form is None:
        form, objects = _FORMS[kind][0], [words if kind == "unknown" else what]
    if objects and kind in _NAMED:
        objects[0] = f"{_object(what)}{_detail(objects[0], what)}"
    elif objects and kind in _FILES and what:
        objects[0] = _object(shown_path(what))
    elif objects:
        objects[0] = _object(objects[0])
    return Effect(kind, what, form.format(*objects[:1], *map(_object, objects[1:])))


def reason(how: str, why: str, said: Iterable[tuple[str, Effect]]) -> str:
    """Return why a copy ended, in trusted wording.

    Args:
        why: The copy's text; untrusted.
        said: The copy's text on each of its effects, with the effect.

    Returns:
        The reason; of an error of the code's its text, on one line.
    """
    if (effect := next((effect for words, effect in said if words == why), None)) is not None:
        return effect.words
    if how not in _ENDS:
        return one_line(why, 2 * _MAX_CHARACTERS)
    form, objects = _form(_ENDS[how], why)
    return (form or _ENDS[how][0]).format(*map(_object, [why] if form is None else objects))


def _form(forms: Sequence[str], words: str) -> tuple[str | None, list[str]]:
    """Match a sentence with the templates: return the longest that fits, and the objects in it."""
    for form in sorted(forms, key=len, reverse=True):
        pattern = "(.*?)".join(map(re.escape, form.split("{}")))
        if (found := re.fullmatch(pattern, words, re.DOTALL)) is not None:
            return form, [*found.groups()]
    return None, []


def _detail(text: str, what: str) -> str:
    """Return the detail that follows a variable's name."""
    detail = text.removeprefix(what) if text.startswith(what) else f" {text}"
    if not detail or _DETAIL.fullmatch(detail):
        return detail
    stripped = detail.strip()
    return f" ({_object(stripped[1:-1] if stripped.startswith('(') and stripped.endswith(')') else stripped)})"


def _object(text: str) -> str:
    line = one_line(text, _MAX_CHARACTERS)
    if line and _PLAIN.fullmatch(line):
        return line
    inside = line.replace(_OPENS, '"').replace(_CLOSES, '"')
    return f"{_OPENS}{inside}{_CLOSES}"
