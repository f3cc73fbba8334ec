"""A request over MCP: the exposures, its caller, grant and session, and its parameters."""

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast
from uuid import uuid4

from toolscript.app.result_store import ResultOwner
from toolscript.errors import ArgumentsError
from toolscript.gateway.base import SILENT_CALLER, Caller
from toolscript.graph.session_history import SessionHistory
from toolscript.types import EVERYTHING, Grant, SearchRequest

Exposure = Literal["search", "two-phase", "all"]
EXPOSURES: tuple[Exposure, ...] = ("search", "two-phase", "all")
EXPOSURE = "toolscript.exposure"
"""The key of a request's scope that has its exposure."""
_Raw: TypeAlias = dict[str, Any]


@dataclass(eq=False, slots=True)
class Session:
    """A client's session: the tools it has chosen in the first of two phases, and its history."""

    chosen: tuple[str, ...] = ()
    history: SessionHistory = field(default_factory=SessionHistory)
    id: str = field(default_factory=lambda: uuid4().hex)
    project: str | None = None
    """The folder that the client works in, empty for none; None until it was asked."""
    summary: str = ""
    """The `meta_tools.summary` at the beginning of the session; it does not change."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What belongs to one request: its caller, the caller's grant and session."""

    caller: Caller = SILENT_CALLER
    grant: Grant = EVERYTHING
    session: Session = field(default_factory=Session)
    more: _Raw = field(default_factory=dict[str, Any])
    """Further parameters for the server, such as ``_meta``."""
    holder: str = ""
    """Who makes a request that no session lasts for; empty if its session does."""

    @property
    def owner(self) -> ResultOwner:
        """Whose the results are that are kept: the session's, for as long as its grant is."""
        return self.holder or self.session.id, self.grant


def name_of(params: _Raw) -> str:
    """Returns the ``name`` of a request; raises `ArgumentsError` if it is no text."""
    name = params.get("name")
    if not isinstance(name, str):
        raise ArgumentsError(f"name is {repr(name)[:60]}; send a text")
    return name


def arguments_of(params: _Raw) -> _Raw:
    """Returns the ``arguments`` of a request; raises `ArgumentsError` for any but an object."""
    arguments = params.get("arguments", {})
    if not isinstance(arguments, dict):
        shown = repr(arguments)[:60]
        raise ArgumentsError(f"arguments is {shown}; send a JSON object, such as {{}}")
    return cast("_Raw", arguments)


def read_search(
    arguments: _Raw, context: RequestContext, default: int, limit: str = "limit"
) -> SearchRequest:
    """Returns the search that a model asks for, without a threshold: it is told the scores.

    Args:
        arguments: The arguments of the tool that searches.
        context: The request of the model.
        default: Maximum number of hits if the model does not state it.
        limit: Name of the argument that states it.
    """
    return SearchRequest(
        text=arguments["query"],
        limit=arguments.get(limit, default),
        threshold=0.0,
        grant=context.grant,
        by_model=True,
    )
