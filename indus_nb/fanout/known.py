"""What is known of rows before they are asked: from earlier calls, a journal, and rows with the same prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Protocol

from indus_nb.base.errors import UsageError
from indus_nb.base.textcut import one_line
from indus_nb.base.wire import dump
from indus_nb.core.answers import AnswerKind, InvalidValueError
from indus_nb.core.limits.paying import answer_cost
from indus_nb.fanout.asking import Asked
from indus_nb.fanout.cascade import Cascade
from indus_nb.fanout.contents import BYTES_A_TOKEN, RowPrompt, images_in, size_of
from indus_nb.fanout.journal import Done, Journal
from indus_nb.fanout.question import RowQuestion
from indus_nb.fanout.results import Estimate, RowAnswer
from indus_nb.fanout.words import rows_of

_MAX_NAME_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class RowToAsk:
    """A row that has no answer yet.

    Attributes:
        number: Its place among all rows, from 0.
        prompt: Its prompt.
        same: How many rows before it have the same one.
        tries: What the cheap model answered before.
        goes_on: Whether these were not taken.
    """

    number: int
    prompt: RowPrompt
    same: int
    tries: Sequence[RowAnswer] = ()
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class CheapModel:
    """A cheap model that is asked first: how, and when its answer is taken."""

    asked: Asked
    cascade: Cascade


class RowSource(Protocol):
    """Rows to ask, and where their results go."""

    async def next(self) -> RowToAsk | None:
        """Return a row that nobody asks as yet; ``None`` after the last one, or after ``stop``."""
        ...

    def put(self, number: int, answer: RowAnswer) -> Sequence[RowAnswer]:
        """Take the result of a row; returns the results of all rows that it answers."""
        ...

    def stop(self) -> None:
        """Give no further row."""
        ...


@dataclass(slots=True)
class KnownRows:
    """What is known of the rows, and becomes known; a ``RowSource`` of those that are left.

    Attributes:
        answers: The result of each so far.
        prompts: The prompt of each, and how many rows before it have the same one.
        stored: How many of them a journal knows.
        copies: Rows without an answer that will have that of another one, by that one's number.
    """

    answers: list[RowAnswer] = field(default_factory=list[RowAnswer])
    prompts: list[tuple[RowPrompt, int]] = field(default_factory=list[tuple[RowPrompt, int]])
    stored: int = 0
    copies: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    waiting: Iterator[int] = field(default_factory=lambda: iter(()))

    async def next(self) -> RowToAsk | None:
        """Return the next row of ``waiting``."""
        number = next(self.waiting, None)
        if number is None:
            return None
        known = self.answers[number]
        return RowToAsk(number, *self.prompts[number], known.tries, known.goes_on)

    def put(self, number: int, answer: RowAnswer) -> Sequence[RowAnswer]:
        """Keep the result of a row, and of those with the same prompt."""
        self.answers[number] = answer
        alike = self.copies.get(number, ())
        for copy in alike:
            self.answers[copy] = copied(answer)
        return [answer, *(self.answers[copy] for copy in alike)]

    def stop(self) -> None:
        """Give no further row."""
        self.waiting = iter(())

    def left(self) -> list[int]:
        """Return the numbers of the rows to ask for."""
        copied = {number for numbers in self.copies.values() for number in numbers}
        known = ((number, row) for number, row in enumerate(self.answers) if number not in copied)
        return [number for number, row in known if not row.answered and row.error is None]


def prompts_of(question: RowQuestion, stopped: Callable[[], bool]) -> list[RowPrompt | UsageError]:
    """Return the prompt of each row, or why it has none; slow where files are read for them.

    Args:
        stopped: Called for each row; no more are read once it returns ``True``.
    """
    prompts: list[RowPrompt | UsageError] = []
    for row in question.table.rows:
        if stopped():
            break
        try:
            prompts.append(question.prompt(row))
        except UsageError as error:
            prompts.append(error)
    return prompts


def without_values(question: RowQuestion) -> str:
    """Say how many rows have nothing where the prompt names a column; empty for none.

    Rows that lack the column itself are not among them: they have an error.
    """
    names = question.template.columns
    counted = Counter(tuple(name for name in names if _is_empty(row.get(name, name))) for row in question.table.rows)
    if not (rows := counted.total() - counted[()]):
        return ""
    shown = [f"`{one_line(name, _MAX_NAME_CHARACTERS)}`" for name in names if any(name in each for each in counted)]
    return f"{rows_of(rows)} {'has' if rows == 1 else 'have'} no value for {' or '.join(shown)}"


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())  # CSV has no other way to say so


def known_rows(
    question: RowQuestion,
    prompts: Sequence[RowPrompt | UsageError],
    earlier: Sequence[RowAnswer],
    journal: Journal | None,
    asked: Asked,
    cheap: CheapModel | None,
) -> KnownRows:
    """Find out what is known of each row.

    Args:
        prompts: The prompts of the rows; of further rows nothing but what is in ``earlier`` is known.
        earlier: The results of an earlier call, one for each row; empty without one.
        asked: How the rows are asked.
        cheap: The cheap model that is asked before; ``None`` without one.
    """
    # One object for all rows of which nothing is known, and lists for those alone that are alike: there may be many.
    nothing = RowAnswer()
    first: dict[RowPrompt, int] = {}
    alike: dict[int, list[int]] = {}
    rows, kept = KnownRows(), Stored(question, journal, asked, cheap)
    for number, prompt in enumerate(prompts):
        if isinstance(prompt, UsageError):
            is_known = bool(earlier) and earlier[number].answered  # before its file went
            rows.answers.append(earlier[number] if is_known else RowAnswer(error=str(prompt)))
            rows.prompts.append(("", 0))
            continue
        same, original = 0, first.setdefault(prompt, number)
        if original != number:
            same = len(alike.setdefault(original, [original]))
            alike[original].append(number)
        known = earlier[number] if earlier else nothing
        stored = kept.of(prompt, same, goes_on=known.goes_on)
        rows.stored += stored is not None
        known = stored if stored is not None and not known.answered else known
        if not known.answered:
            known = nothing.after(known.tries, goes_on=known.goes_on) if known.tries or known.goes_on else nothing
        rows.answers.append(known)
        rows.prompts.append((prompt, same))
    for numbers in alike.values() if question.asks_once else ():
        original = next((number for number in numbers if rows.answers[number].answered), numbers[0])
        open_ = [number for number in numbers if number != original and not rows.answers[number].answered]
        if rows.answers[original].answered:
            for number in open_:
                rows.answers[number] = copied(rows.answers[original])
        elif open_:
            rows.copies[original] = open_
    for number in range(len(prompts), len(question.table.rows)):
        rows.answers.append(earlier[number] if earlier else nothing)
        rows.prompts.append(("", 0))
    return rows


@dataclass(frozen=True, slots=True)
class Stored:
    """What a journal has of rows.

    Attributes:
        journal: The journal; ``None`` for none, which has nothing.
        asked: How the rows are asked.
        cheap: The cheap model that is asked before; ``None`` without one.
    """

    question: RowQuestion
    journal: Journal | None
    asked: Asked
    cheap: CheapModel | None

    def of(self, prompt: RowPrompt, same: int, *, goes_on: bool = False) -> RowAnswer | None:
        """Return what the journal has of a row; ``None`` if it has nothing.

        Args:
            same: How many rows before it have the same prompt.
            goes_on: Whether it is known that what the cheap model said is not taken.
        """
        if self.journal is None:
            return None
        done = self.journal.get(self.asked.key(prompt, same))
        tries: list[RowAnswer] = []
        if (cheap := self.cheap) is not None:
            found = (self.journal.get(cheap.asked.key(prompt, same, again)) for again in range(cheap.cascade.times))
            tries = [_read(cheap.asked.kind, each) for each in found if each is not None]
        if done is None and not tries:
            return None
        known = RowAnswer() if done is None else _read(self.question.kind, done)
        if known.answered:
            return known.after(tries)
        if cheap is not None and not goes_on and cheap.cascade.can_judge(tries):
            taken = cheap.cascade.judged(tries)
            if taken is not None and taken.answered:
                return taken.after(tries)
            goes_on = taken is None
        return RowAnswer().after(tries, goes_on=goes_on)


def _read(kind: AnswerKind | None, done: Done) -> RowAnswer:
    """Return a stored outcome; one of another type, or of a failure, is asked again."""
    if not done.is_good:
        return RowAnswer(error=done.error, cost=done.cost, unconfirmed=done.unconfirmed)
    try:
        value = done.value if kind is None else kind.read(done.value)
    except InvalidValueError:
        return RowAnswer()
    return RowAnswer(value, None, done.cost, done.session, done.value, answered=True, unconfirmed=done.unconfirmed)


def copied(answer: RowAnswer) -> RowAnswer:
    """Return an answer for another row with the same prompt: without its cost, and with a value of its own."""
    value, plain = answer.value, answer.plain
    with suppress(Exception):  # of a type of the user's that cannot be copied
        value, plain = deepcopy((value, plain))
    return replace(answer, value=value, plain=plain, cost=0.0, unconfirmed=0.0, tries=())


def estimated(question: RowQuestion, asked: Asked, cheap: CheapModel | None, prompts: Sequence[RowPrompt]) -> Estimate:
    """Return what rows will cost.

    Args:
        prompts: Those to ask.
        cheap: The cheap model that is asked before; then at least it alone is asked, and at most both.
    """
    usual = _estimate_of(question, asked, prompts)
    if cheap is None:
        return usual
    first, times = _estimate_of(question, cheap.asked, prompts), cheap.cascade.times
    least = None if first.least is None else first.least * times
    most = None if first.most is None or usual.most is None else first.most * times + usual.most
    return Estimate(usual.rows, first.tokens * times, least, most, usual.images)


def _estimate_of(question: RowQuestion, asked: Asked, prompts: Sequence[RowPrompt]) -> Estimate:
    if asked.leading is None or asked.shared is None:
        raise RuntimeError("check() comes first")
    model, shared = asked.shared.model, question.shared_characters
    schema = 0 if asked.kind is None else len(dump(asked.kind.schema))
    fixed = len(asked.leading.system_prompt) + schema
    read = sum(map(size_of, prompts)) + len(prompts) * fixed
    kept = max(0, len(prompts) - 1) * (shared + fixed) if shared else 0  # the first one writes it
    longest = min(model.max_tokens, asked.max_tokens or model.max_tokens)
    least = most = None
    if model.cost.known:
        least = model.cost.usage(input=_tokens(read - kept), cache_read=_tokens(kept), output=0).cost.total
        most = model.cost.usage(input=_tokens(read), output=0).cost.total + len(prompts) * answer_cost(model, longest)
    return Estimate(len(prompts), _tokens(read), least, most, images_in(prompts))


def _tokens(size: int) -> int:
    return -(-size // BYTES_A_TOKEN)
