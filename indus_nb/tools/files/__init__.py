"""The tools that work on files, and the resolution of paths."""
