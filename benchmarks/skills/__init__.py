"""How well skills are found, and how quickly with many of them: ``python -m benchmarks.skills``."""
