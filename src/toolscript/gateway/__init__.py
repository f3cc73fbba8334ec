"""Connections to MCP servers, and the catalogue of what they offer."""
