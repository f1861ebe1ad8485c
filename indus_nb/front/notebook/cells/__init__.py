"""One prompt in one cell: what runs, what it waits for, what it asks."""
