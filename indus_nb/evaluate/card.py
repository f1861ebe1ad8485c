"""The card: what an evaluation has shown, as one page; and two evaluations beside each other.

What this module promises: each number on it was measured, with its uncertainty where it is a share; what is missing is
named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from indus_nb.base.errors import UsageError
from indus_nb.base.textcut import counted, one_line
from indus_nb.evaluate.attempts import Attempt
from indus_nb.evaluate.series import Series
from indus_nb.evaluate.statistics import mcnemar, paired_difference, wilson
from indus_nb.render.markdown import literal
from indus_nb.render.markup import escape, markdown_html, page

_HEAD = (
    "",
    "solved",
    "share",
    "95 % interval",
    "requests",
    "tokens read",
    "tokens written",
    "US dollars",
    "seconds",
    "asked",
)
_TEXTS = frozenset(["", "task", "ending", "why", "solved by"])
"""Heads of columns that do not hold numbers."""
_STYLE = (
    "<style>body{font-family:sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "table{display:block;overflow-x:auto;margin:1.5em 0}td,th{padding:.2em .6em}</style>\n"
)
_MAX_LISTED = 200
_MAX_CELL_CHARACTERS = 300


def card(series: Series, expected: int, tasks: str | None = None) -> str:
    """Return the card of an evaluation, as Markdown.

    Args:
        expected: How many trials a whole evaluation has.
        tasks: What tasks were chosen by; ``None`` for all.
    """
    attempts = series.attempts
    solved = sum(each.success for each in attempts)
    low, high = wilson(solved, len(attempts))
    what = f"**{_cell(series.label)}** on the suite {_cell(str(series.about['suite']))}, seed {series.about['seed']}"
    found = f"{solved} of {counted(len(attempts), 'trial')} solved ({_interval(low, high)})."
    if not attempts:
        found = "no trial has a result yet."
    parts = [
        f"# Evaluation of {_cell(series.label)}",
        _conditions(series, tasks),
        f"{what}: {found}",
        *_missing(series, expected),
    ]
    if not attempts:
        return "\n\n".join(parts) + "\n"
    parts += [
        "Requests, tokens, dollars and seconds are means of a trial; `asked` is how often a question ended a prompt.",
        _table(_HEAD, _by_category(attempts)),
        _table(("ending", "trials"), _endings(attempts)),
    ]
    if failed := [each for each in attempts if not each.success]:
        rows = [(_cell(each.task), str(each.trial), each.ending, _cell(each.why)) for each in failed[:_MAX_LISTED]]
        parts += ["## Not solved", _table(("task", "trial", "ending", "why"), rows)]
    return "\n\n".join(parts) + "\n"


def comparison(first: Series, second: Series) -> str:
    """Return what two evaluations differ in on the trials that both have, as Markdown.

    Raises:
        UsageError: They are of other suites or data, or have no trial in common.
    """
    for key in ("suite", "seed"):
        if first.about.get(key) != second.about.get(key):
            raise UsageError(f"The two evaluations differ in their {key}, so their trials are not of the same data.")
    others = {(each.task, each.trial): each for each in second.attempts}
    pairs = [(each, others[each.task, each.trial]) for each in first.attempts if (each.task, each.trial) in others]
    if not pairs:
        raise UsageError("The two evaluations have no trial in common.")
    same = first.label == second.label
    names = ("first", "second") if same else (_cell(first.label), _cell(second.label))
    only = [sum(a.success > b.success for a, b in pairs), sum(b.success > a.success for a, b in pairs)]
    both = sum(a.success and b.success for a, b in pairs)
    agree = [("both", str(both)), *((f"only {name}", str(count)) for name, count in zip(names, only, strict=True))]
    agree.append(("neither", str(len(pairs) - both - sum(only))))
    measures: list[tuple[str, Callable[[Attempt], float], str]] = [
        ("solved", lambda each: float(each.success), "{:.1%}"),
        ("cost in US dollars", lambda each: each.cost, "{:.4f}"),
        ("tokens read", _read, "{:,.0f}"),
        ("tokens written", lambda each: each.tokens.get("output", 0), "{:,.0f}"),
        ("requests", lambda each: each.requests, "{:.2f}"),
        ("seconds", lambda each: each.seconds, "{:.1f}"),
        ("asked", lambda each: each.questions, "{:.2f}"),
    ]
    rows = [_difference(pairs, *measure) for measure in measures]
    agreement = f"{sum(only)} solved by one alone: p = {mcnemar(*only):.4f} (exact McNemar test)."
    parts = [
        f"# {names[0]} and {names[1]}",
        f"{counted(len(pairs), 'trial')} of the same data. {agreement}",
        _table(("solved by", "trials"), agree),
        "Means of a trial, and the difference, second less first, with its 95 % interval (tasks resampled):",
        _table(("", *names, "difference", "95 % interval"), rows),
    ]
    return "\n\n".join(parts) + "\n"


def card_html(card: str) -> str:
    """Return a card as a page of HTML that needs nothing else."""
    title = card.partition("\n")[0].lstrip("# ")
    head = f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>\n'
    return f"{head}{_STYLE}{page(markdown_html(card))}</html>\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---" if name in _TEXTS else "---:" for name in head], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    """Return a text that Markdown shows as it stands, for it may come from an agent."""
    return literal(one_line(text, _MAX_CELL_CHARACTERS))


def _conditions(series: Series, tasks: str | None) -> str:
    about = {"begun": "an unknown day"} | {key: _cell(str(value)) for key, value in series.about.items()}
    chosen = "all tasks" if tasks is None else f"tasks {_cell(tasks)}"
    return (
        f"Version {about['version']}, begun on {about['begun']}; {chosen}; for a prompt at most "
        f"{about['max_turns']} answers and {series.about['timeout']:g} seconds."
    )


def _missing(series: Series, expected: int) -> list[str]:
    missing = expected - len(series.attempts)
    verbs = ("is", "counts") if missing == 1 else ("are", "count")
    sentence = f"{counted(missing, 'trial')} of {expected} {verbs[0]} missing, and {verbs[1]} nowhere."
    problems = [sentence] if missing > 0 else []
    if series.about.get("confined") is False:
        problems.append("Kernels were not confined: nothing kept code from a network or from this program's files.")
    if series.lost:
        problems.append(f"Trials that have no result have cost {series.lost:.4f} US dollars besides.")
    if any(each.cost_unknown for each in series.attempts):
        problems.append("The model's price is unknown, so costs lack what has none.")
    return problems


def _by_category(attempts: Sequence[Attempt]) -> list[tuple[str, ...]]:
    categories = dict.fromkeys(each.category for each in attempts)
    rows = [_row(name, [each for each in attempts if each.category == name]) for name in categories]
    return [*rows, _row("all", attempts)]


def _row(name: str, attempts: Sequence[Attempt]) -> tuple[str, ...]:
    solved = sum(each.success for each in attempts)

    def mean(values: Iterable[float]) -> float:
        return sum(values) / max(len(attempts), 1)

    return (
        _cell(name),
        f"{solved}/{len(attempts)}",
        f"{solved / max(len(attempts), 1):.0%}",
        _interval(*wilson(solved, len(attempts))),
        f"{mean(each.requests for each in attempts):.1f}",
        f"{mean(_read(each) for each in attempts):,.0f}",
        f"{mean(each.tokens.get('output', 0) for each in attempts):,.0f}",
        f"{mean(each.cost for each in attempts):.4f}" + "+" * any(each.cost_unknown for each in attempts),
        f"{mean(each.seconds for each in attempts):.1f}",
        str(sum(each.questions for each in attempts)),
    )


def _read(attempt: Attempt) -> float:
    return sum(attempt.tokens.get(name, 0) for name in ("input", "cacheRead", "cacheWrite"))


def _endings(attempts: Sequence[Attempt]) -> list[tuple[str, str]]:
    return [(ending, str(times)) for ending, times in Counter(each.ending for each in attempts).most_common()]


def _interval(low: float, high: float) -> str:
    return f"{low:.0%} to {high:.0%}"


def _difference(
    pairs: Sequence[tuple[Attempt, Attempt]], name: str, measure: Callable[[Attempt], float], form: str
) -> tuple[str, ...]:
    by_task: dict[str, list[float]] = {}
    for first, second in pairs:
        by_task.setdefault(first.task, []).append(measure(second) - measure(first))
    found = paired_difference(list(by_task.values()))
    means = [sum(measure(pair[side]) for pair in pairs) / len(pairs) for side in (0, 1)]
    shown = [form.format(value) for value in (*means, found.mean, found.low, found.high)]
    return (name, *shown[:3], f"{shown[3]} to {shown[4]}")
