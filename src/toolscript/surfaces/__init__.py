"""The surfaces: command line, HTTP and MCP, each of which spells answers for its clients."""
