"""Lists, reads and completes the servers' prompts and resources.

A prompt is called ``server__prompt``. A resource keeps its URI, which is what tools and
users refer to, and only a server that lists the URI, or a template that fits it, ever sees
it. Where several do, a URI that names the server says which one is meant.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

import anyio

from toolscript.app.application import App
from toolscript.errors import ToolscriptError, UnknownNameError
from toolscript.surfaces.mcp.request_context import RequestContext, arguments_of, name_of
from toolscript.surfaces.mcp.ui_pages import (
    QUALIFIED,
    QUALIFIED_PAGE,
    qualified,
    servers_by_page,
)
from toolscript.text.display import printable
from toolscript.text.wire_constants import PAGE_SCHEME
from toolscript.types import Grant, split_tool_id, tool_id

if TYPE_CHECKING:
    from mcp.shared.uri_template import UriTemplate

PATIENCE_S = 5.0
"""How long one server may delay the list of all servers' entries."""
_MAX_PAGES = 100
_MAX_ENTRIES = 10_000
"""Entries of one server's list."""
_MAX_TEMPLATES, _MAX_VARIABLES, _MAX_URI_CHARS = 500, 16, 8192
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
"""How a template has to begin: one that fits every URI would get every URI."""
_Raw: TypeAlias = dict[str, Any]


