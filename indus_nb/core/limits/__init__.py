"""Limits shared by workers that ask models side by side: budget, rate and number of requests."""

from indus_nb.core.limits.budget import Budget, BudgetExhaustedError, Reservation, spent_today, watch_spending
from indus_nb.core.limits.gate import Gate
from indus_nb.core.limits.limiter import Limiter
from indus_nb.core.limits.paying import Payer

__all__ = ["Budget", "BudgetExhaustedError", "Gate", "Limiter", "Payer", "Reservation", "spent_today", "watch_spending"]
