"""What answers claim, held against what was computed.

``numbers`` and ``dates`` find what a text holds, ``tracing`` where each number of an answer comes from.
"""

from indus_nb.kernel.claims.tracing import Kind, Output, Traced, trace, untraced

__all__ = ["Kind", "Output", "Traced", "trace", "untraced"]
