"""The MCP clients of others, as processes that the tests drive."""
