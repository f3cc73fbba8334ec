"""What the Python programs share. Runs with whatever SDK its environment has.

A program is a whole client. Its argument says where the server is: ``url``, or
``config`` and ``server``, the name of an entry in that file. Then each line of
standard input asks for something, and is answered by a line:

    {"do": "tools"}                                    name to description
    {"do": "call", "name": ..., "arguments": {...}}    the result, as on the wire
    {"do": "heard"}                                    how often the list was said to have changed

It ends with its input.
"""

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio.to_thread

WHERE: dict[str, str] = json.loads(sys.argv[1])


def config() -> dict[str, Any]:
    """The client's configuration."""
    return json.loads(Path(WHERE["config"]).read_text("utf-8"))


def entry() -> dict[str, Any]:
    """The server's entry in it."""
    return config()["mcpServers"][WHERE["server"]]


async def answer(**does: Callable[..., Awaitable[Any]]) -> None:
    """Answer until there is no more input."""
    while line := await anyio.to_thread.run_sync(sys.stdin.readline):
        asked = json.loads(line)
        try:
            said = {"answer": await does[asked.pop("do")](**asked)}
        except Exception as error:  # noqa: BLE001 - whatever it is, the test is told
            said = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


def plain(result: Any) -> Any:
    """A result of the SDK's as on the wire."""
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)
