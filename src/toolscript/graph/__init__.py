"""A graph of tools used together, learned from calls, and its forecast of the next tool."""
