"""A session and what it is made of: its loop, its file, its settings, its answers and its limits."""
