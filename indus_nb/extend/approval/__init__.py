"""Approval of calls: which are asked about, and what the answer "always" covers."""
