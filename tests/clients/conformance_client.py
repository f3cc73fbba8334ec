"""toolscript as the client of one scenario of the conformance suite: ``conformance_client.py URL``.

Connects to the server, logs in if it asks for that, and calls every tool that it lists.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.servers.logins import visit
from tests.support import Running, running, until, write_config
from toolscript.errors import ToolscriptError
from toolscript.gateway.base import Caller
from toolscript.gateway.oauth.browser import log_in
from toolscript.types import OAuthClient, ServerSpec, ServerStatus

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
GIVEN: dict[str, Any] = {"number": 5, "integer": 3, "string": "x", "boolean": True}
DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The address of our description, in one scenario."""
ADVICE = "log in with"
MOST_ATTEMPTS = 3
ECHO = "json_schema_echo"
"""The tool that wants the schema of the other one."""


class User(Caller):
    """Accepts each question, with the defaults of its form."""

    may_be_asked = True

    async def elicit(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        del method
        form = params["requestedSchema"]["properties"]
        content = {
            name: each.get("default", GIVEN.get(each["type"])) for name, each in form.items()
        }
        return {"action": "accept", "content": content}


def arguments(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {name: GIVEN.get(each.get("type"), "x") for name, each in properties.items()}


def open_page(address: str) -> None:
    visit(address)


def calls(now: Running) -> list[dict[str, Any]]:
    """The calls that the scenario asks for; without any one of every tool."""
    tools = {tool.name: tool.input_schema for tool in now.tools()}
    given = {name: arguments(schema) for name, schema in tools.items()}
    if ECHO in tools:
        [schema] = [schema for name, schema in tools.items() if name != ECHO]
        given[ECHO] = {"schema": schema}
    every = [{"name": name, "arguments": each} for name, each in given.items()]
    return CONTEXT.get("toolCalls") or every


def use(now: Running) -> str:
    """Does what a scenario wants of a client; the error of the server, empty if it had none."""

    def status() -> ServerStatus | None:
        status = now.status("one")
        return status if status.state in {"ready", "failed"} else None

    if error := until(status, "it has settled", 20).error:
        return error
    for call in calls(now):
        try:
            name, given = f"one__{call['name']}", call["arguments"]
            now.portal.call(now.app.call, name, given, User())
        except ToolscriptError as problem:
            if ADVICE in str(problem):
                return str(problem)
    return ""


def main(url: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entry: dict[str, Any] = {"url": url, "type": "http", "permissions": {"*": "allow"}}
        if VERSION.startswith("2025"):
            entry["protocol"] = "legacy"
        oauth = None
        if "client_id" in CONTEXT:
            client, secret = CONTEXT["client_id"], CONTEXT["client_secret"]
            oauth = OAuthClient(client_id=client, client_secret=secret)
            entry["oauth"] = {"clientId": client, "clientSecret": secret}
        config = write_config(folder / "servers.json", {"one": entry})
        spec = ServerSpec(name="one", transport="http", url=url, oauth=oauth)
        for _ in range(MOST_ATTEMPTS):
            with running(config) as now:
                error = use(now)
            if ADVICE not in error:
                sys.exit(error or 0)
            document = DOCUMENT if SCENARIO == "auth/basic-cimd" else ""
            log_in(folder / "data" / "auth", spec, open_page, None, document)


main(sys.argv[-1])
