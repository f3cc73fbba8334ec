"""The blocks of the guide on frameworks, which the programs run as a reader would."""

import re
from pathlib import Path
from typing import Any

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "frameworks.md"


def names(heading: str) -> dict[str, Any]:
    """Runs the block below a heading, and returns the names that it defines."""
    section = GUIDE.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"<!-- frameworks -->\n```python\n(.*?)```", section, re.DOTALL)
    defined: dict[str, Any] = {"__name__": "guide"}
    exec(compile(code, f"{GUIDE.name}: {heading}", "exec"), defined)  # noqa: S102 - our own page
    return defined
