"""Adapters that let agent frameworks and model APIs search tools with toolscript's ranking.

Each module imports its framework, and nothing imports the modules. They take a `Ranker` for tools
in the same process, or `RemoteTools` for those of MCP servers.
"""
