"""The options that command lines of benchmarks share."""

import argparse
from pathlib import Path
from typing import NoReturn

WRONG = 2
"""Exit code: something given cannot be used."""


class Parser(argparse.ArgumentParser):
    """An argument parser that answers a mistake with one line."""

    def error(self, message: str) -> NoReturn:
        """One line, without the usage."""
        self.exit(WRONG, f"{self.prog}: {message}\n")

    def add_data(self, *, required: bool = True) -> None:
        """Adds ``--data``, the folder of the datasets."""
        about = "folder of the dataset folders"
        self.add_argument("--data", type=Path, required=required, metavar="DIR", help=about)

    def add_json(self) -> None:
        """Adds ``--json``, the file for all figures."""
        about = "write all figures there too"
        self.add_argument("--json", type=Path, metavar="FILE", help=about)
