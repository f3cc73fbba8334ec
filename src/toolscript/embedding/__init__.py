"""Texts to vectors: encoders, the models they run, and the cache of what they computed."""
