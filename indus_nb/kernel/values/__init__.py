"""Values of the user's variables: described without running code of theirs, and filled into prompts.

``describe`` has a line or more on any value, for prompts, the journal and the tool ``variables``; ``extent`` how much
one holds, for these and for what undo and previews say. ``evaluation`` looks expressions of prompts up.
"""

from indus_nb.kernel.values.filling import filled_in

__all__ = ["filled_in"]
