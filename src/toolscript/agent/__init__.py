"""Answers a question with tools that a language model chooses."""
