"""Processes that calls start, and their end, down to the last of them."""
