"""Serves skills to clients that know the extension for them (SEP-2640), beside our meta tools.

A skill is at ``skill://skills/NAME``.
"""

import base64
import mimetypes
from bisect import bisect_right
from typing import Any, TypeAlias

from msgspec import to_builtins

from toolscript.app.application import App
from toolscript.errors import UnknownNameError
from toolscript.skills.scanner import MANIFEST, Skill
from toolscript.skills.skill_manifests import SkillManifest, conforms
from toolscript.surfaces.mcp.prompts_and_resources import PromptsAndResources
from toolscript.surfaces.mcp.request_context import RequestContext
from toolscript.text.display import printable
from toolscript.types import SKILLS

PAGE_SKILLS = 50
_ROOT = f"skill://{SKILLS}/"
_PRIVATE = {"ttlMs": 0, "cacheScope": "private"}
"""Skills change at any time, and not every caller sees the same ones."""
_Raw: TypeAlias = dict[str, Any]


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
        scoped = self._app.skills(context.grant)
        manifests = await scoped.manifests([served[root] for root in page])
        skills = [_entry(root, each) for root, each in zip(page, manifests, strict=True) if each]
        more = {"nextCursor": page[-1]} if start + PAGE_SKILLS < len(roots) else {}
        return {"skills": skills, **more, **_PRIVATE}

    async def get_skill(self, params: _Raw, context: RequestContext) -> _Raw:
        """Returns the entry of one skill; raises `UnknownNameError` for another URI."""
        uri = str(params.get("uri"))
        root = uri.removesuffix(MANIFEST)
        skill = self._by_root(context).get(root) if root != uri else None
        [manifest] = await self._app.skills(context.grant).manifests([skill]) if skill else [None]
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
        data = await self._app.skills(context.grant).read_bytes(skill, file)
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
        skills = self._app.skills(context.grant).all()
        return {f"{_ROOT}{skill.name}/": skill for skill in skills if conforms(skill)}


def _entry(root: str, manifest: SkillManifest) -> _Raw:
    resources = [
        {"uri": f"{root}{path}", **to_builtins(file)} for path, file in manifest.files.items()
    ]
    return {"uri": f"{root}{MANIFEST}", "frontmatter": manifest.frontmatter, "resources": resources}
