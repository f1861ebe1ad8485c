"""What workers that ask models side by side share, so that no budget, no rate and no server's limit is passed."""

from indus_nb.core.limits.budget import Budget, BudgetExhaustedError, Reservation
from indus_nb.core.limits.gate import Gate
from indus_nb.core.limits.limiter import Limiter
from indus_nb.core.limits.paying import Payer

__all__ = ["Budget", "BudgetExhaustedError", "Gate", "Limiter", "Payer", "Reservation"]
