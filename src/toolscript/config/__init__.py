"""Reads and checks settings, servers, access tokens and trust."""
