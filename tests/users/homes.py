"""Home directories with the files of MCP clients, written after their documentation.

``home`` has those of twelve, ``ruled`` those of four that state rules about tools. They have
placeholders for what differs from machine to machine: the directory, a program that is an MCP
server over stdio, and the address of one over HTTP.
"""

import json
import shlex
import sys
from pathlib import Path

from tests.gateways import SCRIPTED

HOME = Path(__file__).parent / "home"
RULED = Path(__file__).parent / "ruled"
NOWHERE = "http://127.0.0.1:9/mcp"
SECRETS = (
    "ghp_Aa0Bb1Cc2Dd3Ee4Ff5Gg6Hh7Ii8Jj9Kk0Ll1",
    "ghp_Zz9Yy8Xx7Ww6Vv5Uu4Tt3Ss2Rr1Qq0Pp9Oo8",
    "sk-wiki-Tt1Uu2Vv3Ww4Xx5Yy6Zz7",
)
"""The plain secrets in these files."""


def furnish(home: Path, url: str = NOWHERE, files: Path = HOME) -> dict[Path, bytes]:
    """Copies the files into a home directory, and returns them.

    Args:
        home: The directory. It gets a program in ``bin``, too: its argument is the name of the
            server, which has a tool for reading and one for writing.
        url: The address of the server over HTTP.
        files: The directory that has the files.
    """
    program = home / "bin" / "server"
    program.parent.mkdir()
    tools = [{"name": f"NAME_{verb}", "inputSchema": {"type": "object"}} for verb in VERBS]
    words = [sys.executable, "-S", "-E", str(SCRIPTED), json.dumps({"tools": tools})]
    script = shlex.join(words).replace("NAME", "'\"$1\"'")
    program.write_text(f"#!/bin/sh\nexec {script}\n", "utf-8")
    program.chmod(0o755)
    for source in (path for path in files.rglob("*") if path.is_file()):
        text = source.read_text("utf-8").replace("@HOME@", str(home)).replace("@URL@", url)
        path = home / source.relative_to(files)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("@SERVER@", str(program)), "utf-8")
        path.chmod(0o640)
    return contents(home)


VERBS = ("read", "write")


def contents(home: Path) -> dict[Path, bytes]:
    """Returns every file of a home directory, but toolscript's data and setup's backups."""
    files = {path for path in home.rglob("*") if path.is_file()} - backups(home)
    return {path: path.read_bytes() for path in files if ".toolscript" not in path.parts}


def backups(home: Path) -> set[Path]:
    """Returns the files with former contents that setup has left in a home directory."""
    return {*home.rglob("*.bak"), *home.rglob("*.bak[0-9]*")}
