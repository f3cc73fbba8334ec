"""Connections to MCP servers, and the catalogue of their tools."""
