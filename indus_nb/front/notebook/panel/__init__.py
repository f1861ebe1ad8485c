"""The chat panel: its view of a session, and the requests of its pages."""
