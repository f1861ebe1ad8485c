"""The parts of ``%agent``: options, values in prompts, what Tab offers, and the sub-commands."""

from indus_nb.notebook.magic.interpolation import Interpolated, interpolate
from indus_nb.notebook.magic.options import HELP
from indus_nb.notebook.magic.request import Command, Request, literal_lines, parse

__all__ = ["HELP", "Command", "Interpolated", "Request", "interpolate", "literal_lines", "parse"]
