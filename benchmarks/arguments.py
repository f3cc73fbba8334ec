"""What the benchmarks' command lines have in common."""

import argparse
from typing import NoReturn

WRONG = 2
"""Exit code: something given cannot be used."""


class Parser(argparse.ArgumentParser):
    """An argument parser that answers a mistake with one line."""

    def error(self, message: str) -> NoReturn:
        """One line, without the usage."""
        self.exit(WRONG, f"{self.prog}: {message}\n")
