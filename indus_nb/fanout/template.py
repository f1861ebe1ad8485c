"""The prompt of a row: a text in which ``{column}`` stands for a value of the row.

What this module promises: what stands in a row is data. It is inserted once and never looked at again, so a value that
holds braces adds no placeholder, and a placeholder names a column and reaches nothing inside of its value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.wire import dump
from indus_nb.fanout.contents import Content, Part, RowPrompt, holds_content, part_in, prompt_of

if TYPE_CHECKING:
    from indus_nb.base.wire import JsonObject

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]+)\}|[{}]")
_MAX_NAMED_COLUMNS = 20
_HERE = Path()


class Template:
    """A text with placeholders, looked through once.

    ``{{`` and ``}}`` stand for single braces, as in Python's formats.

    Raises:
        UsageError: A brace is left open, or a placeholder names no column.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._literals = [""]
        self._names: list[str] = []
        end = 0
        for piece in _PIECE.finditer(text):
            self._literals[-1] += text[end : piece.start()]
            end = piece.end()
            if (name := piece[1]) is not None:
                self._names.append(name.strip())
                self._literals.append("")
            elif len(piece[0]) == 2:
                self._literals[-1] += piece[0][0]
            else:
                line = text.count("\n", 0, piece.start()) + 1
                raise UsageError(
                    f"The prompt has a lone {piece[0]!r} in line {line}. A placeholder is the name of a column in "
                    "braces; a brace that is meant as such is written twice."
                )
        self._literals[-1] += text[end:]

    @property
    def shared(self) -> str:
        """Return what all prompts begin with: the text up to the first placeholder."""
        return self._literals[0] if self._names else ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that the template names, each once."""
        return tuple(dict.fromkeys(self._names))

    def check(self, columns: Iterable[str]) -> None:
        """Raise ``UsageError`` if it names a column that is not among these."""
        known = list(columns)
        if missing := self._missing(known):
            raise UsageError(
                f"The prompt names {missing}, which the data does not have. Its columns are: {_named(known)}."
            )

    def _missing(self, known: Collection[str]) -> str:
        return ", ".join(textcut.one_line(f"{{{name}}}", 100) for name in self.columns if name not in known)

    def reads(self, row: Mapping[str, object], paths: Collection[str] = ()) -> bool:
        """Return whether ``fill`` reads images or files for a row."""
        return any(name in paths or isinstance(row.get(name), Content) for name in self.columns)

    def fill(self, row: Mapping[str, object], paths: Collection[str] = (), directory: Path = _HERE) -> RowPrompt:
        """Return the prompt of a row, for which images and files in it are read once.

        Args:
            row: The values by column: those of ``Table.rows``.
            paths: The columns whose texts are paths.
            directory: Where relative paths begin, and what the files of these columns lie within.

        Raises:
            UsageError: The row lacks a column that is named, or has something there that no prompt is made of.
        """
        try:
            shown = {name: _shown(name, row[name], paths, directory) for name in self.columns}
        except KeyError:
            raise UsageError(
                f"This row has no {self._missing(row)}, which the prompt names. It has: {_named([*row])}."
            ) from None
        parts: list[str | Part] = [self._literals[0]]
        for name, literal in zip(self._names, self._literals[1:], strict=True):
            parts += (shown[name], literal)
        return prompt_of(parts)

    def text_of(self, row: Mapping[str, object]) -> str:
        """Return the prompt of a row that has nothing but text in it.

        Args:
            row: The values by column: those of ``Table.rows``.

        Raises:
            UsageError: The row lacks a column that is named, or has an image or a file there.
        """
        if any(isinstance(row.get(name), Content) for name in self.columns):
            raise UsageError("It holds an image or a file, and only texts can be compared or put together here.")
        return cast("str", self.fill(row))


def _named(columns: Sequence[str]) -> str:
    shown = ", ".join(textcut.one_line(name, 100) for name in columns[:_MAX_NAMED_COLUMNS]) or "none"
    return f"{shown} and {len(columns) - _MAX_NAMED_COLUMNS} more" if len(columns) > _MAX_NAMED_COLUMNS else shown


def _shown(column: str, value: object, paths: Collection[str], directory: Path) -> str | Part:
    if (part := part_in(column, value, paths, directory)) is not None:
        return part
    if value is None:
        return ""
    if holds_content(value):
        raise UsageError(
            f"The column {column!r} holds images, bytes or files within a list or dictionary here. Give each a column "
            "of its own."
        )
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return dump(cast("JsonObject | list[object]", value)).decode()
    return str(value)
