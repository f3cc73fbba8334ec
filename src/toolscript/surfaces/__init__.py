"""The doors: each spells the application's answers in its own dialect."""
