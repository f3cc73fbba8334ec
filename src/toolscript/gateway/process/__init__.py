"""Upstreams that are child processes: started, spoken to and ended."""
