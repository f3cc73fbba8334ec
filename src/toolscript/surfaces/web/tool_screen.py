"""A tool: what a model sees of it, a form to call it, and how its calls went."""

import base64
import binascii
import secrets
import shlex
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import quote

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
from toolscript.errors import InputError, ToolscriptError, UnknownNameError
from toolscript.gateway.definitions.comparison import AcceptedBy, Version
from toolscript.gateway.definitions.word_diff import Change, changes
from toolscript.gateway.raw_results import RawResult, UnreadableError, decode_moderate
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
from toolscript.surfaces.web.screens import Screens, form_of
from toolscript.surfaces.web.search_lab import price
from toolscript.surfaces.web.tool_form import (
    FormField,
    arguments_of,
    fields_of,
)
from toolscript.text.token_estimate import estimated_tokens
from toolscript.types import TOOL_CLASSES

SCREENS = Screens()
_SESSION = "page"
"""The session of all calls that a holder makes on the page."""
_LATEST = 10
_RELATED = 8
_MAX_TEXT = 20_000
"""Characters of a result that are shown."""
_MAX_BLOCKS = 20
_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_MAX_IMAGE_BYTES = 4 * 1024 * 1024
_MAX_IMAGES = 8


class Block(Struct, frozen=True, kw_only=True):
    """A part of a result: a text, or an image by its address."""

    text: str = ""
    cut: int = 0
    """How many characters of the text are not shown."""
    image: str = ""
    kind: str = "text"


class Tried(Struct, frozen=True, kw_only=True):
    """What came of a call."""

    blocks: list[Block] = []
    is_error: bool = False
    problem: str = ""
    """Why there is no result."""
    bytes: int = 0
    tokens: int = 0


class AcceptedVersion(Struct, frozen=True, kw_only=True):
    """A definition that was accepted, and what it changed."""

    accepted_by: AcceptedBy
    since: str
    changes: tuple[Change, ...]
    """Compared with the one before it; none where that is not known."""


class ToolScreen(Struct, frozen=True, kw_only=True):
    """A tool."""

    tool: ToolAnswer
    tokens: int
    code: dict[Language, ToolCode]
    curl: str
    command: str
    fields: tuple[FormField, ...]
    values: dict[str, str] = {}
    """What the form has in its fields."""
    tried: Tried | UnsetType = UNSET
    figures: CallFigures | None = None
    calls: list[RecordedCall] = []
    related: RelatedAnswer | None = None
    versions: list[AcceptedVersion] = []
    """The newest first."""


class _Image(NamedTuple):
    holder: str
    media_type: str
    data: bytes


class _Images:
    """The latest images of results, for those who made the calls: the policy allows no others."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Image] = OrderedDict()

    def add(self, image: _Image) -> str:
        key = secrets.token_urlsafe(16)
        self._kept[key] = image
        if len(self._kept) > _MAX_IMAGES:
            self._kept.popitem(last=False)
        return f"{PAGE}/images/{key}"

    def get(self, key: str, holder: str) -> _Image:
        image = self._kept.get(key)
        if image is None or image.holder != holder:
            raise UnknownNameError("this image is not kept any more; call the tool again")
        return image


_IMAGE_STORE = _Images()


@SCREENS.add("GET", "/images/{key}")
async def image(_: App, request: Request) -> Any:
    """An image of a result."""
    found = _IMAGE_STORE.get(request.path_params["key"], holder_of(request))
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
        arguments = arguments_of(fields_of(known.spec.input_schema), form)
        most = len(TOOL_CLASSES) if "sure" in form else TOOL_CLASSES.index("destructive")
        classes, session = TOOL_CLASSES[:most], _session(request)
        result = await called(app, request, known.spec.id, arguments, session, classes)
        tried = _tried(result, holder_of(request))
    except ToolscriptError as problem:
        tried = Tried(problem=str(problem))
    screen = await _screen(app, request, known, arguments)
    return replace(screen, tried=tried, values=values)


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
    shown: Any = sample(read(spec.input_schema)) if arguments is None else arguments
    code = await catalogue.code(spec, shown)
    given = msgspec.json.encode(shown).decode()
    url = f"{str(request.base_url).rstrip('/').removesuffix(PAGE)}/tools/{quote(spec.id)}"
    has_token = holder_of(request) not in {OWNER, ANYONE}
    token = ' -H "Authorization: Bearer $TOOLSCRIPT_GATEWAY_TOKEN"' if has_token else ""
    calls = await _calls(app, request, {spec.id, catalogue.exposed.get(spec.id, spec.id)})
    return ToolScreen(
        tool=tool_answer(known, catalogue.notes([spec])),
        tokens=price(spec),
        code=code,
        curl=f"curl {shlex.quote(url)}{token} --json {shlex.quote(given)}",
        command=f"toolscript call {shlex.quote(spec.id)} {shlex.quote(given)}",
        fields=fields_of(spec.input_schema),
        figures=call_figures(calls, lambda _: "").get(""),
        calls=calls[:_LATEST],
        related=_related(app, request, spec.id),
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


def _related(app: App, request: Request, tool: str) -> RelatedAnswer | None:
    try:
        return related_to(app, grant_of(request), tool, _RELATED)
    except InputError:  # nothing is learned here
        return None


# Results


def _tried(result: dict[str, Any], holder: str) -> Tried:
    if isinstance(result, RawResult):
        size = len(result.text)
        try:
            result = decode_moderate(result.text)
        except UnreadableError as error:
            return Tried(problem=str(error), bytes=size)
    text = msgspec.json.encode(result)
    content: Any = result.get("content")
    blocks = [_block(each, holder) for each in content[:_MAX_BLOCKS]] if content else []
    structured = result.get("structuredContent")
    if structured is not None and not any(_is_json(block.text) for block in blocks):
        blocks.append(_text(_pretty(structured), "structured"))
    is_error = bool(result.get("isError"))
    return Tried(blocks=blocks, is_error=is_error, bytes=len(text), tokens=estimated_tokens(text))


def _block(block: Any, holder: str) -> Block:
    if not isinstance(block, dict):
        return _text(_pretty(block), "JSON")
    block = cast("dict[str, Any]", block)
    kind, text = str(block.get("type")), block.get("text")
    if kind == "text" and isinstance(text, str):
        return _text(_formatted(text), kind)
    if kind == "image" and block.get("mimeType") in _IMAGES:
        data = _decoded(block.get("data"))
        if data is not None:
            address = _IMAGE_STORE.add(_Image(holder, block["mimeType"], data))
            return Block(kind=kind, image=address)
    return _text(_pretty(block), kind)


def _text(text: str, kind: str) -> Block:
    return Block(text=text[:_MAX_TEXT], cut=max(0, len(text) - _MAX_TEXT), kind=kind)


def _formatted(text: str) -> str:
    """Returns a text, indented where it is JSON."""
    return _pretty(msgspec.json.decode(text)) if _is_json(text) else text


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def _decoded(data: Any) -> bytes | None:
    """Returns the bytes of an image; None where they cannot be read, or are too many."""
    if not isinstance(data, str) or len(data) > _MAX_IMAGE_BYTES * 4 // 3:
        return None
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
