"""Additions of users: extensions, rules of approval, tools of MCP servers, and what comes built in."""
