"""Values of the user's variables in prompts: their placeholders, and their evaluation without running code."""

from indus_nb.kernel.values.filling import filled_in

__all__ = ["filled_in"]
