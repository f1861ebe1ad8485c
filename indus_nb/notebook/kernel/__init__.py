"""The user's kernel: threads, code that runs in it, and its variables."""
