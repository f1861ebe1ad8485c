"""The table of verbs: all that a session can be asked to do. A new verb is a class in one of the modules here."""

from collections.abc import Mapping

from indus_nb.front.verbs import program_verbs, prompt_verbs, session_verbs, setting_verbs, tree_verbs
from indus_nb.front.verbs.verb import Call, Encoded, Verb

__all__ = ["VERBS", "Call", "Encoded", "Verb"]

VERBS: Mapping[str, type[Verb]] = {
    name: declared
    for module in (prompt_verbs, session_verbs, setting_verbs, tree_verbs, program_verbs)
    for declared in vars(module).values()
    if isinstance(declared, type) and issubclass(declared, Verb)
    for name in declared.names
}
"""The verbs by their names, in the order of docs/commands.md."""
