"""Renders the screens as HTML with Jinja; every text in them is shown escaped."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import anyio.to_thread
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from msgspec import Struct
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from toolscript.app.application import App
from toolscript.surfaces.http.search_answers import SkillHit, ToolHit
from toolscript.surfaces.server.authentication import access_of
from toolscript.surfaces.server.page_sessions import PAGE, cookie_name
from toolscript.text.display import counted, harmless, printable, size_text
from toolscript.types import Explanation
from toolscript.version import __version__

_HERE = Path(__file__).parent
STATIC = _HERE / "static"
GRAPH = ("/graph", "Graph")
NAVIGATION = (
    ("/", "Search"),
    ("/servers", "Servers"),
    ("/review", "Review"),
    ("/activity", "Activity"),
    GRAPH,
    ("/skills", "Skills"),
    ("/access", "Access"),
    ("/doctor", "Doctor"),
)
"""The screens that every other one links to; the graph only once it foresees something."""
_MAX_LINE = 300
_SECOND_MS = 1000


class Problem(Struct, frozen=True, kw_only=True):
    """Why a screen cannot be shown."""

    error: str
    type: str
    is_login: bool = False
    """Whether the caller has to log in first."""


async def rendered(
    app: App, request: Request, template: str, answer: Any, status: int = 200
) -> Response:
    """Returns the screen of an answer: `page` in the template."""
    access = access_of(request)
    context = {
        "page": answer,
        "here": request.url.path.removeprefix(PAGE),
        "parameters": request.query_params,
        "owner": access.grant.is_owner,
        "holder": access.holder,
        "logged_in": cookie_name(request) in request.cookies,
        "screens": [each for each in NAVIGATION if each != GRAPH or _foresees(app)],
        "waiting": _waiting(app, request),
    }
    html = await anyio.to_thread.run_sync(_render, template, context)
    return Response(html, status, media_type="text/html")


def _foresees(app: App) -> bool:
    return app.learning is not None and app.learning.graph.foresees


def _waiting(app: App, request: Request) -> int:
    """Returns how many decisions wait for the owner, who is the only one to be told."""
    grant = access_of(request).grant
    return len(app.catalogue(grant).held()) + len(app.approvals.pending) if grant.is_owner else 0


def _render(template: str, context: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(context)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_visible,
    )
    made.filters |= {
        "bytes": size_text,
        "duration": _duration,
        "line": _line,
        "number": _number,
        "since": _since,
    }
    functions: dict[str, Any] = {
        "bar": bar,
        "counted": counted,
        "id_of": _id_of,
        "replaced": _with_value,
        "root": PAGE,
        "static": _static,
        "version": __version__,
        "with_open": _with_open,
    }
    made.globals.update(functions)
    return made


def _with_open(parameters: QueryParams, identifier: str, is_open: bool) -> str:  # noqa: FBT001 - in templates
    """Returns the parameters of an address that shows a result's explanation, or does not."""
    others = [each for each in parameters.multi_items() if each != ("open", identifier)]
    return urlencode([*others, *([("open", identifier)] if is_open else [])])


def _with_value(parameters: QueryParams, name: str, value: object) -> str:
    """Returns the parameters of an address with another value of one of them."""
    others = [each for each in parameters.multi_items() if each[0] != name]
    return urlencode([*others, (name, value)])


def _id_of(hit: ToolHit | SkillHit) -> str:
    return hit.tool_id if isinstance(hit, ToolHit) else hit.skill_id


def _visible(value: Any) -> Any:
    """Returns a text with marks for characters that would be hidden or turn others around."""
    return harmless(value) if type(value) is str else value


@cache
def _static(name: str) -> str:
    """Returns the address of a file, which changes with its contents."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"{PAGE}/static/{name}?{digest}"


def _line(text: object, limit: int = _MAX_LINE) -> str:
    """Returns a text on one line, cut if it is long."""
    return printable(str(text), limit)


def _since(stamp: str) -> str:
    """Returns how long ago a time was, such as ``5 min``; empty if there is none."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds()
    except (ValueError, TypeError):
        return ""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def _duration(ms: float | None) -> str:
    """Returns a duration such as ``15 ms`` or ``60.0 s``; a dash for None."""
    if ms is None:
        return "—"
    return f"{ms:.0f} ms" if ms < _SECOND_MS else f"{ms / _SECOND_MS:,.1f} s"


def _number(value: float) -> str:
    """Returns a whole number such as ``14,191``."""
    return f"{value:,.0f}"


class BarSegment(NamedTuple):
    """A part of the bar, in percent of the whole width."""

    kind: str
    """``semantic``, ``fuzzy``, ``step``, or ``taken`` for a loss in later steps."""
    start: float
    width: float


class Bar(NamedTuple):
    """The segments, and the same in words for those who cannot see them."""

    segments: tuple[BarSegment, ...]
    label: str


def bar(hit: ToolHit | SkillHit) -> Bar:
    """Returns the bar of a result; of one without an explanation its confidence alone."""
    explanation = hit.explanation
    if not isinstance(explanation, Explanation):
        whole = BarSegment("step", 0.0, round(100 * hit.confidence, 1))
        return Bar((whole,), f"confidence {hit.confidence:.2f}")
    parts = [(share.signal, share.score * share.weight) for share in explanation.shares]
    words = [f"{signal} {value:.2f}" for signal, value in parts]
    score, added = explanation.fused, 0.0
    for step in explanation.steps:
        change = step.score - score
        if round(change, 2):
            words.append(f"{step.name} {change:+.2f}")
        added += max(0.0, change)
        score = step.score
    if added:
        parts.append(("step", added))
    total = sum(value for _, value in parts)
    segments: list[BarSegment] = []
    start = 0.0
    for kind, value in parts:
        width = min(value, max(0.0, hit.confidence - start))
        segments.append(_segment(kind, start, width))
        start += width
    if total > hit.confidence:
        segments.append(_segment("taken", hit.confidence, min(1.0, total) - hit.confidence))
    label = f"confidence {hit.confidence:.2f}: {', '.join(words)}"
    return Bar(tuple(each for each in segments if each.width > 0), label)


def _segment(kind: str, start: float, width: float) -> BarSegment:
    return BarSegment(kind, round(100 * start, 1), round(100 * width, 1))
