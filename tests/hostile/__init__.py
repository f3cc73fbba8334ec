"""Hostile files, servers and clients: one test or more for every finding, named after its row."""
