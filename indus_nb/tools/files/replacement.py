"""A replacement as the model asks for it; ``edit``, which carries it out, is imported with the first of them."""

from __future__ import annotations

from indus_nb.base.wire_model import wire_field
from indus_nb.tools.tool import Arguments


class Replacement(Arguments):
    """One piece of text to replace."""

    old_text: str = wire_field(description="The text to replace; it must occur once in the file")
    new_text: str = wire_field(description="What comes in its place")
