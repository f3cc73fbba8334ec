"""What every measurement reports about itself, and how its table is printed."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

_PACKAGES = ("toolscript", "numpy", "onnxruntime", "mcp", "starlette", "uvicorn")


def meta(**more: object) -> dict[str, Any]:
    """Commit, machine and versions, so that a figure can be compared with another."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607 - whichever git there is
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "commit": commit.stdout.strip() or None,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "versions": {name: version(name) for name in _PACKAGES},
        **more,
    }


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A Markdown table on standard output."""
    print(f"| {' | '.join(header)} |")
    print(f"|{'|'.join('---' if i == 0 else '--:' for i in range(len(header)))}|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def write(path: Path | None, value: object) -> None:
    """The JSON of a run, where it was asked for."""
    if path is not None:
        path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
        print(f"\nwritten to {path}", file=sys.stderr)
