"""Shows a tool: its description, code that calls it, its calls and its versions; and skills."""

import shlex
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import anyio.to_thread
import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.app.call_figures import CallFigures, call_figures
from toolscript.codegen.sample_arguments import sample
from toolscript.codegen.schema import read
from toolscript.codegen.typed_clients import Language, ToolCode
from toolscript.errors import InputError
from toolscript.gateway.definitions.comparison import AcceptedBy, Version
from toolscript.gateway.definitions.word_diff import Change, changes
from toolscript.storage.activity_log import MAX_ROWS, ActivityQuery, RecordedCall
from toolscript.surfaces.http.answers import (
    RelatedAnswer,
    SkillFile,
    SkillsAnswer,
    ToolAnswer,
    tool_answer,
)
from toolscript.surfaces.http.routes import list_skills, read_skill
from toolscript.surfaces.http.usage_routes import recorded, related_to
from toolscript.surfaces.server.audit_log import ANYONE, OWNER
from toolscript.surfaces.server.authentication import access_of, grant_of, holder_of
from toolscript.surfaces.server.page_sessions import PAGE
from toolscript.surfaces.web.screens import Screens
from toolscript.surfaces.web.search_lab import price

SCREENS = Screens()
_LATEST = 10
_RELATED = 8


class AcceptedVersion(Struct, frozen=True, kw_only=True):
    """A definition that was accepted, and its changes."""

    accepted_by: AcceptedBy
    since: str
    changes: tuple[Change, ...]
    """Compared with the one before it; none if that is not known."""


class ToolScreen(Struct, frozen=True, kw_only=True):
    """A tool."""

    tool: ToolAnswer
    tokens: int
    code: dict[Language, ToolCode]
    curl: str
    command: str
    figures: CallFigures | None = None
    calls: list[RecordedCall] = []
    related: RelatedAnswer | None = None
    versions: list[AcceptedVersion] = []
    """The newest first."""


@SCREENS.add("GET", "/tools/{tool:path}", "tool.html")
async def tool_screen(app: App, request: Request) -> Any:
    """A tool, with an example of a call."""
    catalogue = app.catalogue(grant_of(request))
    spec = catalogue.tool(request.path_params["tool"])
    # A hostile schema may take a while: not in the event loop.
    example = await anyio.to_thread.run_sync(lambda: sample(read(spec.input_schema)))
    given = msgspec.json.encode(example).decode()
    url = f"{str(request.base_url).rstrip('/').removesuffix(PAGE)}/tools/{quote(spec.id)}"
    has_token = holder_of(request) not in {OWNER, ANYONE}
    token = ' -H "Authorization: Bearer $TOOLSCRIPT_GATEWAY_TOKEN"' if has_token else ""
    calls = await _calls(app, request, {spec.id, catalogue.exposed.get(spec.id, spec.id)})
    return ToolScreen(
        tool=tool_answer(catalogue.tools_by_id([spec.id])[spec.id]),
        tokens=price(spec),
        code=await catalogue.code(spec, example),
        curl=f"curl {shlex.quote(url)}{token} --json {shlex.quote(given)}",
        command=f"toolscript call {shlex.quote(spec.id)} {shlex.quote(given)}",
        figures=call_figures(calls, lambda _: "").get(""),
        calls=calls[:_LATEST],
        related=_relations(app, request, spec.id),
        versions=_versions(await catalogue.versions(spec)),
    )


def _versions(accepted: Sequence[Version]) -> list[AcceptedVersion]:
    before = (None, *accepted)
    return [
        AcceptedVersion(
            accepted_by=version.accepted_by,
            since=version.since,
            changes=changes(former.definition, version.definition) if former else (),
        )
        for former, version in zip(before, accepted, strict=False)
    ][::-1]


async def _calls(app: App, request: Request, names: set[str]) -> list[RecordedCall]:
    """Returns the recorded calls of a tool under the names that models know it by."""
    page = await recorded(app, access_of(request), ActivityQuery(MAX_ROWS))
    return [call for call in page.calls if call.tool in names]


def _relations(app: App, request: Request, tool: str) -> RelatedAnswer | None:
    try:
        return related_to(app, grant_of(request), tool, _RELATED)
    except InputError:  # nothing is learned here
        return None


class SkillsScreen(Struct, frozen=True, kw_only=True):
    """Every skill, and one of them to read."""

    skills: SkillsAnswer
    file: SkillFile | UnsetType = UNSET


@SCREENS.add("GET", "/skills", "skills.html")
async def skills(app: App, request: Request) -> Any:
    """Every skill; with ``?name=`` one of them is shown."""
    file = await read_skill(app, request) if "name" in request.query_params else UNSET
    return SkillsScreen(skills=await list_skills(app, request), file=file)
