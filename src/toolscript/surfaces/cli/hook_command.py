"""``toolscript hook``: names the tools that fit a prompt, for Claude Code's ``UserPromptSubmit``.

Claude Code runs it with each prompt, and shows its output to the model. The command
asks only a gateway that runs. If anything goes wrong, it prints nothing, so no prompt fails.
"""

import json
import os
import sys
from contextlib import redirect_stderr, suppress
from io import StringIO
from typing import Any

import click

from toolscript.config.settings import MAX_QUERY_CHARS, load_settings
from toolscript.surfaces.cli.connect import client_of, record_file
from toolscript.surfaces.cli.options import settings_options

_LIMIT, _TIMEOUT_S = 3, 2.0
_LINES = {
    "search": "Tools that fit, for mcp__{client_name}__search_tools: select:{names}",
    "all": "Tools that fit; load them with: select:{names}",
}
"""The words for a model, by the exposure that its client has."""


@click.command()
@click.option(
    "--exposure",
    type=click.Choice(tuple(_LINES)),
    default="search",
    show_default=True,
    help="Which tools Claude Code has: those of the search, or every tool.",
)
@click.option(
    "--name",
    "client_name",
    default="toolscript",
    show_default=True,
    help="What Claude Code's configuration calls toolscript.",
)
@settings_options("threshold", "config", "data_dir")
def hook(exposure: str, client_name: str, **flags: Any) -> None:
    """Name up to three tools that fit a prompt, for Claude Code.

    It reads the JSON of the UserPromptSubmit hook from standard input, and asks
    the gateway that runs; it starts none. Without one, or if no tool fits, it
    prints nothing.
    """
    names: list[str] = []
    with redirect_stderr(StringIO()), suppress(Exception):  # a boundary: see the module
        names = _find_names(json.load(sys.stdin), flags)
    if names:
        prefix = f"mcp__{client_name}__" if exposure == "all" else ""
        joined = ",".join(f"{prefix}{name}" for name in names)
        click.echo(_LINES[exposure].format(client_name=client_name, names=joined))


def _find_names(event: dict[str, Any], flags: dict[str, Any]) -> list[str]:
    """Returns the names for models of the tools that a prompt's search finds."""
    with suppress(OSError):
        os.chdir(event.get("cwd", "."))
    settings = load_settings(flags)
    file = record_file(settings.paths)
    record = file.read()
    if record is None or not file.is_locked():
        return []
    parameters: list[tuple[str, object]] = [
        ("q", event["prompt"][:MAX_QUERY_CHARS]),
        ("limit", _LIMIT),
        ("threshold", settings.search.threshold),
        ("format", "mcp"),
    ]
    client = client_of(record, settings.client.profile)
    return [tool["name"] for tool in client.get("/search", parameters, _TIMEOUT_S)["tools"]]
