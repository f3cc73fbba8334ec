"""How well skills are found: ``python -m benchmarks.skills``."""
