"""One question for many rows: what every worker shares, so that nothing is paid twice and no limit is passed."""

from indus_nb.core.limits import Budget, BudgetExhaustedError, Gate, Limiter, Reservation
from indus_nb.fanout.journal import Done, Journal, key_of
from indus_nb.fanout.rows import ITEM, Table, table_of
from indus_nb.fanout.template import Template

__all__ = [
    "ITEM",
    "Budget",
    "BudgetExhaustedError",
    "Done",
    "Gate",
    "Journal",
    "Limiter",
    "Reservation",
    "Table",
    "Template",
    "key_of",
    "table_of",
]
