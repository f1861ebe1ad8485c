"""The interfaces: notebook, console, MCP server, and the chat of Jupyter AI."""
