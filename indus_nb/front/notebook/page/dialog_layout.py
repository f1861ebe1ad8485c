"""A question's parts as a page lays them out: code and differences as in the finished card, sanitised."""

from __future__ import annotations

from indus_nb.core.session.questions import Question
from indus_nb.front.notebook.page.protocol import DialogLayout, ShownChoice
from indus_nb.render.cards import asked_about
from indus_nb.render.writers import as_html


def layout(question: Question | None) -> DialogLayout | None:
    """Build the layout of a question; ``None`` for one without parts."""
    if question is None:
        return None
    shown = asked_about(question)
    return DialogLayout(
        heading=question.heading,
        warnings=[*question.warnings],
        names=[*question.names],
        html="" if shown is None else as_html(shown),
        outcome=question.outcome,
        choices=[
            ShownChoice(value=choice.option, label=choice.label or choice.option, kind=choice.kind, key=key)
            for choice, key in zip(question.choices, question.keys, strict=True)
        ],
        default=question.default,
        reason=question.takes_reason,
    )
