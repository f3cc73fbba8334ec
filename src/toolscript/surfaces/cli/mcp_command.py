"""``toolscript mcp``."""

import sys
from functools import partial
from typing import Any, cast

import click

from toolscript.config.settings import Settings, load_settings
from toolscript.errors import ToolscriptError
from toolscript.surfaces.cli.bridge import Bridge, open_stream
from toolscript.surfaces.cli.connect import client_of, record_file, running_gateway
from toolscript.surfaces.cli.gateway_client import RemoteClient, working_directory
from toolscript.surfaces.cli.gateway_starter import ensure_gateway
from toolscript.surfaces.cli.handshake_cache import HandshakeCache
from toolscript.surfaces.cli.http_exchange import Exchange
from toolscript.surfaces.cli.options import settings_options
from toolscript.surfaces.cli.output import note
from toolscript.surfaces.server.config_sources import load
from toolscript.surfaces.server.process_memory import collect_as_usual, freeze_gc, keep_heap_small
from toolscript.text.wire_constants import RUN, SKILLS_EXTENSION
from toolscript.version import __version__

_VERSIONS = {"2025-03-26", "2025-06-18", "2025-11-25"}
"""The protocol's versions in which `answer_first` is right."""


@click.command()
@click.option("--alone", is_flag=True, help="Run the servers in this process, without a gateway.")
@settings_options("exposure", "scripts", "profile", "model", "config", "data_dir")
def mcp(alone: bool, **flags: Any) -> None:
    """Serve an MCP client over standard input and output.

    Put this command into the configuration of a client that starts its servers. It passes the
    client's messages on to the gateway of its configuration, which it starts where none runs.
    """
    collect_as_usual()
    settings = load_settings(flags)
    if alone or _needs_another(settings, flags):
        _serve_alone(settings)
        return
    path = f"/mcp/{settings.server.exposure}/stream"
    if settings.client.url and not _chosen(flags):
        url, token, profile = settings.client.url, settings.client.token, settings.client.profile
        gateway = RemoteClient(url, "", token, working_directory(), profile)
        Bridge(lambda: open_stream(gateway, path), sys.stdin.buffer, sys.stdout.buffer).run()
        return
    started_with = {name: flags[name] for name in ("scripts", "model", "config", "data_dir")}

    def connect() -> Exchange:
        record = ensure_gateway(settings.paths, started_with)
        if record.version != __version__:
            note(
                f"the gateway has version {record.version}, and this is {__version__}; "
                "to change that: toolscript gateway stop"
            )
        if settings.calls.scripts and not record.scripts:
            note(
                "the gateway runs without --scripts, so models get no run_script; "
                "to change that: toolscript gateway stop"
            )
        return open_stream(client_of(record, settings.client.profile), path)

    record = record_file(settings.paths).path
    # In two phases the list is another one after each search.
    is_steady = settings.server.exposure != "two-phase"
    file = record.with_name(record.name.replace("gateway", "answers", 1)) if is_steady else None
    first = partial(answer_first, settings)
    answers = HandshakeCache(file, path, settings.client.profile, first=first)
    Bridge(connect, sys.stdin.buffer, sys.stdout.buffer, answers).run()


def _chosen(flags: dict[str, Any]) -> bool:
    """Whether a flag says which gateway is meant, so that the environment's does not count."""
    return any(flags.get(name) is not None for name in ("model", "data_dir", "config"))


def _needs_another(settings: Settings, flags: dict[str, Any]) -> bool:
    """Whether the gateway that runs was started with another model than this call names."""
    if flags.get("model") is None or not record_file(settings.paths).is_locked():
        return False
    running = running_gateway(settings.paths)
    if running is None or running.record.model == settings.embedding.model:
        return False
    note("the gateway that runs has another model, so this process serves without it")
    return True


def _serve_alone(settings: Settings) -> None:
    config = load(settings.paths)
    for problem in config.problems:
        note(str(problem))
    from toolscript.config.permission_rules import check_profile  # noqa: PLC0415 - only needed here

    if settings.client.profile:
        check_profile(settings.client.profile, config.profiles)
    import anyio  # noqa: PLC0415 - only this needs the server and all below it

    from toolscript import bootstrap  # noqa: PLC0415 - the same
    from toolscript.surfaces.mcp.request_context import Exposure  # noqa: PLC0415 - the same
    from toolscript.surfaces.mcp.stdio_server import serve_stdio  # noqa: PLC0415 - the same
    from toolscript.types import owned  # noqa: PLC0415 - the same

    keep_heap_small()
    app = bootstrap.application(settings, config)
    freeze_gc()
    anyio.run(
        serve_stdio, app, cast("Exposure", settings.server.exposure), owned(settings.client.profile)
    )


def answer_first(settings: Settings, message: dict[str, Any], version: str) -> Any:
    """Returns the result of a request that opens a session; None if only a gateway knows it.

    It has nothing of the servers but their names, which the configuration knows: clients wait for
    it only some seconds, and a gateway may take longer for its first start.

    Skills and pinned tools are left out: the client hears of another list if there are some.

    Args:
        settings: Name the configuration.
        message: The request.
        version: The protocol's version that the client has asked for.
    """
    if version not in _VERSIONS or settings.server.exposure != "search" or settings.client.profile:
        return None
    gateway = record_file(settings.paths)
    if gateway.read() is not None and gateway.is_locked():
        return None  # it runs, and answers by itself
    try:
        config = load(settings.paths)
    except ToolscriptError:  # the gateway's start says so
        return None
    from toolscript.surfaces.mcp import meta_tools  # noqa: PLC0415 - only a first session needs it

    tools = meta_tools.summary(spec.name for spec in config.servers if not spec.disabled)
    if message["method"] == "initialize":
        return {
            "capabilities": {
                "prompts": {"listChanged": False},
                "resources": {"listChanged": False, "subscribe": False},
                "tools": {"listChanged": True},
                "extensions": {SKILLS_EXTENSION: {}},
            },
            "protocolVersion": version,
            "serverInfo": {"name": "toolscript", "version": __version__},
            "instructions": meta_tools.instructions("search", tools),
        }
    if message["method"] != "tools/list":
        return None
    hidden = {*meta_tools.SKILL_TOOLS, *(() if settings.calls.scripts else (RUN,))}
    offered = meta_tools.OFFERED["search"] - hidden
    listed = meta_tools.meta_tools(tools, has_skills=False)
    return {"tools": [entry for name, entry in listed.items() if name in offered]}
