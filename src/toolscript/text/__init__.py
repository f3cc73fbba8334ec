"""Text: its words, its secrets, and how it is shown."""
