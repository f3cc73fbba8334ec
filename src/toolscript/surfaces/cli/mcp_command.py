"""``toolscript mcp``."""

from typing import Any, cast

import click

from toolscript.config.settings import load_settings
from toolscript.surfaces.cli.options import settings_options
from toolscript.surfaces.cli.output import note
from toolscript.surfaces.server.config_sources import load


@click.command()
@settings_options("exposure", "model", "config", "data_dir")
def mcp(**flags: Any) -> None:
    """Serve an MCP client over standard input and output.

    Put this command into the configuration of a client that starts its servers.
    """
    settings = load_settings(flags)
    config = load(settings)
    for problem in config.problems:
        note(str(problem))
    import anyio  # noqa: PLC0415 - only this command needs the server and all below it

    from toolscript import bootstrap  # noqa: PLC0415 - the same
    from toolscript.surfaces.server import process_memory  # noqa: PLC0415 - the same

    process_memory.skip_sdk_framework()
    from toolscript.surfaces.mcp.endpoint import Exposure  # noqa: PLC0415 - the same
    from toolscript.surfaces.mcp.stdio_server import serve_stdio  # noqa: PLC0415 - the same

    process_memory.release_heap()
    app = bootstrap.application(settings, config)
    process_memory.freeze_gc()
    anyio.run(serve_stdio, app, cast("Exposure", settings.exposure))
