"""The console's doors: RPC, JSON and text."""
