"""``toolscript exec``."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from toolscript.config.settings import load_settings
from toolscript.errors import InputError
from toolscript.surfaces.cli.approval_prompt import answering
from toolscript.surfaces.cli.connect import gateway
from toolscript.surfaces.cli.deno_sandbox import MAX_SCRIPT_BYTES, run
from toolscript.surfaces.cli.gateway_client import RemoteClient
from toolscript.surfaces.cli.options import class_option, reading, settings_options
from toolscript.surfaces.cli.output import print_result
from toolscript.surfaces.cli.tool_proxy import ToolProxy
from toolscript.surfaces.cli.types_command import filter_option
from toolscript.text.display import harmless
from toolscript.text.wire_constants import RUN


@click.command("exec")
@click.argument("file", type=click.Path(allow_dash=True, path_type=Path))
@filter_option
@class_option
@settings_options("exec_timeout_s", "exec_memory_mib", "profile", "config", "data_dir")
def execute(file: Path, names: tuple[str, ...], tool_class: str | None, **flags: Any) -> int:
    """Run the script in FILE (-: TypeScript from standard input) against the gateway.

    TypeScript imports the tools with: import { tools } from "toolscript". A file
    that ends in .py is run by the gateway, as a model's script, with its limits. A
    script can only call tools: it has no files, no environment and no address.
    """
    settings = load_settings(flags)
    name, script = _read(file)
    client = gateway(flags)
    if file.suffix == ".py":
        limits = {"--timeout": flags["exec_timeout_s"], "--memory": flags["exec_memory_mib"]}
        given = {"--filter": names or None, "--class": tool_class, **limits}
        if unfit := [flag for flag, value in given.items() if value is not None]:
            raise InputError(f"{', '.join(unfit)}: for TypeScript only; leave it out for Python")
        with answering(client):
            return _run_python(client, script)
    parameters = [*(("filter", name) for name in names), ("compact", 1), ("json", 1)]
    answer = client.get("/runtime/tools.ts", parameters)
    modules = {"script.ts": script, "toolscript.ts": answer["module"]}
    stdin = None if str(file) == "-" else sys.stdin.buffer
    with ToolProxy(client, answer["tools"], tool_class) as proxy, answering(client):
        return run(modules, name, proxy, settings.exec, stdin)


def _run_python(client: RemoteClient, script: str) -> int:
    """Has the gateway run a script; prints its outcome and returns the exit code."""
    params = {"name": RUN, "arguments": {"script": script}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    result = client.post("/message", json.dumps(request).encode())["result"]
    failed = bool(result.get("isError"))
    for block in result["content"]:
        if failed:
            click.echo(harmless(block["text"]), err=True)
        else:
            print_result(block["text"])
    return int(failed)


def _read(file: Path) -> tuple[str, str]:
    """Returns the name and the text of a script."""
    if str(file) == "-":
        data, name = sys.stdin.buffer.read(MAX_SCRIPT_BYTES + 1), "script"
    else:
        with reading(file), file.open("rb") as opened:
            data, name = opened.read(MAX_SCRIPT_BYTES + 1), str(file)
    if len(data) > MAX_SCRIPT_BYTES:
        raise InputError(f"{name} is longer than {MAX_SCRIPT_BYTES} bytes; scripts may not be")
    try:
        return name, data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 at byte {error.start}; save it as such") from None
