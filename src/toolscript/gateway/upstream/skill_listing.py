"""Lists the skills that a server serves (SEP-2640), in the form of tools: see `ToolSpec`.

Listing reads no file of a skill: each is compared with its digest when a model asks for it.
"""

import re
from typing import Any, Literal

import anyio
import msgspec
from mcp.client.session import ClientSession

from toolscript.gateway.upstream.other_lists import TIMEOUT_S, list_pages
from toolscript.gateway.upstream.tool_listing import MAX_FRESH_S, Listing, fresh_s, is_deep
from toolscript.text.display import printable
from toolscript.text.json_values import as_list, as_object
from toolscript.text.names import deceptive_name
from toolscript.text.wire_constants import SKILLS_EXTENSION
from toolscript.types import FileDigest, ServerSpec, SkillManifest, ToolSpec

MANIFEST = "SKILL.md"
MAX_PAGES, MAX_SKILLS = 100, 2000
MAX_FILES, MAX_SKILL_BYTES = 512, 16 * 1024 * 1024
"""The limits that the extension sets for one skill."""
MAX_ENTRY_BYTES, MAX_SERVER_BYTES = 128 * 1024, 4 * 1024 * 1024
"""One entry, and all entries of a server, as JSON."""
_TOO_LARGE = (
    f"its entry nests too deeply, or has more than {MAX_ENTRY_BYTES // 1024} KiB, or more than is "
    f"left of the {MAX_SERVER_BYTES // 2**20} MiB that one server may list"
)
_URI = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/\s]+/)*(?P<name>[^/\s]{1,64})/SKILL\.md")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class _Resource(msgspec.Struct):
    uri: str
    digest: str
    size: int | None = None


class _Entry(msgspec.Struct):
    uri: str
    frontmatter: dict[str, Any]
    resources: list[_Resource] | Literal["dynamic"]


def serves_skills(session: ClientSession) -> bool:
    """Whether a server declares that it does."""
    capabilities = session.server_capabilities
    return SKILLS_EXTENSION in ((capabilities and capabilities.extensions) or {})


async def list_skills(session: ClientSession, spec: ServerSpec) -> Listing:
    """Returns a server's skills, whose files can be compared with their digests."""
    if not serves_skills(session):
        return Listing((), (), MAX_FRESH_S)
    skills: dict[str, ToolSpec] = {}
    rejected: list[str] = []
    lifetimes: list[Any] = [None]
    with anyio.move_on_after(TIMEOUT_S) as scope:
        try:
            entries, lifetimes = await _entries(session)
        except ValueError as error:
            return Listing((), (f"skills/list: {error}",), 0)
        left = MAX_SERVER_BYTES
        for entry in entries:
            try:
                size = 0 if is_deep(entry) else len(msgspec.json.encode(entry))
                skill = _read(spec.name, entry, size, min(left, MAX_ENTRY_BYTES))
            except ValueError as error:
                rejected.append(f"skill {_name_of(entry)}: {error}")
            else:
                left -= size
                skills.setdefault(skill.name, skill)
    if scope.cancelled_caught:
        rejected.append(f"skills/list: no answer within {TIMEOUT_S:g} s")
    return Listing(
        tuple(skills.values()), tuple(rejected), fresh_s(session.protocol_version or "", lifetimes)
    )


async def _entries(session: ClientSession) -> tuple[list[Any], list[Any]]:
    """Returns the entries of all pages, and the ``ttlMs`` of each page."""
    pages = await list_pages(session, "skills/list", "skills", MAX_PAGES, MAX_SKILLS)
    entries = [entry for page in pages for entry in as_list(page.get("skills"))]
    lifetimes = [page.get("ttlMs") for page in pages]
    return entries[:MAX_SKILLS], [each if isinstance(each, int) else None for each in lifetimes]


def _read(server: str, raw: Any, size: int, most: int) -> ToolSpec:
    """Returns a skill of a listing; raises `ValueError` for one that cannot be used."""
    if not 0 < size <= most:
        raise ValueError(_TOO_LARGE)
    entry = msgspec.convert(raw, _Entry)
    if entry.resources == "dynamic":
        raise ValueError("it has no digests, so that no change of its files would be noticed")
    name, description = (entry.frontmatter.get(key) for key in ("name", "description"))
    if not (isinstance(name, str) and isinstance(description, str) and description.strip()):
        raise ValueError("its front matter has no name or no description")
    place = _URI.fullmatch(entry.uri)
    if place is None or place["name"] != name or not entry.uri.isprintable():
        raise ValueError("its URI does not end in its name and SKILL.md")
    if disguise := deceptive_name(name):
        raise ValueError(f"its name {disguise}")
    files = _read_files(entry.uri.removesuffix(MANIFEST), entry.resources)
    return ToolSpec(
        server=server,
        name=entry.uri,
        title=name,
        description=description,
        skill=SkillManifest(entry.frontmatter, files),
    )


def _read_files(root: str, resources: list[_Resource]) -> dict[str, FileDigest]:
    """Returns the digests of a skill's files by their paths below its root."""
    files = {
        each.uri.removeprefix(root): FileDigest(each.digest, each.size)
        for each in sorted(resources, key=lambda each: each.uri)
        if each.uri.startswith(root) and _DIGEST.fullmatch(each.digest)
    }
    if len(files) != len(resources) or MANIFEST not in files or len(files) > MAX_FILES:
        raise ValueError(
            f"its files are not all in its folder, with a SHA-256 each, {MAX_FILES} at most"
        )
    if sum(each.size or 0 for each in files.values()) > MAX_SKILL_BYTES:
        raise ValueError(f"its files have more than {MAX_SKILL_BYTES // 2**20} MiB")
    return files


def _name_of(raw: Any) -> str:
    uri = as_object(raw).get("uri")
    return printable(str(uri), 120) if uri else "without a URI"
