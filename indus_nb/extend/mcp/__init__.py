"""Servers of the Model Context Protocol that lend tools: processes and addresses that the settings name."""

from indus_nb.extend.mcp.config import McpServerConfig
from indus_nb.extend.mcp.servers import McpServers, McpTool

__all__ = ["McpServerConfig", "McpServers", "McpTool"]
