"""What answers claim, held against what was computed.

``tracing`` finds where each number of an answer comes from: among the ``evidence`` of outputs, or as one that ``pairs``
of their numbers make.
"""

from indus_nb.kernel.claims.evidence import Kind, Output
from indus_nb.kernel.claims.tracing import Place, Traced, trace, untraced

__all__ = ["Kind", "Output", "Place", "Traced", "trace", "untraced"]
