"""What is shown, as a small tree of blocks, which ``writers`` turns into HTML, Markdown and plain text.

Texts stand in it as models, tools and files gave them: each writer makes them fit for its form, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from indus_nb.render.live import LiveLookup
from indus_nb.tools.todo import TodoList


@dataclass(frozen=True, slots=True)
class Passage:
    """Markdown, as models write it.

    Attributes:
        live: Values for the expressions in it; ``None`` leaves them as code.
    """

    text: str
    live: LiveLookup | None = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """A line of ours; what stands between backticks in it is code."""

    text: str


@dataclass(frozen=True, slots=True)
class Quotation:
    """A text of the user's, word for word."""

    text: str


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Code, or any text that keeps its lines.

    Attributes:
        style: One of ``markup.STYLES``.
        language: The language as it stands behind a fence; empty for none.
    """

    text: str
    style: str = "output"
    language: str = ""


@dataclass(frozen=True, slots=True)
class DiffBlock:
    """Lines with a sign before them, and headings; ``language`` is that of what differs."""

    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class TaskBlock:
    """A list of tasks, open and closed."""

    todos: TodoList


@dataclass(frozen=True, slots=True)
class Remarks:
    """Lines on what a call did, below its output."""

    rows: Sequence[str]


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of as many cells each, below a sentence, which may be empty."""

    title: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class FailureText:
    """A description of what went wrong."""

    text: str


@dataclass(frozen=True, slots=True)
class CardHead:
    """The first line of a tool call's card.

    Attributes:
        tone: The style of the icon.
        hint: The beginning of what is folded away, where there is no ``summary``; for HTML alone.
        result: The outcome, for HTML alone: the others have it below.
        aside: The state or the time.
    """

    icon: str
    tone: str
    name: str
    summary: str = ""
    hint: str = ""
    result: str = ""
    aside: str = ""


@dataclass(frozen=True, slots=True)
class Fold:
    """A line that unfolds to blocks.

    Attributes:
        elsewhere: Where the blocks stand in Markdown, which cannot fold.
    """

    head: Sentence | CardHead
    parts: Sequence[Node]
    opened: bool = False
    elsewhere: Literal["below", "quoted", "left out"] = "below"


@dataclass(frozen=True, slots=True)
class Box:
    """A frame around a block.

    Attributes:
        style: One of ``markup.STYLES``, if any.
        kind: One of ``markup.CLASSES``, if any.
    """

    style: str | None
    kind: str | None
    inner: Node


@dataclass(frozen=True, slots=True)
class Written:
    """A block that was written before, in all three forms."""

    bundle: Mapping[str, str]


Text: TypeAlias = Passage | Sentence | Quotation | CodeBlock | DiffBlock | FailureText
Node: TypeAlias = Text | TaskBlock | Remarks | Grid | CardHead | Fold | Box | Written
