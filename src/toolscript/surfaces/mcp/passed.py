"""Prompts and resources: the servers' own, passed through.

A prompt goes by ``server__prompt``. A resource keeps its URI, which is what
tools and users refer to; where two servers offer the same one, the first has it.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import anyio

from toolscript.app import App
from toolscript.errors import ToolscriptError, UnknownNameError
from toolscript.surfaces.mcp.door import Asker
from toolscript.text import printable
from toolscript.types import Grant, split_tool_id, tool_id

PATIENCE_S = 5.0
"""How long one server may keep a list of all servers' waiting."""
_MAX_PAGES = 100
_Raw: TypeAlias = dict[str, Any]


class Passed:
    """The prompts and resources of every server. Remembers which server has which URI."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._homes: dict[str, str] = {}

    async def prompts(self, asker: Asker) -> list[_Raw]:
        """Every server's prompts, under the names that `prompt` takes."""
        listed = await self._listed("prompts/list", "prompts", asker)
        return [{**prompt, "name": tool_id(server, prompt["name"])} for server, prompt in listed]

    async def prompt(self, name: str, arguments: _Raw, asker: Asker) -> _Raw:
        """What a server makes of one of its prompts."""
        server, own = split_tool_id(name)
        self._check(server, asker.grant)
        params = {"name": own, "arguments": arguments, **asker.more}
        return await self._app.request(server, "prompts/get", params, asker.caller)

    async def resources(self, asker: Asker) -> list[_Raw]:
        """Every server's resources."""
        return self._settled(await self._listed("resources/list", "resources", asker), "uri")

    async def templates(self, asker: Asker) -> list[_Raw]:
        """Every server's templates of resources."""
        method, key = "resources/templates/list", "resourceTemplates"
        return self._settled(await self._listed(method, key, asker), "uriTemplate")

    async def resource(self, uri: str, asker: Asker) -> _Raw:
        """What a resource holds: its server is asked, or one after the other until one has it."""
        home = self._homes.get(uri)
        theirs = self._servers(asker.grant)
        problem: ToolscriptError = UnknownNameError(f"no server has {printable(uri, 200)!r}")
        for server in sorted(theirs, key=lambda name: name != home):
            try:
                params = {"uri": uri, **asker.more}
                return await self._app.request(server, "resources/read", params, asker.caller)
            except ToolscriptError as error:
                problem = error if server == home else problem
        raise problem

    async def completion(self, params: _Raw, asker: Asker) -> _Raw:
        """What a server suggests for an argument of a prompt or template."""
        ref = dict(params["ref"])
        if ref.get("type") == "ref/prompt":
            server, ref["name"] = split_tool_id(ref["name"])
        else:
            server = self._homes.get(ref.get("uri", ""), "")
        self._check(server, asker.grant)
        passed = {**params, "ref": ref}
        return await self._app.request(server, "completion/complete", passed, asker.caller)

    def _settled(self, listed: Iterable[tuple[str, _Raw]], key: str) -> list[_Raw]:
        """The entries, each URI once; whose it is is remembered."""
        found: dict[str, _Raw] = {}
        for server, entry in listed:
            if entry[key] not in found:
                found[entry[key]] = entry
                self._homes[entry[key]] = server
        return list(found.values())

    def _servers(self, grant: Grant) -> list[str]:
        """The servers that are there, and the caller's as a whole."""
        ready = [status.name for status in self._app.servers(grant) if status.state == "ready"]
        return [name for name in ready if grant.allows(tool_id(name, "*"))]

    def _check(self, server: str, grant: Grant) -> None:
        known = self._servers(grant)
        if server not in known:
            shown = ", ".join(known) or "none"
            raise UnknownNameError(f"no server {printable(server, 60)!r}; there are: {shown}")

    async def _listed(self, method: str, key: str, asker: Asker) -> list[tuple[str, _Raw]]:
        """Every server's entries; one that has none, or is slow, is left out."""
        found: dict[str, list[_Raw]] = {}

        async def collect(server: str) -> None:
            with anyio.move_on_after(PATIENCE_S):
                found[server] = await self._pages(server, method, key)

        servers = self._servers(asker.grant)
        async with anyio.create_task_group() as tasks:
            for server in servers:
                tasks.start_soon(collect, server)
        return [(server, entry) for server in servers for entry in found.get(server, [])]

    async def _pages(self, server: str, method: str, key: str) -> list[_Raw]:
        entries: list[_Raw] = []
        params: _Raw = {}
        for _ in range(_MAX_PAGES):
            try:
                answer = await self._app.request(server, method, params)
            except ToolscriptError:
                break  # most servers have none, and say that they do not know the method
            entries += answer.get(key) or []
            if not answer.get("nextCursor"):
                break
            params = {"cursor": answer["nextCursor"]}
        return entries
