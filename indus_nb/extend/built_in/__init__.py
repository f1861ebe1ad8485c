"""Extensions that come with the package: sub-agents, tools of MCP servers, stream rules, the todo list."""
