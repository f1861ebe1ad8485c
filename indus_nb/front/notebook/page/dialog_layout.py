"""A question's parts as a page lays them out: code and differences as in the finished card, sanitised."""

from __future__ import annotations

from indus_nb.core.session.questions import Question
from indus_nb.front.notebook.page.protocol import DialogLayout, ShownChoice
from indus_nb.render import markup


def layout(question: Question | None) -> DialogLayout | None:
    """Build the layout of a question; ``None`` for one without parts."""
    if question is None:
        return None
    if question.diff:
        html = markup.coloured_diff(question.diff, question.language)
    else:
        html = markup.highlighted(question.body, question.language or "text")
    return DialogLayout(
        heading=question.heading,
        warnings=[*question.warnings],
        names=[*question.names],
        html=markup.page(html) if question.body or question.diff else "",
        lines=(question.diff or question.body).rstrip("\n").count("\n") + 1,
        outcome=question.outcome,
        choices=[
            ShownChoice(value=choice.option, label=choice.label or choice.option, kind=choice.kind, key=key)
            for choice, key in zip(question.choices, question.keys, strict=True)
        ],
        reason=question.takes_reason,
    )
