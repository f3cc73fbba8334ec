"""``toolscript call`` and ``toolscript exec``."""

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from toolscript.errors import InputError
from toolscript.surfaces.cli.approval_prompt import answering
from toolscript.surfaces.cli.connect import connected, gateway
from toolscript.surfaces.cli.gateway_client import target
from toolscript.surfaces.cli.options import class_option, output_choice, reading, settings_options
from toolscript.surfaces.cli.output import note, print_json, print_result
from toolscript.text.display import harmless
from toolscript.text.wire_constants import RUN
from toolscript.types import SEPARATOR, as_id, is_builtin


@click.command()
@click.argument("tool")
@click.argument("arguments", default="{}")
@output_choice("The text of the result, or the whole result as JSON.", "text", "json")
@class_option
@settings_options("profile", "config", "data_dir")
def call(tool: str, arguments: str, output: str, tool_class: str | None, **flags: Any) -> int:
    """Call TOOL with ARGUMENTS, a JSON object.

    TOOL is an id, such as git__git_status, or Vector.SearchSkills. With - for
    ARGUMENTS they are read from standard input. The exit status is 1 if the
    tool reports a failure.
    """
    server, is_id, _ = as_id(tool).partition("." if is_builtin(tool) else SEPARATOR)
    body = _check(sys.stdin.read() if arguments == "-" else arguments)
    path = target(f"/tools/{quote(tool, safe='')}", [("class", tool_class)])
    only = server if is_id else None  # every server may have the nearest tool
    with connected(flags, only=only, embed=False) as client, answering(client):
        result = client.post(path, body)
    failed = bool(result.get("isError"))
    text = "\n".join(map(_as_text, result.get("content") or ()))
    if output == "json":
        print_json(result)
    elif not text and "structuredContent" in result:
        print_json(result["structuredContent"])
    elif failed and not text:
        note("the tool says that it failed, and not why")
    else:
        print_result(text)
    return int(failed)


def _check(arguments: str) -> bytes:
    """Returns the arguments as a request's body; raises `InputError` unless they are an object."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the arguments are not JSON: {error}; give an object in quotes") from None
    if not isinstance(value, dict):
        raise InputError(f"the arguments are {arguments[:60]!r}; expected a JSON object")
    return json.dumps(value).encode()


def _as_text(block: dict[str, Any]) -> str:
    """Returns a block of content as text; for other content, a description."""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text"))
    resource = block.get("resource") or block
    if "text" in resource:
        return str(resource["text"])
    facts = [str(kind), resource.get("mimeType"), resource.get("uri")]
    size = len(resource.get("data") or resource.get("blob") or "") * 3 // 4
    facts += [f"{size} bytes"] if size else []
    return f"[{', '.join(part for part in facts if part)}; --output json has it]"


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
