"""Child processes of calls, with the end of all their descendants."""
