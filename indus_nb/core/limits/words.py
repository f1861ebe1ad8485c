"""Costs as sentences to users have them."""

from __future__ import annotations


def cost_in_words(
    dollars: float, unconfirmed: float = 0.0, *, unpriced: bool = False, before: float | None = None
) -> str:
    """Return a cost as it is shown.

    >>> cost_in_words(0.25), cost_in_words(0.25, 0.061), cost_in_words(0, unpriced=True)
    ('$0.2500', '$0.2500, perhaps up to $0.0610 more', 'cost unknown')
    >>> cost_in_words(0.25, unpriced=True)
    '$0.2500 and an unknown cost'
    >>> cost_in_words(0.25, before=0.25)
    '$0.0000 now, $0.2500 before'

    Args:
        dollars: What is known of it, in US dollars.
        unconfirmed: What may come on top.
        unpriced: Whether a price is unknown, so that some of it is not in ``dollars``.
        before: The part of ``dollars`` that earlier calls have paid; ``None`` if there were none.
    """
    if before is not None:
        return f"{cost_in_words(max(0.0, dollars - before), unconfirmed, unpriced=unpriced)} now, ${before:.4f} before"
    if unpriced:
        # Of requests of other models, or what servers have reported themselves.
        return f"${dollars:.4f} and an unknown cost" if dollars else "cost unknown"
    return f"${dollars:.4f}" + (f", perhaps up to ${unconfirmed:.4f} more" if unconfirmed else "")
