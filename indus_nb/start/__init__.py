"""Start of a session from the options of a user: settings, model, tools, system prompt and file."""

from indus_nb.start.models import DEFAULT_THINKING_LEVEL, THINKING_LEVELS
from indus_nb.start.opening import open_session
from indus_nb.start.options import SessionOptions

__all__ = ["DEFAULT_THINKING_LEVEL", "THINKING_LEVELS", "SessionOptions", "open_session"]
