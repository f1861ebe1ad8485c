"""Claims of answers: the values of expressions in them, kept with what they were computed from."""

from indus_nb.kernel.claims.kept import listed, readings
from indus_nb.kernel.claims.live_answers import LiveAnswers, LiveRun

__all__ = ["LiveAnswers", "LiveRun", "listed", "readings"]
