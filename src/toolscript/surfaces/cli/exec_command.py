"""``toolscript exec``."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from toolscript.surfaces.cli.approval_prompt import answering
from toolscript.surfaces.cli.connect import gateway
from toolscript.surfaces.cli.options import reading, settings_options
from toolscript.surfaces.cli.output import print_result
from toolscript.text.display import harmless
from toolscript.text.wire_constants import RUN


@click.command("exec")
@click.argument("file", type=click.Path(allow_dash=True, path_type=Path))
@settings_options("profile", "config", "data_dir")
def execute(file: Path, **flags: Any) -> int:
    """Have the gateway run the Python script in FILE (-: standard input).

    It runs as a model's script, with the same limits, and can only call tools: it
    has no files, no environment and no network.
    """
    with reading(file):
        script = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    client = gateway(flags)
    params = {"name": RUN, "arguments": {"script": script}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    with answering(client):
        result = client.post("/message", json.dumps(request).encode())["result"]
    failed = bool(result.get("isError"))
    for block in result["content"]:
        if failed:
            click.echo(harmless(block["text"]), err=True)
        else:
            print_result(block["text"])
    return int(failed)
