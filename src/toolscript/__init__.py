"""Find the right MCP tool at once."""

__version__ = "0.1.0"
