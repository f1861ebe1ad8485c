"""The program: its arguments, its modes, and a client for RPC mode."""
