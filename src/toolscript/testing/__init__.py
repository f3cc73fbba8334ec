"""What tests of programs that use toolscript need: a server, an encoder and a client.

- `scripted_server` is the entry of an MCP server that answers as a script says.
- `WordEncoder` embeds texts without a model: the same words give the same vector.
- `running_client` is an application in this process that a test can call directly.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolscript.testing.in_process_client import InProcessClient, running_client
    from toolscript.testing.word_encoder import WordEncoder

__all__ = ["InProcessClient", "WordEncoder", "running_client", "scripted_server", "tool"]


def tool(name: object, description: str = "", **more: Any) -> dict[str, Any]:
    """Returns a tool for `scripted_server`, as MCP lists it.

    Args:
        name: The tool's name, sent as it is.
        description: The tool's description.
        more: Fields to add or replace, such as ``inputSchema``, which allows any arguments here.
    """
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}


def scripted_server(*tools: object, **script: Any) -> dict[str, Any]:
    """Returns the entry of a server for ``mcpServers`` of a configuration.

    The server is a real process that starts within milliseconds.

    Args:
        tools: What it lists; see `tool`.
        script: How it answers, such as ``results={"add": {"content": []}}``: the keys are
            described in ``server_program.py`` beside this file.
    """
    program = Path(__file__).with_name("server_program.py")
    script = {"tools": list(tools), **script}
    return {"command": sys.executable, "args": ["-S", "-E", str(program), json.dumps(script)]}


def __getattr__(name: str) -> Any:
    """Returns a name whose module is imported only now: the server's process needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "word_encoder" if name == "WordEncoder" else "in_process_client"
    return getattr(import_module(f"{__name__}.{module}"), name)
