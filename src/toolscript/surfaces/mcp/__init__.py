"""The surface of MCP: what models see, and how they call it."""
