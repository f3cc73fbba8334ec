"""The surfaces: command line, HTTP, MCP and the page; each spells answers for its clients."""
