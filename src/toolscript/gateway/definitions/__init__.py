"""The definitions of tools as they were accepted, and their changes since."""
