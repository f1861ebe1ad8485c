"""The tools that work on files, and which file a path means."""
