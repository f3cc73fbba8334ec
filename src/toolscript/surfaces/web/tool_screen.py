"""A tool: what a model sees of it, a form to call it, and how its calls went."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import anyio.to_thread
import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from toolscript.app.application import App
from toolscript.app.call_figures import CallFigures, call_figures
from toolscript.app.scoped_catalogue import KnownTool, ScopedCatalogue
from toolscript.codegen.sample import sample
from toolscript.codegen.schema import read
from toolscript.codegen.typed_clients import Language, ToolCode
from toolscript.errors import InputError, ToolscriptError
from toolscript.gateway.definitions.comparison import AcceptedBy, Version
from toolscript.gateway.definitions.word_diff import Change, changes
from toolscript.storage.activity_log import MAX_ROWS, ActivityQuery, RecordedCall
from toolscript.surfaces.http.activity_routes import recorded
from toolscript.surfaces.http.answers import RelatedAnswer, ToolAnswer, tool_answer
from toolscript.surfaces.http.client_sessions import ClientSessions
from toolscript.surfaces.http.graph_routes import related_to
from toolscript.surfaces.http.routes import called
from toolscript.surfaces.mcp.endpoint import Session
from toolscript.surfaces.server.audit_log import ANYONE, OWNER
from toolscript.surfaces.server.authentication import access_of, grant_of, holder_of
from toolscript.surfaces.server.page_sessions import PAGE
from toolscript.surfaces.web.call_outcome import IMAGES, CallOutcome, outcome_of_call
from toolscript.surfaces.web.screens import Screens, form_of
from toolscript.surfaces.web.search_lab import price
from toolscript.surfaces.web.tool_form import (
    FormField,
    arguments_of,
    fields_of,
)
from toolscript.types import TOOL_CLASSES

SCREENS = Screens()
_SESSION = "page"
"""The session of all calls that a holder makes on the page."""
_LATEST = 10
_SHOWN_BYTES = 4096
"""Arguments that are longer, as JSON, are not shown again as code."""
_RELATED = 8


class AcceptedVersion(Struct, frozen=True, kw_only=True):
    """A definition that was accepted, and what it changed."""

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
    is_example: bool
    """Whether ``code``, ``curl`` and ``command`` have arguments made up from the schema."""
    fields: tuple[FormField, ...]
    values: dict[str, str] = {}
    """What the form has in its fields."""
    outcome: CallOutcome | UnsetType = UNSET
    """What came of the call that the form has made."""
    figures: CallFigures | None = None
    calls: list[RecordedCall] = []
    related: RelatedAnswer | None = None
    versions: list[AcceptedVersion] = []
    """The newest first."""


@SCREENS.add("GET", "/images/{key}")
async def image(_: App, request: Request) -> Any:
    """An image of a result."""
    found = IMAGES.get(request.path_params["key"], holder_of(request))
    return Response(found.data, media_type=found.media_type)


@SCREENS.add("GET", "/tools/{tool:path}", "tool.html")
async def tool_screen(app: App, request: Request) -> Any:
    """A tool, with a form to call it."""
    return await _screen(app, request, _known(app.catalogue(grant_of(request)), request))


@SCREENS.add("POST", "/tools/{tool:path}", "tool.html")
async def try_tool(app: App, request: Request) -> Any:
    """Call the tool with the arguments of the form, and show what comes of it."""
    known = _known(app.catalogue(grant_of(request)), request)
    form = await form_of(request)
    values = {name: each[0] for name, each in form.items()}
    arguments: dict[str, Any] | None = None
    try:
        fields = await anyio.to_thread.run_sync(fields_of, known.spec.input_schema)
        arguments = arguments_of(fields, form)
        most = len(TOOL_CLASSES) if "sure" in form else TOOL_CLASSES.index("destructive")
        classes, session = TOOL_CLASSES[:most], _session(request)
        result = await called(app, request, known.spec.id, arguments, session, classes)
        outcome = outcome_of_call(result, holder_of(request))
    except ToolscriptError as problem:
        outcome = CallOutcome(problem=str(problem))
    screen = await _screen(app, request, known, arguments)
    return replace(screen, outcome=outcome, values=values)


def _known(catalogue: ScopedCatalogue, request: Request) -> KnownTool:
    tool = catalogue.tool(request.path_params["tool"])
    return catalogue.known([tool.id])[tool.id]


def _session(request: Request) -> Session:
    sessions: ClientSessions = request.app.state.sessions
    return sessions.get(holder_of(request), _SESSION)


async def _screen(
    app: App, request: Request, known: KnownTool, arguments: Mapping[str, Any] | None = None
) -> ToolScreen:
    spec, catalogue = known.spec, app.catalogue(grant_of(request))
    # A hostile schema may take a while: not in the event loop.
    example, fields = await anyio.to_thread.run_sync(_from_schema, spec.input_schema)
    is_example = arguments is None or len(msgspec.json.encode(arguments)) > _SHOWN_BYTES
    shown = example if is_example else arguments
    code = await catalogue.code(spec, shown)
    given = msgspec.json.encode(shown).decode()
    url = f"{str(request.base_url).rstrip('/').removesuffix(PAGE)}/tools/{quote(spec.id)}"
    has_token = holder_of(request) not in {OWNER, ANYONE}
    token = ' -H "Authorization: Bearer $TOOLSCRIPT_GATEWAY_TOKEN"' if has_token else ""
    notes = await anyio.to_thread.run_sync(catalogue.notes, [spec])
    calls = await _calls(app, request, {spec.id, catalogue.exposed.get(spec.id, spec.id)})
    return ToolScreen(
        tool=tool_answer(known, notes),
        tokens=price(spec),
        code=code,
        curl=f"curl {shlex.quote(url)}{token} --json {shlex.quote(given)}",
        command=f"toolscript call {shlex.quote(spec.id)} {shlex.quote(given)}",
        is_example=is_example,
        fields=fields,
        figures=call_figures(calls, lambda _: "").get(""),
        calls=calls[:_LATEST],
        related=_related(app, request, spec.id),
        versions=_versions(await catalogue.versions(spec)),
    )


def _from_schema(schema: dict[str, Any]) -> tuple[Any, tuple[FormField, ...]]:
    """Returns arguments that fit a schema, and the fields for them."""
    return sample(read(schema)), fields_of(schema)


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


def _related(app: App, request: Request, tool: str) -> RelatedAnswer | None:
    try:
        return related_to(app, grant_of(request), tool, _RELATED)
    except InputError:  # nothing is learned here
        return None
