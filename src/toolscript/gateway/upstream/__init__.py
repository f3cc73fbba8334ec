"""One upstream: its connection, its messages and its tools."""
