"""A question about each row, and its limits, checked before anything is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from indus_nb.base.errors import UsageError
from indus_nb.base.files import current_directory
from indus_nb.core.answers import AnswerKind, answer_kind
from indus_nb.core.limits.budget import Budget
from indus_nb.core.limits.limiter import Limiter
from indus_nb.fanout.asking import SYSTEM_PROMPT
from indus_nb.fanout.cascade import SURE, Cascade, Sure
from indus_nb.fanout.contents import RowPrompt
from indus_nb.fanout.engines import Functions
from indus_nb.fanout.journal import stored_model
from indus_nb.fanout.rows import Table
from indus_nb.fanout.template import Template
from indus_nb.start import SessionOptions

PARALLEL = 8
"""Rows that are asked at once unless another number is asked for."""
MAX_PARALLEL = 1000
MAX_TOKENS = 4096
"""Longest answer of a row unless another is asked for, so that little money is reserved for each request."""

RETRY_OPTIONS = frozenset(
    {
        "parallel",
        "rpm",
        "tpm",
        "max_cost",
        "max_tokens",
        "cheap",
        "sure",
        "estimate",
        "batch",
        "over",
        "dedupe",
        "sample",
    }
)
"""Options that ``retry`` takes in place of what they were."""
_KEPT_CHARACTERS = 4096
"""Shortest start of all prompts that is marked to be kept: servers keep 1,024 tokens or more."""
MAX_TURNS = 50
"""Most answers of the model for a row unless another number is asked for: no user watches it."""


class LimitOptions(TypedDict, total=False):
    """Options of all that is asked together; ``agent.map`` explains them."""

    parallel: int
    rpm: float | None
    tpm: float | None
    max_cost: float | None
    max_tokens: int | None
    journal: Path | str | None
    cheap: str | None
    sure: Sure | None
    sessions: bool


class StreamedRowOptions(LimitOptions, total=False):
    """Options of all rows together, also of those that are read later; ``agent.map`` explains them."""

    over: Executor | None
    files: Sequence[str]


class RowOptions(StreamedRowOptions, total=False):
    """Options of all rows together; ``agent.map`` explains them."""

    batch: bool
    dedupe: bool
    sample: int | None
    estimate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuestion:
    """A question about each row, and its limits; see ``agent.map``.

    Raises:
        UsageError: A limit cannot be used, or two of them not together.
    """

    template: Template
    table: Table
    """The rows; those that are read later have none here."""
    kind: AnswerKind | None
    session: SessionOptions
    directory: Path
    parallel: int = PARALLEL
    rpm: float | None = None
    tpm: float | None = None
    max_cost: float | None = None
    max_tokens: int | None = MAX_TOKENS
    journal: Path | str | None = None
    definable: bool = False
    batch: bool = False
    over: Executor | None = None
    dedupe: bool = True
    cheap: str | None = None
    sure: Sure | None = None
    sample: int | None = None
    estimate: bool = False
    sessions: bool = True
    files: Sequence[str] = ()
    files_from: Path = field(default_factory=current_directory)
    """Where relative paths begin, and what files lie within that texts name."""
    cascade: Cascade | None = field(init=False, default=None)
    """When the answer of the cheap model is taken; ``None`` if there is no such model."""
    functions: Functions = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if isinstance(self.parallel, bool) or not 1 <= self.parallel <= MAX_PARALLEL:
            raise UsageError(f"parallel is a whole number from 1 to {MAX_PARALLEL}.")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError("max_tokens is a whole number above zero, or None for the model's own limit.")
        if self.sample is not None and (isinstance(self.sample, bool) or self.sample < 1):
            raise UsageError("sample is a whole number of rows, 1 or more.")
        if self.cheap is not None:
            self._check_cascade()
        elif self.sure is not None:
            raise UsageError("sure says when the answer of a cheap model is taken: name one with cheap.")
        self._check_files()
        Limiter(self.parallel, self.rpm, self.tpm)
        Budget(self.max_cost)
        if self.batch and self.session.tools:
            raise UsageError(
                "Rows of a batch have no tools, for each of their turns would wait for one: leave out tools or batch."
            )
        if self.batch and (self.rpm or self.tpm) is not None:
            raise UsageError("Within a batch Anthropic chooses the rate: leave out rpm and tpm, or batch.")

    def _check_cascade(self) -> None:
        if self.session.tools:
            raise UsageError("Rows with tools are asked once, for tools would do everything again: leave out cheap.")
        if self.batch:
            raise UsageError("A batch of the cheap model would have to end before the other begins: leave out cheap.")
        object.__setattr__(self, "cascade", Cascade(self.kind, SURE if self.sure is None else self.sure))

    def _check_files(self) -> None:
        if isinstance(self.files, str):
            raise UsageError(f"files is a list of columns: [{self.files!r}].")
        if unknown := [name for name in self.files if name not in self.template.columns]:
            raise UsageError(f"files has {unknown[0]!r}, which is no column that the prompt names.")

    def prompt(self, row: Mapping[str, object]) -> RowPrompt:
        """Return the prompt of a row; see ``Template.fill``."""
        return self.template.fill(row, self.files, self.files_from)

    def reads_files(self, row: Mapping[str, object]) -> bool:
        """Return whether ``prompt`` reads images or files for a row."""
        return self.template.reads(row, self.files)

    def has_same_tries(self, before: RowQuestion) -> bool:
        """Return whether what a cheap model answered to another question is of use to this one."""
        forms = [None if each.cascade is None else each.cascade.form for each in (self, before)]
        return self.cheap == before.cheap and forms[0] == forms[1]

    def for_retry(self, changes: Mapping[str, Any], taken: AbstractSet[str] = RETRY_OPTIONS) -> RowQuestion:
        """Return the question for rows without an answer.

        Args:
            changes: Options in place of what they were; ``progress`` is none of the question's.
            taken: The options that there may be.

        Raises:
            TypeError: There is another one.
            UsageError: One cannot be used.
        """
        changed = {name: value for name, value in changes.items() if name != "progress"}
        if unknown := sorted(changed.keys() - taken):
            raise TypeError(f"retry() takes {', '.join(sorted(taken))} and progress, not {unknown[0]!r}")
        usual: dict[str, Any] = {"sample": None, "estimate": False}
        if changed.get("cheap", self.cheap) is None:
            usual["sure"] = None  # it was about the model that is not asked any more
        return replace(self, **{**usual, **changed})

    @property
    def shared_characters(self) -> int:
        """Return how many characters all prompts begin with; 0 if these are too few to be kept by a server."""
        shared = len(self.template.shared)
        return shared if shared >= _KEPT_CHARACTERS else 0

    @property
    def asks_once(self) -> bool:
        """Return whether rows with the same prompt have one answer: not where all are the same, or tools may differ."""
        return self.dedupe and not self.session.tools and bool(self.template.columns)


def question(
    template: str,
    table: Table,
    *,
    session: SessionOptions,
    directory: Path,
    result: object = None,
    functions: Functions | None = None,
    usual_model: Callable[[], tuple[str, str] | None] | None = None,
    **options: Unpack[RowOptions],
) -> RowQuestion:
    """Check what is asked before anything is.

    Args:
        template: The prompt, with ``{column}`` for values of the row.
        session: The options of each session; without tools it also has no instructions of the project.
        directory: The directory of their sessions' files.
        result: The type of the answers; see ``answer_kind``. ``None`` for texts.
        functions: The functions that ``over`` may run.
        usual_model: Returns provider and id of the model to ask where neither the session's options nor the journal
            name one; ``None`` for that of the settings.

    Raises:
        UsageError: The prompt does not fit the data, or a limit or a type cannot be used.
    """
    parsed = Template(template)
    parsed.check(table.columns)
    if not template.strip():
        raise UsageError("The prompt is empty.")
    session = _with_model(session, options.get("journal"), usual_model)
    return RowQuestion(
        template=parsed,
        table=table,
        kind=None if result is None else answer_kind(result),
        session=session if session.tools else _bare(session),
        directory=directory,
        definable=bool(session.tools),
        functions=functions or {},
        **options,
    )


def _with_model(
    session: SessionOptions,
    journal: Path | str | None,
    usual_model: Callable[[], tuple[str, str] | None] | None,
) -> SessionOptions:
    """Return the options with the model to ask if they name none: what a journal holds is another model's else."""
    if session.model is not None or session.provider is not None:
        return session
    stored = None if journal is None else stored_model(journal)
    chosen = usual_model() if stored is None and usual_model is not None else None
    provider, model = chosen or (None, None)
    if stored is not None:
        provider, _, model = stored.partition("/")
    return replace(session, provider=provider, model=model)


def _bare(options: SessionOptions) -> SessionOptions:
    """Return options of rows without tools, which read nothing but their prompt."""
    return replace(
        options,
        tools=(),
        system_prompt=options.system_prompt or SYSTEM_PROMPT,
        use_extensions=False,
        use_skills=False,
        use_prompt_templates=False,
        use_context_files=False,
    )
