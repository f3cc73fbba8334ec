"""Trains the bundled embedding model on questions about tools.

Outside the package: it needs PyTorch, see ``requirements.txt``. How to run it, and
what was tried, is in ``README.md``.
"""
