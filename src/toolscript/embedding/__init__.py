"""Texts to vectors: encoders, the models they run, and the cache of vectors."""
