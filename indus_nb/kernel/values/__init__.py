"""Values of the user's variables in prompts: where they stand, and what they are, without running code."""

from indus_nb.kernel.values.filling import filled_in

__all__ = ["filled_in"]
