"""toolscript as the client of one scenario of the conformance suite: ``conformance_client.py URL``.

Connects to the server, and calls every tool that it lists.
"""

import json
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support import running, write_config
from toolscript.errors import ToolscriptError
from toolscript.skills.server_skills import ServerSkill

GIVEN: dict[str, Any] = {"number": 5, "integer": 3, "string": "x", "boolean": True}
CALLS = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")).get("toolCalls", [])
"""The calls that a scenario asks for; without any every tool is called."""
VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")


def arguments(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {name: GIVEN.get(each.get("type"), "x") for name, each in properties.items()}


def main(url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        entry = {"url": url, "type": "http"}
        if VERSION.startswith("2025"):
            entry["protocol"] = "legacy"
        config = write_config(Path(folder) / "servers.json", {"one": entry})
        with running(config) as now:
            now.wait_for("one", "ready", 20)
            tools = {tool.name: arguments(tool.input_schema) for tool in now.tools()}
            every = [{"name": name, "arguments": given} for name, given in tools.items()]
            calls: list[dict[str, Any]] = CALLS or every
            for call in calls:
                with suppress(ToolscriptError):
                    now.portal.call(now.app.call, f"one__{call['name']}", call["arguments"])
            for skill in now.app.skills().all():
                if isinstance(skill, ServerSkill):
                    with suppress(ToolscriptError):
                        now.portal.call(now.app.skills().read, skill.id)


main(sys.argv[-1])
