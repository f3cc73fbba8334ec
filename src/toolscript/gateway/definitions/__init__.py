"""What the definitions of tools were when they were accepted, and what has changed since."""
