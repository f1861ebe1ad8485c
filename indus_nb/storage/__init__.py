"""Session files: the tree of entries, its lines, and the file itself."""
