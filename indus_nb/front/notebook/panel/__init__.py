"""The chat panel: what it shows of a session, and what its pages ask for."""