class PromptsAndResources:
    """The prompts and resources of every server. Remembers which servers list which URIs.

    Each public method takes a request's parameters and returns its result, as on the wire.

    Args:
        app: Has the servers.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._uris: dict[str, frozenset[str]] = {}
        """By server: the URIs of its last list."""
        self._patterns: dict[str, dict[str, UriTemplate | None]] = {}
        """By server: the templates of its last list; None for one that fits no URI."""

    async def list_prompts(self, _: _Raw, context: RequestContext) -> _Raw:
        """Lists every server's prompts, under the names that `get_prompt` takes."""
        listed = await self._list("prompts/list", "prompts", context)
        prompts = [
            {**each, "name": tool_id(server, each["name"])} for server, each in _flat(listed)
        ]
        return {"prompts": prompts}

    async def get_prompt(self, params: _Raw, context: RequestContext) -> _Raw:
        """Gets a prompt from its server."""
        server, name = split_tool_id(name_of(params))
        self._check(server, context.grant)
        own = {"name": name, "arguments": arguments_of(params), **context.more}
        return await self._request(server, "prompts/get", own, context)

    async def list_resources(self, _: _Raw, context: RequestContext) -> _Raw:
        """Lists every server's resources; those of several servers have `qualified` URIs."""
        listed = await self._list("resources/list", "resources", context)
        for server, entries in listed.items():
            self._uris[server] = frozenset(entry["uri"] for entry in entries)
        times = Counter(uri for server in listed for uri in self._uris[server])
        resources: dict[str, _Raw] = {}
        for server, entry in _flat(listed):
            uri = entry["uri"]
            plain = times[uri] == 1 and not uri.startswith((QUALIFIED, QUALIFIED_PAGE))
            shown = uri if plain else qualified(server, uri)
            resources.setdefault(shown, {**entry, "uri": shown})
        return {"resources": list(resources.values())}

    async def list_templates(self, _: _Raw, context: RequestContext) -> _Raw:
        """Lists every server's resource templates, each once."""
        listed = await self._list("resources/templates/list", "resourceTemplates", context)
        for server, entries in listed.items():
            texts = [entry["uriTemplate"] for entry in entries[:_MAX_TEMPLATES]]
            self._patterns[server] = {text: _pattern(text) for text in texts}
        templates: dict[str, _Raw] = {}
        for _server, entry in _flat(listed):
            templates.setdefault(entry["uriTemplate"], entry)
        return {"resourceTemplates": list(templates.values())}

    async def read_resource(self, params: _Raw, context: RequestContext) -> _Raw:
        """Reads a resource; raises `UnknownNameError` unless exactly one server offers it."""
        uri = str(params.get("uri"))
        server, uri = await self._home(uri, context)
        return await self._request(server, "resources/read", {"uri": uri, **context.more}, context)

    async def complete(self, params: _Raw, context: RequestContext) -> _Raw:
        """Gets a server's suggestions for an argument of a prompt or template."""
        ref = dict(params["ref"])
        if ref.get("type") == "ref/prompt":
            server, ref["name"] = split_tool_id(ref["name"])
        else:
            server, ref["uri"] = await self._home(str(ref.get("uri", "")), context)
        self._check(server, context.grant)
        own = {key: value for key, value in params.items() if key != "_meta"}
        return await self._request(server, "completion/complete", {**own, "ref": ref}, context)

    async def _request(
        self, server: str, method: str, params: _Raw, context: RequestContext
    ) -> _Raw:
        catalogue = self._app.catalogue(context.grant)
        return await catalogue.request(server, method, params, context.caller)

    async def _home(self, uri: str, context: RequestContext) -> tuple[str, str]:
        """Returns the one server that offers a URI, and the URI as that server knows it."""
        if uri.startswith((QUALIFIED, QUALIFIED_PAGE)):
            root = QUALIFIED_PAGE if uri.startswith(QUALIFIED_PAGE) else QUALIFIED
            name, _, own = uri.removeprefix(root).partition("/")
            self._check(unquote(name), context.grant)
            return unquote(name), unquote(own)
        servers = self._servers(context.grant)
        if uri.startswith(PAGE_SCHEME):
            pages = servers_by_page(self._app.catalogue(context.grant).tools())
            owners = pages.get(uri, set[str]()).intersection(servers)
            if len(owners) == 1:
                return owners.pop(), uri
        known = self._uris.keys() & self._patterns.keys()
        homes = self._offering(uri, servers) if known.issuperset(servers) else []
        if not homes:
            await self.list_resources({}, context)
            await self.list_templates({}, context)
            homes = self._offering(uri, servers)
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
        """Returns the servers that list the URI, or else those with a template that fits."""
        patterns = {server: self._patterns.get(server, {}) for server in servers}
        listing = [s for s in servers if uri in self._uris.get(s, ()) or uri in patterns[s]]
        if listing or len(uri) > _MAX_URI_CHARS:
            return listing
        return [server for server, known in patterns.items() if _fits(known.values(), uri)]

    def _servers(self, grant: Grant) -> list[str]:
        """Returns the servers that work and that the caller may read all of."""
        catalogue, denies = self._app.catalogue(grant), self._app.permissions.denies_reading
        return [
            each.name
            for each in catalogue.servers()
            if each.works
            and catalogue.grant.allows_server(each.name)
            and not denies(grant, tool_id(each.name, "*"))
        ]

    def _check(self, server: str, grant: Grant) -> None:
        known = self._servers(grant)
        if server not in known:
            shown = ", ".join(known) or "none"
            raise UnknownNameError(f"no server {printable(server, 60)!r}; there are: {shown}")

    async def _list(self, method: str, key: str, context: RequestContext) -> dict[str, list[_Raw]]:
        """Returns every server's entries; of a slow server those that came in time.

        A resting server is not started for it.
        """
        listed: dict[str, list[_Raw]] = {server: [] for server in self._servers(context.grant)}
        catalogue = self._app.catalogue(context.grant)

        async def collect(server: str, entries: list[_Raw]) -> None:
            known = catalogue.resting_list(server, method)
            if known is not None:
                entries += known
                return
            with anyio.move_on_after(PATIENCE_S):
                await self._pages(server, method, key, entries)

        async with anyio.create_task_group() as tasks:
            for server, entries in listed.items():
                tasks.start_soon(collect, server, entries)
        return listed

    async def _pages(self, server: str, method: str, key: str, entries: list[_Raw]) -> None:
        params: _Raw = {}
        for _ in range(_MAX_PAGES):
            try:
                answer = await self._app.catalogue().request(server, method, params)
            except ToolscriptError:
                break  # most servers have no such list, and do not know the method
            entries += answer.get(key) or []
            if not answer.get("nextCursor") or len(entries) >= _MAX_ENTRIES:
                break
            params = {"cursor": answer["nextCursor"]}
        del entries[_MAX_ENTRIES:]


def _fits(templates: "Iterable[UriTemplate | None]", uri: str) -> bool:
    """Whether a URI is one of those that the templates stand for."""
    return any(each is not None and each.match(uri) is not None for each in templates)


def _flat(listed: dict[str, list[_Raw]]) -> list[tuple[str, _Raw]]:
    return [(server, entry) for server, entries in listed.items() for entry in entries]


def _pattern(text: str) -> "UriTemplate | None":
    """Returns the template of RFC 6570; to match a URI takes time linear in its length."""
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate  # noqa: PLC0415 - start-up

    if not _SCHEME.match(text):
        return None
    try:
        return UriTemplate.parse(text, max_length=_MAX_URI_CHARS, max_variables=_MAX_VARIABLES)
    except InvalidUriTemplate:
        return None
