"""A replacement as the model asks for it; ``edit``, which carries it out, is imported with the first of them."""

from __future__ import annotations

from indus_nb.base.wire_model import wire_field
from indus_nb.tools.tool import Arguments


class Replacement(Arguments):
    """One piece of text to replace."""

    old_text: str = wire_field(description="Text to replace")
    new_text: str = wire_field(description="Text in its place")
