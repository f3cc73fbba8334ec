"""Recognizes the entry by which an MCP client starts or reaches toolscript itself."""

import re
from collections.abc import Mapping
from itertools import pairwise
from urllib.parse import urlsplit

from toolscript.config.settings import OPTION
from toolscript.types import ServerSpec

REASON = "it is toolscript itself, as its clients have it, and is left out here"
_PROGRAM = re.compile(r"(?:.*[/\\])?toolscript(?:\.exe|[\[=<>~!@:].*)?")
"""The program, or the package as installers take it: ``toolscript[postgres]==1.0``."""
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def is_itself(spec: ServerSpec, environ: Mapping[str, str]) -> bool:
    """Whether a server is started as ``toolscript mcp``, or is the gateway on this machine."""
    words = re.sub("[\"']", " ", " ".join([spec.command, *spec.args])).split()
    if any(_PROGRAM.fullmatch(one) and other == "mcp" for one, other in pairwise(words)):
        return True
    address, port = urlsplit(spec.url), environ.get("TOOLSCRIPT_PORT") or OPTION["port"].default
    is_here = address.hostname in _LOOPBACK and str(address.port) == str(port)
    return is_here and f"{address.path}/".startswith("/mcp/")
