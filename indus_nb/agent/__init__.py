"""One run of the agent: turns, tool calls, queues and abort."""
