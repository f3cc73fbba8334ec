"""When the SDK is imported: that takes half a second, in which Python does little else."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, sys
from pathlib import Path
import anyio
import anyio.lowlevel
from toolscript import bootstrap
from toolscript.config import settings
from toolscript.surfaces.mcp.mcp_routes import McpRoutes
from toolscript.surfaces.server.authentication import ACCESS, OWNERS
from toolscript.surfaces.server.request_log import RequestStats
from toolscript.surfaces.server.revocation_watcher import RevocationWatcher

environ = {"HOME": sys.argv[1], "TOOLSCRIPT_CONFIG": sys.argv[1] + "/config.json"}
app = bootstrap.application(settings.load_settings({}, environ), environ=environ)
revocations = RevocationWatcher(lambda _: True)
stats = RequestStats()
routes = McpRoutes(app, "search", revocations, stats)
MODULE = "toolscript.surfaces.mcp.sdk_server"
ASKED = {"type": "http", "method": "GET", "path": "/mcp", "headers": [], "query_string": b""}
ASKED[ACCESS] = OWNERS
said = []

async def receive():
    return {"type": "http.request", "body": b"", "more_body": False}

async def send(message):
    said.append(message)

async def main():
    async with routes.running():  # nobody looks for the skills, so they are never there
        for _ in range(1_000):
            await anyio.lowlevel.checkpoint()
        print(MODULE in sys.modules)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(routes.stream, "search", ASKED, receive, send)
            await anyio.lowlevel.checkpoint()
            print(MODULE in sys.modules, stats.is_idle(-1))
        print(MODULE in sys.modules, stats.is_idle(-1), said[0]["status"])
        await routes.answer("search", ASKED, receive, send)
        print(said[-2]["status"])

anyio.run(main)
"""


def test_the_sdk_waits_for_the_skills_but_not_where_somebody_asks(tmp_path: Path) -> None:
    """skills:folders; whoever asks counts as a client meanwhile"""
    (tmp_path / "config.json").write_text(json.dumps({"mcpServers": {}}), "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "False\nFalse False\nTrue True 400\n406\n"
