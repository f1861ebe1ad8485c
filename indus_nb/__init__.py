"""A coding agent for notebooks, for programs over stdio, and for Python."""

from indus_nb.version import __version__

__all__ = ["__version__"]
