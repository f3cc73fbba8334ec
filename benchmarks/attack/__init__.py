"""Attacks on a running system, in their long versions."""
