"""An MCP server with an app, made with the real SDK: ``apps.py TITLE``.

Its tools say whether their client shows pages. The page is in no list of resources.
"""

import sys

from mcp.server.apps import Apps, ResourceCsp, client_supports_apps
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resources import TextResource

TITLE = sys.argv[1]
PAGE = "ui://charts/chart.html"
apps = Apps()
apps.add_html_resource(
    PAGE, f"<!doctype html><title>{TITLE}</title>", csp=ResourceCsp(connect_domains=["https://x.y"])
)


@apps.tool(resource_uri=PAGE)
def show_chart(ctx: Context) -> str:
    """Show a chart of the sales."""
    return f"{TITLE}: {client_supports_apps(ctx)}"


@apps.tool(resource_uri=PAGE, visibility=["app"])
def refresh_chart() -> str:
    """Draw the chart again."""
    return f"{TITLE} again"


server = MCPServer("charts", version="1", extensions=[apps])
server.add_resource(TextResource(uri="ui://charts/other.html", name="other", text=TITLE))
server.run("stdio")
