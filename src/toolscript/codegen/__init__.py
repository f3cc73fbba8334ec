"""Typed clients: tools as code. Pure: tools in, the text of a module out."""
