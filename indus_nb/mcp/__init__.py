"""Servers of the Model Context Protocol that lend tools."""

from indus_nb.mcp.servers import McpServers

__all__ = ["McpServers"]
