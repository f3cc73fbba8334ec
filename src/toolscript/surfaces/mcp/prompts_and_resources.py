"""Prompts and resources: the servers' own, passed through.

A prompt goes by ``server__prompt``. A resource keeps its URI, which is what
tools and users refer to, and only a server that lists the URI, or a template that
fits it, ever sees it. Where several do, a URI that names the server says which is meant.
"""

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, unquote

import anyio

from toolscript.app.application import App
from toolscript.errors import ToolscriptError, UnknownNameError
from toolscript.surfaces.mcp.endpoint import RequestContext
from toolscript.text import printable
from toolscript.types import Grant, split_tool_id, tool_id

if TYPE_CHECKING:
    from mcp.shared.uri_template import UriTemplate

PATIENCE_S = 5.0
"""How long one server may keep a list of all servers' waiting."""
_MAX_PAGES = 100
_MAX_ENTRIES = 10_000
"""Of one server's list."""
_MAX_TEMPLATES, _MAX_VARIABLES, _MAX_URI_CHARS = 500, 16, 8192
_QUALIFIED = "toolscript:///"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
"""How a template has to begin: one that fits everything would have everything."""
_Raw: TypeAlias = dict[str, Any]


def qualified(server: str, uri: str) -> str:
    """Returns the URI of one server's resource, whichever others list the same."""
    return f"{_QUALIFIED}{quote(server, safe='')}/{quote(uri, safe='')}"


