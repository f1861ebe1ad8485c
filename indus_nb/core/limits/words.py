"""Costs as sentences to users have them."""

from __future__ import annotations

from decimal import Decimal

from indus_nb.base.textcut import counted


def cost_in_words(
    dollars: float, unconfirmed: float = 0.0, *, unpriced: bool = False, before: float | None = None
) -> str:
    """Return a cost as it is shown.

    >>> cost_in_words(0.25), cost_in_words(0.25, 0.061), cost_in_words(0, unpriced=True)
    ('$0.2500', 'at least $0.2500 (up to $0.0610 more for answers that broke off)', 'cost unknown')
    >>> cost_in_words(0.25, unpriced=True)
    '$0.2500 and an unknown cost'
    >>> cost_in_words(0.25, before=0.25)
    '$0.0000 now, $0.2500 before'

    Args:
        dollars: What is known of it, in US dollars.
        unconfirmed: What limits count besides, for answers that were broken off: nobody knows what these cost.
        unpriced: Whether a price is unknown, so that some of it is not in ``dollars``.
        before: The part of ``dollars`` that earlier calls have paid; ``None`` if there were none.
    """
    if before is not None:
        return f"{cost_in_words(max(0.0, dollars - before), unconfirmed, unpriced=unpriced)} now, ${before:.4f} before"
    if unpriced:
        # Of requests of other models, or what servers have reported themselves.
        return f"${dollars:.4f} and an unknown cost" if dollars else "cost unknown"
    if unconfirmed:
        return f"at least ${dollars:.4f} (up to ${unconfirmed:.4f} more for answers that broke off)"
    return f"${dollars:.4f}"


def limit_in_words(dollars: float) -> str:
    """Return a limit as the user has set it.

    >>> limit_in_words(0.5), limit_in_words(1e-7), limit_in_words(20.0)
    ('$0.5', '$0.0000001', '$20')
    """
    return f"${Decimal(f'{dollars:g}'):f}"


def broken_off_in_words(count: int | None, unconfirmed: float) -> str:
    """Return what is known of the cost of answers that were broken off, beyond what has arrived of them.

    >>> broken_off_in_words(2, 5.1158)
    '2 answers; what they cost beyond that is not known (limits count up to $5.12 for them)'
    >>> broken_off_in_words(1, 0.004)
    '1 answer; what it cost beyond that is not known (limits count up to $0.0040 for it)'
    >>> broken_off_in_words(None, 0.004)
    'some answers; what they cost beyond that is not known (limits count up to $0.0040 for them)'
    """
    they, them = ("it", "it") if count == 1 else ("they", "them")
    amount = f"${unconfirmed:.2f}" if unconfirmed >= 1 else f"${unconfirmed:.4f}"
    answers = "some answers" if count is None else counted(count, "answer")
    return f"{answers}; what {they} cost beyond that is not known (limits count up to {amount} for {them})"
