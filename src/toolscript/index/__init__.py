"""Structures that find the nearest rows."""
