"""The tests, as one package: what they share is in `tests.support`."""
