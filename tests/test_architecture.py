"""The arrows between the layers point down, and no part of the house grows.

Pointing an arrow up is noticed.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.budgets import budgets, weights

ROOT = Path(__file__).parent.parent


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache", "--config", root / "pyproject.toml"],
        cwd=root,
        env={"PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    ignored = shutil.ignore_patterns("__pycache__", "*.onnx", "tokenizer.json")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=ignored)
    return tmp_path


def test_every_contract_is_kept() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        (
            "text/redaction.py",
            "import toolscript.surfaces.server.gateway_file",
            "Arrows point down BROKEN",
        ),
        ("retrieval/fusion.py", "import toolscript.app", "Arrows point down BROKEN"),
        ("app/application.py", "import starlette", "command line BROKEN"),
        ("surfaces/http/routes.py", "import mcp", "know the MCP SDK BROKEN"),
        ("gateway/base.py", "import toolscript.gateway.gateway", "No cycles BROKEN"),
    ],
)
def test_an_arrow_that_points_up_is_noticed(
    copy: Path, module: str, line: str, broken: str
) -> None:
    path = copy / "src" / "toolscript" / module
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    result = lint_imports(copy)
    assert result.returncode != 0
    assert broken in result.stdout


def test_a_module_that_nobody_placed_is_noticed(copy: Path) -> None:
    (copy / "src" / "toolscript" / "stray.py").write_text("")
    result = lint_imports(copy)
    assert result.returncode != 0
    assert "stray" in result.stdout


def test_no_part_weighs_more_than_its_budget() -> None:
    most = budgets()
    over = {
        row: (now, most.get(row, 0)) for row, now in weights().items() if now > most.get(row, 0)
    }
    assert not over, "(now, budget): make it smaller, see tests/budgets.py"
