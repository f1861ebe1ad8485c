"""What a line or a cell asks of the agent, and what Tab offers."""
