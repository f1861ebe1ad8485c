"""What answers claim, held against what was computed.

Expressions in them have values (``live_answers``), which a session's file holds for the next kernel (``stored``). They
are kept with what they were computed from (``kept``), and are shown as ``outdated`` once that has changed.
``tracing`` finds where each other number comes from: among the ``evidence`` of outputs, or as one that ``pairs`` of
their numbers make.
"""

from indus_nb.kernel.claims.evidence import Kind, Output
from indus_nb.kernel.claims.kept import listed
from indus_nb.kernel.claims.live_answers import LiveAnswers, LiveRun
from indus_nb.kernel.claims.outdated import OutdatedAnswers, OutdatedValue, Show, in_words
from indus_nb.kernel.claims.shown import shown_to_model
from indus_nb.kernel.claims.tracing import Place, Traced, found, trace, untraced

__all__ = [
    "Kind",
    "LiveAnswers",
    "LiveRun",
    "OutdatedAnswers",
    "OutdatedValue",
    "Output",
    "Place",
    "Show",
    "Traced",
    "found",
    "in_words",
    "listed",
    "shown_to_model",
    "trace",
    "untraced",
]
