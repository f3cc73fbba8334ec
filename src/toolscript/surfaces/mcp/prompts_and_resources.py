"""Lists and reads prompts and resources, under names that begin with their servers; and skills.

A prompt is called ``server__prompt``, and the URI of a resource begins with the server, too: see
`resource_uris`. No other server is asked for it. Clients that know the extension for skills
(SEP-2640) get them beside our meta tools: a skill is at ``skill://skills/NAME``.
"""

import base64
import mimetypes
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, TypeAlias

import anyio
from msgspec import to_builtins

from toolscript.app.application import App
from toolscript.errors import ToolscriptError, UnknownNameError
from toolscript.gateway.raw_results import as_foreign
from toolscript.skills.scanner import MANIFEST, Skill
from toolscript.skills.skill_manifests import SkillManifest, conforms
from toolscript.surfaces.mcp.request_context import RequestContext, arguments_of, name_of
from toolscript.surfaces.mcp.resource_uris import qualified, split_qualified
from toolscript.text.display import printable
from toolscript.text.wire_constants import OWN_ADDRESSES
from toolscript.types import SKILLS, Grant, split_tool_id, tool_id

PATIENCE_S = 5.0
"""How long one server may delay the list of all servers' entries."""
PAGE_SKILLS = 50
_ROOT = f"skill://{SKILLS}/"
_PRIVATE = {"ttlMs": 0, "cacheScope": "private"}
"""Skills change at any time, and not every caller sees the same ones."""
_MAX_PAGES = 100
_MAX_ENTRIES = 10_000
"""Entries of one server's list."""
_Raw: TypeAlias = dict[str, Any]


class PromptsAndResources:
    """The prompts and resources of every server. Remembers nothing.

    Each public method takes a request's parameters and returns its result, as on the wire.

    Args:
        app: Has the servers.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def list_prompts(self, _: _Raw, context: RequestContext) -> _Raw:
        """Lists every server's prompts, under the names that `get_prompt` takes."""
        return await self._list("prompts/list", "prompts", "name", tool_id, context)

    async def get_prompt(self, params: _Raw, context: RequestContext) -> _Raw:
        """Gets a prompt from its server."""
        server, name = split_tool_id(name_of(params))
        own = {"name": name, "arguments": arguments_of(params)}
        return await self._request(server, "prompts/get", own, context)

    async def list_resources(self, _: _Raw, context: RequestContext) -> _Raw:
        """Lists every server's resources, under the URIs that `read_resource` takes."""
        return await self._list("resources/list", "resources", "uri", qualified, context)

    async def list_templates(self, _: _Raw, context: RequestContext) -> _Raw:
        """Lists every server's templates of such URIs."""
        method, key = "resources/templates/list", "resourceTemplates"
        return await self._list(method, key, "uriTemplate", qualified, context)

    async def read_resource(self, params: _Raw, context: RequestContext) -> _Raw:
        """Reads a resource from the server that its URI names."""
        uri = str(params.get("uri"))
        server, own = split_qualified(uri)
        if not server or own.startswith(OWN_ADDRESSES):
            shown, example = printable(uri, 200), printable(qualified("SERVER", uri), 300)
            raise UnknownNameError(f"{shown!r} names no server; write it as {example}")
        return await self._request(server, "resources/read", {"uri": own}, context)

    async def _request(
        self, server: str, method: str, params: _Raw, context: RequestContext
    ) -> _Raw:
        known = self._servers(context.grant)
        if server not in known:
            shown = ", ".join(known) or "none"
            raise UnknownNameError(f"no server {printable(server, 60)!r}; there are: {shown}")
        catalogue = self._app.catalogue(context.grant)
        return await catalogue.request(server, method, {**params, **context.more}, context.caller)

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

    async def _list(
        self,
        method: str,
        key: str,
        field: str,
        qualify: Callable[[str, str], str],
        context: RequestContext,
    ) -> _Raw:
        """Returns every server's entries, qualified in a field; of a slow one those in time.

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
        return {
            key: [
                {**as_foreign(entry), field: qualify(server, name)}
                for server, entries in listed.items()
                for entry in entries
                if isinstance(name := entry.get(field), str) and not name.startswith(OWN_ADDRESSES)
            ]
        }

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


class SkillMethods:
    """The methods of the extension. Each takes a request's parameters and returns its result.

    Args:
        app: Has the skills.
        resources: The resources of servers.
    """

    def __init__(self, app: App, resources: PromptsAndResources) -> None:
        self._app = app
        self._resources = resources

    async def list_skills(self, params: _Raw, context: RequestContext) -> _Raw:
        """Returns a page of skills; the cursor is the root of the last one before it."""
        served = self._by_root(context)
        roots = sorted(served)
        start = bisect_right(roots, str(params.get("cursor") or ""))
        page = roots[start : start + PAGE_SKILLS]
        scoped = self._app.skills(context.grant, by_model=True)
        manifests = await scoped.manifests([served[root] for root in page])
        skills = [_entry(root, each) for root, each in zip(page, manifests, strict=True) if each]
        more = {"nextCursor": page[-1]} if start + PAGE_SKILLS < len(roots) else {}
        return {"skills": skills, **more, **_PRIVATE}

    async def get_skill(self, params: _Raw, context: RequestContext) -> _Raw:
        """Returns the entry of one skill; raises `UnknownNameError` for another URI."""
        uri = str(params.get("uri"))
        root = uri.removesuffix(MANIFEST)
        skill = self._by_root(context).get(root) if root != uri else None
        scoped = self._app.skills(context.grant, by_model=True)
        [manifest] = await scoped.manifests([skill]) if skill else [None]
        if manifest is None:
            raise UnknownNameError(f"no skill is at {printable(uri, 200)!r}")
        return {"skill": _entry(root, manifest), **_PRIVATE}

    async def read_resource(self, params: _Raw, context: RequestContext) -> _Raw:
        """Returns a skill's file, or a server's resource."""
        uri = str(params.get("uri"))
        name, _, file = uri.removeprefix(_ROOT).partition("/")
        skill = self._by_root(context).get(f"{_ROOT}{name}/") if uri.startswith(_ROOT) else None
        if skill is None or not file:
            return await self._resources.read_resource(params, context)
        data = await self._app.skills(context.grant, by_model=True).read_bytes(skill, file)
        kind = "text/markdown" if file.endswith(".md") else mimetypes.guess_type(file)[0]
        try:
            content: _Raw = {"text": data.decode()}
        except UnicodeDecodeError:
            content = {"blob": base64.b64encode(data).decode()}
        content |= {"mimeType": kind} if kind else {}
        return {"contents": [{"uri": uri, **content}], **_PRIVATE}

    def _by_root(self, context: RequestContext) -> dict[str, Skill]:
        """Returns the caller's skills that a client of the extension can read.

        Each is under the URI under which its files are, with a slash at its end.
        """
        skills = self._app.skills(context.grant, by_model=True).all()
        return {f"{_ROOT}{skill.name}/": skill for skill in skills if conforms(skill)}


def _entry(root: str, manifest: SkillManifest) -> _Raw:
    resources = [
        {"uri": f"{root}{path}", **to_builtins(file)} for path, file in manifest.files.items()
    ]
    return {"uri": f"{root}{MANIFEST}", "frontmatter": manifest.frontmatter, "resources": resources}
