"""Answers the requests that open a session before there has been any gateway.

Both answers have nothing of the servers but their names, which the configuration knows. Clients
wait for them only some seconds, and a gateway may take longer for its first start.
"""

from typing import Any

from toolscript.config.settings import Settings
from toolscript.errors import ToolscriptError
from toolscript.surfaces.cli.connect import record_file
from toolscript.surfaces.server.config_sources import load
from toolscript.text.wire_constants import RUN, SKILLS_EXTENSION
from toolscript.version import __version__

_VERSIONS = {"2025-03-26", "2025-06-18", "2025-11-25"}
"""The protocol's versions in which the answers have this form."""


def answer_first(settings: Settings, message: dict[str, Any], version: str) -> Any:
    """Returns the result of a request; None if only a gateway knows it.

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
