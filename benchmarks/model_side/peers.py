"""FastMCP's search, in an environment of its own."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

from benchmarks.quality.peers import ENVIRONMENT, python

_HOST = Path(__file__).with_name("fastmcp_worker.py")


class FastMcp:
    """A FastMCP server with ``BM25SearchTransform`` over these tools, in a process.

    Args:
        tools: The tools as MCP lists them.
    """

    def __init__(self, tools: Sequence[dict[str, Any]]) -> None:
        self._process = subprocess.Popen(
            [python(ENVIRONMENT), _HOST],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.listed: list[dict[str, Any]] = self._ask({"tools": list(tools)})
        """Its own tools, as a model reads them."""

    @staticmethod
    def is_installed() -> bool:
        """Whether there is an environment of peers."""
        return python(ENVIRONMENT).exists()

    def search(self, query: str, limit: int) -> list[dict[str, Any]]:
        """Returns the hits as it writes them, at most ``limit``."""
        return self._ask({"query": query})[:limit]

    def _ask(self, message: dict[str, Any]) -> Any:
        source, sink = (
            cast("IO[bytes]", self._process.stdin),
            cast("IO[bytes]", self._process.stdout),
        )
        source.write(json.dumps(message).encode() + b"\n")
        source.flush()
        return json.loads(sink.readline())