class PromptsAndResources:
    """The prompts and resources of every server. Remembers which servers list which URIs."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._uris: dict[str, frozenset[str]] = {}
        """By server: the URIs of its last list,"""
        self._patterns: dict[str, dict[str, UriTemplate | None]] = {}
        """and its templates; None for one that fits nothing."""

    async def prompts(self, asker: RequestContext) -> list[_Raw]:
        """Every server's prompts, under the names that `prompt` takes."""
        listed = await self._listed("prompts/list", "prompts", asker)
        return [{**each, "name": tool_id(server, each["name"])} for server, each in _flat(listed)]

    async def prompt(self, name: str, arguments: _Raw, asker: RequestContext) -> _Raw:
        """What a server makes of one of its prompts."""
        server, own = split_tool_id(name)
        self._check(server, asker.grant)
        params = {"name": own, "arguments": arguments, **asker.more}
        return await self._app.request(server, "prompts/get", params, asker.caller, asker.grant)

    async def resources(self, asker: RequestContext) -> list[_Raw]:
        """Every server's resources; what several list goes by `qualified` URIs."""
        listed = await self._listed("resources/list", "resources", asker)
        for server, entries in listed.items():
            self._uris[server] = frozenset(entry["uri"] for entry in entries)
        times = Counter(uri for server in listed for uri in self._uris[server])
        found: dict[str, _Raw] = {}
        for server, entry in _flat(listed):
            uri = entry["uri"]
            plain = times[uri] == 1 and not uri.startswith(_QUALIFIED)
            shown = uri if plain else qualified(server, uri)
            found.setdefault(shown, {**entry, "uri": shown})
        return list(found.values())

    async def templates(self, asker: RequestContext) -> list[_Raw]:
        """Every server's templates of resources, each once."""
        method, key = "resources/templates/list", "resourceTemplates"
        listed = await self._listed(method, key, asker)
        for server, entries in listed.items():
            texts = [entry["uriTemplate"] for entry in entries[:_MAX_TEMPLATES]]
            self._patterns[server] = {text: _pattern(text) for text in texts}
        found: dict[str, _Raw] = {}
        for _, entry in _flat(listed):
            found.setdefault(entry["uriTemplate"], entry)
        return list(found.values())

    async def resource(self, uri: str, asker: RequestContext) -> _Raw:
        """What a resource holds. Raises `UnknownNameError` unless one server offers it."""
        server, own = await self._home(uri, asker)
        params = {"uri": own, **asker.more}
        return await self._app.request(server, "resources/read", params, asker.caller, asker.grant)

    async def completion(self, params: _Raw, asker: RequestContext) -> _Raw:
        """What a server suggests for an argument of a prompt or template."""
        ref = dict(params["ref"])
        if ref.get("type") == "ref/prompt":
            server, ref["name"] = split_tool_id(ref["name"])
        else:
            server, ref["uri"] = await self._home(str(ref.get("uri", "")), asker)
        self._check(server, asker.grant)
        passed = {**params, "ref": ref}
        return await self._app.request(
            server, "completion/complete", passed, asker.caller, asker.grant
        )

    async def _home(self, uri: str, asker: RequestContext) -> tuple[str, str]:
        """The one server that offers a URI, and the URI as that server knows it."""
        if uri.startswith(_QUALIFIED):
            name, _, own = uri.removeprefix(_QUALIFIED).partition("/")
            self._check(unquote(name), asker.grant)
            return unquote(name), unquote(own)
        theirs = self._servers(asker.grant)
        known = self._uris.keys() & self._patterns.keys()
        homes = self._offering(uri, theirs) if known.issuperset(theirs) else []
        if not homes:
            await self.resources(asker)
            await self.templates(asker)
            homes = self._offering(uri, theirs)
        if len(homes) == 1:
            return homes[0], uri
        shown, names = printable(uri, 200), ", ".join(homes)
        example = printable(qualified(homes[0] if homes else "SERVER", uri), 300)
        raise UnknownNameError(
            f"{shown!r} is offered by several servers ({names}); name the one meant: {example}"
            if homes
            else f"no server has {shown!r} in its list or a template for it; to name one: {example}"
        )

    def _offering(self, uri: str, servers: list[str]) -> list[str]:
        """The servers that list the URI; where none does, those with a template that fits."""
        patterns = {server: self._patterns.get(server, {}) for server in servers}
        listing = [s for s in servers if uri in self._uris.get(s, ()) or uri in patterns[s]]
        if listing or len(uri) > _MAX_URI_CHARS:
            return listing
        return [
            server
            for server, known in patterns.items()
            if any(each is not None and each.match(uri) is not None for each in known.values())
        ]

    def _servers(self, grant: Grant) -> list[str]:
        """The servers that are there, and the caller's as a whole."""
        ready = [status.name for status in self._app.servers(grant) if status.state == "ready"]
        return [name for name in ready if grant.allows(tool_id(name, "*"))]

    def _check(self, server: str, grant: Grant) -> None:
        known = self._servers(grant)
        if server not in known:
            shown = ", ".join(known) or "none"
            raise UnknownNameError(f"no server {printable(server, 60)!r}; there are: {shown}")

    async def _listed(self, method: str, key: str, asker: RequestContext) -> dict[str, list[_Raw]]:
        """Every server's entries; of one that has none, or is slow, those that came."""
        servers = self._servers(asker.grant)
        found: dict[str, list[_Raw]] = {server: [] for server in servers}

        async def collect(server: str) -> None:
            with anyio.move_on_after(PATIENCE_S):
                await self._pages(server, method, key, found[server])

        async with anyio.create_task_group() as tasks:
            for server in servers:
                tasks.start_soon(collect, server)
        return found

    async def _pages(self, server: str, method: str, key: str, entries: list[_Raw]) -> None:
        params: _Raw = {}
        for _ in range(_MAX_PAGES):
            try:
                answer = await self._app.request(server, method, params)
            except ToolscriptError:
                break  # most servers have none, and say that they do not know the method
            entries += answer.get(key) or []
            if not answer.get("nextCursor") or len(entries) >= _MAX_ENTRIES:
                break
            params = {"cursor": answer["nextCursor"]}
        del entries[_MAX_ENTRIES:]


def _flat(listed: dict[str, list[_Raw]]) -> list[tuple[str, _Raw]]:
    return [(server, entry) for server, entries in listed.items() for entry in entries]


def _pattern(text: str) -> "UriTemplate | None":
    """The template as RFC 6570 has it; matching it takes no longer than its URI is long."""
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate  # noqa: PLC0415 - start-up

    if not _SCHEME.match(text):
        return None
    try:
        return UriTemplate.parse(text, max_length=_MAX_URI_CHARS, max_variables=_MAX_VARIABLES)
    except InvalidUriTemplate:
        return None
