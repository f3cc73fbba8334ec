"""The MCP door: what models see, and how they call it."""
